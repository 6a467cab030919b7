/* What is added to a copy: marks, reasons, what a duplicate is of; and what a reply is instead. */
#include "../lib/amqp_build.h"
#include "copy_case.h"
#include "delivery.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void adds_marks(void **state)
{
    (void)state;
    struct message *m = message_with_headers(BYTES(""));
    set_key(m, "txn:001");
    struct copy copy = {.target = TARGET_WORK,
                        .reason = PARK_LOOP, /* says nothing: the copy is not parked */
                        .first_seen = FIRST_SEEN,
                        .attempt = 4000000000,
                        .in_doubt = true,
                        .unchecked = true,
                        .no_key = true};
    struct buffer want = {0};
    build_own(&want, "txn:001");
    build_number(&want, "x-onlyonce-attempt", 'l', 8, 4000000000);
    build_number(&want, "x-onlyonce-in-doubt", 't', 1, 1);
    build_number(&want, "x-onlyonce-unchecked", 't', 1, 1);
    build_number(&want, "x-onlyonce-no-key", 't', 1, 1);
    struct buffer got = copied_headers(m, &copy);
    assert_buffer(&got, &want);
    buffer_free(&got);
    buffer_free(&want);

    copy = plain_copy;
    copy.attempt = 1;
    build_own(&want, "txn:001");
    got = copied_headers(m, &copy);
    assert_buffer(&got, &want);
    buffer_free(&got);
    buffer_free(&want);
    message_free(m);
}

static void says_why_it_parks(void **state)
{
    (void)state;
    static const char *const reasons[PARK_REASON_COUNT] = {
        "none",      "loop",          "stale",      "bad_header", "dead_lettered", "other_route",
        "no_key",    "store_failure", "unroutable", "conflict",   "in_doubt",      "unknown_route",
        "not_found", "pending",       "foreign",    "bad_action", "bad_result"};
    assert_string_equal(park_reason_text(PARK_NONE), reasons[PARK_NONE]);
    for (int i = PARK_LOOP; i < PARK_REASON_COUNT; i++) {
        struct buffer table = {0};
        build_text(&table, "x-onlyonce-reason", "an older one");
        struct message *m = message_with_headers(buffer_span(&table));
        struct copy copy = {.target = TARGET_PARKING,
                            .reason = (enum park_reason)i,
                            .first_seen = FIRST_SEEN,
                            .attempt = 2};
        struct buffer want = {0};
        build_own(&want, NULL);
        build_number(&want, "x-onlyonce-attempt", 'l', 8, 2);
        build_text(&want, "x-onlyonce-reason", reasons[i]);
        build_text(&want, "x-onlyonce-exchange", "orders");
        build_text(&want, "x-onlyonce-routing-key", "orders.new");
        struct buffer got = copied_headers(m, &copy);
        assert_buffer(&got, &want);
        buffer_free(&got);
        buffer_free(&want);
        buffer_free(&table);
        message_free(m);
    }
}

static void says_what_a_duplicate_is_of(void **state)
{
    (void)state;
    struct buffer table = {0};
    build_text(&table, "x-onlyonce-state", "an older one");
    build_text(&table, "x-shop", "north");
    struct message *m = message_with_headers(buffer_span(&table));
    set_key(m, "k");
    struct copy copy = {.target = TARGET_DUPLICATES,
                        .first_seen = FIRST_SEEN,
                        .attempt = 2,
                        .state = "completed",
                        .duplicates = 7};
    struct buffer want = {0};
    build_text(&want, "x-shop", "north");
    build_own(&want, "k");
    build_text(&want, "x-onlyonce-state", "completed");
    build_number(&want, "x-onlyonce-duplicates", 'l', 8, 7);
    struct buffer got = copied_headers(m, &copy);
    assert_buffer(&got, &want);
    buffer_free(&got);
    buffer_free(&want);
    buffer_free(&table);
    message_free(m);
}

