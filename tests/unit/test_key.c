#include "key.h"

#include "../lib/amqp_build.h"
#include "headers.h"
#include "message.h"

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

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* A rule of some lines: the list ends with NULL. Strings of literals are not written to. */
static struct key_rule *compile(const char *const *lines)
{
    char *copies[32] = {NULL};
    size_t count = 0;
    for (; lines[count]; count++)
        copies[count] = xstrdup(lines[count]);
    size_t bad;
    char error[256] = "";
    struct key_rule *rule = key_compile(copies, count, &bad, error);
    for (size_t i = 0; i < count; i++)
        free(copies[i]);
    if (!rule)
        fail_msg("line %zu: %s", bad, error);
    return rule;
}

static struct key_rule *compile_one(const char *line)
{
    return compile((const char *const[]){line, NULL});
}

/* "-": it must have no key. */
static void assert_key(const struct key_rule *rule, struct message *m, const char *want,
                       int alternative)
{
    bool found = key_find(rule, m);
    assert_string_equal(found ? m->key : "-", want);
    assert_int_equal(m->key_len, found ? strlen(want) : 0);
    assert_int_equal(m->alternative, alternative);
    if (found)
        assert_true(span_is(m->key_name, key_alternative_name(rule, alternative)));
    else
        assert_int_equal(m->key_name.len, 0);
}

static struct message *message_with_header(const char *name, char type, struct span value)
{
    struct buffer table = {0};
    struct properties p = {0};
    build_field(&table, name, type, value);
    build_set(&p, PROPERTY_HEADERS, buffer_span(&table));
    struct message *m = build_message_of(&p);
    buffer_free(&table);
    return m;
}

/* ---- Rules ---- */

static const char long_name[] =
    "header:"
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567"
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567"
    "01234567890123456789012345678901234567890123456789012345678901234567890123456789";
#define WRITE                                                                                      \
    "write message_id, correlation_id, type, app_id, routing_key, exchange, header:NAME, "         \
    "json:/POINTER, body, body:json or body:json:/POINTER"

static const struct {
    const char *lines[3];
    size_t bad;
    const char *error;
} bad_rules[] = {
    {{NULL}, 0, "the list is empty; " WRITE},
    {{""}, 0, "a key part is missing; " WRITE},
    {{" \t"}, 0, "a key part is missing; " WRITE},
    {{"mesage_id"}, 0, "\"mesage_id\" is no key part; " WRITE},
    {{"Message_id"}, 0, "\"Message_id\" is no key part; " WRITE},
    {{"message_id:x"}, 0, "\"message_id:x\" is no key part; " WRITE},
    {{"headers:x"}, 0, "\"headers:x\" is no key part; " WRITE},
    {{"header"}, 0, "\"header\" is no key part; " WRITE},
    {{"message_id type"}, 0, "\"message_id type\" is no key part; " WRITE},
    {{"line\nbreak\x7f"}, 0, "\"line?break?\" is no key part; " WRITE},
    {{"0123456789012345678901234567890123456789012345678901234567890"},
     0,
     "\"012345678901234567890123456789012345678901234567890123456789...\" is no key "
     "part; " WRITE},
    {{"01234567890123456789012345678901234567890123456789012345678\xc3\xa4"},
     0,
     "\"01234567890123456789012345678901234567890123456789012345678...\" is no key "
     "part; " WRITE},
    {{"json:"}, 0, "json:: the JSON Pointer is missing; write json:/NAME/NAME..."},
    {{"json:id"}, 0, "json:id: a JSON Pointer begins with /; write json:/NAME/NAME..."},
    {{"body:json:/a~b"},
     0,
     "body:json:/a~b: in a JSON Pointer, ~ is written ~0 and / in a name ~1; write "
     "body:json:/NAME/NAME..."},
    {{"body:jso"}, 0, "\"body:jso\" is no key part; " WRITE},
    {{"header:"}, 0, "header: lacks the header's name; write header:NAME"},
    {{"header: "}, 0, "header: lacks the header's name; write header:NAME"},
    {{long_name},
     0,
     "the header's name \"012345678901234567890123456789012345678901234567890123456789...\" "
     "has 256 bytes; a header's name has at most 255"},
    {{"message_id + "}, 0, "a key part is missing; " WRITE},
    {{"+ message_id"}, 0, "a key part is missing; " WRITE},
    {{"message_id + + type"}, 0, "a key part is missing; " WRITE},
    {{"message_id+type"},
     0,
     "\"message_id+type\" is no key part; parts are joined by \" + \", with blanks"},
    {{"message_id", "type"},
     0,
     "\"message_id\" has no name, and needs one where the list has several; write NAME = "
     "message_id"},
    {{"a = message_id", "header:x=y"},
     1,
     "\"header:x=y\" has no name, and needs one where the list has several; write NAME = "
     "header:x=y"},
    {{"a = message_id", ""}, 1, "a key part is missing; " WRITE},
    {{"a = message_id", "b ="}, 1, "a key part is missing; " WRITE},
    {{"a = message_id", "B = type"}, 1, "\"B\" is no name; a name is 1 to 40 of a-z 0-9 _ -"},
    {{"a b = type"}, 0, "\"a b\" is no name; a name is 1 to 40 of a-z 0-9 _ -"},
    {{"= type"}, 0, "\"\" is no name; a name is 1 to 40 of a-z 0-9 _ -"},
    {{"01234567890123456789012345678901234567890 = type"},
     0,
     "\"01234567890123456789012345678901234567890\" is no name; a name is 1 to 40 of a-z 0-9 "
     "_ -"},
};

