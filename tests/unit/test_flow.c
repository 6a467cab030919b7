/*
 * flow: every cell of the table, for every combination of facts, against the list below. What the
 * list does not name is impossible.
 */
#include "flow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/* Facts as the tests write them: 'c' claim, 's' sends, 'o' orphan, 'u' unwritable, 'r' rejectable,
 * 'h' the store's failure holds. Upper case: it is not so. Not named: either. */
struct expectation {
    enum place place;
    enum event event;
    const char *when;
    enum place next;
};

/* clang-format off */
static const struct expectation table[] = {
    {PLACE_FRESH, EVENT_MINE, "", PLACE_CLAIMED},
    {PLACE_FRESH, EVENT_DUPLICATE, "S", PLACE_SETTLE},
    {PLACE_FRESH, EVENT_DUPLICATE, "s", PLACE_CLAIMED},
    {PLACE_FRESH, EVENT_BUSY, "", PLACE_HELD},
    {PLACE_FRESH, EVENT_UNCLAIMED, "", PLACE_CLAIMED},
    {PLACE_FRESH, EVENT_STORE_UNKNOWN, "h", PLACE_HELD},
    {PLACE_FRESH, EVENT_STORE_UNKNOWN, "H", PLACE_CLAIMED},
    {PLACE_FRESH, EVENT_UNWRITABLE, "c", PLACE_UNWIND},
    {PLACE_FRESH, EVENT_UNWRITABLE, "Co", PLACE_GONE},
    {PLACE_FRESH, EVENT_UNWRITABLE, "COur", PLACE_SETTLE},
    {PLACE_FRESH, EVENT_UNWRITABLE, "COuR", PLACE_HELD},
    {PLACE_FRESH, EVENT_UNWRITABLE, "COU", PLACE_HELD},
    {PLACE_FRESH, EVENT_MOVED, "", PLACE_CLAIMED},
    {PLACE_FRESH, EVENT_NOT_MOVED, "", PLACE_FRESH},
    {PLACE_FRESH, EVENT_SOURCE_LOST, "c", PLACE_UNWIND},
    {PLACE_FRESH, EVENT_SOURCE_LOST, "C", PLACE_GONE},
    {PLACE_FRESH, EVENT_STOPPING, "c", PLACE_UNWIND},
    {PLACE_FRESH, EVENT_STOPPING, "C", PLACE_GONE},

    {PLACE_HELD, EVENT_DUE, "", PLACE_FRESH},
    {PLACE_HELD, EVENT_DUPLICATE, "S", PLACE_SETTLE},
    {PLACE_HELD, EVENT_DUPLICATE, "s", PLACE_CLAIMED},
    {PLACE_HELD, EVENT_MOVED, "", PLACE_CLAIMED},
    {PLACE_HELD, EVENT_NOT_MOVED, "", PLACE_HELD},
    {PLACE_HELD, EVENT_SOURCE_LOST, "c", PLACE_UNWIND},
    {PLACE_HELD, EVENT_SOURCE_LOST, "C", PLACE_GONE},
    {PLACE_HELD, EVENT_STOPPING, "c", PLACE_UNWIND},
    {PLACE_HELD, EVENT_STOPPING, "C", PLACE_GONE},

    {PLACE_CLAIMED, EVENT_PUBLISHED, "", PLACE_SENT},
    {PLACE_CLAIMED, EVENT_UNWRITABLE, "c", PLACE_UNWIND},
    {PLACE_CLAIMED, EVENT_UNWRITABLE, "Co", PLACE_GONE},
    {PLACE_CLAIMED, EVENT_UNWRITABLE, "COur", PLACE_SETTLE},
    {PLACE_CLAIMED, EVENT_UNWRITABLE, "COuR", PLACE_HELD},
    {PLACE_CLAIMED, EVENT_UNWRITABLE, "COU", PLACE_HELD},
    {PLACE_CLAIMED, EVENT_SINK_LOST, "c", PLACE_UNWIND},
    {PLACE_CLAIMED, EVENT_SINK_LOST, "Co", PLACE_GONE},
    {PLACE_CLAIMED, EVENT_SINK_LOST, "COur", PLACE_SETTLE},
    {PLACE_CLAIMED, EVENT_SINK_LOST, "COuR", PLACE_HELD},
    {PLACE_CLAIMED, EVENT_SINK_LOST, "COU", PLACE_HELD},
    {PLACE_CLAIMED, EVENT_REPLIED, "O", PLACE_SETTLE},
    {PLACE_CLAIMED, EVENT_REPLIED, "o", PLACE_GONE},
    {PLACE_CLAIMED, EVENT_MOVED, "", PLACE_CLAIMED},
    {PLACE_CLAIMED, EVENT_NOT_MOVED, "", PLACE_FRESH},
    {PLACE_CLAIMED, EVENT_SOURCE_LOST, "c", PLACE_UNWIND},
    {PLACE_CLAIMED, EVENT_SOURCE_LOST, "C", PLACE_GONE},
    {PLACE_CLAIMED, EVENT_STOPPING, "c", PLACE_UNWIND},
    {PLACE_CLAIMED, EVENT_STOPPING, "C", PLACE_GONE},

    {PLACE_SENT, EVENT_CONFIRMED, "c", PLACE_CONFIRMED},
    {PLACE_SENT, EVENT_CONFIRMED, "COS", PLACE_SETTLE},
    {PLACE_SENT, EVENT_CONFIRMED, "COs", PLACE_CLAIMED},
    {PLACE_SENT, EVENT_CONFIRMED, "Co", PLACE_GONE},
    {PLACE_SENT, EVENT_RETURNED, "c", PLACE_UNWIND},
    {PLACE_SENT, EVENT_RETURNED, "Co", PLACE_GONE},
    {PLACE_SENT, EVENT_RETURNED, "COur", PLACE_SETTLE},
    {PLACE_SENT, EVENT_RETURNED, "COuR", PLACE_HELD},
    {PLACE_SENT, EVENT_RETURNED, "COU", PLACE_HELD},
    {PLACE_SENT, EVENT_NACKED, "c", PLACE_UNWIND},
    {PLACE_SENT, EVENT_NACKED, "Co", PLACE_GONE},
    {PLACE_SENT, EVENT_NACKED, "COur", PLACE_SETTLE},
    {PLACE_SENT, EVENT_NACKED, "COuR", PLACE_HELD},
    {PLACE_SENT, EVENT_NACKED, "COU", PLACE_HELD},
    {PLACE_SENT, EVENT_SINK_LOST, "c", PLACE_UNWIND},
    {PLACE_SENT, EVENT_SINK_LOST, "Co", PLACE_GONE},
    {PLACE_SENT, EVENT_SINK_LOST, "COur", PLACE_SETTLE},
    {PLACE_SENT, EVENT_SINK_LOST, "COuR", PLACE_HELD},
    {PLACE_SENT, EVENT_SINK_LOST, "COU", PLACE_HELD},
    {PLACE_SENT, EVENT_REPLIED, "O", PLACE_SETTLE},
    {PLACE_SENT, EVENT_REPLIED, "o", PLACE_GONE},
    {PLACE_SENT, EVENT_MOVED, "", PLACE_SENT},
    {PLACE_SENT, EVENT_NOT_MOVED, "", PLACE_SENT},
    {PLACE_SENT, EVENT_SOURCE_LOST, "", PLACE_SENT},
    {PLACE_SENT, EVENT_STOPPING, "", PLACE_SENT},

    {PLACE_CONFIRMED, EVENT_RECORDED, "O", PLACE_SETTLE},
    {PLACE_CONFIRMED, EVENT_RECORDED, "o", PLACE_GONE},
    {PLACE_CONFIRMED, EVENT_STORE_UNKNOWN, "", PLACE_CONFIRMED},
    {PLACE_CONFIRMED, EVENT_MOVED, "", PLACE_CONFIRMED},
    {PLACE_CONFIRMED, EVENT_NOT_MOVED, "", PLACE_CONFIRMED},
    {PLACE_CONFIRMED, EVENT_SOURCE_LOST, "", PLACE_CONFIRMED},
    {PLACE_CONFIRMED, EVENT_STOPPING, "", PLACE_CONFIRMED},

    {PLACE_UNWIND, EVENT_RELEASED, "o", PLACE_GONE},
    {PLACE_UNWIND, EVENT_RELEASED, "Our", PLACE_SETTLE},
    {PLACE_UNWIND, EVENT_RELEASED, "OuR", PLACE_HELD},
    {PLACE_UNWIND, EVENT_RELEASED, "OU", PLACE_HELD},
    {PLACE_UNWIND, EVENT_STORE_UNKNOWN, "", PLACE_UNWIND},
    {PLACE_UNWIND, EVENT_MOVED, "", PLACE_UNWIND},
    {PLACE_UNWIND, EVENT_NOT_MOVED, "", PLACE_UNWIND},
    {PLACE_UNWIND, EVENT_SOURCE_LOST, "", PLACE_UNWIND},
    {PLACE_UNWIND, EVENT_STOPPING, "", PLACE_UNWIND},

    {PLACE_SETTLE, EVENT_ACKED, "", PLACE_GONE},
    {PLACE_SETTLE, EVENT_SOURCE_LOST, "", PLACE_GONE},
    {PLACE_SETTLE, EVENT_STOPPING, "", PLACE_SETTLE},
};
/* clang-format on */

