/* json: what is valid, what is at a pointer, and one spelling for everything that is the same. */
#include "json.h"
#include "memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

struct pair {
    const char *in;
    const char *want; /* NULL: not valid */
};

static char *canonical(struct span in)
{
    struct buffer out = {0};
    char *text = NULL;
    if (json_add_canonical(&out, in)) {
        buffer_add_u8(&out, 0);
        text = xstrdup((const char *)out.data);
    } else {
        assert_int_equal(out.len, 0);
    }
    buffer_free(&out);
    return text;
}

static void check_pairs(const struct pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *got = canonical(span_of(pairs[i].in));
        if ((got == NULL) != (pairs[i].want == NULL))
            fail_msg("%s is %s", pairs[i].in, got ? "valid" : "not valid");
        if (got && strcmp(got, pairs[i].want) != 0)
            fail_msg("%s became %s instead of %s", pairs[i].in, got, pairs[i].want);
        if (got) { /* It is a fixed point. */
            char *again = canonical(span_of(got));
            assert_string_equal(again, got);
            free(again);
        }
        free(got);
    }
}
#define CHECK(pairs) check_pairs(pairs, sizeof(pairs) / sizeof *(pairs))

static void structure(void **state)
{
    (void)state;
    static const struct pair pairs[] = {
        {"{}", "{}"},
        {" [ ] ", "[]"},
        {"[1 , [2,{}] ,\n\"x\"\t]", "[1,[2,{}],\"x\"]"},
        {"{\"b\":1,\"a\":{\"d\":[],\"c\":null}}", "{\"a\":{\"c\":null,\"d\":[]},\"b\":1}"},
        {"{\"\":1}", "{\"\":1}"},
        {"{\"\":\"\"}", "{\"\":\"\"}"},
        {"[\"\"]", "[\"\"]"},
        {"{\"a\":1,\"\":2,\"aa\":3,\"B\":4}", "{\"\":2,\"B\":4,\"a\":1,\"aa\":3}"},
        {"true", "true"},
        {"false", "false"},
        {"null", "null"},
        {"", NULL},
        {" ", NULL},
        {"{", NULL},
        {"[", NULL},
        {"]", NULL},
        {"[1,]", NULL},
        {"[,1]", NULL},
        {"[1 2]", NULL},
        {"[1}", NULL},
        {"{\"a\"}", NULL},
        {"{\"a\":}", NULL},
        {"{\"a\":1,}", NULL},
        {"{a:1}", NULL},
        {"{1:1}", NULL},
        {"{\"a\":1]", NULL},
        {"1 2", NULL},
        {"{} x", NULL},
        {"tru", NULL},
        {"True", NULL},
        {"nulll", NULL},
        {"NaN", NULL},
        {"Infinity", NULL},
        {"'a'", NULL},
        {"// c\n1", NULL},
        {"\xEF\xBB\xBF{}", NULL},
        {"\f1", NULL},
    };
    CHECK(pairs);
}

static void names(void **state)
{
    (void)state;
    static const struct pair pairs[] = {
        {"{\"a\":1,\"a\":1}", NULL},
        {"{\"a\":1,\"b\":2,\"\\u0061\":1}", NULL},
        {"{\"x\":{\"a\":1},\"y\":{\"a\":1}}", "{\"x\":{\"a\":1},\"y\":{\"a\":1}}"},
        {"[{\"z\":1,\"a\":{\"a\":0,\"a\":0}}]", NULL},
        {"{\"\\u00e9\":1,\"z\":2}", "{\"z\":2,\"\xC3\xA9\":1}"},
        /* By UTF-8 bytes, U+FB33 comes before U+1F600; by UTF-16 units it would be behind it. */
        {"{\"\\ud83d\\ude00\":1,\"\\ufb33\":2}", "{\"\xEF\xAC\xB3\":2,\"\xF0\x9F\x98\x80\":1}"},
        {"{\"a\\u0000b\":1,\"a\":2}", "{\"a\":2,\"a\\u0000b\":1}"},
    };
    CHECK(pairs);
}

