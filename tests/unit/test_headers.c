#include "headers.h"

#include "../lib/amqp_build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <amqp.h>
#include <amqp_framing.h>
#include <cmocka.h>

static void assert_span(struct span got, struct span want)
{
    assert_int_equal(got.len, want.len);
    if (want.len)
        assert_memory_equal(got.data, want.data, want.len);
}

/* ---- Properties ---- */

static amqp_bytes_t text(const char *s)
{
    return amqp_cstring_bytes(s);
}

/* Another implementation wrote them: rabbitmq-c. */
static void reads_what_rabbitmq_c_writes(void **state)
{
    (void)state;
    amqp_basic_properties_t p = {
        ._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_CONTENT_ENCODING_FLAG |
                  AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG |
                  AMQP_BASIC_PRIORITY_FLAG | AMQP_BASIC_CORRELATION_ID_FLAG |
                  AMQP_BASIC_REPLY_TO_FLAG | AMQP_BASIC_EXPIRATION_FLAG |
                  AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_TIMESTAMP_FLAG | AMQP_BASIC_TYPE_FLAG |
                  AMQP_BASIC_USER_ID_FLAG | AMQP_BASIC_APP_ID_FLAG | AMQP_BASIC_CLUSTER_ID_FLAG,
        .content_type = text("a"),
        .content_encoding = text("bb"),
        .delivery_mode = 2,
        .priority = 9,
        .correlation_id = text("ccc"),
        .reply_to = text("d"),
        .expiration = text("60000"),
        .message_id = text(""),
        .timestamp = 0x0102030405060708,
        .type = text("e"),
        .user_id = text("f"),
        .app_id = text("g"),
        .cluster_id = text("h")};
    uint8_t bytes[256];
    int len = amqp_encode_properties(AMQP_BASIC_CLASS, &p, (amqp_bytes_t){sizeof bytes, bytes});
    assert_true(len > 0);

    struct properties got;
    assert_true(properties_read((struct span){bytes, (size_t)len}, &got));
    static const struct {
        const char *bytes;
        size_t len;
    } want[PROPERTY_COUNT] = {
        {"a", 1},   {"bb", 2}, {"", 0},      {"\2", 1}, {"\11", 1},
        {"ccc", 3}, {"d", 1},  {"60000", 5}, {"", 0},   {"\1\2\3\4\5\6\7\10", 8},
        {"e", 1},   {"f", 1},  {"g", 1},     {"h", 1}};
    for (int i = 0; i < PROPERTY_COUNT; i++) {
        assert_true(got.present[i]);
        assert_span(got.value[i], (struct span){(const uint8_t *)want[i].bytes, want[i].len});
    }
    for (int shorter = 0; shorter < len; shorter++)
        assert_false(properties_read((struct span){bytes, (size_t)shorter}, &got));
}

static void reads_each_property_alone(void **state)
{
    (void)state;
    for (int i = 0; i < PROPERTY_COUNT; i++) {
        bool is_number = i == PROPERTY_DELIVERY_MODE || i == PROPERTY_PRIORITY;
        struct span value = is_number                 ? BYTES("\1")
                            : i == PROPERTY_TIMESTAMP ? BYTES("12345678")
                                                      : BYTES("");
        struct properties p = {0};
        struct buffer encoded = {0};
        build_set(&p, (enum property)i, value);
        build_properties(&p, &encoded);
        struct properties got;
        assert_true(properties_read(buffer_span(&encoded), &got));
        for (int j = 0; j < PROPERTY_COUNT; j++)
            assert_int_equal(got.present[j], i == j);
        assert_span(got.value[i], value);
        buffer_free(&encoded);
    }
}