static bool holds(const char *when, const struct flow_facts *facts, bool store_failure_holds)
{
    for (; *when; when++) {
        bool fact = false;
        switch (*when | 0x20) {
        case 'c': fact = facts->claim; break;
        case 's': fact = facts->sends; break;
        case 'o': fact = facts->orphan; break;
        case 'u': fact = facts->unwritable; break;
        case 'r': fact = facts->rejectable; break;
        case 'h': fact = store_failure_holds; break;
        default: fail_msg("a fact that the test does not know: %c", *when);
        }
        if (fact != (*when >= 'a'))
            return false;
    }
    return true;
}

static enum place expected(enum place place, enum event event, const struct flow_facts *facts,
                           bool store_failure_holds)
{
    enum place next = PLACE_IMPOSSIBLE;
    int matches = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const struct expectation *e = &table[i];
        if (e->place == place && e->event == event && holds(e->when, facts, store_failure_holds)) {
            next = e->next;
            matches++;
        }
    }
    if (matches > 1)
        fail_msg("%s, %s is named twice", place_name(place), event_name(event));
    return next;
}

static void every_cell_is_as_expected(void **state)
{
    (void)state;
    for (enum place place = 0; place < PLACE_COUNT; place++)
        for (enum event event = 0; event < EVENT_COUNT; event++)
            for (unsigned bits = 0; bits < 64; bits++) {
                struct flow_policy policy = {.store_failure_holds = bits & 16};
                struct flow_facts facts = {.claim = bits & 1,
                                           .sends = bits & 32,
                                           .orphan = bits & 2,
                                           .unwritable = bits & 4,
                                           .rejectable = bits & 8};
                enum place next = flow_next(place, event, &policy, &facts);
                enum place want = expected(place, event, &facts, policy.store_failure_holds);
                if (next != want)
                    fail_msg("%s, %s, facts %x: %s instead of %s", place_name(place),
                             event_name(event), bits, place_name(next), place_name(want));
            }
}

