/*
 * amqp.h and content.h against a peer that does what no broker should do, or what none does on
 * demand: broken frames, silence, a full socket, a connection that is gone.
 */
#include "amqp.h"
#include "clock.h"
#include "content.h"
#include "peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- The bench ---- */

struct bench {
    struct peer peer;
    struct link *link;
};

static void set_up(struct bench *b)
{
    *b = (struct bench){0};
    peer_open(&b->peer);
}

static void open_link(struct bench *b)
{
    b->link = link_new(&b->peer.config.broker, "test");
    peer_serve(&b->peer);
    if (!link_open(b->link))
        fail_msg("%s", link_error(b->link));
    peer_served(&b->peer);
}

static void tear_down(struct bench *b)
{
    link_free(b->link);
    peer_close(&b->peer);
}

/* Reads from the link until it has a frame or is down. */
static bool next_frame(struct bench *b, struct link_frame *f)
{
    while (link_is_up(b->link)) {
        if (link_next(b->link, f))
            return true;
        if (!link_is_up(b->link))
            break;
        peer_await_readable(link_fd(b->link));
        link_read(b->link, clock_now());
    }
    return false;
}

/* ---- Opening ---- */

static void test_what_the_peer_says_of_itself(void **state)
{
    struct bench b;
    set_up(&b);
    open_link(&b);
    char want[64];
    snprintf(want, sizeof want, "RabbitMQ 4.1.0-rc.2 at 127.0.0.1:%d", b.peer.url.port);
    assert_string_equal(link_describe(b.link), want);
    assert_int_equal(link_broker_version(b.link), 40100);
    assert_string_equal(link_user(b.link), "guest");
    assert_int_equal(link_frame_room(b.link), PEER_FRAME_MAX - 8);
    tear_down(&b);
    (void)state;
}

/* What was read with the login, but nobody asked for, is not lost. */
static void test_blocked_at_once(void **state)
{
    struct bench b;
    set_up(&b);
    amqp_connection_blocked_t blocked = {amqp_cstring_bytes("low on disk")};
    peer_add_method(&b.peer.first, 0, AMQP_CONNECTION_BLOCKED_METHOD, &blocked);
    open_link(&b);
    const char *reason;
    struct link_frame f;
    assert_false(link_next(b.link, &f));
    assert_true(link_blocked(b.link, &reason));
    assert_string_equal(reason, "low on disk");
    amqp_connection_unblocked_t unblocked = {0};
    struct buffer more = {0};
    peer_add_method(&more, 0, AMQP_CONNECTION_UNBLOCKED_METHOD, &unblocked);
    peer_say_all(&b.peer, &more);
    peer_await_readable(link_fd(b.link));
    link_read(b.link, clock_now());
    assert_false(link_next(b.link, &f));
    assert_false(link_blocked(b.link, NULL));
    assert_true(link_is_up(b.link));
    buffer_free(&more);
    tear_down(&b);
    (void)state;
}

static void test_half_a_frame_behind_the_login(void **state)
{
    struct bench b;
    struct link_frame f;
    set_up(&b);
    buffer_add(&b.peer.first, "\3\0\1\0\0", 5);
    open_link(&b);
    assert_false(link_next(b.link, &f));
    assert_true(link_is_up(b.link));
    peer_say(&b.peer, "\0\1x\xce", 4);
    assert_true(next_frame(&b, &f));
    assert_true(f.type == AMQP_FRAME_BODY && span_is(f.payload, "x"));
    tear_down(&b);
    (void)state;
}

static void test_a_peer_that_closes_during_login_may_be_tried_again(void **state)
{
    struct bench b;
    set_up(&b);
    buffer_clear(&b.peer.first); /* a proxy in front of no broker does this */
    b.link = link_new(&b.peer.config.broker, "test");
    peer_serve(&b.peer);
    assert_false(link_open(b.link));
    peer_served(&b.peer);
    assert_int_equal(link_how_failed(b.link), LINK_FAILED);
    peer_assert_says("closed", link_error(b.link), ": broker closed the connection without a word");
    tear_down(&b);
    (void)state;
}

/* What a peer says instead of letting us in. START is a good beginning. */
#define BYTES(text) (text), sizeof(text) - 1
#define METHOD(size, id) "\1\0\0\0\0\0" size "\0\x0a\0" id
#define START                                                                                      \
    METHOD("\x17", "\x0a")                                                                         \
    "\0\x09\0\0\0\0\0\0\0\5PLAIN"                                                                  \
    "\0\0\0\0"
