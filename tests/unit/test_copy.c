#include "copy.h"

#include "../lib/amqp_build.h"
#include "copy_case.h"
#include "headers.h"
#include "message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <amqp.h>
#include <amqp_framing.h>
#include <cmocka.h>

/* ---- What stays ---- */

static void keeps_presence_and_bytes_of_properties(void **state)
{
    (void)state;
    uint32_t seed = 7;
    for (int round = 0; round < 2000; round++) {
        struct properties in = {0};
        uint8_t bytes[PROPERTY_COUNT][255];
        for (int i = 0; i < PROPERTY_COUNT; i++) {
            if (i == PROPERTY_HEADERS || i == PROPERTY_USER_ID || build_random(&seed) % 2)
                continue;
            size_t len = build_random(&seed) % 4 ? build_random(&seed) % 8 : 255;
            if (i == PROPERTY_DELIVERY_MODE || i == PROPERTY_PRIORITY)
                len = 1;
            if (i == PROPERTY_TIMESTAMP)
                len = 8;
            for (size_t j = 0; j < len; j++)
                bytes[i][j] = (uint8_t)build_random(&seed);
            build_set(&in, (enum property)i, (struct span){bytes[i], len});
        }
        struct message *m = build_message_of(&in);
        struct buffer written = {0};
        assert_int_equal(copy_write(m, &plain_copy, "r", "relay", NO_LIMIT, &written), COPY_OK);
        struct properties out = read_copy(&written, m);
        for (int i = 0; i < PROPERTY_COUNT; i++) {
            assert_int_equal(out.present[i], i == PROPERTY_HEADERS || in.present[i]);
            assert_true(i == PROPERTY_HEADERS || span_equal(out.value[i], in.value[i]));
        }
        buffer_free(&written);
        message_free(m);
    }
}

static void keeps_headers_of_every_type_in_order(void **state)
{
    (void)state;
    static const struct {
        char type;
        struct span value;
    } types[] = {
        {'t', {(const uint8_t *)"\7", 1}}, /* true, but not spelled as we would */
        {'b', {(const uint8_t *)"\xff", 1}},
        {'B', {(const uint8_t *)"\xff", 1}},
        {'s', {(const uint8_t *)"\xff\1", 2}},
        {'u', {(const uint8_t *)"\xff\1", 2}},
        {'I', {(const uint8_t *)"\xff\1\2\3", 4}},
        {'i', {(const uint8_t *)"\xff\1\2\3", 4}},
        {'l', {(const uint8_t *)"\xff\1\2\3\4\5\6\7", 8}},
        {'L', {(const uint8_t *)"\xff\1\2\3\4\5\6\7", 8}},
        {'f', {(const uint8_t *)"\x7f\x80\0\0", 4}},
        {'d', {(const uint8_t *)"\x7f\xf8\0\0\0\0\0\1", 8}},
        {'D', {(const uint8_t *)"\xff\0\0\x30\x39", 5}},
        {'S', {(const uint8_t *)"a\0\xff", 3}},
        {'x', {(const uint8_t *)"", 0}},
        {'A', {(const uint8_t *)"t\1V", 3}},
        {'T', {(const uint8_t *)"\xff\0\0\0\0\0\0\0", 8}},
        {'F', {(const uint8_t *)"\7x-deathV", 9}}, /* taken out at the top only */
        {'V', {(const uint8_t *)"", 0}},
    };
    struct buffer table = {0};
    for (size_t i = sizeof types / sizeof *types; i-- > 0;)
        build_field(&table, "z", types[i].type, types[i].value);
    build_text(&table, "", "no name");
    struct message *m = message_with_headers(buffer_span(&table));
    struct buffer got = copied_headers(m, &plain_copy);
    build_own(&table, NULL);
    assert_buffer(&got, &table);
    buffer_free(&got);
    buffer_free(&table);
    message_free(m);
}

static void adds_headers_where_there_were_none(void **state)
{
    (void)state;
    struct properties none = {0};
    struct message *without = build_message_of(&none);
    struct message *empty = message_with_headers(BYTES(""));
    struct buffer want = {0};
    build_own(&want, NULL);
    struct buffer got = copied_headers(without, &plain_copy);
    assert_buffer(&got, &want);
    buffer_free(&got);
    got = copied_headers(empty, &plain_copy);
    assert_buffer(&got, &want);
    buffer_free(&got);
    buffer_free(&want);
    message_free(without);
    message_free(empty);
}

static void says_the_bodys_size(void **state)
{
    (void)state;
    struct message *m = build_message("", "", BYTES("\0\0"), BYTES("five!"));
    struct buffer written = {0};
    assert_int_equal(copy_write(m, &plain_copy, "r", "relay", NO_LIMIT, &written), COPY_OK);
    read_copy(&written, m);
    assert_int_equal(written.data[11], 5);
    buffer_free(&written);
    message_free(m);
}

/* ---- What is taken out ---- */

