#include "delivery.h"

#include "../lib/amqp_build.h"
#include "headers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define FIRST_SEEN 1782640800123

static const struct delivery_origin to_queue = {.route = "payments", .queue = "payments.work"};
static const struct delivery_origin to_exchange = {.route = "payments", .exchange = "jobs"};

static struct delivery read_table(const struct buffer *table, bool redelivered,
                                  const struct delivery_origin *origin)
{
    struct properties p = {0};
    struct buffer encoded = {0};
    build_set(&p, PROPERTY_HEADERS, buffer_span(table));
    build_properties(&p, &encoded);
    struct delivery d = delivery_read(buffer_span(&encoded), redelivered, origin);
    buffer_free(&encoded);
    return d;
}

/* The headers of a delivery, as a test writes them down. NULL: it has none of that name. */
struct past_case {
    const char *label;
    const char *route;
    const char *first_seen;
    const char *attempt;
    const char *reason;
    const char *death_exchange; /* no x-death without it */
    const char *death_queue;
    enum delivery_kind want;
    uint32_t want_attempt;
    bool want_other_route;
};

static void build_case(const struct past_case *c, struct buffer *table)
{
    build_text(table, "x-colour", "blue");
    if (c->route)
        build_text(table, "x-onlyonce-route", c->route);
    if (c->first_seen)
        build_text(table, "x-onlyonce-first-seen", c->first_seen);
    if (c->attempt)
        build_text(table, "x-onlyonce-attempt", c->attempt);
    if (c->reason)
        build_text(table, "x-onlyonce-reason", c->reason);
    if (c->death_exchange)
        build_death(table, c->death_exchange, c->death_queue);
}

static void run_cases(const struct past_case *cases, size_t count,
                      const struct delivery_origin *origin)
{
    for (size_t i = 0; i < count; i++) {
        const struct past_case *c = &cases[i];
        struct buffer table = {0};
        build_case(c, &table);
        struct delivery d = read_table(&table, false, origin);
        buffer_free(&table);
        bool is_back = c->want_attempt > 0;
        int64_t want_first_seen = is_back ? FIRST_SEEN : 0;
        if (d.kind != c->want || d.attempt != c->want_attempt || d.first_seen != want_first_seen ||
            d.other_route != c->want_other_route)
            fail_msg("%s: kind %d, attempt %u", c->label, (int)d.kind, d.attempt);
    }
}

#define SEEN "1782640800123"

static void reads_what_comes_back_from_a_queue(void **state)
{
    (void)state;
    static const struct past_case cases[] = {
        {"new", NULL, NULL, NULL, NULL, NULL, NULL, DELIVERY_PLAIN, 0, false},
        {"dead-lettered, never a copy", NULL, NULL, NULL, NULL, "", "payments.work", DELIVERY_PLAIN,
         0, false},
        {"ours but for the route", NULL, SEEN, "2", "stale", "", "payments.work", DELIVERY_PLAIN, 0,
         false},
        {"another route's", "orders", SEEN, "2", "stale", NULL, NULL, DELIVERY_PLAIN, 0, false},
        {"another route's, dead-lettered", "orders", SEEN, "x", NULL, "", "any", DELIVERY_PLAIN, 0,
         true},
        {"a route with ours in front", "payments2", SEEN, "2", NULL, NULL, NULL, DELIVERY_PLAIN, 0,
         false},
        {"a retry", "payments", SEEN, NULL, NULL, "", "payments.work", DELIVERY_RETRY, 1, false},
        {"a second retry", "payments", SEEN, "2", NULL, "", "payments.work", DELIVERY_RETRY, 2,
         false},
        {"dead-lettered by another queue", "payments", SEEN, "2", NULL, "", "other", DELIVERY_LOOP,
         2, false},
        {"published to the queue by another exchange", "payments", SEEN, "2", NULL, "jobs",
         "payments.work", DELIVERY_LOOP, 2, false},
        {"dead-lettered by nobody knows", "payments", SEEN, "2", NULL, "", NULL, DELIVERY_LOOP, 2,
         false},
        {"nothing says why", "payments", SEEN, NULL, NULL, NULL, NULL, DELIVERY_LOOP, 1, false},
        {"put back", "payments", SEEN, "7", "stale", NULL, NULL, DELIVERY_PUT_BACK, 7, false},
        {"put back, for a reason of tomorrow", "payments", SEEN, NULL, "", NULL, NULL,
         DELIVERY_PUT_BACK, 1, false},
        {"put back by dead-lettering", "payments", SEEN, "2", "stale", "", "payments.work",
         DELIVERY_PUT_BACK, 2, false},
    };
    run_cases(cases, sizeof cases / sizeof *cases, &to_queue);
}

