/*
 * source.h and sink.h against a real RabbitMQ: what it answers to copies, and what it delivers
 * again.
 */
#include "bench.h"
#include "clock.h"
#include "headers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <amqp_framing.h>
#include <cmocka.h>
#include <poll.h>

/* ---- Answers ---- */

static void test_returns_find_their_copies_among_many(void **state)
{
    enum { COUNT = 300 };
    struct bench b;
    bench_set_up(&b);
    b.route.to.queue = NULL;
    b.route.to.exchange = bench_exchange;
    amqp_exchange_declare(b.admin, 1, amqp_cstring_bytes(EXCHANGE), amqp_cstring_bytes("direct"), 0,
                          0, 0, 0, amqp_empty_table);
    bench_open_both(&b);
    amqp_queue_bind(b.admin, 1, amqp_cstring_bytes(LOOP), amqp_cstring_bytes(EXCHANGE),
                    amqp_cstring_bytes("known"), amqp_empty_table);
    struct message *sent[COUNT];
    struct buffer properties = bench_properties_of_every_type();
    for (size_t i = 0; i < COUNT; i++) {
        sent[i] = bench_message(i % 3 == 1 ? "known" : "unknown", buffer_span(&properties), i % 5);
        sent[i]->copy.first_seen += (int64_t)i; /* it is all that tells them apart */
        bench_publish(&b, sent[i]);
    }
    for (size_t i = 0; i < COUNT; i++) {
        enum sink_answer answer;
        struct message *m = bench_await_answer(&b, &answer);
        size_t at = (size_t)(m->copy.first_seen - 1782640800123);
        assert_ptr_equal(sent[at], m);
        assert_int_equal(answer, at % 3 == 1 ? SINK_CONFIRMED : SINK_RETURNED);
        sent[at] = NULL;
        message_free(m);
    }
    assert_int_equal(sink_room(b.sink), COUNT);
    buffer_free(&properties);
    bench_tear_down(&b);
    (void)state;
}

static void test_a_full_queue_nacks(void **state)
{
    enum { COUNT = 50 };
    struct bench b;
    bench_set_up(&b);
    bench_make_full_queue(&b);
    bench_open_sink(&b);
    for (size_t i = 0; i < COUNT; i++)
        bench_publish(&b, bench_message("in", bench_no_properties, i));
    size_t nacked = 0;
    for (size_t i = 0; i < COUNT; i++) {
        enum sink_answer answer;
        struct message *m = bench_await_answer(&b, &answer);
        assert_int_not_equal(answer, SINK_RETURNED);
        nacked += answer == SINK_NACKED;
        message_free(m);
    }
    assert_int_equal(bench_depth(&b, LOOP), COUNT - nacked);
    assert_true(nacked >= COUNT - 2);
    bench_tear_down(&b);
    (void)state;
}

static void test_room_is_what_is_not_in_flight(void **state)
{
    struct bench b;
    bench_set_up(&b);
    b.route.to.unconfirmed = 3;
    bench_open_sink(&b);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(sink_room(b.sink), 3 - i);
        bench_publish(&b, bench_message("in", bench_no_properties, 0));
    }
    assert_int_equal(sink_room(b.sink), 0);
    for (size_t i = 0; i < 3; i++) {
        enum sink_answer answer;
        message_free(bench_await_answer(&b, &answer));
    }
    assert_int_equal(sink_room(b.sink), 3);
    /* More than a socket takes: for now there is room for nothing else. RabbitMQ takes 16 MiB from
     * 4.0 on, and took 128. */
    struct message *large = bench_publish(&b, bench_message("in", bench_no_properties, 15 << 20));
    assert_int_equal(sink_room(b.sink), 0);
    enum sink_answer answer;
    assert_ptr_equal(bench_await_answer(&b, &answer), large);
    message_free(large);
    bench_tear_down(&b);
    (void)state;
}

static void test_an_exchange_that_goes_takes_the_sink_down(void **state)
{
    struct bench b;
    bench_set_up(&b);
    b.route.to.queue = NULL;
    b.route.to.exchange = bench_exchange;
    amqp_exchange_declare(b.admin, 1, amqp_cstring_bytes(EXCHANGE), amqp_cstring_bytes("direct"), 0,
                          0, 0, 0, amqp_empty_table);
    bench_open_sink(&b);
    amqp_exchange_delete(b.admin, 1, amqp_cstring_bytes(EXCHANGE), 0);
    struct message *m = bench_publish(&b, bench_message("in", bench_no_properties, 0));
    for (int64_t until = clock_now() + PATIENCE; sink_is_up(b.sink) && clock_now() < until;)
        bench_turn(&b);
    assert_string_equal(sink_error(b.sink),
                        "broker closed the channel: 404 NOT_FOUND - no exchange "
                        "'" EXCHANGE "' in vhost '/'");
    enum sink_answer answer;
    assert_null(sink_next(b.sink, &answer));
    assert_int_equal(sink_room(b.sink), 0);
    sink_close(b.sink, 0);
    bool permanent = false;
    assert_false(sink_open(b.sink, &permanent));
    assert_true(permanent);
    assert_string_equal(sink_error(b.sink),
                        "looking for exchange '" EXCHANGE "' as user 'guest': 404 NOT_FOUND - no "
                        "exchange '" EXCHANGE "' in vhost '/'");
    message_free(m);
    bench_tear_down(&b);
    (void)state;
}

/* ---- Acknowledging ---- */

static void fill_loop(struct bench *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bench_publish(b, bench_message("in", bench_no_properties, i));
    for (size_t i = 0; i < count; i++) {
        enum sink_answer answer;
        message_free(bench_await_answer(b, &answer));
    }
}

