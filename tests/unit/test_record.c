/* record: every record has one text, and every other text is refused. */
#include "memory.h"
#include "record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SESSION "6f2c9a0e51b7d3480c1e22aa"

static const struct {
    const char *label;
    const char *text;
} good[] = {
    {"pending, owned", "2P 1 1782640800123 t0 o" SESSION ".17"},
    {"pending, nobody's, in doubt", "2P 3 1782640800123 t0 d"},
    {"pending, completion noted", "2P 1 1782640800123 t0 c876 o" SESSION ".1"},
    {"forwarded", "2F 1 1782640800123 t67 e86400067"},
    {"forwarded in doubt", "2F 2 1782640800123 t67 e86400067 d"},
    {"completed", "2C 1 1782640800123 t67 e86400067 c99877"},
    {"parked", "2K 4294967295 1 t1 e2"},
    {"claimed over a forwarded one",
     "2P 2 1782640800123 t59877 o" SESSION ".31 <F 1 1782640800123 t67 e86400067"},
    {"claimed over a parked one in doubt",
     "2P 2 1782640800123 t59877 d o" SESSION
     ".18446744073709551615 <K 1 1782640800123 t67 e86400067 d"},
    {"with its duplicates", "2F 1 1782640800123 t67 e86400067 n2 l876"},
    {"with fingerprint and result", "2C 1 1782640800123 t67 e86400067 c99877 d n4294967295 "
                                    "l876 f00ff00ff00ff00ff r"},
    {"a first-seen of another clock, ahead",
     "2C 1 1782640800123 t-67 e86399933 c-5 d n2 l-1782640800122"},
    {"the longest text",
     "2P 4294967295 9223372036854775807 t-9223372036854775806 "
     "c-9223372036854775806 d n4294967295 l-9223372036854775806 fffffffffffffffff r o" SESSION
     ".18446744073709551615 <C 4294967295 9223372036854775807 t-9223372036854775806 "
     "e-9223372036854775806 c-9223372036854775806 d n4294967295 l-9223372036854775806 "
     "fffffffffffffffff r"},
    {"the largest numbers", "2P 4294967295 9223372036854775807 t0 "
                            "c0 d n4294967295 l0 fffffffffffffffff r o" SESSION
                            ".18446744073709551615 <C 4294967295 9223372036854775807 t0 "
                            "e0 c0 d n4294967295 l0 "
                            "fffffffffffffffff r"},
};

static void reads_what_it_writes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct record r;
        char out[RECORD_TEXT_MAX];
        if (!record_read(&r, good[i].text, strlen(good[i].text)))
            fail_msg("%s was not read", good[i].label);
        assert_int_equal(record_write(&r, out), strlen(good[i].text));
        assert_string_equal(out, good[i].text);
    }
}

static void refuses_what_is_not_a_record(void **state)
{
    static const char *const bad[] = {
        "",
        "2",
        "2F",
        "2F 1",
        "hello",
        "1F 1 1 t0 e0",                             /* another format */
        "2X 1 1 t0 e0",                             /* no such state */
        "2F 0 1 t0 e0",                             /* attempts begin at 1 */
        "2F 01 1 t0 e0",                            /* a leading zero */
        "2F 1 1 t-1 e0",                            /* a time that is none: 0 */
        "2F 1 5 t-6 e0",                            /* before all time */
        "2F 1 1 t-0 e0",                            /* another text for the same */
        "2F 1 1 t0 e0 n0",                          /* a field that says nothing */
        "2F 1 1 e0 t0",                             /* the wrong order */
        "2F 1 1 t0 e0 ",                            /* something behind it */
        "2F 1 1 t0 e0 o6f2c9a0e51b7d3480c1e22aa.1", /* only pending ones have an owner */
        "2F 1 1 t0 e0 <F 1 1 t0 e0",                /* or were claimed over something */
        "2P 1 1 t0 o6f2c9a0e51b7d3480c1e22aa",      /* half an owner */
        "2P 1 1 t0 o6f2c.1",                        /* a short session */
        "2P 1 1 t0 o6F2C9A0E51B7D3480C1E22AA.1",    /* not lower case */
        "2P 1 1 t0 <P 1 1 t0",                      /* pending over pending */
        "2F 4294967296 1 t0 e0",                    /* too large */
        "2F 1 9223372036854775808 t0 e0",           /* too large */
        "2F 1 1 t9223372036854775807 e0",           /* the sum is too large */
        "2F 1 9223372036854775807 t1 e0",           /* the sum is too large by one */
        "2F 1 -1 t3 e3",
        "2F 1 1 t0 e0\n",
        "2F 1 1", /* cut short */
        "2F 1 1 t0",
        "2C 1 1 t0 e0",
        "2P 1 1",
        "2P 1 1 t0 e0", /* a window that has not begun */
    };
    (void)state;
    struct record r;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (record_read(&r, bad[i], strlen(bad[i])))
            fail_msg("\"%s\" was read", bad[i]);
    assert_false(record_read(&r, "2F 1 1 t0 e0\0", 13));
}