static void reads_what_comes_back_from_an_exchange(void **state)
{
    (void)state;
    static const struct past_case cases[] = {
        {"a retry", "payments", SEEN, "2", NULL, "jobs", "any", DELIVERY_RETRY, 2, false},
        {"a retry of an unknown queue", "payments", SEEN, "2", NULL, "jobs", NULL, DELIVERY_RETRY,
         2, false},
        {"another exchange", "payments", SEEN, "2", NULL, "job", "any", DELIVERY_LOOP, 2, false},
        {"the default exchange", "payments", SEEN, "2", NULL, "", "jobs", DELIVERY_LOOP, 2, false},
    };
    run_cases(cases, sizeof cases / sizeof *cases, &to_exchange);
}

static void believes_only_sense(void **state)
{
    (void)state;
    static const struct past_case cases[] = {
        {"no first-seen", "payments", NULL, "2", NULL, "", "payments.work", DELIVERY_BAD_HEADER, 0,
         false},
        {"an empty first-seen", "payments", "", "2", NULL, "", "payments.work", DELIVERY_BAD_HEADER,
         0, false},
        {"a first-seen of 0", "payments", "0", "2", NULL, "", "payments.work", DELIVERY_BAD_HEADER,
         0, false},
        {"a date", "payments", "2026-06-28", "2", NULL, "", "payments.work", DELIVERY_BAD_HEADER, 0,
         false},
        {"a first-seen beyond", "payments", "9223372036854775808", "2", NULL, "", "payments.work",
         DELIVERY_BAD_HEADER, 0, false},
        {"an empty attempt", "payments", SEEN, "", NULL, "", "payments.work", DELIVERY_BAD_HEADER,
         0, false},
        {"an attempt of 0", "payments", SEEN, "0", NULL, "", "payments.work", DELIVERY_BAD_HEADER,
         0, false},
        {"an attempt below 0", "payments", SEEN, "-1", NULL, "", "payments.work",
         DELIVERY_BAD_HEADER, 0, false},
        {"the largest attempt", "payments", SEEN, "4294967295", NULL, "", "payments.work",
         DELIVERY_RETRY, UINT32_MAX, false},
        {"one more", "payments", SEEN, "4294967296", NULL, "", "payments.work", DELIVERY_BAD_HEADER,
         0, false},
        {"put back, and no sense", "payments", SEEN, "two", "stale", NULL, NULL,
         DELIVERY_BAD_HEADER, 0, false},
        {"a loop, and no sense", "payments", SEEN, "two", NULL, NULL, NULL, DELIVERY_BAD_HEADER, 0,
         false},
    };
    run_cases(cases, sizeof cases / sizeof *cases, &to_queue);
}

/* What the marks' types may be: a relay writes l, other clients pass on what theirs can hold. */
static void takes_any_type_of_integer(void **state)
{
    (void)state;
    static const struct {
        char type;
        int width;
        uint64_t attempt;
        uint32_t want; /* 0: a bad header */
    } cases[] = {
        {'b', 1, 127, 127},
        {'B', 1, 255, 255},
        {'s', 2, 300, 300},
        {'u', 2, 65535, 65535},
        {'I', 4, 70000, 70000},
        {'i', 4, 4294967295, 4294967295},
        {'l', 8, 5, 5},
        {'L', 8, 5, 5},
        {'T', 8, 5, 5},
        {'b', 1, 255, 0},
        {'I', 4, 4294967295, 0},
        {'t', 1, 1, 0},
        {'d', 8, 0x3ff0000000000000, 0},
        {'V', 0, 0, 0},
        {'x', 1, '9', 9},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buffer table = {0};
        build_field(&table, "x-onlyonce-route", 'x', BYTES("payments"));
        build_number(&table, "x-onlyonce-first-seen", 'T', 8, FIRST_SEEN);
        build_number(&table, "x-onlyonce-attempt", cases[i].type, cases[i].width, cases[i].attempt);
        build_number(&table, "x-onlyonce-reason", 't', 1, 1);
        struct delivery d = read_table(&table, false, &to_queue);
        enum delivery_kind want = cases[i].want ? DELIVERY_PUT_BACK : DELIVERY_BAD_HEADER;
        if (d.kind != want || d.attempt != cases[i].want)
            fail_msg("type %c: kind %d, attempt %u", cases[i].type, (int)d.kind, d.attempt);
        buffer_free(&table);
    }
}

