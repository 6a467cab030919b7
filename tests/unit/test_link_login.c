/*
 * The login to a peer (amqp.h): what it says of itself, and what it says instead of letting us in.
 */
#include "clock.h"
#include "link_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void test_what_the_peer_says_of_itself(void **state)
{
    struct link_bench b;
    link_bench_set_up(&b);
    open_link(&b);
    char want[64];
    snprintf(want, sizeof want, "RabbitMQ 4.1.0-rc.2 at 127.0.0.1:%d", b.peer.url.port);
    assert_string_equal(link_describe(b.link), want);
    assert_int_equal(link_broker_version(b.link), 40100);
    assert_string_equal(link_user(b.link), "guest");
    assert_int_equal(link_frame_room(b.link), PEER_FRAME_MAX - 8);
    link_bench_tear_down(&b);
    (void)state;
}

/* What was read with the login, but nobody asked for, is not lost. */
static void test_blocked_at_once(void **state)
{
    struct link_bench b;
    link_bench_set_up(&b);
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
    link_bench_tear_down(&b);
    (void)state;
}

static void test_half_a_frame_behind_the_login(void **state)
{
    struct link_bench b;
    struct link_frame f;
    link_bench_set_up(&b);
    buffer_add(&b.peer.first, "\3\0\1\0\0", 5);
    open_link(&b);
    assert_false(link_next(b.link, &f));
    assert_true(link_is_up(b.link));
    peer_say(&b.peer, "\0\1x\xce", 4);
    assert_true(next_frame(&b, &f));
    assert_true(f.type == AMQP_FRAME_BODY && span_is(f.payload, "x"));
    link_bench_tear_down(&b);
    (void)state;
}

static void test_a_peer_that_closes_during_login_may_be_tried_again(void **state)
{
    struct link_bench b;
    link_bench_set_up(&b);
    buffer_clear(&b.peer.first); /* a proxy in front of no broker does this */
    open_in_vain(&b);
    assert_int_equal(link_how_failed(b.link), LINK_FAILED);
    peer_assert_says("closed", link_error(b.link), ": broker closed the connection without a word");
    link_bench_tear_down(&b);
    (void)state;
}

/* What a peer says instead of letting us in. START is a good beginning. */
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
        struct link_bench b;
        link_bench_set_up(&b);
        buffer_clear(&b.peer.first);
        buffer_add(&b.peer.first,
                   BYTES(START "\xce" METHOD("\x0d", "\x32") "\1\x93\2no\0\0\0\0\xce"));
        b.peer.hangs_up = true;
        b.peer.url.host = table[i].host;
        b.peer.url.username = table[i].user ? table[i].user : b.peer.url.username;
        open_in_vain(&b);
        peer_assert_says(table[i].host, link_error(b.link), "vhost '/': 403 no");
        bool told = strstr(link_error(b.link), "lets guest in from its own host alone") != NULL;
        assert_int_equal(told, table[i].told);
        link_bench_tear_down(&b);
    }
    (void)state;
}

static void test_logins_that_fail(void **state)
{
    for (size_t i = 0; i < sizeof failing_logins / sizeof *failing_logins; i++) {
        struct link_bench b;
        link_bench_set_up(&b);
        buffer_clear(&b.peer.first);
        buffer_add(&b.peer.first, failing_logins[i].bytes, failing_logins[i].len);
        b.peer.hangs_up = true;
        int64_t before = clock_now();
        open_in_vain(&b);
        assert_true(clock_now() - before < 3000);
        char start[64];
        snprintf(start, sizeof start,
                 "login to 127.0.0.1:%d as user 'guest', vhost '/': ", b.peer.url.port);
        peer_assert_says(failing_logins[i].label, link_error(b.link), start);
        peer_assert_says(failing_logins[i].label, link_error(b.link), failing_logins[i].want);
        if ((link_how_failed(b.link) == LINK_REFUSED) != failing_logins[i].refused)
            fail_msg("%s: refused or not", failing_logins[i].label);
        link_bench_tear_down(&b);
    }
    (void)state;
}

static void test_a_password_too_long_to_be_sent(void **state)
{
    struct link_bench b;
    link_bench_set_up(&b);
    char *password = xmalloc(200001);
    memset(password, 'x', 200000);
    password[200000] = '\0';
    b.peer.url.password = password;
    open_in_vain(&b);
    peer_assert_says("long", link_error(b.link), "username and password are too long to be sent");
    free(password);
    link_bench_tear_down(&b);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
