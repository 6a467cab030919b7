/* json: what is at a pointer, and what a string that is found there says. */
#include "json.h"
#include "memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

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
    static const struct {
        const char *in;
        const char *want;
    } pairs[] = {
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pointers),
        cmocka_unit_test(pointers_look_at_the_whole_document),
        cmocka_unit_test(bad_pointers),
        cmocka_unit_test(contents),
    };
    return cmocka_run_group_tests_name("json pointers", tests, NULL, NULL);
}