static void ignores_a_route_that_is_no_text(void **state)
{
    (void)state;
    struct buffer table = {0};
    build_number(&table, "x-onlyonce-route", 'l', 8, 1);
    build_text(&table, "x-onlyonce-route", "payments"); /* the first of a name counts */
    build_death(&table, "", "payments.work");
    struct delivery d = read_table(&table, false, &to_queue);
    assert_int_equal(d.kind, DELIVERY_PLAIN);
    assert_false(d.other_route);
    buffer_free(&table);
}

static void passes_on_that_it_is_redelivered(void **state)
{
    (void)state;
    struct buffer table = {0};
    assert_true(read_table(&table, true, &to_queue).redelivered);
    assert_false(read_table(&table, false, &to_queue).redelivered);
    assert_true(delivery_read(BYTES(""), true, &to_queue).redelivered);
}

/* ---- x-death ---- */

static enum delivery_kind kind_with_death(char type, struct span value, bool *other_route)
{
    struct buffer table = {0};
    build_text(&table, "x-onlyonce-route", "payments");
    build_text(&table, "x-onlyonce-first-seen", SEEN);
    build_field(&table, "x-death", type, value);
    struct delivery d = read_table(&table, false, &to_queue);
    buffer_free(&table);

    build_text(&table, "x-onlyonce-route", "another");
    build_field(&table, "x-death", type, value);
    *other_route = read_table(&table, false, &to_queue).other_route;
    buffer_free(&table);
    return d.kind;
}

static void finds_its_entry_among_others(void **state)
{
    (void)state;
    static const char *const queues[] = {"first", "payments.work", "last"};
    struct buffer array = {0};
    build_value(&array, 'S', BYTES("no table"));
    for (size_t i = 0; i < 3; i++) {
        struct buffer entry = {0};
        build_text(&entry, "exchange", "");
        build_text(&entry, "queue", queues[i]);
        build_value(&array, 'F', buffer_span(&entry));
        buffer_free(&entry);
    }
    bool other_route;
    assert_int_equal(kind_with_death('A', buffer_span(&array), &other_route), DELIVERY_RETRY);
    assert_true(other_route);
    buffer_free(&array);
}

/* Exchange and queue must be of one entry: a copy's way through two queues is not its own. */
static void does_not_mix_entries(void **state)
{
    (void)state;
    struct buffer array = {0};
    struct buffer entry = {0};
    build_text(&entry, "exchange", "");
    build_text(&entry, "queue", "other");
    build_value(&array, 'F', buffer_span(&entry));
    buffer_clear(&entry);
    build_text(&entry, "exchange", "retries");
    build_text(&entry, "queue", "payments.work");
    build_value(&array, 'F', buffer_span(&entry));
    bool other_route;
    assert_int_equal(kind_with_death('A', buffer_span(&array), &other_route), DELIVERY_LOOP);
    buffer_free(&entry);
    buffer_free(&array);
}

static void has_no_entry_in_a_malformed_death(void **state)
{
    (void)state;
    struct buffer array = {0};
    struct buffer entry = {0};
    build_text(&entry, "exchange", "");
    build_text(&entry, "queue", "payments.work");
    build_value(&array, 'F', buffer_span(&entry));
    struct span whole = buffer_span(&array);
    bool other_route;
    assert_int_equal(kind_with_death('A', whole, &other_route), DELIVERY_RETRY);
    assert_int_equal(kind_with_death('F', buffer_span(&entry), &other_route), DELIVERY_LOOP);
    assert_false(other_route);
    assert_int_equal(kind_with_death('S', BYTES("payments.work"), &other_route), DELIVERY_LOOP);
    assert_false(other_route);
    assert_int_equal(kind_with_death('V', BYTES(""), &other_route), DELIVERY_LOOP);
    struct buffer texts = {0};
    build_value(&texts, 'S', buffer_span(&entry));
    assert_int_equal(kind_with_death('A', buffer_span(&texts), &other_route), DELIVERY_LOOP);
    assert_false(other_route);
    buffer_free(&texts);
    for (size_t len = 0; len < whole.len; len++) {
        struct span cut = {whole.data, len};
        assert_int_equal(kind_with_death('A', cut, &other_route), DELIVERY_LOOP);
        assert_false(other_route);
    }
    buffer_add_u8(&array, 'q'); /* behind the entry, a type that nobody knows */
    assert_int_equal(kind_with_death('A', buffer_span(&array), &other_route), DELIVERY_LOOP);
    buffer_free(&entry);
    buffer_free(&array);
}