static void takes_out_what_would_harm(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool stays;
    } cases[] = {
        {"CC", false},
        {"BCC", false},
        {"x-death", false},
        {"x-first-death-queue", false},
        {"x-first-death-", false},
        {"x-last-death-exchange", false},
        {"x-delivery-count", false},
        {"x-acquired-count", false},
        {"x-onlyonce-route", false},
        {"x-onlyonce-reason", false},
        {"x-onlyonce-in-doubt", false},
        {"x-onlyonce-of-tomorrow", false},
        {"x-onlyonce-", false},
        {"cc", true},
        {"Cc", true},
        {"CCC", true},
        {"C", true},
        {"", true},
        {"X-Death", true},
        {"x-deaths", true},
        {"x-deat", true},
        {"x-first-death", true},
        {"x-last-death", true},
        {"x-delivery-counts", true},
        {"x-onlyonce", true},
        {"X-Onlyonce-Route", true},
        {"x-received-from", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buffer table = {0};
        struct buffer want = {0};
        build_text(&table, "a", "before");
        build_text(&table, cases[i].name, "value");
        build_number(&table, cases[i].name, 'l', 8, 5);
        build_text(&table, "z", "after");
        build_text(&want, "a", "before");
        if (cases[i].stays) {
            build_text(&want, cases[i].name, "value");
            build_number(&want, cases[i].name, 'l', 8, 5);
        }
        build_text(&want, "z", "after");
        build_own(&want, NULL);
        struct message *m = message_with_headers(buffer_span(&table));
        struct buffer got = copied_headers(m, &plain_copy);
        if (!span_equal(buffer_span(&got), buffer_span(&want)))
            fail_msg("%s", cases[i].name);
        buffer_free(&got);
        buffer_free(&want);
        buffer_free(&table);
        message_free(m);
    }
}

