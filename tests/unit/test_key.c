#include "key.h"

#include "../lib/amqp_build.h"
#include "headers.h"
#include "key_case.h"
#include "message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

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
    {{"txn: message_id", "type"}, 0, "\"txn: message_id\" is no key part; " WRITE},
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
