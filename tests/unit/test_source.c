/* source.h against a peer that breaks the rules. What a real broker delivers is in test_amqp.c. */
#include "clock.h"
#include "peer.h"
#include "source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void add_deliver(struct buffer *b, uint64_t tag)
{
    amqp_basic_deliver_t deliver = {.consumer_tag = amqp_cstring_bytes("c"), .delivery_tag = tag};
    peer_add_method(b, 1, AMQP_BASIC_DELIVER_METHOD, &deliver);
}

static void add_message(struct buffer *b, uint64_t tag)
{
    add_deliver(b, tag);
    peer_add_content(b, "body");
}

static void add_topology(struct buffer *b)
{
    amqp_queue_declare_ok_t declared = {.queue = amqp_cstring_bytes("q")};
    amqp_basic_qos_ok_t qos = {0};
    peer_add_method(b, 1, AMQP_QUEUE_DECLARE_OK_METHOD, &declared); /* parking, */
    peer_add_method(b, 1, AMQP_QUEUE_DECLARE_OK_METHOD, &declared); /* inbound */
    peer_add_method(b, 1, AMQP_BASIC_QOS_OK_METHOD, &qos);
}

static void read_all(struct source *s)
{
    while (source_is_up(s)) {
        struct message *m;
        while ((m = source_pull(s)))
            message_free(m);
        if (!source_is_up(s))
            return;
        peer_await_readable(source_fd(s));
        source_read(s, true, clock_now());
    }
}

static void assert_goes_down(struct buffer *then, bool opens, bool permanently, const char *why)
{
    struct peer p;
    peer_open(&p);
    add_topology(&p.first);
    p.then = *then;
    *then = (struct buffer){0};
    struct source *s = source_new(&p.config, &p.route);
    peer_serve(&p);
    bool permanent = false;
    assert_true(source_open(s, &permanent) == opens);
    assert_true(permanent == permanently);
    read_all(s);
    peer_assert_says("source", source_error(s), why);
    peer_served(&p);
    source_free(s);
    peer_close(&p);
}

static void start(struct buffer *then)
{
    amqp_basic_consume_ok_t consuming = {amqp_cstring_bytes("c")};
    peer_add_method(then, 1, AMQP_BASIC_CONSUME_OK_METHOD, &consuming);
}

static void test_tags_that_do_not_rise(void **state)
{
    static const struct {
        uint64_t first, second;
        const char *want;
    } table[] = {
        {7, 7, "delivery tag 7 after 7"},
        {7, 6, "delivery tag 6 after 7"},
        {0, 1, "delivery tag 0 after 0"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct buffer then = {0};
        start(&then);
        add_message(&then, table[i].first);
        add_message(&then, table[i].second);
        assert_goes_down(&then, true, false, table[i].want);
    }
    (void)state;
}

static void test_methods_out_of_place(void **state)
{
    struct buffer then = {0};
    start(&then);
    add_deliver(&then, 1);
    add_message(&then, 2);
    assert_goes_down(&then, true, false, "in the middle of a message");

    amqp_basic_ack_t ack = {.delivery_tag = 1};
    start(&then);
    add_message(&then, 1);
    peer_add_method(&then, 1, AMQP_BASIC_ACK_METHOD, &ack);
    assert_goes_down(&then, true, false, "method 60.80 to a consumer");
    (void)state;
}

static void test_a_refused_consumer_is_not_open(void **state)
{
    struct buffer then = {0};
    amqp_channel_close_t no = {.reply_code = 403, .reply_text = amqp_cstring_bytes("NO")};
    amqp_channel_close_t later = {.reply_code = 404, .reply_text = amqp_cstring_bytes("x is down")};
    peer_add_method(&then, 1, AMQP_CHANNEL_CLOSE_METHOD, &no);
    assert_goes_down(&then, false, true, "consuming from queue 'q' as user 'guest': 403 NO");
    peer_add_method(&then, 1, AMQP_CHANNEL_CLOSE_METHOD, &later);
    assert_goes_down(&then, false, false,
                     "consuming from queue 'q' as user 'guest': 404 x is down");
    (void)state;
}

/* RabbitMQ adds to headers that fill a frame, and sends what comes of it. */
static void test_headers_larger_than_a_frame_are_taken(void **state)
{
    static const size_t sizes[] = {PEER_FRAME_MAX - 8 + 1, 300000, (size_t)4 * 1024 * 1024};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t *header = xcalloc(1, sizes[i]);
        uint32_t table = (uint32_t)(sizes[i] - 18);
        header[1] = 60;
        header[12] = 0x20; /* headers, and nothing else */
        for (int k = 0; k < 4; k++)
            header[14 + k] = (uint8_t)(table >> (24 - 8 * k));
        struct peer p;
        peer_open(&p);
        add_topology(&p.first);
        start(&p.then);
        add_deliver(&p.then, 1);
        peer_add_frame(&p.then, AMQP_FRAME_HEADER, 1, header, sizes[i]);
        add_message(&p.then, 2);
        struct source *s = source_new(&p.config, &p.route);
        peer_serve(&p);
        bool permanent;
        assert_true(source_open(s, &permanent));
        for (uint64_t tag = 1; tag <= 2; tag++) {
            struct message *m;
            while (!(m = source_pull(s))) {
                assert_true(source_is_up(s));
                peer_await_readable(source_fd(s));
                source_read(s, true, clock_now());
            }
            assert_int_equal(m->tag, tag);
            assert_int_equal(m->properties.len, tag == 1 ? sizes[i] - 12 : 2);
            message_free(m);
        }
        peer_served(&p);
        source_free(s);
        peer_close(&p);
        free(header);
    }
    (void)state;
}