static void strings(void **state)
{
    (void)state;
    static const struct pair pairs[] = {
        {"\"\\u0061\\/\\b\\f\\n\\r\\t\\\"\\\\\"", "\"a/\\b\\f\\n\\r\\t\\\"\\\\\""},
        {"\"\\u0000\\u001F\\u007f\"", "\"\\u0000\\u001f\x7f\""},
        {"\"\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\\"\\/\"",
         "\"\xE2\x82\xAC$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\""}, /* the string of RFC 8785, 3.2.2 */
        {"\"\\uD834\\uDD1E\"", "\"\xF0\x9D\x84\x9E\""},
        {"\"e\\u0301\"", "\"e\xCC\x81\""}, /* NFD stays NFD */
        {"\"\\uD834\"", NULL},
        {"\"\\uDD1E\"", NULL},
        {"\"\\uD834\\uD834\"", NULL},
        {"\"\\uD834x\"", NULL},
        {"\"\\u12g4\"", NULL},
        {"\"\\x41\"", NULL},
        {"\"\\", NULL},
        {"\"a", NULL},
        {"\"\n\"", NULL},
        {"\"\x1f\"", NULL},
        {"\"\xC0\x80\"", NULL},         /* overlong */
        {"\"\xE0\x9F\xBF\"", NULL},     /* overlong */
        {"\"\xED\xA0\x80\"", NULL},     /* a surrogate */
        {"\"\xF4\x90\x80\x80\"", NULL}, /* beyond U+10FFFF */
        {"\"\xF0\x9F\x98\"", NULL},
        {"\"\x80\"", NULL},
        {"\"\xFF\"", NULL},
    };
    CHECK(pairs);
}

static void numbers(void **state)
{
    (void)state;
    static const struct pair pairs[] = {
        {"[1,1.0,1e0,10e-1,0.1E+1,1000e-3]", "[1,1,1,1,1,1]"},
        {"[0,-0,0.0,0e5,-0.0e-7]", "[0,0,0,0,0]"},
        {"[9007199254740993,9007199254740992]", "[9007199254740993,9007199254740992]"},
        {"[0.1,1e-1,0.10]", "[0.1,0.1,0.1]"},
        {"-1.50", "-1.5"},
        {"100", "100"},
        {"1e20", "100000000000000000000"},
        {"1e21", "1e+21"},
        {"123456789012345678901234567890", "1.2345678901234567890123456789e+29"},
        {"0.000001", "0.000001"},
        {"0.0000001", "1e-7"},
        {"1.5e300", "1.5e+300"},
        {"1e999999999999999", "1e+999999999999999"},
        {"1e0000000000000000000002", "100"},
        {"333333333.33333329", "333333333.33333329"},
        {"4.50", "4.5"},
        {"2e-3", "0.002"},
        {"1e30", "1e+30"},
        {"0.000000000000000000000000001", "1e-27"},
        {"1e9999999999999999", NULL}, /* an exponent of 16 digits */
        {"01", NULL},
        {"-", NULL},
        {"-01", NULL},
        {"+1", NULL},
        {".5", NULL},
        {"1.", NULL},
        {"1.e5", NULL},
        {"1e", NULL},
        {"1e+", NULL},
        {"0x1", NULL},
        {"1_000", NULL},
        {"--1", NULL},
    };
    CHECK(pairs);
}

