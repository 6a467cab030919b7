/*
 * Reports: what is read of a message, and what completing and releasing do to a key.
 */
#include "report.h"

#include "../lib/amqp_build.h"
#include "store_backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define FIRST_SEEN 1782640800123

/* ---- Reading ---- */

struct report_case {
    const char *label;
    const char *route; /* NULL: it has no such header */
    const char *key;
    const char *first_seen;
    const char *action;
    const char *body;
    enum park_reason want;
};

static void build_optional(struct buffer *table, const char *name, const char *text)
{
    if (text)
        build_text(table, name, text);
}

static struct message *build_report(const struct report_case *c)
{
    struct properties p = {0};
    struct buffer table = {0};
    build_text(&table, "X-Onlyonce-Route", "other");
    build_optional(&table, "x-onlyonce-route", c->route);
    build_optional(&table, "x-onlyonce-key", c->key);
    build_optional(&table, "x-onlyonce-first-seen", c->first_seen);
    build_optional(&table, "x-onlyonce-action", c->action);
    build_text(&table, "x-onlyonce-reason", "of an earlier parking");
    build_set(&p, PROPERTY_HEADERS, buffer_span(&table));
    struct buffer encoded = {0};
    build_properties(&p, &encoded);
    struct message *m = build_message("", "reports", buffer_span(&encoded), span_of(c->body));
    buffer_free(&encoded);
    buffer_free(&table);
    return m;
}

/* clang-format off */
static const struct report_case cases[] = {
    {"completes", "r", "k", NULL, NULL, "", PARK_NONE},
    {"with all there is", "r", "k", "1782640800123", "complete", " {\"a\": 1}\n", PARK_NONE},
    {"releases", "r", "k", NULL, "release", "", PARK_NONE},
    {"a release has no result", "r", "k", NULL, "release", "nonsense", PARK_NONE},
    {"no route", NULL, "k", NULL, NULL, "", PARK_UNKNOWN_ROUTE},
    {"an empty route", "", "k", NULL, NULL, "", PARK_UNKNOWN_ROUTE},
    {"no key", "r", NULL, NULL, NULL, "", PARK_NO_KEY},
    {"an empty key", "r", "", NULL, NULL, "", PARK_NO_KEY},
    {"first-seen is no number", "r", "k", "then", NULL, "", PARK_BAD_HEADER},
    {"first-seen is empty", "r", "k", "", NULL, "", PARK_BAD_HEADER},
    {"first-seen is 0", "r", "k", "0", NULL, "", PARK_BAD_HEADER},
    {"first-seen is negative", "r", "k", "-5", NULL, "", PARK_BAD_HEADER},
    {"another action", "r", "k", NULL, "delete", "", PARK_BAD_ACTION},
    {"in capitals", "r", "k", NULL, "Release", "", PARK_BAD_ACTION},
    {"an empty one", "r", "k", NULL, "", "", PARK_BAD_ACTION},
    {"a result that is no JSON", "r", "k", NULL, NULL, "done", PARK_BAD_RESULT},
    {"two of them", "r", "k", NULL, NULL, "1 2", PARK_BAD_RESULT},
    {"nothing but space", "r", "k", NULL, NULL, " ", PARK_BAD_RESULT},
};
/* clang-format on */

static void reads_reports(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct report_case *c = &cases[i];
        struct message *m = build_report(c);
        struct report r;
        enum park_reason got = report_read(m, &r);
        if (got != c->want)
            fail_msg("%s: %s", c->label, park_reason_text(got));
        if (got == PARK_NONE) {
            assert_true(span_is(r.route, "r"));
            assert_true(span_is(r.key, "k"));
            assert_int_equal(r.first_seen, c->first_seen ? FIRST_SEEN : 0);
            assert_int_equal(r.release, c->action && strcmp(c->action, "release") == 0);
            assert_true(span_is(r.result, r.release ? "" : c->body));
        }
        message_free(m);
    }
}

static void a_result_has_at_most_4_kib(void **state)
{
    (void)state;
    char text[STORE_RESULT_MAX + 1];
    memset(text, ' ', sizeof text);
    text[0] = '7';
    assert_true(report_is_result((struct span){(uint8_t *)text, STORE_RESULT_MAX}));
    assert_false(report_is_result((struct span){(uint8_t *)text, STORE_RESULT_MAX + 1}));
}

static void reads_other_types_and_no_headers(void **state)
{
    (void)state;
    struct properties p = {0};
    struct report r;
    struct message *m = build_message_of(&p);
    assert_int_equal(report_read(m, &r), PARK_UNKNOWN_ROUTE);
    message_free(m);

    struct buffer table = {0};
    build_field(&table, "x-onlyonce-route", 'x', span_of("r"));
    build_field(&table, "x-onlyonce-key", 'x', span_of("k"));
    build_number(&table, "x-onlyonce-first-seen", 'l', 8, FIRST_SEEN);
    build_set(&p, PROPERTY_HEADERS, buffer_span(&table));
    m = build_message_of(&p);
    assert_int_equal(report_read(m, &r), PARK_NONE);
    assert_int_equal(r.first_seen, FIRST_SEEN);
    message_free(m);

    build_number(&table, "x-onlyonce-action", 'I', 4, 1);
    build_set(&p, PROPERTY_HEADERS, buffer_span(&table));
    m = build_message_of(&p);
    assert_int_equal(report_read(m, &r), PARK_BAD_ACTION);
    message_free(m);
    buffer_free(&table);
}

