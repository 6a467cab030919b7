/*
 * json: what is valid, and one spelling for everything that is the same. What is at a pointer is in
 * test_json_pointer.c, random documents are in test_json_random.c.
 */
#include "json_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

struct pair {
    const char *in;
    const char *want; /* NULL: not valid */
};

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
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