/* What RFC 8259 and RFC 8785 show, as far as it is the same here: see the comments. */
static void examples(void **state)
{
    (void)state;
    static const struct pair pairs[] = {
        /* RFC 8259, 13 */
        {"{ \"Image\": { \"Width\": 800, \"Height\": 600, \"Title\": \"View from 15th Floor\", "
         "\"Thumbnail\": { \"Url\": \"http://www.example.com/image/481989943\", \"Height\": 125, "
         "\"Width\": 100 }, \"Animated\" : false, \"IDs\": [116, 943, 234, 38793] } }",
         "{\"Image\":{\"Animated\":false,\"Height\":600,\"IDs\":[116,943,234,38793],"
         "\"Thumbnail\":{\"Height\":125,\"Url\":\"http://www.example.com/image/481989943\","
         "\"Width\":100},\"Title\":\"View from 15th Floor\",\"Width\":800}}"},
        {"[ { \"precision\": \"zip\", \"Latitude\": 37.7668, \"Longitude\": -122.3959 }, "
         "{ \"precision\": \"zip\", \"Latitude\": 37.371991, \"Longitude\": -122.026020 } ]",
         "[{\"Latitude\":37.7668,\"Longitude\":-122.3959,\"precision\":\"zip\"},"
         "{\"Latitude\":37.371991,\"Longitude\":-122.02602,\"precision\":\"zip\"}]"},
        {"\"Hello world!\"", "\"Hello world!\""},
        {"42", "42"},
        /* RFC 8785, 3.2.2; but the first number is not rounded to that of a double */
        {"{\n  \"numbers\": [333333333.33333329, 1E30, 4.50,\n 2e-3, "
         "0.000000000000000000000000001],\n"
         "  \"string\": \"\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\\"\\/\",\n"
         "  \"literals\": [null, true, false]\n}",
         "{\"literals\":[null,true,false],"
         "\"numbers\":[333333333.33333329,1e+30,4.5,0.002,1e-27],"
         "\"string\":\"\xE2\x82\xAC$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}"},
        /* RFC 8785, 3.2.3; but U+FB33 comes before U+1F600, as their bytes do */
        {"{\"\\u20ac\":\"Euro Sign\",\"\\r\":\"Carriage Return\",\"\\ufb33\":\"Hebrew\","
         "\"1\":\"One\",\"\\ud83d\\ude00\":\"Emoji\",\"\\u0080\":\"Control\","
         "\"\\u00f6\":\"Latin\"}",
         "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\xC2\x80\":\"Control\","
         "\"\xC3\xB6\":\"Latin\",\"\xE2\x82\xAC\":\"Euro Sign\",\"\xEF\xAC\xB3\":\"Hebrew\","
         "\"\xF0\x9F\x98\x80\":\"Emoji\"}"},
        /* RFC 8785, appendix B: the texts of doubles are spelled canonically, here as well */
        {"[5e-324,-5e-324,1.7976931348623157e+308,-1.7976931348623157e+308]",
         "[5e-324,-5e-324,1.7976931348623157e+308,-1.7976931348623157e+308]"},
        {"[9007199254740992,-9007199254740992,295147905179352830000]",
         "[9007199254740992,-9007199254740992,295147905179352830000]"},
        {"[9.999999999999997e+22,1e+23,1.0000000000000001e+23,999999999999999700000]",
         "[9.999999999999997e+22,1e+23,1.0000000000000001e+23,999999999999999700000]"},
        {"[999999999999999900000,1e+21,9.999999999999997e-7,0.000001]",
         "[999999999999999900000,1e+21,9.999999999999997e-7,0.000001]"},
        {"[333333333.3333332,333333333.33333325,-0.0000033333333333333333,1424953923781206.2]",
         "[333333333.3333332,333333333.33333325,-0.0000033333333333333333,1424953923781206.2]"},
    };
    CHECK(pairs);
}

static void depth(void **state)
{
    (void)state;
    for (size_t levels = JSON_DEPTH_MAX; levels <= JSON_DEPTH_MAX + 1; levels++) {
        struct buffer in = {0};
        for (size_t i = 0; i < levels; i++)
            buffer_add_u8(&in, '[');
        for (size_t i = 0; i < levels; i++)
            buffer_add_u8(&in, ']');
        char *out = canonical(buffer_span(&in));
        assert_int_equal(out != NULL, levels == JSON_DEPTH_MAX);
        free(out);
        buffer_free(&in);
    }
}

