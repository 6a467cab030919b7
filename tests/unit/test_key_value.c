/* The values that parts of a key have. */
#include "../lib/amqp_build.h"
#include "headers.h"
#include "key_case.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void takes_each_part(void **state)
{
    (void)state;
    struct buffer table = {0};
    struct properties p = {0};
    build_text(&table, "x-id", "h");
    build_text(&table, "x-id", "second");
    build_set(&p, PROPERTY_HEADERS, buffer_span(&table));
    build_set(&p, PROPERTY_MESSAGE_ID, BYTES("m"));
    build_set(&p, PROPERTY_CORRELATION_ID, BYTES("c"));
    build_set(&p, PROPERTY_TYPE, BYTES("t"));
    build_set(&p, PROPERTY_APP_ID, BYTES("a"));
    struct buffer encoded = {0};
    build_properties(&p, &encoded);
    struct message *m = build_message("e", "r", buffer_span(&encoded), BYTES("abc"));
    struct message *bare = build_message("", "", BYTES("\0\0"), BYTES(""));
    static const struct {
        const char *line;
        const char *want;
        const char *want_bare;
    } cases[] = {
        {"message_id", "m", "-"},
        {"correlation_id", "c", "-"},
        {"type", "t", "-"},
        {"app_id", "a", "-"},
        {"routing_key", "r", "-"},
        {"exchange", "e", "-"},
        {"header:x-id", "h", "-"},
        {"header:X-Id", "-", "-"},
        {"body", "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
         "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"message_id + type + app_id", "m,t,a", "-"},
        {"type + message_id", "t,m", "-"},
        {"exchange + routing_key + header:x-id + correlation_id", "e,r,h,c", "-"},
        {"message_id + header:none", "-", "-"},
        {"header:none + message_id", "-", "-"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct key_rule *rule = compile_one(cases[i].line);
        assert_key(rule, m, cases[i].want, cases[i].want[0] == '-' ? -1 : 0);
        assert_key(rule, bare, cases[i].want_bare, cases[i].want_bare[0] == '-' ? -1 : 0);
        key_rule_free(rule);
    }
    buffer_free(&table);
    buffer_free(&encoded);
    message_free(m);
    message_free(bare);
}

static void counts_empty_properties_as_missing(void **state)
{
    (void)state;
    struct properties p = {0};
    build_set(&p, PROPERTY_MESSAGE_ID, BYTES(""));
    build_set(&p, PROPERTY_TYPE, BYTES("\0"));
    struct message *m = build_message_of(&p);
    struct key_rule *rule =
        compile((const char *const[]){"a = message_id", "b = type", "c = body", NULL});
    assert_key(rule, m, "b:~00", 1);
    key_rule_free(rule);
    message_free(m);
}

static void writes_headers_in_their_usual_text(void **state)
{
    (void)state;
    static const struct {
        char type;
        struct span value;
        const char *want;
    } cases[] = {
        {'S', {(const uint8_t *)"text", 4}, "text"},
        {'S', {(const uint8_t *)"", 0}, "-"},
        {'S', {(const uint8_t *)"\0", 1}, "~00"},
        {'S', {(const uint8_t *)"a\0b", 3}, "a~00b"},
        {'x', {(const uint8_t *)"\xff\x80~", 3}, "~FF~80~7E"},
        {'x', {(const uint8_t *)"", 0}, "-"},
        {'S', {(const uint8_t *)" A-z.@:+_,/%\n", 13}, "~20A-z.@:+_~2C~2F~25~0A"},
        {'t', {(const uint8_t *)"\0", 1}, "false"},
        {'t', {(const uint8_t *)"\1", 1}, "true"},
        {'t', {(const uint8_t *)"\7", 1}, "true"},
        {'b', {(const uint8_t *)"\x80", 1}, "-128"},
        {'B', {(const uint8_t *)"\x80", 1}, "128"},
        {'s', {(const uint8_t *)"\x80\0", 2}, "-32768"},
        {'u', {(const uint8_t *)"\x80\0", 2}, "32768"},
        {'I', {(const uint8_t *)"\x80\0\0\0", 4}, "-2147483648"},
        {'i', {(const uint8_t *)"\xff\xff\xff\xff", 4}, "4294967295"},
        {'l', {(const uint8_t *)"\x80\0\0\0\0\0\0\0", 8}, "-9223372036854775808"},
        {'l', {(const uint8_t *)"\0\x20\0\0\0\0\0\1", 8}, "9007199254740993"},
        {'L', {(const uint8_t *)"\xff\xff\xff\xff\xff\xff\xff\xff", 8}, "-1"},
        {'T', {(const uint8_t *)"\0\0\0\0\0\0\0\0", 8}, "0"},
        {'T', {(const uint8_t *)"\xff\xff\xff\xff\xff\xff\xff\xff", 8}, "18446744073709551615"},
        {'D', {(const uint8_t *)"\0\0\0\x30\x39", 5}, "12345"},
        {'D', {(const uint8_t *)"\2\0\0\x30\x39", 5}, "123.45"},
        {'D', {(const uint8_t *)"\7\0\0\x30\x39", 5}, "0.0012345"},
        {'D', {(const uint8_t *)"\1\0\0\0\0", 5}, "0.0"},
        {'D', {(const uint8_t *)"\0\xff\xff\xff\xff", 5}, "4294967295"},
        {'V', {(const uint8_t *)"", 0}, "-"},
        {'A', {(const uint8_t *)"t\1", 2}, "-"},
        {'A', {(const uint8_t *)"", 0}, "-"},
        {'F', {(const uint8_t *)"\1at\1", 4}, "-"},
        {'F', {(const uint8_t *)"", 0}, "-"},
    };
    struct key_rule *rule = compile_one("header:x");
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct message *m = message_with_header("x", cases[i].type, cases[i].value);
        assert_key(rule, m, cases[i].want, cases[i].want[0] == '-' && !cases[i].want[1] ? -1 : 0);
        message_free(m);
    }
    /* A decimal with all the places there can be is longer than a key, and still no other's. */
    struct message *m = message_with_header("x", 'D', BYTES("\xff\0\0\0\1"));
    assert_true(key_find(rule, m));
    assert_memory_equal(m->key, "sha256:", 7);
    message_free(m);
    key_rule_free(rule);
}

static bool real_is(const struct key_rule *rule, double value, bool is_float, const char *want)
{
    uint8_t bytes[8];
    uint64_t bits = 0;
    float narrow = (float)value;
    uint32_t narrow_bits;
    memcpy(&bits, &value, 8);
    memcpy(&narrow_bits, &narrow, 4);
    if (is_float)
        bits = (uint64_t)narrow_bits << 32;
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(bits >> (56 - 8 * i));
    struct message *m =
        message_with_header("x", is_float ? 'f' : 'd', (struct span){bytes, is_float ? 4 : 8});
    bool same = strcmp(key_find(rule, m) ? m->key : "-", want) == 0;
    if (!same)
        print_error("%s is written %s\n", want, m->key);
    message_free(m);
    return same;
}

static bool reals_are_right(void)
{
    static const struct {
        double value;
        bool is_float;
        const char *want;
    } cases[] = {
        {0.0, false, "0"},
        {1.0, false, "1"},
        {-1.5, false, "-1.5"},
        {0.1, false, "0.1"},
        {0.30000000000000004, false, "0.30000000000000004"},
        {100000.0, false, "100000"},
        {1500.0, false, "1500"},
        {9007199254740992.0, false, "9007199254740992"},
        {9007199254740994.0, false, "9007199254740994"},
        {1e16, false, "10000000000000000"},
        {1e17, false, "1e+17"},
        {1.5e300, false, "1.5e+300"},
        {0.0001, false, "0.0001"},
        {1e-7, false, "1e-07"},
        {5e-324, false, "5e-324"},
        {1.7976931348623157e308, false, "1.7976931348623157e+308"},
        {(double)INFINITY, false, "-"},
        {-(double)INFINITY, false, "-"},
        {(double)NAN, false, "-"},
        {(double)0.1f, true, "0.1"},
        {(double)16777216.0f, true, "16777216"},
        {(double)3.4028235e38f, true, "3.4028235e+38"},
        {(double)1e-45f, true, "1e-45"},
        {(double)INFINITY, true, "-"},
        {(double)NAN, true, "-"},
    };
    struct key_rule *rule = compile_one("header:x");
    bool right = true;
    for (size_t i = 0; i < COUNT(cases); i++)
        right &= real_is(rule, cases[i].value, cases[i].is_float, cases[i].want);
    key_rule_free(rule);
    return right;
}

static void writes_reals_in_shortest_exact_form(void **state)
{
    (void)state;
    assert_true(reals_are_right());
}

/* A locale whose decimal point is a comma, in a folder of its own. */
static void make_comma_locale(const char *dir)
{
    char *path = xasprintf("%s/source", dir);
    FILE *source = fopen(path, "w");
    free(path);
    assert_non_null(source);
    fputs("LC_NUMERIC\n"
          "decimal_point \",\"\n"
          "thousands_sep \"\"\n"
          "grouping -1\n"
          "END LC_NUMERIC\n",
          source);
    assert_int_equal(fclose(source), 0);
    /* It warns of the other categories, which are not there, and so ends with 1. */
    char *command = xasprintf("cd %s && localedef -c -i source ./comma 2> log; "
                              "[ -e comma/LC_NUMERIC ] || { cat log; exit 1; }",
                              dir);
    assert_int_equal(system(command), 0);
    free(command);
}

static bool reals_are_right_with_comma(const char *dir)
{
    setenv("LOCPATH", dir, 1);
    locale_t comma = newlocale(LC_NUMERIC_MASK, "comma", (locale_t)0);
    if (!comma)
        return false;
    locale_t before = uselocale(comma);
    char text[8];
    snprintf(text, sizeof text, "%.1f", 1.5);
    return strcmp(text, "1,5") == 0 && reals_are_right() && uselocale(before) == comma;
}

/* A decimal comma changes nothing, and is in force again afterwards. In a child, since glibc
 * keeps what it read from LOCPATH, which the leak checker would see. */
static void writes_reals_the_same_in_any_locale(void **state)
{
    (void)state;
    char dir[] = "/tmp/onlyonce-test-XXXXXX";
    assert_non_null(mkdtemp(dir));
    make_comma_locale(dir);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(reals_are_right_with_comma(dir) ? 0 : 1);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    char *command = xasprintf("rm -r %s", dir);
    assert_int_equal(system(command), 0);
    free(command);
}

static void writes_any_real_so_that_it_reads_back(void **state)
{
    (void)state;
    struct key_rule *rule = compile_one("header:x");
    uint32_t seed = 2463534242;
    for (int round = 0; round < 5000; round++) {
        uint8_t bytes[8];
        uint64_t bits = (uint64_t)build_random(&seed) << 32 | build_random(&seed);
        double value;
        memcpy(&value, &bits, 8);
        for (int i = 0; i < 8; i++)
            bytes[i] = (uint8_t)(bits >> (56 - 8 * i));
        struct message *m = message_with_header("x", 'd', (struct span){bytes, 8});
        if (key_find(rule, m)) {
            double back = strtod(m->key, NULL);
            assert_memory_equal(&back, &value, 8);
        } else {
            assert_int_equal(bits >> 52 & 0x7ff, 0x7ff);
        }
        message_free(m);
    }
    key_rule_free(rule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_each_part),
        cmocka_unit_test(counts_empty_properties_as_missing),
        cmocka_unit_test(writes_headers_in_their_usual_text),
        cmocka_unit_test(writes_reals_in_shortest_exact_form),
        cmocka_unit_test(writes_reals_the_same_in_any_locale),
        cmocka_unit_test(writes_any_real_so_that_it_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