static void explains_bad_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad_rules); i++) {
        char *lines[2] = {NULL, NULL};
        size_t count = 0;
        for (; bad_rules[i].lines[count]; count++)
            lines[count] = xstrdup(bad_rules[i].lines[count]);
        size_t bad = 99;
        char error[256] = "";
        struct key_rule *rule = key_compile(lines, count, &bad, error);
        assert_null(rule);
        assert_string_equal(error, bad_rules[i].error);
        assert_int_equal(bad, bad_rules[i].bad);
        free(lines[0]);
        free(lines[1]);
    }
}

static void allows_sixteen_alternatives(void **state)
{
    (void)state;
    char line[] = "a = message_id";
    char *lines[KEY_MAX_ALTERNATIVES + 1];
    for (size_t i = 0; i < COUNT(lines); i++)
        lines[i] = line;
    size_t bad = 0;
    char error[256] = "";
    struct key_rule *rule = key_compile(lines, KEY_MAX_ALTERNATIVES, &bad, error);
    assert_non_null(rule);
    assert_int_equal(key_alternative_count(rule), KEY_MAX_ALTERNATIVES);
    key_rule_free(rule);
    assert_null(key_compile(lines, KEY_MAX_ALTERNATIVES + 1, &bad, error));
    assert_string_equal(error, "the list has 17 alternatives; at most 16 are allowed");
    assert_int_equal(bad, KEY_MAX_ALTERNATIVES);
    key_rule_free(NULL);
}

/* Blanks, and what may look like syntax but is part of a header's name. */
static void reads_rules_as_written(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        const char *header;
    } cases[] = {
        {"header:x-id", "x-id"},
        {"  header:x-id\t", "x-id"},
        {"header: x-id", "x-id"},
        {"header:a+b", "a+b"},
        {"header:a + header:a", "a"},
        {"header:a=b", "a=b"},
        {"header:a = b", "a = b"},
        {"header:a b", "a b"},
        {"header:header:", "header:"},
        {"header:\xc3\xa4", "\xc3\xa4"},
        {"n=header:a", "a"},
        {"n = header:a=b", "a=b"},
        {" 0123456789_-abcdefghijklmnopqrstuvwxyz12 =\theader:a", "a"},
        {"header:message_id", "message_id"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct key_rule *rule = compile_one(cases[i].line);
        struct message *m = message_with_header(cases[i].header, 'S', BYTES("v"));
        if (!key_find(rule, m) || m->key[0] != 'v')
            fail_msg("%s", cases[i].line);
        assert_string_equal(key_alternative_name(rule, 0), "key");
        message_free(m);
        key_rule_free(rule);
    }
}