static void size(void **state)
{
    (void)state;
    struct buffer out = {0};
    struct json_value value;
    struct span too_long = {(const uint8_t *)"1", (size_t)JSON_SIZE_MAX + 1}; /* It is not read. */
    assert_false(json_add_canonical(&out, too_long));
    assert_int_equal(out.len, 0);
    assert_int_equal(json_find(too_long, NULL, &value), JSON_INVALID);
    buffer_free(&out);
}

/* Behind what is in the buffer already, and nothing behind that if it is not valid. */
static void is_appended(void **state)
{
    (void)state;
    struct buffer out = {0};
    buffer_add(&out, "{\"", 2);
    assert_true(json_add_canonical(&out, span_of("{\"b\":{\"y\":1,\"x\":2},\"a\":3}")));
    assert_false(json_add_canonical(&out, span_of("{\"b\":1,\"a\":{\"y\":1,\"x\":2},\"b\":4}")));
    assert_true(span_is(buffer_span(&out), "{\"{\"a\":3,\"b\":{\"x\":2,\"y\":1}}"));
    buffer_free(&out);
}

/* Objects in each other, around a long text: the name of each level's next one, and its other. */
static void nest(struct buffer *out, const char *inner, const char *other, size_t text)
{
    for (size_t i = 0; i < JSON_DEPTH_MAX; i++)
        buffer_printf(out, "{\"%s\":", inner);
    buffer_add_u8(out, '"');
    memset(buffer_reserve(out, text), 'x', text);
    out->len += text;
    buffer_add_u8(out, '"');
    for (size_t i = 0; i < JSON_DEPTH_MAX; i++)
        buffer_printf(out, ",\"%s\":0}", other);
}

static clock_t time_of(struct buffer *out, const struct buffer *document)
{
    clock_t begun = clock();
    assert_true(json_add_canonical(out, buffer_span(document)));
    return clock() - begun;
}

/* Whoever sends such a document must not keep the relay busy for longer than with another one. */
static void depth_does_not_multiply_the_cost_of_sorting(void **state)
{
    (void)state;
    struct buffer sorted = {0};
    struct buffer unsorted = {0};
    struct buffer a = {0};
    struct buffer b = {0};
    nest(&sorted, "a", "b", 16 << 20);
    nest(&unsorted, "b", "a", 16 << 20);
    clock_t usual = time_of(&a, &sorted);
    clock_t longest = time_of(&b, &unsorted);
    assert_true(span_equal(buffer_span(&a), buffer_span(&sorted)));
    assert_int_equal(b.len, unsorted.len);
    assert_memory_equal(b.data, "{\"a\":0,\"b\":{\"a\":0,\"b\":", 22);
    if (longest > 4 * usual + CLOCKS_PER_SEC / 10)
        fail_msg("%ld instead of %ld clocks", (long)longest, (long)usual);
    buffer_free(&sorted);
    buffer_free(&unsorted);
    buffer_free(&a);
    buffer_free(&b);
}