/* Whatever the table says, a message with a claim is never simply forgotten or acknowledged, but by
 * the answer to a recording or a release, or because it is a duplicate. */
static void no_claim_is_forgotten(void **state)
{
    (void)state;
    for (enum place place = 0; place < PLACE_COUNT; place++)
        for (enum event event = 0; event < EVENT_COUNT; event++)
            for (unsigned bits = 0; bits < 32; bits++) {
                if (event == EVENT_RECORDED || event == EVENT_RELEASED ||
                    event == EVENT_DUPLICATE || event == EVENT_REPLIED || place == PLACE_SETTLE)
                    continue;
                struct flow_policy policy = {.store_failure_holds = bits & 16};
                struct flow_facts facts = {.claim = true,
                                           .orphan = bits & 2,
                                           .unwritable = bits & 4,
                                           .rejectable = bits & 8};
                enum place next = flow_next(place, event, &policy, &facts);
                assert_int_not_equal(next, PLACE_GONE);
                assert_int_not_equal(next, PLACE_SETTLE);
            }
}

static void what_is_out_of_range_is_impossible(void **state)
{
    (void)state;
    struct flow_policy policy = {0};
    struct flow_facts facts = {0};
    assert_int_equal(flow_next(PLACE_COUNT, EVENT_DUE, &policy, &facts), PLACE_IMPOSSIBLE);
    assert_int_equal(flow_next(PLACE_FRESH, EVENT_COUNT, &policy, &facts), PLACE_IMPOSSIBLE);
    assert_string_equal(place_name(PLACE_COUNT), "impossible");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cell_is_as_expected),
        cmocka_unit_test(no_claim_is_forgotten),
        cmocka_unit_test(what_is_out_of_range_is_impossible),
    };
    return cmocka_run_group_tests_name("flow", tests, NULL, NULL);
}