/* ---- Values ---- */

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

/* ---- The key's text ---- */

/* Written anew from the design's words; *out is to be freed. */
static void encode(struct span value, struct buffer *out)
{
    for (size_t i = 0; i < value.len; i++) {
        uint8_t c = value.data[i];
        if (c && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-@:+", c))
            buffer_add_u8(out, c);
        else
            buffer_printf(out, "~%02X", c);
    }
}

/* The parts that a text was made of: that there is but one way back is why no two keys meet. */
static size_t decode(const char *text, struct buffer parts[], size_t max)
{
    size_t count = 1;
    for (const char *at = text; *at; at++) {
        if (*at == ',') {
            count++;
            assert_true(count <= max);
        } else if (*at == '~') {
            char hex[3] = {at[1], at[2], '\0'};
            buffer_add_u8(&parts[count - 1], (uint8_t)strtoul(hex, NULL, 16));
            at += 2;
        } else {
            buffer_add_u8(&parts[count - 1], (uint8_t)*at);
        }
    }
    return count;
}

static void writes_every_byte_as_the_design_says(void **state)
{
    (void)state;
    struct key_rule *rule = compile_one("header:x");
    for (int c = 0; c < 256; c++) {
        uint8_t byte = (uint8_t)c;
        struct message *m = message_with_header("x", 'x', (struct span){&byte, 1});
        struct buffer want = {0};
        encode((struct span){&byte, 1}, &want);
        assert_true(key_find(rule, m));
        assert_true(span_equal(message_key(m), buffer_span(&want)));
        buffer_free(&want);
        message_free(m);
    }
    key_rule_free(rule);
}

static void never_gives_two_messages_one_key(void **state)
{
    (void)state;
    static const char alphabet[] = "a,~2C:+-\0\n\xff\xc3Z9";
    struct key_rule *rule = compile_one("header:p0 + header:p1 + header:p2");
    uint32_t seed = 88172645;
    for (int round = 0; round < 20000; round++) {
        uint8_t bytes[3][20];
        struct buffer table = {0};
        struct span parts[3];
        for (int i = 0; i < 3; i++) {
            size_t len = 1 + build_random(&seed) % (i ? 4 : 20);
            for (size_t j = 0; j < len; j++)
                bytes[i][j] = (uint8_t)alphabet[build_random(&seed) % (sizeof alphabet - 1)];
            parts[i] = (struct span){bytes[i], len};
            char name[] = {'p', (char)('0' + i), '\0'};
            build_field(&table, name, build_random(&seed) % 2 ? 'S' : 'x', parts[i]);
        }
        struct properties p = {0};
        build_set(&p, PROPERTY_HEADERS, buffer_span(&table));
        struct message *m = build_message_of(&p);
        assert_true(key_find(rule, m));
        struct buffer got[3] = {{0}, {0}, {0}};
        assert_int_equal(decode(m->key, got, 3), 3);
        for (int i = 0; i < 3; i++) {
            assert_true(span_equal(buffer_span(&got[i]), parts[i]));
            buffer_free(&got[i]);
        }
        buffer_free(&table);
        message_free(m);
    }
    key_rule_free(rule);
}

/* 200 bytes of text are the last that stand for themselves. */
static void replaces_a_long_text_by_its_digest(void **state)
{
    (void)state;
    uint8_t value[5000];
    memset(value, 'a', sizeof value);
    struct key_rule *rule = compile_one("header:x");
    struct message *m = message_with_header("x", 'S', (struct span){value, 200});
    assert_true(key_find(rule, m));
    assert_int_equal(m->key_len, 200);
    message_free(m);

    m = message_with_header("x", 'S', (struct span){value, 201});
    assert_key(rule, m, "sha256:a92efd82109373e58f9a2056dee01e807e216ce6075f7051207c0a9f7d666e50",
               0);
    message_free(m);

    value[0] = ',';
    m = message_with_header("x", 'S', (struct span){value, 198}); /* of text: 200 */
    assert_true(key_find(rule, m));
    assert_int_equal(m->key_len, 200);
    message_free(m);
    m = message_with_header("x", 'S', (struct span){value, 199});
    assert_true(key_find(rule, m));
    assert_int_equal(m->key_len, 71);
    message_free(m);

    /* The digest is of the text, so it tells bodies of one length apart down to the last byte. */
    m = message_with_header("x", 'S', (struct span){value, sizeof value});
    value[sizeof value - 1] = 'b';
    struct message *other = message_with_header("x", 'S', (struct span){value, sizeof value});
    assert_true(key_find(rule, m) && key_find(rule, other));
    assert_string_not_equal(m->key, other->key);
    message_free(m);
    message_free(other);
    key_rule_free(rule);
}

/* ---- Alternatives ---- */

static void takes_json_parts(void **state)
{
    (void)state;
    static const struct {
        const char *rule;
        const char *body;
        const char *want; /* NULL: it has no key */
    } cases[] = {
        {"json:/transaction/id", "{\"transaction\":{\"id\":\"tx 1\"}}", "tx~201"},
        {"json:/id", "{\"id\":\"a\\u0062\"}", "ab"},
        {"json:/id", "{\"id\":9007199254740993}", "9007199254740993"},
        {"json:/id", "{\"id\":1.0}", "1.0"}, /* a number's literal text */
        {"json:/id", "{\"id\":true}", "true"},
        {"json:/0/id", "[{\"id\":7}]", "7"},
        {"json:/id + json:/n", "{\"n\":false,\"id\":\"a,b\"}", "a~2Cb,false"},
        {"json:/id", "{\"id\":null}", NULL},
        {"json:/id", "{\"id\":\"\"}", NULL},
        {"json:/id", "{\"id\":{}}", NULL},
        {"json:/id", "{\"id\":[1]}", NULL},
        {"json:/id", "{\"Id\":1}", NULL},
        {"json:/id", "{\"id\":1", NULL},
        {"json:/id", "", NULL},
        {"body:json", " {\"b\":[1.0,2],\"a\":1e0} ",
         "sha256:8baa73198470c7bb4c3ce142a8fd651affc0310d878bb9bd159e37a573fb4874"},
        {"body:json", "{\"a\":1,\"a\":1}", NULL},
        {"body:json", "not JSON", NULL},
        {"body:json:/b", " {\"b\":[1.0 ,2],\"a\":1e0} ",
         "sha256:49a64717d5d4cb19952e6eac2946415cf6879adacf9908e7d872332d32c6e684"},
        {"body:json:/c", "{\"b\":1}", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct key_rule *rule = compile_one(cases[i].rule);
        struct buffer properties = {0};
        buffer_add_u16(&properties, 0);
        struct message *m = build_message("", "", buffer_span(&properties), span_of(cases[i].body));
        if (key_find(rule, m) != (cases[i].want != NULL))
            fail_msg("%s of %s: \"%s\"", cases[i].rule, cases[i].body, m->key);
        if (cases[i].want)
            assert_string_equal(m->key, cases[i].want);
        message_free(m);
        buffer_free(&properties);
        key_rule_free(rule);
    }
}

static void tries_alternatives_in_order(void **state)
{
    (void)state;
    struct key_rule *rule =
        compile((const char *const[]){"txn = header:x-transaction-id", "both = message_id + type",
                                      "txn = header:x-old-id", "msg = message_id", NULL});
    assert_int_equal(key_alternative_count(rule), 4);
    assert_string_equal(key_alternative_name(rule, 2), "txn");

    struct message *m = message_with_header("x-transaction-id", 'S', BYTES("001"));
    assert_key(rule, m, "txn:001", 0);
    message_free(m);
    m = message_with_header("x-old-id", 'S', BYTES("001")); /* equal names share their keys */
    assert_key(rule, m, "txn:001", 2);
    message_free(m);
    m = message_with_header("x-transaction-id", 'V', BYTES(""));
    assert_key(rule, m, "-", -1);
    message_free(m);

    struct properties p = {0};
    build_set(&p, PROPERTY_MESSAGE_ID, BYTES("001"));
    m = build_message_of(&p);
    assert_key(rule, m, "msg:001", 3);
    message_free(m);
    build_set(&p, PROPERTY_TYPE, BYTES("t"));
    m = build_message_of(&p);
    assert_key(rule, m, "both:001,t", 1);
    message_free(m);
    key_rule_free(rule);
}

static void has_room_for_the_longest(void **state)
{
    (void)state;
    uint8_t value[200];
    memset(value, 'v', sizeof value);
    struct key_rule *rule = compile((const char *const[]){
        "0123456789012345678901234567890123456789 = header:x", "b = message_id", NULL});
    struct message *m = message_with_header("x", 'S', (struct span){value, sizeof value});
    assert_true(key_find(rule, m));
    assert_int_equal(m->key_len, KEY_NAME_MAX + 1 + sizeof value);
    assert_int_equal(m->key[m->key_len], '\0');
    assert_int_equal(m->key[m->key_len - 1], 'v');
    message_free(m);
    key_rule_free(rule);
}

/* ---- Messages that are no help ---- */

static void finds_no_key_in_unreadable_properties(void **state)
{
    (void)state;
    struct key_rule *rule = compile_one("body");
    struct message *m = build_message("e", "r", BYTES("\0\2"), BYTES("body"));
    memcpy(m->key, "old", 4);
    m->key_len = 3;
    m->alternative = 0;
    assert_key(rule, m, "-", -1);
    assert_string_equal(m->key, "");
    message_free(m);
    key_rule_free(rule);
}

static void survives_random_bytes(void **state)
{
    (void)state;
    struct key_rule *rule = compile((const char *const[]){"a = header:x + header:y", "b = header:y",
                                                          "c = header:x", "d = message_id", NULL});
    uint32_t seed = 17;
    int found[5] = {0};
    for (int round = 0; round < 30000; round++) {
        struct buffer table = {0};
        char type = "tbBsuIilLfdDSxATFV"[build_random(&seed) % 18];
        build_number(&table, "x", type, 8, build_random(&seed));
        build_number(&table, "y", 'd', 8, (uint64_t)build_random(&seed) << 32);
        struct properties p = {0};
        build_set(&p, PROPERTY_HEADERS, buffer_span(&table));
        build_set(&p, PROPERTY_MESSAGE_ID, BYTES("id"));
        struct buffer encoded = {0};
        build_properties(&p, &encoded);
        for (uint32_t flips = build_random(&seed) % 4; flips > 0; flips--)
            encoded.data[build_random(&seed) % encoded.len] = (uint8_t)build_random(&seed);
        struct message *m = build_message("e", "k", buffer_span(&encoded), BYTES(""));
        bool has_key = key_find(rule, m);
        assert_int_equal(has_key, m->key_len > 0);
        assert_int_equal(strlen(m->key), m->key_len);
        found[m->alternative + 1]++;
        buffer_free(&encoded);
        buffer_free(&table);
        message_free(m);
    }
    for (size_t i = 0; i < COUNT(found); i++)
        assert_true(found[i] > 0);
    key_rule_free(rule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(explains_bad_rules),
        cmocka_unit_test(allows_sixteen_alternatives),
        cmocka_unit_test(reads_rules_as_written),
        cmocka_unit_test(takes_each_part),
        cmocka_unit_test(counts_empty_properties_as_missing),
        cmocka_unit_test(writes_headers_in_their_usual_text),
        cmocka_unit_test(writes_reals_in_shortest_exact_form),
        cmocka_unit_test(writes_reals_the_same_in_any_locale),
        cmocka_unit_test(writes_any_real_so_that_it_reads_back),
        cmocka_unit_test(writes_every_byte_as_the_design_says),
        cmocka_unit_test(never_gives_two_messages_one_key),
        cmocka_unit_test(replaces_a_long_text_by_its_digest),
        cmocka_unit_test(takes_json_parts),
        cmocka_unit_test(tries_alternatives_in_order),
        cmocka_unit_test(has_room_for_the_longest),
        cmocka_unit_test(finds_no_key_in_unreadable_properties),
        cmocka_unit_test(survives_random_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