static void test_what_is_not_acknowledged_comes_again(void **state)
{
    enum { COUNT = 12 };
    /* Flush by flush, which are acknowledged: behind a gap, the gap's half, the rest up to another.
     */
    static const size_t flushes[][COUNT + 1] = {{3, 4, 6, 99}, {0, 99}, {2, 1, 99}, {9, 8, 7, 99}};
    struct bench b;
    bench_set_up(&b);
    bench_open_both(&b);
    fill_loop(&b, COUNT);
    struct message *m[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        m[i] = bench_await_message(&b);
        assert_int_equal(m[i]->body.len, i);
        assert_int_equal(m[i]->epoch, m[0]->epoch);
        assert_false(m[i]->redelivered);
    }
    for (size_t f = 0; f < sizeof flushes / sizeof *flushes; f++) {
        for (size_t i = 0; flushes[f][i] != 99; i++)
            source_ack(b.source, m[flushes[f][i]]);
        bench_turn(&b);
    }
    source_ack(b.source, m[11]); /* not flushed: that is closing's */
    source_close(b.source, 5000);
    bench_open_source(&b);
    static const size_t left[] = {5, 10};
    for (size_t i = 0; i < 2; i++) {
        struct message *again = bench_await_message(&b);
        assert_int_equal(again->body.len, left[i]);
        assert_true(again->redelivered);
        assert_int_not_equal(again->epoch, m[0]->epoch);
        message_free(again);
    }
    bench_expect_nothing(&b);
    /* Tags of the old connection: 1 and 2 are open again, as other messages. */
    source_ack(b.source, m[0]);
    source_reject(b.source, m[1]);
    source_close(b.source, 5000);
    bench_await_depth(&b, LOOP, 2);
    for (size_t i = 0; i < COUNT; i++)
        message_free(m[i]);
    bench_tear_down(&b);
    (void)state;
}

static void test_a_rejected_message_is_parked(void **state)
{
    struct bench b;
    bench_set_up(&b);
    bench_open_both(&b);
    assert_true(source_dead_letters(b.source));
    fill_loop(&b, 3);
    struct message *m[3];
    for (size_t i = 0; i < 3; i++)
        m[i] = bench_await_message(&b);
    source_ack(b.source, m[0]);
    source_reject(b.source, m[1]);
    source_ack(b.source, m[2]);
    bench_await_depth(&b, PARKED, 1);
    source_close(b.source, 5000);
    assert_int_equal(bench_depth(&b, LOOP), 0);
    bench_open_source(&b); /* It is as it was made, which is known again. */
    assert_true(source_dead_letters(b.source));
    for (size_t i = 0; i < 3; i++)
        message_free(m[i]);
    bench_tear_down(&b);
    (void)state;
}

static void test_nothing_is_read_while_it_is_not_wanted(void **state)
{
    struct bench b;
    bench_set_up(&b);
    bench_open_both(&b);
    fill_loop(&b, 1);
    struct message *m = bench_await_message(&b);
    source_ack(b.source, m);
    message_free(m);
    assert_int_equal(source_events(b.source, false) & POLLIN, 0);
    bench_publish(&b, bench_message("in", bench_no_properties, 5));
    for (int i = 0; i < 30; i++) {
        int64_t now = clock_now();
        source_read(b.source, false, now);
        source_flush(b.source, now, 0); /* acknowledges the first */
        assert_null(source_pull(b.source));
        poll(NULL, 0, 10);
        sink_read(b.sink, now);
        sink_flush(b.sink, now);
    }
    enum sink_answer answer;
    message_free(bench_await_answer(&b, &answer));
    m = bench_await_message(&b);
    assert_int_equal(m->body.len, 5);
    assert_int_equal(bench_depth(&b, LOOP), 0);
    message_free(m);
    bench_tear_down(&b);
    (void)state;
}

static void test_after_cancel_nothing_new_comes(void **state)
{
    struct bench b;
    bench_set_up(&b);
    bench_open_both(&b);
    fill_loop(&b, 1);
    struct message *m = bench_await_message(&b);
    source_cancel(b.source);
    for (int i = 0; i < 20; i++)
        bench_turn(&b);
    fill_loop(&b, 1);
    bench_expect_nothing(&b);
    assert_true(source_is_up(b.source));
    source_ack(b.source, m); /* what came before can still be acknowledged */
    source_close(b.source, 5000);
    bench_await_depth(&b, LOOP, 1);
    message_free(m);
    bench_tear_down(&b);
    (void)state;
}

static void test_a_deleted_queue_takes_the_source_down(void **state)
{
    struct bench b;
    bench_set_up(&b);
    bench_open_source(&b);
    amqp_queue_delete(b.admin, 1, amqp_cstring_bytes(LOOP), 0, 0);
    for (int64_t until = clock_now() + PATIENCE; source_is_up(b.source) && clock_now() < until;) {
        bench_turn(&b);
        assert_null(source_pull(b.source));
    }
    assert_string_equal(source_error(b.source),
                        "the broker cancelled the consumer (was queue '" LOOP
                        "' deleted, or its consumer timeout over?)");
    source_close(b.source, 0);
    bench_open_source(&b); /* which makes it again */
    bench_tear_down(&b);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_returns_find_their_copies_among_many),
        cmocka_unit_test(test_a_full_queue_nacks),
        cmocka_unit_test(test_room_is_what_is_not_in_flight),
        cmocka_unit_test(test_an_exchange_that_goes_takes_the_sink_down),
        cmocka_unit_test(test_what_is_not_acknowledged_comes_again),
        cmocka_unit_test(test_a_rejected_message_is_parked),
        cmocka_unit_test(test_nothing_is_read_while_it_is_not_wanted),
        cmocka_unit_test(test_after_cancel_nothing_new_comes),
        cmocka_unit_test(test_a_deleted_queue_takes_the_source_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