static void keeps_only_its_own_user_id(void **state)
{
    (void)state;
    static const struct {
        const char *user;
        bool stays;
    } cases[] = {
        {"relay", true}, {"guest", false}, {"relay2", false}, {"rela", false}, {"", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct properties in = {0};
        build_set(&in, PROPERTY_USER_ID, span_of(cases[i].user));
        build_set(&in, PROPERTY_APP_ID, BYTES("app"));
        struct message *m = build_message_of(&in);
        struct buffer written = {0};
        assert_int_equal(copy_write(m, &plain_copy, "r", "relay", NO_LIMIT, &written), COPY_OK);
        struct properties out = read_copy(&written, m);
        assert_int_equal(out.present[PROPERTY_USER_ID], cases[i].stays);
        assert_true(!cases[i].stays || span_is(out.value[PROPERTY_USER_ID], "relay"));
        assert_true(span_is(out.value[PROPERTY_APP_ID], "app"));
        buffer_free(&written);
        message_free(m);
    }
}

/* ---- What fits ---- */

static size_t write_within(const struct message *m, size_t max, enum copy_result want)
{
    struct buffer out = {0};
    buffer_add(&out, "before", 6);
    assert_int_equal(copy_write(m, &plain_copy, "r", "relay", max, &out), want);
    assert_memory_equal(out.data, "before", 6);
    size_t len = out.len - 6;
    assert_true(len <= max);
    buffer_free(&out);
    return len;
}

static void leaves_out_the_key_and_nothing_else(void **state)
{
    (void)state;
    struct message *m = message_with_headers(BYTES("\1aV"));
    set_key(m, "txn:001");
    size_t key_len = 1 + strlen("x-onlyonce-key") + 1 + 4 + strlen("txn:001");
    size_t with_key = write_within(m, NO_LIMIT, COPY_OK);
    assert_int_equal(write_within(m, with_key, COPY_OK), with_key);
    size_t without_key = write_within(m, with_key - 1, COPY_WITHOUT_KEY);
    assert_int_equal(without_key, with_key - key_len);
    assert_int_equal(write_within(m, without_key, COPY_WITHOUT_KEY), without_key);
    assert_int_equal(write_within(m, without_key - 1, COPY_TOO_LARGE), 0);
    assert_int_equal(write_within(m, 0, COPY_TOO_LARGE), 0);

    struct buffer written = {0};
    assert_int_equal(copy_write(m, &plain_copy, "r", "relay", without_key, &written),
                     COPY_WITHOUT_KEY);
    struct buffer want = {0};
    buffer_add(&want, "\1aV", 3);
    build_own(&want, NULL);
    assert_true(span_equal(read_copy(&written, m).value[PROPERTY_HEADERS], buffer_span(&want)));
    buffer_free(&want);
    buffer_free(&written);
    message_free(m);
}

static void refuses_what_it_cannot_read(void **state)
{
    (void)state;
    static const struct {
        const char *label;
        struct span properties;
    } cases[] = {
        {"nothing", {(const uint8_t *)"", 0}},
        {"an unknown flag", {(const uint8_t *)"\0\2", 2}},
        {"bytes behind the list", {(const uint8_t *)"\0\0x", 3}},
        {"a header of an unknown type", {(const uint8_t *)"\x20\0\0\0\0\4\1aq\0", 10}},
        {"a header that is cut", {(const uint8_t *)"\x20\0\0\0\0\3\1aI", 9}},
        {"a header's name alone", {(const uint8_t *)"\x20\0\0\0\0\2\1a", 8}},
        {"half a name", {(const uint8_t *)"\x20\0\0\0\0\2\5a", 8}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct message *m = build_message("e", "k", cases[i].properties, BYTES("body"));
        struct buffer out = {0};
        buffer_add(&out, "before", 6);
        enum copy_result got = copy_write(m, &plain_copy, "r", "relay", NO_LIMIT, &out);
        if (got != COPY_UNREADABLE)
            fail_msg("%s", cases[i].label);
        assert_int_equal(out.len, 6);
        assert_memory_equal(out.data, "before", 6);
        buffer_free(&out);
        message_free(m);
    }
}

/* ---- Another reader, and anything at all ---- */

static void is_read_by_rabbitmq_c(void **state)
{
    (void)state;
    struct buffer table = {0};
    build_text(&table, "kept", "value");
    build_death(&table, "", "work");
    struct properties in = {0};
    build_set(&in, PROPERTY_HEADERS, buffer_span(&table));
    build_set(&in, PROPERTY_DELIVERY_MODE, BYTES("\2"));
    build_set(&in, PROPERTY_MESSAGE_ID, BYTES("id-1"));
    build_set(&in, PROPERTY_USER_ID, BYTES("somebody"));
    struct message *m = build_message_of(&in);
    set_key(m, "id-1");
    struct buffer written = {0};
    assert_int_equal(copy_write(m, &plain_copy, "r", "relay", NO_LIMIT, &written), COPY_OK);

    amqp_pool_t pool;
    init_amqp_pool(&pool, 4096);
    void *decoded = NULL;
    amqp_bytes_t bytes = {written.len - 12, written.data + 12};
    assert_int_equal(amqp_decode_properties(AMQP_BASIC_CLASS, &pool, bytes, &decoded),
                     AMQP_STATUS_OK);
    const amqp_basic_properties_t *p = decoded;
    assert_int_equal(p->_flags, AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG |
                                    AMQP_BASIC_MESSAGE_ID_FLAG);
    assert_int_equal(p->delivery_mode, 2);
    static const char *const names[] = {"kept", "x-onlyonce-route", "x-onlyonce-key",
                                        "x-onlyonce-first-seen"};
    assert_int_equal(p->headers.num_entries, 4);
    for (int i = 0; i < 4; i++) {
        amqp_bytes_t name = p->headers.entries[i].key;
        assert_int_equal(name.len, strlen(names[i]));
        assert_memory_equal(name.bytes, names[i], name.len);
    }
    empty_amqp_pool(&pool);
    buffer_free(&written);
    buffer_free(&table);
    message_free(m);
}

/* Whatever the bytes: the same answer twice, and a copy that can be copied again. */
static void survives_random_bytes(void **state)
{
    (void)state;
    uint32_t seed = 99;
    int readable = 0;
    for (int round = 0; round < 20000; round++) {
        struct buffer table = {0};
        build_death(&table, "e", "q");
        build_text(&table, "a", "text");
        build_number(&table, "CC", 'I', 4, 7);
        struct properties in = {0};
        build_set(&in, PROPERTY_HEADERS, buffer_span(&table));
        build_set(&in, PROPERTY_USER_ID, BYTES("relay"));
        struct buffer encoded = {0};
        build_properties(&in, &encoded);
        for (uint32_t flips = build_random(&seed) % 3; flips > 0; flips--)
            encoded.data[build_random(&seed) % encoded.len] = (uint8_t)build_random(&seed);
        struct message *m = build_message("e", "k", buffer_span(&encoded), BYTES(""));
        struct buffer one = {0};
        struct buffer two = {0};
        enum copy_result result = copy_write(m, &plain_copy, "r", "relay", NO_LIMIT, &one);
        assert_int_equal(copy_write(m, &plain_copy, "r", "relay", NO_LIMIT, &two), result);
        assert_buffer(&two, &one);
        assert_true(result == COPY_OK || result == COPY_UNREADABLE);
        if (result == COPY_OK) {
            readable++;
            struct message *again =
                build_message("e", "k", (struct span){one.data + 12, one.len - 12}, BYTES(""));
            buffer_clear(&two);
            assert_int_equal(copy_write(again, &plain_copy, "r", "relay", NO_LIMIT, &two), COPY_OK);
            assert_buffer(&two, &one);
            message_free(again);
        }
        buffer_free(&one);
        buffer_free(&two);
        buffer_free(&encoded);
        buffer_free(&table);
        message_free(m);
    }
    assert_true(readable > 1000 && readable < 19000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_presence_and_bytes_of_properties),
        cmocka_unit_test(keeps_headers_of_every_type_in_order),
        cmocka_unit_test(adds_headers_where_there_were_none),
        cmocka_unit_test(says_the_bodys_size),
        cmocka_unit_test(takes_out_what_would_harm),
        cmocka_unit_test(keeps_only_its_own_user_id),
        cmocka_unit_test(leaves_out_the_key_and_nothing_else),
        cmocka_unit_test(refuses_what_it_cannot_read),
        cmocka_unit_test(is_read_by_rabbitmq_c),
        cmocka_unit_test(survives_random_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
