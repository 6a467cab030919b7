/* source.h and sink.h against a broker that answers all that it is asked, but slowly. The clock is
 * ours: nobody waits. */
#include "clock.h"
#include "peer.h"
#include "sink.h"
#include "source.h"
#include "vitals.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static _Atomic int64_t skipped; /* ms that never passed */

int64_t clock_micros(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000 + skipped * 1000;
}

int64_t clock_now(void)
{
    return clock_micros() / 1000;
}

int64_t clock_wall(void)
{
    return clock_now();
}

#define ANSWER_MS 7000 /* less than link_rpc() waits; four of them are less than a hang */

/* False: it was answered before it was asked, as the login is. */
static bool add_answer(struct buffer *b, uint32_t asked)
{
    amqp_queue_declare_ok_t declared = {.queue = amqp_cstring_bytes("q")};
    amqp_basic_consume_ok_t consuming = {.consumer_tag = amqp_cstring_bytes("c")};
    amqp_exchange_declare_ok_t exchange = {0};
    amqp_basic_qos_ok_t qos = {0};
    amqp_confirm_select_ok_t selected = {0};
    switch (asked) {
    case AMQP_QUEUE_DECLARE_METHOD:
        peer_add_method(b, 1, AMQP_QUEUE_DECLARE_OK_METHOD, &declared);
        break;
    case AMQP_EXCHANGE_DECLARE_METHOD:
        peer_add_method(b, 1, AMQP_EXCHANGE_DECLARE_OK_METHOD, &exchange);
        break;
    case AMQP_BASIC_QOS_METHOD: peer_add_method(b, 1, AMQP_BASIC_QOS_OK_METHOD, &qos); break;
    case AMQP_BASIC_CONSUME_METHOD:
        peer_add_method(b, 1, AMQP_BASIC_CONSUME_OK_METHOD, &consuming);
        break;
    case AMQP_CONFIRM_SELECT_METHOD:
        peer_add_method(b, 1, AMQP_CONFIRM_SELECT_OK_METHOD, &selected);
        break;
    default: return false;
    }
    return true;
}

static bool take(int fd, uint8_t *to, size_t len)
{
    return recv(fd, to, len, MSG_WAITALL) == (ssize_t)len;
}

static void *answer_slowly(void *arg)
{
    struct peer *p = arg;
    uint8_t seen[4096];
    struct buffer said = {0};
    p->fd = accept(p->listener, NULL, NULL);
    peer_say_all(p, &p->first);
    take(p->fd, seen, 8); /* "AMQP" and its version */
    while (take(p->fd, seen, 7)) {
        size_t len = (size_t)seen[5] << 8 | seen[6];
        bool method = seen[0] == AMQP_FRAME_METHOD;
        if (!take(p->fd, seen, len + 1))
            break;
        if (!method)
            continue;
        if (add_answer(&said, (uint32_t)seen[1] << 16 | seen[3]))
            skipped += ANSWER_MS;
        /* It may be gone by now. */
        send(p->fd, said.data, said.len, MSG_NOSIGNAL);
        buffer_clear(&said);
    }
    buffer_free(&said);
    return NULL;
}

static void begin(struct peer *p)
{
    static char exchange[] = "x";
    peer_open(p);
    buffer_clear(&p->first);
    peer_add_login(&p->first, 60);
    p->config.broker.heartbeat = 60000;
    p->route.from.exchange = exchange;
    p->route.duplicates.exchange = exchange;
    assert_int_equal(pthread_create(&p->thread, NULL, answer_slowly, p), 0);
}

/* The watchdog must not take it for a hang. */
static void assert_gave_up(int64_t start, const char *error, bool permanent)
{
    int64_t took = clock_now() - start;
    struct vitals v = {.turned = start};
    peer_assert_says("slow", error, "no answer in time");
    assert_false(permanent);
    if (took < 20000 || vitals_hangs(&v, clock_now()))
        fail_msg("it took %lld ms", (long long)took);
}

static void test_a_source_gives_up_before_the_watchdog(void **state)
{
    struct peer p;
    bool permanent = true;
    begin(&p);
    struct source *s = source_new(&p.config, &p.route);
    int64_t start = clock_now();
    assert_false(source_open(s, &permanent));
    assert_gave_up(start, source_error(s), permanent);
    source_free(s);
    peer_served(&p);
    peer_close(&p);
    (void)state;
}

static void test_a_sink_gives_up_before_the_watchdog(void **state)
{
    struct peer p;
    bool permanent = true;
    begin(&p);
    struct sink *s = sink_new(&p.config, &p.route, SINK_COPIES);
    int64_t start = clock_now();
    assert_false(sink_open(s, &permanent));
    assert_gave_up(start, sink_error(s), permanent);
    sink_free(s);
    peer_served(&p);
    peer_close(&p);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_source_gives_up_before_the_watchdog),
        cmocka_unit_test(test_a_sink_gives_up_before_the_watchdog),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