static void refuses_what_is_no_property_list(void **state)
{
    (void)state;
    static const struct {
        const char *label;
        struct span in;
        bool want;
    } cases[] = {
        {"no properties", {(const uint8_t *)"\0\0", 2}, true},
        {"nothing", {(const uint8_t *)"", 0}, false},
        {"half the flags", {(const uint8_t *)"\0", 1}, false},
        {"bytes behind the list", {(const uint8_t *)"\0\0x", 3}, false},
        {"the flag of more flags", {(const uint8_t *)"\0\1\0\0", 4}, false},
        {"a flag without meaning", {(const uint8_t *)"\0\2", 2}, false},
        {"a message id", {(const uint8_t *)"\0\x80\1a", 4}, true},
        {"a message id that is cut", {(const uint8_t *)"\0\x80\2a", 4}, false},
        {"a message id without length", {(const uint8_t *)"\0\x80", 2}, false},
        {"an empty table", {(const uint8_t *)"\x20\0\0\0\0\0", 6}, true},
        {"a table that is cut", {(const uint8_t *)"\x20\0\0\0\0\1", 6}, false},
        {"a table of 4 GiB", {(const uint8_t *)"\x20\0\xff\xff\xff\xff\0", 7}, false},
        {"a table's length that is cut", {(const uint8_t *)"\x20\0\0\0\0", 5}, false},
        {"a timestamp that is cut", {(const uint8_t *)"\0\x40\1\2\3\4\5\6\7", 9}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct properties got;
        if (properties_read(cases[i].in, &got) != cases[i].want)
            fail_msg("%s", cases[i].label);
    }
}

/* ---- Tables ---- */

/* Every type, name and value as they are to be read. */
static const struct {
    char type;
    struct span value;
} every_type[] = {
    {'t', {(const uint8_t *)"\1", 1}},
    {'b', {(const uint8_t *)"\xff", 1}},
    {'B', {(const uint8_t *)"\xff", 1}},
    {'s', {(const uint8_t *)"\xff\xfe", 2}},
    {'u', {(const uint8_t *)"\xff\xfe", 2}},
    {'I', {(const uint8_t *)"\xff\1\2\3", 4}},
    {'i', {(const uint8_t *)"\xff\1\2\3", 4}},
    {'l', {(const uint8_t *)"\xff\1\2\3\4\5\6\7", 8}},
    {'L', {(const uint8_t *)"\xff\1\2\3\4\5\6\7", 8}},
    {'f', {(const uint8_t *)"\x3f\x80\0\0", 4}},
    {'d', {(const uint8_t *)"\x3f\xf0\0\0\0\0\0\0", 8}},
    {'D', {(const uint8_t *)"\2\0\0\x30\x39", 5}},
    {'S', {(const uint8_t *)"a\0b", 3}},
    {'S', {(const uint8_t *)"", 0}},
    {'x', {(const uint8_t *)"\0\xff", 2}},
    {'A', {(const uint8_t *)"t\1V", 3}},
    {'A', {(const uint8_t *)"", 0}},
    {'T', {(const uint8_t *)"\0\0\0\0\x65\0\0\0", 8}},
    {'F', {(const uint8_t *)"\1aV", 3}},
    {'F', {(const uint8_t *)"?not a table", 12}}, /* what is inside is nobody's business here */
    {'V', {(const uint8_t *)"", 0}},
};
#define TYPES (sizeof every_type / sizeof *every_type)

static void walks_every_type(void **state)
{
    (void)state;
    struct buffer table = {0};
    struct buffer array = {0};
    for (size_t i = 0; i < TYPES; i++) {
        build_field(&table, "name", every_type[i].type, every_type[i].value);
        build_value(&array, every_type[i].type, every_type[i].value);
    }
    struct span rest = buffer_span(&table);
    struct span items = buffer_span(&array);
    struct header h;
    for (size_t i = 0; i < TYPES; i++) {
        const uint8_t *start = rest.data;
        assert_true(header_next(&rest, &h));
        assert_int_equal(h.type, every_type[i].type);
        assert_span(h.value, every_type[i].value);
        assert_true(span_is(h.name, "name"));
        assert_ptr_equal(h.whole.data, start);
        assert_ptr_equal(h.whole.data + h.whole.len, rest.data);

        assert_true(array_next(&items, &h));
        assert_int_equal(h.type, every_type[i].type);
        assert_span(h.value, every_type[i].value);
        assert_int_equal(h.name.len, 0);
    }
    assert_false(header_next(&rest, &h));
    assert_int_equal(rest.len, 0);
    assert_false(array_next(&items, &h));
    assert_int_equal(items.len, 0);
    buffer_free(&table);
    buffer_free(&array);
}

/* Cut anywhere, a table gives its whole fields and then says that it is broken. */
static void sees_where_a_table_is_cut(void **state)
{
    (void)state;
    struct buffer table = {0};
    for (size_t i = 0; i < TYPES; i++)
        build_field(&table, "n", every_type[i].type, every_type[i].value);
    for (size_t len = 0; len < table.len; len++) {
        uint8_t *exact = xmalloc(len); /* so that the sanitizer sees a byte read too many */
        memcpy(exact, table.data, len);
        struct span rest = {exact, len};
        struct header h;
        size_t walked = 0;
        while (header_next(&rest, &h))
            walked += h.whole.len;
        assert_int_equal(walked + rest.len, len);
        struct span whole = buffer_span(&table);
        bool at_a_border = false;
        for (size_t at = 0; at <= len && header_next(&whole, &h); at += h.whole.len)
            at_a_border |= at == len;
        assert_int_equal(rest.len == 0, at_a_border);
        free(exact);
    }
    buffer_free(&table);
}

static void stops_at_an_unknown_type(void **state)
{
    (void)state;
    for (int type = 0; type < 256; type++) {
        bool known = type && strchr("tbBsuIilLfdDSxATFV", type);
        struct buffer table = {0};
        build_text(&table, "first", "x");
        buffer_add(&table, "\1n", 2);
        buffer_add_u8(&table, (uint8_t)type);
        buffer_add_u64(&table, 0);
        struct span rest = buffer_span(&table);
        struct header h;
        assert_true(header_next(&rest, &h));
        assert_int_equal(header_next(&rest, &h), known);
        if (!known)
            assert_int_equal(rest.len, 11);
        buffer_free(&table);
    }
}

/* A table in a table, a hundred thousand deep: passed over in one step. */
static void is_not_impressed_by_depth(void **state)
{
    (void)state;
    enum { DEPTH = 100000 };
    struct buffer table = {0};
    for (uint32_t left = DEPTH; left > 0; left--) {
        buffer_add(&table, "\1nF", 3);
        buffer_add_u32(&table, (left - 1) * 7);
    }
    build_text(&table, "after", "x");
    struct span rest = buffer_span(&table);
    struct header h;
    assert_true(header_next(&rest, &h));
    assert_int_equal(h.type, 'F');
    assert_int_equal(h.value.len, (DEPTH - 1) * 7);
    assert_true(header_next(&rest, &h));
    assert_true(span_is(h.name, "after"));
    assert_int_equal(rest.len, 0);
    buffer_free(&table);
}

static void finds_by_exact_name(void **state)
{
    (void)state;
    struct buffer table = {0};
    build_text(&table, "X-Id", "wrong case");
    build_text(&table, "x-i", "too short");
    build_text(&table, "x-id", "first");
    build_text(&table, "x-id", "second");
    struct header h;
    assert_true(header_find(buffer_span(&table), span_of("x-id"), &h));
    assert_true(span_is(h.value, "first"));
    assert_false(header_find(buffer_span(&table), span_of("x-ID"), &h));
    assert_false(header_find(buffer_span(&table), span_of(""), &h));
    assert_false(header_find((struct span){0}, span_of("x-id"), &h));
    buffer_free(&table);
}

/* ---- Comparing ---- */

#define FIELDS(literal)                                                                            \
    {                                                                                              \
        (const uint8_t *)(literal), sizeof(literal) - 1                                            \
    }

/* Properties with these headers, as one string of bytes: flags, length, table. */
static struct buffer with_headers(struct span table)
{
    struct properties p = {0};
    struct buffer out = {0};
    build_set(&p, PROPERTY_HEADERS, table);
    build_properties(&p, &out);
    return out;
}

static void knows_a_message_that_was_written_anew(void **state)
{
    (void)state;
    static const struct {
        const char *label;
        struct span a, b;
        bool want;
    } cases[] = {
        {"the same bytes", FIELDS("\1bt\1\1aV"), FIELDS("\1bt\1\1aV"), true},
        {"sorted", FIELDS("\1bt\1\1aV"), FIELDS("\1aV\1bt\1"), true},
        {"sorted, by length", FIELDS("\2aaV\1aV\0V"), FIELDS("\0V\1aV\2aaV"), true},
        {"another value", FIELDS("\1bt\1\1aV"), FIELDS("\1aV\1bt\0"), false},
        {"another name", FIELDS("\1bt\1\1aV"), FIELDS("\1aV\1ct\1"), false},
        {"another type", FIELDS("\1ab\1"), FIELDS("\1aB\1"), false},
        {"one less", FIELDS("\1bt\1\1aV"), FIELDS("\1aV"), false},
        {"the first of a name", FIELDS("\1bV\1ab\1\1ab\2"), FIELDS("\1ab\1\1bV"), true},
        {"the second of a name", FIELDS("\1bV\1ab\1\1ab\2"), FIELDS("\1ab\2\1bV"), false},
        {"true is true", FIELDS("\1bV\1at\2"), FIELDS("\1at\1\1bV"), true},
        {"a long is a long", FIELDS("\1aL12345678"), FIELDS("\1al12345678"), true},
        {"both are broken", FIELDS("\1aV\1bZ"), FIELDS("\1bZ\1aV"), false},
        {"broken, but the same", FIELDS("\1bZ"), FIELDS("\1bZ"), true},
        {"nothing", FIELDS(""), FIELDS(""), true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buffer a = with_headers(cases[i].a);
        struct buffer b = with_headers(cases[i].b);
        if (properties_same(buffer_span(&a), buffer_span(&b)) != cases[i].want ||
            properties_same(buffer_span(&b), buffer_span(&a)) != cases[i].want)
            fail_msg("%s", cases[i].label);
        buffer_free(&a);
        buffer_free(&b);
    }
    assert_true(properties_same(BYTES("\1\0\4"
                                      "0060"),
                                BYTES("\1\0\2"
                                      "60")));
    assert_false(properties_same(BYTES("\1\0\4"
                                       "0061"),
                                 BYTES("\1\0\2"
                                       "60")));
    assert_false(properties_same(BYTES("\1\0\1"
                                       "0"),
                                 BYTES("\0\0")));
    assert_false(properties_same(BYTES("\0\200\1"
                                       "a"),
                                 BYTES("\0\200\1"
                                       "b")));
    assert_false(properties_same(BYTES("\0"), BYTES("\1")));
}

/* ---- Integers ---- */

static void reads_integers(void **state)
{
    (void)state;
    static const struct {
        char type;
        bool want;
        struct span value;
        int64_t number;
    } cases[] = {
        {'b', true, {(const uint8_t *)"\x80", 1}, -128},
        {'b', true, {(const uint8_t *)"\x7f", 1}, 127},
        {'B', true, {(const uint8_t *)"\x80", 1}, 128},
        {'s', true, {(const uint8_t *)"\xff\xfe", 2}, -2},
        {'u', true, {(const uint8_t *)"\xff\xfe", 2}, 65534},
        {'I', true, {(const uint8_t *)"\x80\0\0\0", 4}, INT32_MIN},
        {'i', true, {(const uint8_t *)"\x80\0\0\0", 4}, 2147483648},
        {'l', true, {(const uint8_t *)"\x80\0\0\0\0\0\0\0", 8}, INT64_MIN},
        {'L', true, {(const uint8_t *)"\xff\xff\xff\xff\xff\xff\xff\xff", 8}, -1},
        {'l', true, {(const uint8_t *)"\x7f\xff\xff\xff\xff\xff\xff\xff", 8}, INT64_MAX},
        {'T', true, {(const uint8_t *)"\0\0\0\0\0\0\1\0", 8}, 256},
        {'T', false, {(const uint8_t *)"\x80\0\0\0\0\0\0\0", 8}, 0},
        {'S', true, {(const uint8_t *)"007", 3}, 7},
        {'x', true, {(const uint8_t *)"12", 2}, 12},
        {'S', true, {(const uint8_t *)"9223372036854775807", 19}, INT64_MAX},
        {'S', false, {(const uint8_t *)"9223372036854775808", 19}, 0},
        {'S', false, {(const uint8_t *)"99999999999999999999", 20}, 0},
        {'S', false, {(const uint8_t *)"", 0}, 0},
        {'S', false, {(const uint8_t *)"-1", 2}, 0},
        {'S', false, {(const uint8_t *)"+1", 2}, 0},
        {'S', false, {(const uint8_t *)" 1", 2}, 0},
        {'S', false, {(const uint8_t *)"1\0", 2}, 0},
        {'S', false, {(const uint8_t *)"1.0", 3}, 0},
        {'t', false, {(const uint8_t *)"\1", 1}, 0},
        {'d', false, {(const uint8_t *)"\x3f\xf0\0\0\0\0\0\0", 8}, 0},
        {'D', false, {(const uint8_t *)"\0\0\0\0\1", 5}, 0},
        {'V', false, {(const uint8_t *)"", 0}, 0},
        {'A', false, {(const uint8_t *)"", 0}, 0},
        {'F', false, {(const uint8_t *)"", 0}, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct header h = {.type = (uint8_t)cases[i].type, .value = cases[i].value};
        int64_t got = 0;
        if (header_integer(&h, &got) != cases[i].want || (cases[i].want && got != cases[i].number))
            fail_msg("case %zu of type %c gave %lld", i, cases[i].type, (long long)got);
    }
}

/* ---- Writing ---- */

static void writes_what_rabbitmq_c_reads(void **state)
{
    (void)state;
    struct buffer table = {0};
    buffer_add_u32(&table, 0);
    header_add_text(&table, "text", BYTES("a\0b"));
    header_add_text(&table, "empty", BYTES(""));
    header_add_integer(&table, "integer", -1782640800123);
    header_add_true(&table, "true");
    table.data[3] = (uint8_t)(table.len - 4);

    amqp_pool_t pool;
    init_amqp_pool(&pool, 4096);
    amqp_table_t got;
    size_t offset = 0;
    int status = amqp_decode_table((amqp_bytes_t){table.len, table.data}, &pool, &got, &offset);
    assert_int_equal(status, AMQP_STATUS_OK);
    assert_int_equal(offset, table.len);
    assert_int_equal(got.num_entries, 4);
    assert_int_equal(got.entries[0].value.kind, AMQP_FIELD_KIND_UTF8);
    assert_int_equal(got.entries[0].value.value.bytes.len, 3);
    assert_memory_equal(got.entries[0].value.value.bytes.bytes, "a\0b", 3);
    assert_int_equal(got.entries[1].value.value.bytes.len, 0);
    assert_int_equal(got.entries[2].value.kind, AMQP_FIELD_KIND_I64);
    assert_true(got.entries[2].value.value.i64 == -1782640800123);
    assert_int_equal(got.entries[3].value.kind, AMQP_FIELD_KIND_BOOLEAN);
    assert_true(got.entries[3].value.value.boolean);
    empty_amqp_pool(&pool);
    buffer_free(&table);
}

/* ---- Anything at all ---- */

static void survives_random_bytes(void **state)
{
    (void)state;
    uint32_t seed = 4711;
    for (int round = 0; round < 20000; round++) {
        size_t len = build_random(&seed) % 48;
        uint8_t *bytes = xmalloc(len);
        for (size_t i = 0; i < len; i++) /* small numbers and known types, to get far */
            bytes[i] = build_random(&seed) % 2
                           ? (uint8_t)(build_random(&seed) % 6)
                           : (uint8_t) "tbBsuIilLfdDSxATFV"[build_random(&seed) % 18];
        struct span all = {bytes, len};
        struct properties p;
        bool readable = properties_read(all, &p);
        for (int i = 0; readable && i < PROPERTY_COUNT; i++)
            assert_true(!p.present[i] || (p.value[i].data >= bytes &&
                                          p.value[i].data + p.value[i].len <= bytes + len));
        struct span rest = all;
        struct header h;
        int64_t number;
        while (header_next(&rest, &h)) {
            assert_true(h.whole.len >= 2 && h.value.len < h.whole.len);
            assert_ptr_equal(h.value.data + h.value.len, rest.data);
            (void)header_integer(&h, &number);
        }
        rest = all;
        while (array_next(&rest, &h))
            assert_ptr_equal(h.value.data + h.value.len, rest.data);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_rabbitmq_c_writes),
        cmocka_unit_test(reads_each_property_alone),
        cmocka_unit_test(refuses_what_is_no_property_list),
        cmocka_unit_test(walks_every_type),
        cmocka_unit_test(sees_where_a_table_is_cut),
        cmocka_unit_test(stops_at_an_unknown_type),
        cmocka_unit_test(is_not_impressed_by_depth),
        cmocka_unit_test(finds_by_exact_name),
        cmocka_unit_test(knows_a_message_that_was_written_anew),
        cmocka_unit_test(reads_integers),
        cmocka_unit_test(writes_what_rabbitmq_c_reads),
        cmocka_unit_test(survives_random_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