static const struct {
    const char *label;
    const char *bytes;
    size_t len;
    bool refused;
    const char *want;
} failing_logins[] = {
    {"another AMQP", BYTES("AMQP\0\1\0\0"), false, "it speaks AMQP 1-0-0, not 0-9-1"},
    {"HTTP", BYTES("HTTP/1.1 400 Bad Request\r\n\r\n"), false,
     "it speaks no AMQP; its first bytes are \"HTTP/1.1 400 Bad\""},
    {"lines", BYTES("220 mail\r\n\x01\xff"), false, "bytes are \"220 mail????\""},
    {"a TLS alert", BYTES("\x15\3\1\0\2\2\x46"), false, "it speaks TLS there; write amqps://"},
    {"few bytes, and the end", BYTES("AMQP"), false, "closed the connection without a word"},
    {"half a method", BYTES(METHOD("\3", "") "\xce"), false, "unexpected frame: type 1"},
    {"a start without anything", BYTES(METHOD("\4", "\x0a") "\xce"), false,
     "broken connection.start"},
    {"a start whose table is too long", BYTES(METHOD("\x0a", "\x0a") "\0\x09\0\0\1\0\xce"), false,
     "broken connection.start"},
    {"a start whose mechanisms are too long",
     BYTES(METHOD("\x0f", "\x0a") "\0\x09\0\0\0\0\xff\xff\xff\xffP\xce"), false,
     "broken connection.start"},
    {"other mechanisms",
     BYTES(METHOD("\x16", "\x0a") "\0\x09\0\0\0\0\0\0\0\x08"
                                  "PLAINX\n\xff"
                                  "\xce"),
     true,
     "the broker does not offer PLAIN (but PLAINX?"
     "?): allow it there"},
    {"tune first", BYTES(METHOD("\x0c", "\x1e") "\0\0\0\1\0\0\0\0\xce"), false,
     "broker sent method 10.30 during the login"},
    {"open-ok first", BYTES(METHOD("\5", "\x29") "\0\xce"), false, "method 10.41 during"},
    {"secure", BYTES(START "\xce" METHOD("\x08", "\x14") "\0\0\0\0\xce"), false,
     "method 10.20 during the login"},
    {"start twice", BYTES(START "\xce" START "\xce"), false, "method 10.10 during the login"},
    {"a short tune", BYTES(START "\xce" METHOD("\x0a", "\x1e") "\0\0\0\1\0\0\xce"), false,
     "broken connection.tune"},
    {"frames of 100 bytes", BYTES(START "\xce" METHOD("\x0c", "\x1e") "\0\0\0\0\0\x64\0\0\xce"),
     false, "broker wants frames of 100 bytes"},
    {"a close without a text", BYTES(START "\xce" METHOD("\x0b", "\x32") "\1\x93\0\0\0\0\0\xce"),
     true, "vhost '/': 403 "},
    {"a close that is cut", BYTES(START "\xce" METHOD("\7", "\x32") "\1\x93\5\xce"), false,
     "method 10.50 during the login"},
    {"a delivery",
     BYTES(START "\xce"
                 "\1\0\1\0\0\0\4\0\x3c\0\x3c\xce"),
     false, "unexpected frame: type 1, channel 1, method 60.60"},
    {"content", BYTES("\1\0\0\0\0\0\0\xce"), false, "unexpected frame: type 1"},
    {"a frame of 2 GiB", BYTES("\1\0\0\x7f\xff\xff\xff"), false, "larger than the 131072"},
    {"a frame without its end", BYTES(METHOD("\4", "\x0a") "\0"), false, "not end as a frame"},
};

static void test_guest_from_afar_is_told_why(void **state)
{
    static char near[] = "127.0.0.1";
    static char afar[] = "0x7f.0.0.1"; /* the same, which does not look so */
    static char other[] = "relay";
    static const struct {
        char *host;
        char *user;
        bool told;
    } table[] = {{near, NULL, false}, {afar, NULL, true}, {afar, other, false}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct bench b;
        set_up(&b);
        buffer_clear(&b.peer.first);
        buffer_add(&b.peer.first,
                   BYTES(START "\xce" METHOD("\x0d", "\x32") "\1\x93\2no\0\0\0\0\xce"));
        b.peer.hangs_up = true;
        b.peer.url.host = table[i].host;
        b.peer.url.username = table[i].user ? table[i].user : b.peer.url.username;
        b.link = link_new(&b.peer.config.broker, "test");
        peer_serve(&b.peer);
        assert_false(link_open(b.link));
        peer_served(&b.peer);
        peer_assert_says(table[i].host, link_error(b.link), "vhost '/': 403 no");
        bool told = strstr(link_error(b.link), "lets guest in from its own host alone") != NULL;
        assert_int_equal(told, table[i].told);
        tear_down(&b);
    }
    (void)state;
}

