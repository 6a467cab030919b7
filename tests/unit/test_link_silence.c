/* The connection to a peer (amqp.h) that is silent, full, gone, or being closed. */
#include "clock.h"
#include "link_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void test_heartbeats(void **state)
{
    struct link_bench b;
    link_bench_set_up(&b);
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
    link_bench_tear_down(&b);
    (void)state;
}

static void test_a_peer_that_does_not_read(void **state)
{
    enum { SIZE = 16 << 20 };
    struct link_bench b;
    link_bench_set_up(&b);
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
    link_bench_tear_down(&b);
    (void)state;
}

static void reset_connection(struct link_bench *b)
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
    struct link_bench b;
    struct link_frame f;
    link_bench_set_up(&b);
    open_link(&b);
    shutdown(b.peer.fd, SHUT_WR);
    assert_false(next_frame(&b, &f));
    assert_string_equal(link_error(b.link), "broker closed the connection without a word");
    link_bench_tear_down(&b);

    link_bench_set_up(&b);
    open_link(&b);
    reset_connection(&b);
    assert_true(link_is_left(b.link)); /* seen even by somebody who does not read */
    link_read(b.link, clock_now());
    assert_string_equal(link_error(b.link), "Connection reset by peer");
    link_bench_tear_down(&b);

    link_bench_set_up(&b);
    open_link(&b);
    reset_connection(&b);
    link_flush(b.link, clock_now() + 60000); /* a heartbeat, and no SIGPIPE */
    assert_false(link_is_up(b.link));
    link_bench_tear_down(&b);
    (void)state;
}

static void test_closing_waits_no_longer_than_its_patience(void **state)
{
    struct link_bench b;
    struct buffer bytes = {0};
    link_bench_set_up(&b);
    open_link(&b);
    int64_t before = clock_now();
    link_close(b.link, 200);
    int64_t took = clock_now() - before;
    assert_true(took >= 200 && took < 2000);
    link_bench_tear_down(&b);

    link_bench_set_up(&b);
    open_link(&b);
    amqp_connection_close_ok_t ok = {0};
    peer_add_frame(&bytes, AMQP_FRAME_BODY, 1, "still on its way", 16);
    peer_add_method(&bytes, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &ok);
    peer_say_all(&b.peer, &bytes);
    before = clock_now();
    link_close(b.link, 30000);
    assert_true(clock_now() - before < 2000);
    buffer_free(&bytes);
    link_bench_tear_down(&b);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heartbeats),
        cmocka_unit_test(test_a_peer_that_does_not_read),
        cmocka_unit_test(test_a_connection_that_is_gone),
        cmocka_unit_test(test_closing_waits_no_longer_than_its_patience),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