/* ---- Completing and releasing ---- */

static char store_name[] = "test";
static char store_prefix[] = "oo";

static int set_up(void **state)
{
    static const struct store_config config = {
        .name = store_name, .prefix = store_prefix, .timeout = 1000, .parsed.kind = STORE_MEMORY};
    bool permanent;
    struct store *s = store_new(&config, "scope");
    store_memory_reset();
    *state = s;
    return store_open(s, &permanent) ? 0 : -1;
}

static int tear_down(void **state)
{
    store_free(*state);
    return 0;
}

static struct record get(struct store *s, int64_t *ttl)
{
    struct record r;
    bool foreign;
    assert_true(store_get(s, span_of("k"), &r, ttl, &foreign));
    return r;
}

static void assert_text(struct store *s, const char *want)
{
    int64_t ttl;
    char text[RECORD_TEXT_MAX];
    struct record r = get(s, &ttl);
    if (r.now.completed)
        r.now.completed = 7; /* now, which nobody can write down */
    if (r.now.state == RECORD_NONE)
        text[0] = '\0';
    else
        record_write(&r, text);
    assert_string_equal(text, want);
}

static void assert_result(struct store *s, const char *want)
{
    struct buffer got = {0};
    assert_true(store_get_result(s, span_of("k"), &got));
    assert_true(span_is(buffer_span(&got), want));
    buffer_free(&got);
}

static enum report_answer complete(struct store *s, int64_t first_seen, const char *result)
{
    return report_complete(s, span_of("k"), first_seen, span_of(result));
}

static void completes_once(void **state)
{
    struct store *s = *state;
    int64_t ttl;
    assert_int_equal(complete(s, 0, "1"), REPORT_NOT_FOUND);
    assert_result(s, "");
    store_memory_put(s, span_of("k"), "2F 1 100 t100 e8999999999900", 50000);
    assert_int_equal(complete(s, 101, "1"), REPORT_NOT_FOUND);
    assert_text(s, "2F 1 100 t100 e8999999999900");
    assert_int_equal(complete(s, 100, "[1]"), REPORT_DONE);
    assert_text(s, "2C 1 100 t100 e8999999999900 c-93 r");
    assert_result(s, "[1]");
    struct record r = get(s, &ttl);
    assert_in_range(ttl, 49000, 50000);
    assert_true(llabs(r.now.completed - store_now(s)) < 1000);
    assert_int_equal(complete(s, 0, "[2]"), REPORT_ALREADY);
    assert_int_equal(complete(s, 101, "[2]"), REPORT_NOT_FOUND);
    assert_result(s, "[1]");
}

static void a_pending_one_only_notes_it(void **state)
{
    struct store *s = *state;
    store_memory_put(s, span_of("k"), "2P 2 100 t100 oaaaaaaaaaaaaaaaaaaaaaaaa.7", 50000);
    assert_int_equal(complete(s, 0, ""), REPORT_DONE);
    assert_text(s, "2P 2 100 t100 c-93 oaaaaaaaaaaaaaaaaaaaaaaaa.7");
    assert_int_equal(complete(s, 0, "1"), REPORT_ALREADY);
    assert_text(s, "2P 2 100 t100 c-93 oaaaaaaaaaaaaaaaaaaaaaaaa.7");
    assert_result(s, "");
}

static void releases(void **state)
{
    static const struct {
        const char *met;
        int64_t first_seen;
        bool force;
        enum report_answer want;
    } rows[] = {
        {"2F 1 100 t100 e8999999999900", 0, false, REPORT_DONE},
        {"2F 1 100 t100 e8999999999900", 100, false, REPORT_DONE},
        {"2F 1 100 t100 e8999999999900", 101, true, REPORT_NOT_FOUND},
        {"2C 1 100 t100 e8999999999900 c200 r", 0, false, REPORT_DONE},
        {"2K 1 100 t100 e8999999999900", 0, false, REPORT_DONE},
        {"2P 1 100 t100", 0, false, REPORT_PENDING},
        {"2P 1 100 t100", 101, false, REPORT_NOT_FOUND},
        {"2P 1 100 t100", 0, true, REPORT_DONE},
        {"something else", 0, true, REPORT_FOREIGN},
    };
    struct store *s = *state;
    assert_int_equal(report_release(s, span_of("k"), 0, true), REPORT_NOT_FOUND);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        store_memory_put(s, span_of("k"), rows[i].met, 50000);
        assert_int_equal(report_release(s, span_of("k"), rows[i].first_seen, rows[i].force),
                         rows[i].want);
        if (rows[i].want != REPORT_FOREIGN)
            assert_text(s, rows[i].want == REPORT_DONE ? "" : rows[i].met);
    }
    assert_int_equal(complete(s, 0, "1"), REPORT_FOREIGN);
    store_close(s);
    assert_int_equal(complete(s, 0, "1"), REPORT_UNREACHABLE);
    assert_int_equal(report_release(s, span_of("k"), 0, false), REPORT_UNREACHABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_reports),
        cmocka_unit_test(a_result_has_at_most_4_kib),
        cmocka_unit_test(reads_other_types_and_no_headers),
        cmocka_unit_test_setup_teardown(completes_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_pending_one_only_notes_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(releases, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