static void test_logins_that_fail(void **state)
{
    for (size_t i = 0; i < sizeof failing_logins / sizeof *failing_logins; i++) {
        struct bench b;
        set_up(&b);
        buffer_clear(&b.peer.first);
        buffer_add(&b.peer.first, failing_logins[i].bytes, failing_logins[i].len);
        b.peer.hangs_up = true;
        b.link = link_new(&b.peer.config.broker, "test");
        peer_serve(&b.peer);
        int64_t before = clock_now();
        assert_false(link_open(b.link));
        assert_true(clock_now() - before < 3000);
        peer_served(&b.peer);
        char start[64];
        snprintf(start, sizeof start,
                 "login to 127.0.0.1:%d as user 'guest', vhost '/': ", b.peer.url.port);
        peer_assert_says(failing_logins[i].label, link_error(b.link), start);
        peer_assert_says(failing_logins[i].label, link_error(b.link), failing_logins[i].want);
        if ((link_how_failed(b.link) == LINK_REFUSED) != failing_logins[i].refused)
            fail_msg("%s: refused or not", failing_logins[i].label);
        tear_down(&b);
    }
    (void)state;
}

static void test_a_password_too_long_to_be_sent(void **state)
{
    struct bench b;
    set_up(&b);
    char *password = xmalloc(200001);
    memset(password, 'x', 200000);
    password[200000] = '\0';
    b.peer.url.password = password;
    b.link = link_new(&b.peer.config.broker, "test");
    peer_serve(&b.peer);
    assert_false(link_open(b.link));
    peer_served(&b.peer);
    peer_assert_says("long", link_error(b.link), "username and password are too long to be sent");
    free(password);
    tear_down(&b);
    (void)state;
}

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
        struct bench b;
        set_up(&b);
        open_link(&b);
        peer_say(&b.peer, table[i].bytes, table[i].len);
        struct link_frame f;
        assert_false(next_frame(&b, &f));
        peer_assert_says(table[i].label, link_error(b.link), table[i].want);
        assert_int_equal(link_fd(b.link), -1);
        assert_true(link_deadline(b.link) <= clock_now());
        tear_down(&b);
    }
    (void)state;
}

static void test_frames_arrive_byte_by_byte(void **state)
{
    struct bench b;
    set_up(&b);
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
    tear_down(&b);
    (void)state;
}

static void test_closes_by_the_peer_are_answered(void **state)
{
    struct bench b;
    struct link_frame f;
    struct buffer bytes = {0};
    uint8_t answer[12];
    amqp_channel_close_t channel = {.reply_code = 406, .reply_text = amqp_cstring_bytes("WHY - x")};
    amqp_connection_close_t connection = {.reply_code = 320,
                                          .reply_text = amqp_cstring_bytes("BYE")};
    set_up(&b);
    open_link(&b);
    peer_add_method(&bytes, 1, AMQP_CHANNEL_CLOSE_METHOD, &channel);
    peer_say_all(&b.peer, &bytes);
    assert_false(next_frame(&b, &f));
    assert_string_equal(link_error(b.link), "broker closed the channel: 406 WHY - x");
    assert_int_equal(link_how_failed(b.link), LINK_REFUSED);
    tear_down(&b);

    set_up(&b);
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
    tear_down(&b);
    (void)state;
}

/* ---- Silence, and sockets that are full or gone ---- */

static void test_heartbeats(void **state)
{
    struct bench b;
    set_up(&b);
    open_link(&b);
    uint8_t drop[4096];
    assert_true(recv(b.peer.fd, drop, sizeof drop, 0) > 0); /* our part of the login */
    int64_t start = link_deadline(b.link) - 500;            /* the peer asked for one second */
    link_flush(b.link, start + 499);
    assert_int_equal(recv(b.peer.fd, drop, sizeof drop, MSG_DONTWAIT), -1);
    link_flush(b.link, start + 500);
    peer_await_readable(b.peer.fd);
    assert_int_equal(recv(b.peer.fd, drop, sizeof drop, 0), 8);
    assert_memory_equal(drop, "\x08\0\0\0\0\0\0\xce", 8);
    assert_int_equal(link_deadline(b.link), start + 1000);
    /* Silence counts while somebody listens. */
    link_read(b.link, start + 1999);
    assert_true(link_is_up(b.link));
    link_rest(b.link, start + 1999);
    link_read(b.link, start + 3998);
    assert_true(link_is_up(b.link));
    link_read(b.link, start + 3999);
    assert_string_equal(link_error(b.link), "nothing heard from the broker for 2 s");
    tear_down(&b);
    (void)state;
}