static void pointers(void **state)
{
    (void)state;
    static const char document[] =
        " {\"foo\":[\"bar\",\"baz\"],\"\":0,\"a/b\":1,\"c%d\":2,\"e^f\":3,\"g|h\":4,\"i\\\\j\":5,"
        "\"k\\\"l\":6,\" \":7,\"m~n\":8,\"deep\":{\"er\":[[{\"x\":1.0}]]},\"n\":null} ";
    static const struct {
        const char *pointer;
        const char *want; /* as it stands there; NULL: missing */
        enum json_type type;
    } cases[] = {
        {"/foo", "[\"bar\",\"baz\"]", JSON_ARRAY}, /* those of RFC 6901, 5 */
        {"/foo/0", "\"bar\"", JSON_STRING},
        {"/", "0", JSON_NUMBER},
        {"/a~1b", "1", JSON_NUMBER},
        {"/c%d", "2", JSON_NUMBER},
        {"/e^f", "3", JSON_NUMBER},
        {"/g|h", "4", JSON_NUMBER},
        {"/i\\j", "5", JSON_NUMBER},
        {"/k\"l", "6", JSON_NUMBER},
        {"/ ", "7", JSON_NUMBER},
        {"/m~0n", "8", JSON_NUMBER},
        {"/deep/er/0/0/x", "1.0", JSON_NUMBER},
        {"/deep/er/0", "[{\"x\":1.0}]", JSON_ARRAY},
        {"/n", "null", JSON_NULL},
        {"/foo/2", NULL, JSON_NULL},
        {"/foo/00", NULL, JSON_NULL},
        {"/foo/-", NULL, JSON_NULL},
        {"/foo/0/0", NULL, JSON_NULL},
        {"/deep/0", NULL, JSON_NULL},
        {"/er", NULL, JSON_NULL},
        {"/x", NULL, JSON_NULL},
        {"/deep/er/x", NULL, JSON_NULL},
        {"/Foo", NULL, JSON_NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *wrong;
        struct json_value value = {0};
        struct json_pointer *p = json_pointer_compile(span_of(cases[i].pointer), &wrong);
        assert_non_null(p);
        enum json_result result = json_find(span_of(document), p, &value);
        if (result != (cases[i].want ? JSON_FOUND : JSON_MISSING))
            fail_msg("%s: %d", cases[i].pointer, result);
        if (cases[i].want) {
            assert_true(span_is(value.text, cases[i].want));
            assert_int_equal(value.type, cases[i].type);
        }
        json_pointer_free(p);
    }
}

static void pointers_look_at_the_whole_document(void **state)
{
    (void)state;
    const char *wrong;
    struct json_value value;
    struct json_pointer *p = json_pointer_compile(span_of("/id"), &wrong);
    assert_int_equal(json_find(span_of("{\"id\":1,\"x\":tru}"), p, &value), JSON_INVALID);
    assert_int_equal(json_find(span_of("{\"id\":1,\"id\":2}"), p, &value), JSON_INVALID);
    assert_int_equal(json_find(span_of("{\"id\":1} {}"), p, &value), JSON_INVALID);
    assert_int_equal(json_find(span_of("5"), p, &value), JSON_MISSING);
    json_pointer_free(p);
    assert_int_equal(json_find(span_of(" 5 "), NULL, &value), JSON_FOUND);
    assert_true(span_is(value.text, "5"));
}

static void bad_pointers(void **state)
{
    (void)state;
    static const char *const bad[] = {"a", "a/b", "/~", "/a~2", "/~x/b", "#/a"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *wrong = NULL;
        assert_null(json_pointer_compile(span_of(bad[i]), &wrong));
        assert_non_null(wrong);
    }
}

static void contents(void **state)
{
    (void)state;
    static const struct pair pairs[] = {
        {"\"\"", ""},
        {"\"a\\u0062\\n\\u20AC\"", "ab\n\xE2\x82\xAC"},
        {"\"\\ud83d\\ude00\\/\"", "\xF0\x9F\x98\x80/"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct buffer out = {0};
        json_add_content(&out, span_of(pairs[i].in));
        assert_true(span_is(buffer_span(&out), pairs[i].want));
        buffer_free(&out);
    }
}

/* ---- Properties, over random documents ---- */

static uint64_t seed = 88172645463325252U;

static unsigned random_below(unsigned n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)(seed >> 33) % n;
}

static void blanks(struct buffer *out)
{
    while (random_below(3) == 0)
        buffer_add_u8(out, (uint8_t) " \t\n\r"[random_below(4)]);
}

/* One string, spelled in one of many ways. */
static void spell_string(struct buffer *out, const char *text)
{
    buffer_add_u8(out, '"');
    for (; *text; text++) {
        if (random_below(3) == 0)
            buffer_printf(out, random_below(2) ? "\\u%04x" : "\\u%04X", (unsigned char)*text);
        else
            buffer_add_u8(out, (uint8_t)*text);
    }
    buffer_add_u8(out, '"');
}

/* A whole number, spelled in one of many ways. */
static void spell_number(struct buffer *out, unsigned n)
{
    switch (random_below(6)) {
    case 0: buffer_printf(out, "%u", n); break;
    case 1: buffer_printf(out, "%u.0", n); break;
    case 2: buffer_printf(out, "%ue0", n); break;
    case 3: buffer_printf(out, n ? "%u00E-2" : "%u", n); break;
    case 4: buffer_printf(out, "%u.000e+0", n); break;
    default: buffer_printf(out, n ? "%u0e-1" : "%u", n); break;
    }
}

/* The document numbered `shape`: the same value each time, spelled anew; members in any order. */
static void spell_document(struct buffer *out, unsigned shape, unsigned levels)
{
    static const char *const names[] = {"id", "a", "amount", "z/~", "k"};
    unsigned count = shape % 5;
    blanks(out);
    if (levels == 0 || shape % 7 < 2) {
        if (shape % 2)
            spell_number(out, shape % 1000);
        else
            spell_string(out, names[count]);
    } else if (shape % 7 < 4) {
        buffer_add_u8(out, '[');
        for (unsigned i = 0; i < count; i++) {
            if (i)
                buffer_add_u8(out, ',');
            spell_document(out, shape / 3 + i * 11, levels - 1);
        }
        buffer_add_u8(out, ']');
    } else {
        unsigned first = count ? random_below(count) : 0;
        buffer_add_u8(out, '{');
        for (unsigned i = 0; i < count; i++) {
            unsigned k = (first + i) % count;
            if (i)
                buffer_add_u8(out, ',');
            blanks(out);
            spell_string(out, names[k]);
            blanks(out);
            buffer_add_u8(out, ':');
            spell_document(out, shape / 2 + k * 13, levels - 1);
        }
        buffer_add_u8(out, '}');
    }
    blanks(out);
}

static void the_same_value_has_one_form(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 5000; round++) {
        unsigned shape = random_below(100000);
        struct buffer a = {0};
        struct buffer b = {0};
        spell_document(&a, shape, 4);
        spell_document(&b, shape, 4);
        char *x = canonical(buffer_span(&a));
        char *y = canonical(buffer_span(&b));
        assert_non_null(x);
        assert_non_null(y);
        if (strcmp(x, y) != 0)
            fail_msg("%.*s and %.*s: %s and %s", (int)a.len, (char *)a.data, (int)b.len,
                     (char *)b.data, x, y);
        free(x);
        free(y);
        buffer_free(&a);
        buffer_free(&b);
    }
}