/* No prefix of a record is one, unless it ends where a field ends; none crashes. */
static void survives_every_cut_and_every_changed_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        size_t len = strlen(good[i].text);
        for (size_t cut = 0; cut < len; cut++) {
            char *part = memcpy(xmalloc(len), good[i].text, len);
            struct record r;
            char again[RECORD_TEXT_MAX];
            if (record_read(&r, part, cut))
                assert_int_equal(record_write(&r, again), cut);
            for (int byte = 0; byte < 256; byte++) {
                part[cut] = (char)byte;
                if (record_read(&r, part, len)) {
                    assert_int_equal(record_write(&r, again), len);
                    assert_memory_equal(again, part, len);
                }
            }
            free(part);
        }
    }
}

static void prints_status(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *want;
    } cases[] = {
        {"2F 1 1782640800123 t67 e86400067",
         "{\"route\":\"payments\",\"key\":\"txn:001\",\"state\":\"forwarded\","
         "\"first_seen\":\"2026-06-28T10:00:00.123Z\",\"forwarded_at\":\"2026-06-28T10:00:00."
         "190Z\","
         "\"expires_in_ms\":86399000,\"attempt\":1,\"in_doubt\":false,\"duplicates\":0}"},
        {"2P 2 1782640800123 t0 d",
         "{\"route\":\"payments\",\"key\":\"txn:001\",\"state\":\"pending\","
         "\"first_seen\":\"2026-06-28T10:00:00.123Z\",\"claimed_at\":\"2026-06-28T10:00:00.123Z\","
         "\"expires_in_ms\":86399000,\"attempt\":2,\"in_doubt\":true,\"duplicates\":0}"},
        {"", "{\"route\":\"payments\",\"key\":\"txn:001\",\"state\":\"not_found\"}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct record r = {0};
        if (*cases[i].text)
            assert_true(record_read(&r, cases[i].text, strlen(cases[i].text)));
        char *json = record_json(&r, "payments", "txn:001", 86399000, NULL);
        assert_string_equal(json, cases[i].want);
        free(json);
    }
}

static void prints_a_result_of_several_lines_on_one(void **state)
{
    (void)state;
    struct record r;
    static const char text[] = "2C 1 1782640800123 t67 e86400067 c77 r";
    assert_true(record_read(&r, text, strlen(text)));
    char *json = record_json(&r, "payments", "txn:001", 86399000, "{\r\n  \"a\": \"\\n\"\n}");
    assert_null(strpbrk(json, "\r\n"));
    assert_non_null(strstr(json, "\"result\":{    \"a\": \"\\n\" }}"));
    free(json);
}

static void names_its_states(void **state)
{
    (void)state;
    enum record_state read;
    for (enum record_state s = RECORD_NONE; s <= RECORD_PARKED; s++) {
        assert_true(record_state_read(record_state_name(s), &read));
        assert_int_equal(read, s);
    }
    assert_false(record_state_read("Forwarded", &read));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_it_writes),
        cmocka_unit_test(refuses_what_is_not_a_record),
        cmocka_unit_test(survives_every_cut_and_every_changed_byte),
        cmocka_unit_test(prints_status),
        cmocka_unit_test(prints_a_result_of_several_lines_on_one),
        cmocka_unit_test(names_its_states),
    };
    return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