static void test_a_peer_that_does_not_read(void **state)
{
    enum { SIZE = 16 << 20 };
    struct bench b;
    set_up(&b);
    open_link(&b);
    uint8_t *body = xcalloc(1, SIZE);
    link_put_content(b.link, span_of("header"), (struct span){body, SIZE});
    size_t total = link_unsent(b.link);
    int64_t now = clock_now();
    for (int i = 0; i < 100; i++)
        link_flush(b.link, now + (int64_t)i * 100); /* heartbeats would be due */
    assert_true(clock_now() - now < 5000);          /* It would wait for ever, if it waited. */
    assert_true(link_is_up(b.link));
    assert_true(link_wants_write(b.link));
    size_t stuck = link_unsent(b.link);
    assert_true(stuck > 0 && stuck < total);
    /* It reads again, and everything is there once. */
    uint8_t *got = xmalloc(total + 65536);
    size_t len = 0;
    while (link_wants_write(b.link)) {
        link_flush(b.link, now);
        ssize_t n = recv(b.peer.fd, got + len, total + 65536 - len, MSG_DONTWAIT);
        len += n > 0 ? (size_t)n : 0;
    }
    shutdown(link_fd(b.link), SHUT_WR);
    for (ssize_t n; (n = recv(b.peer.fd, got + len, total + 65536 - len, 0)) > 0;)
        len += (size_t)n;
    const uint8_t *first = memmem(got, len, "\2\0\1\0\0\0\6header\xce", 14);
    assert_non_null(first);
    assert_int_equal(len - (size_t)(first - got), total);
    assert_memory_equal(first + 14, "\3\0\1\0\0\x0f\xf8", 7);
    free(body);
    free(got);
    tear_down(&b);
    (void)state;
}

static void reset_connection(struct bench *b)
{
    struct linger now = {1, 0};
    setsockopt(b->peer.fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(b->peer.fd);
    b->peer.fd = -1;
    struct pollfd p = {.fd = link_fd(b->link)};
    assert_int_equal(poll(&p, 1, 5000), 1);
}

static void test_a_connection_that_is_gone(void **state)
{
    struct bench b;
    struct link_frame f;
    set_up(&b);
    open_link(&b);
    shutdown(b.peer.fd, SHUT_WR);
    assert_false(next_frame(&b, &f));
    assert_string_equal(link_error(b.link), "broker closed the connection without a word");
    tear_down(&b);

    set_up(&b);
    open_link(&b);
    reset_connection(&b);
    link_rest(b.link, clock_now()); /* seen even by somebody who does not read */
    assert_string_equal(link_error(b.link), "Connection reset by peer");
    tear_down(&b);

    set_up(&b);
    open_link(&b);
    reset_connection(&b);
    link_flush(b.link, clock_now() + 60000); /* a heartbeat, and no SIGPIPE */
    assert_false(link_is_up(b.link));
    tear_down(&b);
    (void)state;
}

static void test_closing_waits_no_longer_than_its_patience(void **state)
{
    struct bench b;
    struct buffer bytes = {0};
    set_up(&b);
    open_link(&b);
    int64_t before = clock_now();
    link_close(b.link, 200);
    int64_t took = clock_now() - before;
    assert_true(took >= 200 && took < 2000);
    tear_down(&b);

    set_up(&b);
    open_link(&b);
    amqp_connection_close_ok_t ok = {0};
    peer_add_frame(&bytes, AMQP_FRAME_BODY, 1, "still on its way", 16);
    peer_add_method(&bytes, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &ok);
    peer_say_all(&b.peer, &bytes);
    before = clock_now();
    link_close(b.link, 30000);
    assert_true(clock_now() - before < 2000);
    buffer_free(&bytes);
    tear_down(&b);
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
        struct bench b;
        struct content content = {0};
        set_up(&b);
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
        tear_down(&b);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_the_peer_says_of_itself),
        cmocka_unit_test(test_blocked_at_once),
        cmocka_unit_test(test_half_a_frame_behind_the_login),
        cmocka_unit_test(test_a_peer_that_closes_during_login_may_be_tried_again),
        cmocka_unit_test(test_guest_from_afar_is_told_why),
        cmocka_unit_test(test_logins_that_fail),
        cmocka_unit_test(test_a_password_too_long_to_be_sent),
        cmocka_unit_test(test_broken_frames_take_the_link_down),
        cmocka_unit_test(test_frames_arrive_byte_by_byte),
        cmocka_unit_test(test_closes_by_the_peer_are_answered),
        cmocka_unit_test(test_heartbeats),
        cmocka_unit_test(test_a_peer_that_does_not_read),
        cmocka_unit_test(test_a_connection_that_is_gone),
        cmocka_unit_test(test_closing_waits_no_longer_than_its_patience),
        cmocka_unit_test(test_contents_out_of_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
