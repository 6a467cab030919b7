/* Frames of a peer (amqp.h), and the contents in them (content.h): broken, cut, and out of turn. */
#include "clock.h"
#include "content.h"
#include "link_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>
#include <sys/socket.h>

/* ---- Frames ---- */

static void test_broken_frames_take_the_link_down(void **state)
{
    static const struct {
        const char *label;
        const char *bytes;
        size_t len;
        const char *want;
    } table[] = {
        {"a frame of 2 GiB", BYTES("\1\0\1\x7f\xff\xff\xff"), "larger than the 4096 bytes"},
        {"one byte too many", BYTES("\3\0\1\0\0\x0f\xf9"), "larger than the 4096 bytes"},
        {"another protocol", BYTES("HTTP/1.1 400 Bad Request\r\n"), "larger than"},
        {"a wrong end", BYTES("\3\0\1\0\0\0\1x\xcd"), "does not end as a frame"},
        {"an unknown type", BYTES("\4\0\1\0\0\0\0\xce"), "unexpected frame: type 4, channel 1"},
        {"another channel", BYTES("\3\0\2\0\0\0\0\xce"), "unexpected frame: type 3, channel 2"},
        {"content on channel 0", BYTES("\2\0\0\0\0\0\0\xce"), "type 2, channel 0"},
        {"half a method", BYTES("\1\0\1\0\0\0\3\0\x3c\0\xce"), "method 0.0"},
        {"a method for servers", BYTES("\1\0\1\0\0\0\4\0\x3c\0\x28\xce"), "method 60.40"},
        {"connection.start", BYTES("\1\0\0\0\0\0\4\0\x0a\0\x0a\xce"), "method 10.10"},
        {"a deliver that is cut", BYTES("\1\0\1\0\0\0\6\0\x3c\0\x3c\5c\xce"), "method 60.60"},
        {"an ack on channel 0", BYTES("\1\0\0\0\0\0\x0d\0\x3c\0\x50\0\0\0\0\0\0\0\1\0\xce"),
         "method 60.80"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct link_bench b;
        link_bench_set_up(&b);
        open_link(&b);
        peer_say(&b.peer, table[i].bytes, table[i].len);
        struct link_frame f;
        assert_false(next_frame(&b, &f));
        peer_assert_says(table[i].label, link_error(b.link), table[i].want);
        assert_int_equal(link_fd(b.link), -1);
        assert_true(link_deadline(b.link) <= clock_now());
        link_bench_tear_down(&b);
    }
    (void)state;
}

static void test_frames_arrive_byte_by_byte(void **state)
{
    struct link_bench b;
    link_bench_set_up(&b);
    open_link(&b);
    struct buffer bytes = {0};
    amqp_basic_deliver_t deliver = {.consumer_tag = amqp_cstring_bytes("c"),
                                    .delivery_tag = 77,
                                    .routing_key = amqp_cstring_bytes("key")};
    peer_add_frame(&bytes, AMQP_FRAME_HEARTBEAT, 0, NULL, 0);
    peer_add_method(&bytes, 1, AMQP_BASIC_DELIVER_METHOD, &deliver);
    struct link_frame f;
    for (size_t i = 0; i < bytes.len; i++) {
        assert_false(link_next(b.link, &f));
        peer_say(&b.peer, bytes.data + i, 1);
        peer_await_readable(link_fd(b.link));
        link_read(b.link, clock_now());
    }
    assert_true(link_next(b.link, &f));
    assert_int_equal(f.method, AMQP_BASIC_DELIVER_METHOD);
    const amqp_basic_deliver_t *got = f.decoded;
    assert_int_equal(got->delivery_tag, 77);
    assert_true(span_is(link_span(got->routing_key), "key"));
    assert_true(link_is_up(b.link));
    buffer_free(&bytes);
    link_bench_tear_down(&b);
    (void)state;
}

static void test_closes_by_the_peer_are_answered(void **state)
{
    struct link_bench b;
    struct link_frame f;
    struct buffer bytes = {0};
    uint8_t answer[12];
    amqp_channel_close_t channel = {.reply_code = 406, .reply_text = amqp_cstring_bytes("WHY - x")};
    amqp_connection_close_t connection = {.reply_code = 320,
                                          .reply_text = amqp_cstring_bytes("BYE")};
    link_bench_set_up(&b);
    open_link(&b);
    peer_add_method(&bytes, 1, AMQP_CHANNEL_CLOSE_METHOD, &channel);
    peer_say_all(&b.peer, &bytes);
    assert_false(next_frame(&b, &f));
    assert_string_equal(link_error(b.link), "broker closed the channel: 406 WHY - x");
    assert_int_equal(link_how_failed(b.link), LINK_REFUSED);
    link_bench_tear_down(&b);

    link_bench_set_up(&b);
    open_link(&b);
    peer_add_method(&bytes, 0, AMQP_CONNECTION_CLOSE_METHOD, &connection);
    peer_say_all(&b.peer, &bytes);
    assert_false(next_frame(&b, &f));
    assert_string_equal(link_error(b.link), "broker closed the connection: 320 BYE");
    assert_int_equal(link_how_failed(b.link), LINK_FAILED);
    link_close(b.link, 0);
    size_t len = 0;
    uint8_t all[4096];
    for (ssize_t n; (n = recv(b.peer.fd, all + len, sizeof all - len, 0)) > 0;)
        len += (size_t)n;
    memcpy(answer, "\1\0\0\0\0\0\4\0\x0a\0\x33\xce", sizeof answer);
    assert_memory_equal(all + len - sizeof answer, answer, sizeof answer);
    buffer_free(&bytes);
    link_bench_tear_down(&b);
    (void)state;
}

/* ---- Contents ---- */

static void test_contents_out_of_turn(void **state)
{
#define HEADER "\0\x3c\0\0"
    static const struct {
        const char *label;
        bool begin;
        uint8_t types[3];
        const char *payload;
        size_t len;
        const char *want;
    } table[] = {
        {"a header alone", false, {2}, BYTES(HEADER "\0\0\0\0\0\0\0\1\0\0"), "header frame out of"},
        {"a body alone", false, {3}, BYTES("x"), "body frame out of turn"},
        {"a body first", true, {3}, BYTES("x"), "body frame out of turn"},
        {"two headers", true, {2, 2}, BYTES(HEADER "\0\0\0\0\0\0\0\1\0\0"), "header frame out of"},
        {"a short header", true, {2}, BYTES(HEADER "\0\0\0\0\0\0\0\1\0"), "broken content header"},
        {"another class", true, {2}, BYTES("\0\x0a\0\0\0\0\0\0\0\0\0\1\0\0"), "broken content"},
        {"a body of 1 GiB and 1 byte",
         true,
         {2},
         BYTES(HEADER "\0\0\0\0\x40\0\0\1\0\0"),
         "announced a body of 1073741825 bytes"},
        {"a body of 2^64 - 1 bytes",
         true,
         {2},
         BYTES(HEADER "\xff\xff\xff\xff\xff\xff\xff\xff\0\0"),
         "announced a body of"},
        {"too long a body", true, {2, 3}, BYTES(HEADER "\0\0\0\0\0\0\0\1\0\0"), "longer body than"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct link_bench b;
        struct content content = {0};
        link_bench_set_up(&b);
        open_link(&b);
        if (table[i].begin)
            content_begin(&content, amqp_cstring_bytes("e"), amqp_cstring_bytes("k"));
        for (size_t n = 0; table[i].types[n]; n++) {
            struct link_frame f = {.type = table[i].types[n],
                                   .payload = {(const uint8_t *)table[i].payload, table[i].len}};
            assert_null(content_add(&content, b.link, &f));
        }
        peer_assert_says(table[i].label, link_error(b.link), table[i].want);
        content_reset(&content);
        link_bench_tear_down(&b);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broken_frames_take_the_link_down),
        cmocka_unit_test(test_frames_arrive_byte_by_byte),
        cmocka_unit_test(test_closes_by_the_peer_are_answered),
        cmocka_unit_test(test_contents_out_of_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