/* A reply has two properties, whatever the message has, and the reply's own length. */
static void a_reply_is_no_copy(void **state)
{
    (void)state;
    static const struct {
        bool correlated;
        size_t count;
    } cases[] = {{true, 2}, {false, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct properties p = {0};
        build_set(&p, PROPERTY_CONTENT_TYPE, BYTES("text/plain"));
        build_set(&p, PROPERTY_HEADERS, BYTES(""));
        build_set(&p, PROPERTY_REPLY_TO, BYTES("answers"));
        build_set(&p, PROPERTY_EXPIRATION, BYTES("soon"));
        if (cases[i].correlated)
            build_set(&p, PROPERTY_CORRELATION_ID, BYTES("\0one"));
        struct message *m = build_message_of(&p);
        m->reply = xstrdup("{\"state\":\"forwarded\"}");
        const struct copy copy = {.target = TARGET_REPLY, .first_seen = FIRST_SEEN, .attempt = 2};
        struct buffer written = {0};
        assert_int_equal(copy_write(m, &copy, "r", "relay", NO_LIMIT, &written), COPY_OK);
        assert_int_equal(bytes_number((struct span){written.data + 4, 8}), strlen(m->reply));
        struct properties got;
        assert_true(properties_read((struct span){written.data + 12, written.len - 12}, &got));
        size_t count = 0;
        for (int k = 0; k < PROPERTY_COUNT; k++)
            count += got.present[k];
        assert_int_equal(count, cases[i].count);
        assert_true(span_is(got.value[PROPERTY_CONTENT_TYPE], "application/json"));
        assert_true(span_equal(got.value[PROPERTY_CORRELATION_ID],
                               cases[i].correlated ? BYTES("\0one") : (struct span){0}));
        buffer_free(&written);
        message_free(m);
    }
}

/* It keeps its own x-onlyonce headers, so that it can be put back as it was. */
static void a_parked_report_keeps_its_headers(void **state)
{
    (void)state;
    struct buffer table = {0};
    struct buffer want = {0};
    build_text(&table, "x-onlyonce-reason", "an older one");
    build_text(&table, "x-onlyonce-exchange", "older");
    build_text(&table, "x-onlyonce-routing-key", "older");
    build_text(&table, "CC", "elsewhere");
    for (int i = 0; i < 2; i++) {
        struct buffer *to = i ? &want : &table;
        build_text(to, "x-onlyonce-route", "other");
        build_text(to, "x-onlyonce-key", "k");
        build_text(to, "x-onlyonce-first-seen", "never");
        build_text(to, "x-onlyonce-action", "release");
    }
    build_text(&want, "x-onlyonce-reason", "bad_header");
    build_text(&want, "x-onlyonce-exchange", "orders");
    build_text(&want, "x-onlyonce-routing-key", "orders.new");
    struct message *m = message_with_headers(buffer_span(&table));
    struct copy copy = {.target = TARGET_PARKING, .reason = PARK_BAD_HEADER, .report = true};
    struct buffer got = copied_headers(m, &copy);
    assert_buffer(&got, &want);
    buffer_free(&got);
    buffer_free(&want);
    buffer_free(&table);
    message_free(m);
}

/* What a copy says is what a delivery of it is read as. */
static void is_understood_when_it_comes_back(void **state)
{
    (void)state;
    static const struct delivery_origin origin = {.route = "r", .queue = "work"};
    struct message *m = message_with_headers(BYTES(""));
    struct copy copy = {
        .target = TARGET_PARKING, .reason = PARK_STALE, .first_seen = FIRST_SEEN, .attempt = 3};
    struct buffer written = {0};
    assert_int_equal(copy_write(m, &copy, "r", "relay", NO_LIMIT, &written), COPY_OK);
    struct delivery d =
        delivery_read((struct span){written.data + 12, written.len - 12}, false, &origin);
    assert_int_equal(d.kind, DELIVERY_PUT_BACK);
    assert_int_equal(d.attempt, 3);
    assert_true(d.first_seen == FIRST_SEEN);

    buffer_clear(&written);
    assert_int_equal(copy_write(m, &plain_copy, "r", "relay", NO_LIMIT, &written), COPY_OK);
    d = delivery_read((struct span){written.data + 12, written.len - 12}, false, &origin);
    assert_int_equal(d.kind, DELIVERY_LOOP);
    buffer_free(&written);
    message_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adds_marks),
        cmocka_unit_test(says_why_it_parks),
        cmocka_unit_test(a_parked_report_keeps_its_headers),
        cmocka_unit_test(says_what_a_duplicate_is_of),
        cmocka_unit_test(a_reply_is_no_copy),
        cmocka_unit_test(is_understood_when_it_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