/* Whatever bytes come: no crash, no read beyond the end, and valid stays valid. */
static void survives_changed_bytes(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 20000; round++) {
        struct buffer a = {0};
        spell_document(&a, random_below(100000), 3);
        for (unsigned n = random_below(4); n > 0; n--)
            a.data[random_below((unsigned)a.len)] = (uint8_t)random_below(256);
        size_t len = random_below(4) ? a.len : random_below((unsigned)a.len);
        uint8_t *exact = xmalloc(len);
        memcpy(exact, a.data, len);
        struct buffer once = {0};
        struct buffer twice = {0};
        if (json_add_canonical(&once, (struct span){exact, len})) {
            assert_true(json_add_canonical(&twice, buffer_span(&once)));
            assert_true(span_equal(buffer_span(&once), buffer_span(&twice)));
        }
        free(exact);
        buffer_free(&a);
        buffer_free(&once);
        buffer_free(&twice);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structure),
        cmocka_unit_test(names),
        cmocka_unit_test(strings),
        cmocka_unit_test(numbers),
        cmocka_unit_test(examples),
        cmocka_unit_test(depth),
        cmocka_unit_test(size),
        cmocka_unit_test(is_appended),
        cmocka_unit_test(depth_does_not_multiply_the_cost_of_sorting),
        cmocka_unit_test(pointers),
        cmocka_unit_test(pointers_look_at_the_whole_document),
        cmocka_unit_test(bad_pointers),
        cmocka_unit_test(contents),
        cmocka_unit_test(the_same_value_has_one_form),
        cmocka_unit_test(survives_changed_bytes),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