/* It is somebody else's by then. What was unread when the broker hung up is not even seen. */
static void test_what_came_before_the_end_is_not_taken(void **state)
{
    static const bool says_why[] = {false, true};
    for (size_t i = 0; i < 2; i++) {
        struct peer p;
        peer_open(&p);
        add_topology(&p.first);
        start(&p.then);
        struct source *s = source_new(&p.config, &p.route);
        peer_serve(&p);
        bool permanent;
        assert_true(source_open(s, &permanent));
        peer_served(&p);
        struct buffer more = {0};
        for (uint64_t tag = 1; tag <= 500; tag++)
            add_message(&more, tag);
        amqp_connection_close_t close = {.reply_code = 320,
                                         .reply_text = amqp_cstring_bytes("BYE")};
        if (says_why[i])
            peer_add_method(&more, 0, AMQP_CONNECTION_CLOSE_METHOD, &close);
        peer_say_all(&p, &more);
        buffer_free(&more);
        shutdown(p.fd, SHUT_WR);
        source_read(s, true, clock_now());
        assert_null(source_pull(s));
        assert_false(source_is_up(s));
        peer_assert_says("source", source_error(s),
                         says_why[i] ? "broker closed the connection: 320 BYE"
                                     : "broker closed the connection without a word");
        source_free(s);
        peer_close(&p);
    }
    (void)state;
}

/* ---- Acknowledgements ---- */

/* The next frame is a basic.ack. */
static void assert_acks(int fd, uint64_t tag, bool multiple)
{
    /* Frame type, channel, size; class and method; tag, bits, frame end. */
    uint8_t frame[21];
    uint64_t told = 0;
    size_t have = 0;
    while (have < sizeof frame) {
        peer_await_readable(fd);
        ssize_t n = read(fd, frame + have, sizeof frame - have);
        assert_true(n > 0);
        have += (size_t)n;
    }
    assert_memory_equal(frame, "\1\0\1\0\0\0\r\0\74\0\120", 11);
    for (int i = 0; i < 8; i++)
        told = told << 8 | frame[11 + i];
    assert_int_equal(told, tag);
    assert_int_equal(frame[19], multiple);
}

static void assert_silent(int fd)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&readable, 1, 20), 0);
}

static void ack_and_flush(struct source *s, const struct message *m, int64_t now)
{
    source_ack(s, m);
    source_flush(s, now, 100);
}

static void test_acknowledgements_are_joined(void **state)
{
    enum { COUNT = 9 };
    struct peer p;
    peer_open(&p);
    p.route.from.prefetch = 16;
    add_topology(&p.first);
    start(&p.then);
    for (uint64_t tag = 1; tag <= COUNT; tag++)
        add_message(&p.then, tag);
    struct source *s = source_new(&p.config, &p.route);
    peer_serve(&p);
    bool permanent;
    assert_true(source_open(s, &permanent));
    peer_served(&p);
    struct message *m[COUNT + 1] = {NULL};
    for (size_t i = 1; i <= COUNT; i++) {
        while (!(m[i] = source_pull(s))) {
            peer_await_readable(source_fd(s));
            source_read(s, true, clock_now());
        }
    }
    while (recv(p.fd, (char[64]){0}, 64, MSG_DONTWAIT) > 0)
        continue; /* the login and the rest */

    int64_t now = clock_now();
    ack_and_flush(s, m[2], now); /* waits for 1, */
    assert_int_equal(source_deadline(s), now + 100);
    ack_and_flush(s, m[3], now + 99);
    assert_silent(p.fd);
    ack_and_flush(s, m[1], now + 99); /* which says it for all three */
    assert_acks(p.fd, 3, true);
    assert_true(source_deadline(s) != now + 100);

    ack_and_flush(s, m[5], now); /* waits in vain for 4 */
    source_flush(s, now + 99, 100);
    assert_silent(p.fd);
    source_flush(s, now + 100, 100);
    assert_acks(p.fd, 5, false);

    for (size_t i = 6; i <= 8; i++)
        ack_and_flush(s, m[i], now);
    assert_silent(p.fd);
    ack_and_flush(s, m[9], now); /* 4 is open, and four are more than a quarter of what is left */
    for (uint64_t tag = 6; tag <= 9; tag++)
        assert_acks(p.fd, tag, false);

    source_ack(s, m[4]);
    source_close(s, 20); /* lets nothing wait */
    assert_acks(p.fd, 4, false);
    for (size_t i = 1; i <= COUNT; i++)
        message_free(m[i]);
    source_free(s);
    peer_close(&p);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tags_that_do_not_rise),
        cmocka_unit_test(test_methods_out_of_place),
        cmocka_unit_test(test_a_refused_consumer_is_not_open),
        cmocka_unit_test(test_headers_larger_than_a_frame_are_taken),
        cmocka_unit_test(test_what_came_before_the_end_is_not_taken),
        cmocka_unit_test(test_acknowledgements_are_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