/* ---- Unreadable ---- */

static void says_what_cannot_be_read(void **state)
{
    (void)state;
    static const struct {
        const char *label;
        struct span properties;
        enum delivery_kind want;
    } cases[] = {
        {"no properties", {(const uint8_t *)"\0\0", 2}, DELIVERY_PLAIN},
        {"empty headers", {(const uint8_t *)"\x20\0\0\0\0\0", 6}, DELIVERY_PLAIN},
        {"nothing", {(const uint8_t *)"", 0}, DELIVERY_UNREADABLE},
        {"an unknown flag", {(const uint8_t *)"\0\2", 2}, DELIVERY_UNREADABLE},
        {"an unknown type", {(const uint8_t *)"\x20\0\0\0\0\3\1aq", 9}, DELIVERY_UNREADABLE},
        {"a header that is cut", {(const uint8_t *)"\x20\0\0\0\0\3\1aI", 9}, DELIVERY_UNREADABLE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (delivery_read(cases[i].properties, false, &to_queue).kind != cases[i].want)
            fail_msg("%s", cases[i].label);

    /* A table that breaks behind all that matters is unreadable, too: it could not be copied. */
    struct buffer table = {0};
    build_text(&table, "x-onlyonce-route", "payments");
    build_text(&table, "x-onlyonce-first-seen", SEEN);
    build_text(&table, "x-onlyonce-reason", "stale");
    assert_int_equal(read_table(&table, false, &to_queue).kind, DELIVERY_PUT_BACK);
    buffer_add_u8(&table, 1);
    assert_int_equal(read_table(&table, false, &to_queue).kind, DELIVERY_UNREADABLE);
    buffer_free(&table);
}

static void survives_random_bytes(void **state)
{
    (void)state;
    uint32_t seed = 31;
    int kinds[DELIVERY_UNREADABLE + 1] = {0};
    for (int round = 0; round < 30000; round++) {
        struct buffer table = {0};
        build_text(&table, "x-onlyonce-route", "payments");
        build_number(&table, "x-onlyonce-first-seen", 'l', 8, FIRST_SEEN);
        build_number(&table, "x-onlyonce-attempt", 'l', 8, 2);
        if (build_random(&seed) % 4 == 0)
            build_text(&table, "x-onlyonce-reason", "stale");
        build_death(&table, "", "payments.work");
        for (uint32_t flips = build_random(&seed) % 3; flips > 0; flips--)
            table.data[build_random(&seed) % table.len] = (uint8_t)build_random(&seed);
        struct delivery d = read_table(&table, false, &to_queue);
        kinds[d.kind]++;
        bool is_back =
            d.kind == DELIVERY_RETRY || d.kind == DELIVERY_PUT_BACK || d.kind == DELIVERY_LOOP;
        assert_true(is_back ? d.attempt >= 1 && d.first_seen >= 1
                            : d.attempt == 0 && d.first_seen == 0);
        buffer_free(&table);
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        assert_true(kinds[i] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_comes_back_from_a_queue),
        cmocka_unit_test(reads_what_comes_back_from_an_exchange),
        cmocka_unit_test(believes_only_sense),
        cmocka_unit_test(takes_any_type_of_integer),
        cmocka_unit_test(ignores_a_route_that_is_no_text),
        cmocka_unit_test(passes_on_that_it_is_redelivered),
        cmocka_unit_test(finds_its_entry_among_others),
        cmocka_unit_test(does_not_mix_entries),
        cmocka_unit_test(has_no_entry_in_a_malformed_death),
        cmocka_unit_test(says_what_cannot_be_read),
        cmocka_unit_test(survives_random_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
