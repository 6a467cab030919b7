/*
 * source.h, sink.h and topology.h against a real RabbitMQ: what goes through a queue, and the
 * queues themselves. Answers and acknowledgements are in test_amqp_answers.c, faults of the
 * connection in test_link_login.c, test_link_frames.c and test_link_silence.c.
 */
#include "bench.h"
#include "headers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <amqp_framing.h>
#include <cmocka.h>
#include <string.h>

/* ---- Round trips ---- */

static void assert_same_message(struct message *got, const struct message *sent)
{
    assert_true(span_equal(got->body, sent->body));
    assert_true(span_is(got->exchange, ""));
    assert_true(span_is(got->routing_key, LOOP));
    struct properties p;
    struct header h;
    assert_true(properties_read(got->properties, &p));
    assert_true(header_find(p.value[PROPERTY_HEADERS], span_of("x-onlyonce-route"), &h) &&
                span_is(h.value, "test"));
}

static void test_bodies_of_every_size_come_back(void **state)
{
    static const size_t sizes[] = {0,
                                   1,
                                   FRAME_ROOM - 1,
                                   FRAME_ROOM,
                                   FRAME_ROOM + 1,
                                   2UL * FRAME_ROOM - 1,
                                   2UL * FRAME_ROOM,
                                   2UL * FRAME_ROOM + 1,
                                   1 << 20,
                                   9};
    struct bench b;
    bench_set_up(&b);
    bench_open_both(&b);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct message *m = bench_publish(&b, bench_message("in", bench_no_properties, sizes[i]));
        struct message *got = bench_await_message(&b);
        assert_same_message(got, m);
        enum sink_answer answer;
        assert_ptr_equal(bench_await_answer(&b, &answer), m);
        assert_int_equal(answer, SINK_CONFIRMED);
        source_ack(b.source, got);
        message_free(got);
        message_free(m);
    }
    bench_tear_down(&b);
    (void)state;
}

/* RabbitMQ keeps their bytes, and from 4.0 on sorts them. */
static void assert_headers(const struct bench *b, struct span got, struct span want)
{
    struct header last = {0};
    if (bench_broker_major(b) < 4) {
        assert_true(got.len > want.len);
        assert_memory_equal(got.data, want.data, want.len);
        return;
    }
    for (struct header h, same; header_next(&want, &h);)
        if (!header_find(got, h.name, &same) || !span_equal(h.whole, same.whole))
            fail_msg("header %.*s", (int)h.name.len, (const char *)h.name.data);
    for (struct header h; header_next(&got, &h); last = h)
        assert_true(last.name.len == 0 || memcmp(last.name.data, h.name.data, last.name.len) <= 0);
    assert_int_equal(got.len, 0);
}

static void test_headers_of_every_type_come_back(void **state)
{
    struct bench b;
    bench_set_up(&b);
    bench_open_both(&b);
    struct buffer properties = bench_properties_of_every_type();
    struct buffer table = {0};
    bench_add_every_type(&table, 'l');
    struct message *m = bench_publish(&b, bench_message("in", buffer_span(&properties), 3));
    struct message *got = bench_await_message(&b);
    struct properties p;
    assert_true(properties_read(got->properties, &p));
    assert_headers(&b, p.value[PROPERTY_HEADERS], buffer_span(&table));
    message_free(got);
    message_free(m);
    buffer_free(&table);
    buffer_free(&properties);
    bench_tear_down(&b);
    (void)state;
}

static void test_what_the_broker_would_refuse_is_not_sent(void **state)
{
    static const struct {
        const char *label;
        const char *properties;
        size_t len;
        enum sink_result want;
    } table[] = {
        {"a number",
         "\1\0\x05"
         "60000",
         8, SINK_PUBLISHED},
        {"words", "\1\0\3abc", 6, SINK_UNREADABLE},
        {"empty", "\1\0\0", 3, SINK_UNREADABLE},
        {"too much",
         "\1\0\x0a"
         "4294967296",
         13, SINK_UNREADABLE},
        {"a bare reply-to",
         "\2\0\x15"
         "amq.rabbitmq.reply-to",
         24, SINK_UNREADABLE},
        {"no properties at all", "\1\0", 2, SINK_UNREADABLE},
        {"a header of unknown type", "\x20\0\0\0\0\3\1aZ", 9, SINK_UNREADABLE},
    };
    struct bench b;
    bench_set_up(&b);
    bench_open_both(&b);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct span properties = {(const uint8_t *)table[i].properties, table[i].len};
        struct message *m = bench_message("in", properties, 1);
        enum sink_result result = sink_publish(b.sink, m);
        if (result != table[i].want)
            fail_msg("%s: %d", table[i].label, (int)result);
        enum sink_answer answer;
        if (result == SINK_PUBLISHED)
            assert_ptr_equal(bench_await_answer(&b, &answer), m);
        message_free(m);
    }
    assert_true(sink_is_up(b.sink));
    bench_tear_down(&b);
    (void)state;
}

/* ---- Topology ---- */

static void test_what_exists_is_used_as_it_is(void **state)
{
    struct bench b;
    bench_set_up(&b);
    bench_make_full_queue(&b);
    b.route.from.exchange = bench_exchange;
    char all[] = "#";
    char *bindings[] = {all};
    b.route.from.bindings = (struct strings){bindings, 1};
    bench_open_both(&b);
    assert_false(source_dead_letters(b.source));
    /* The exchange was made, and bound. */
    assert_int_equal(amqp_basic_publish(b.admin, 1, amqp_cstring_bytes(EXCHANGE),
                                        amqp_cstring_bytes("any.key"), 0, 0, NULL,
                                        amqp_cstring_bytes("hello")),
                     AMQP_STATUS_OK);
    struct message *m = bench_await_message(&b);
    assert_true(span_is(m->body, "hello"));
    assert_true(span_is(m->exchange, EXCHANGE));
    assert_true(span_is(m->routing_key, "any.key"));
    message_free(m);
    bench_tear_down(&b);
    (void)state;
}

static void make_queue(struct bench *b, const char *type, bool limited)
{
    amqp_table_entry_t entries[2] = {{.key = amqp_cstring_bytes("x-queue-type")},
                                     {.key = amqp_cstring_bytes("x-max-length")}};
    entries[0].value.kind = AMQP_FIELD_KIND_UTF8;
    entries[0].value.value.bytes = amqp_cstring_bytes(type);
    entries[1].value.kind = AMQP_FIELD_KIND_I32;
    entries[1].value.value.i32 = 5;
    amqp_table_t arguments = {limited ? 2 : 1, entries};
    assert_non_null(
        amqp_queue_declare(b->admin, 1, amqp_cstring_bytes(LOOP), 0, 1, 0, 0, arguments));
}

static void test_only_a_quorum_queue_refuses_for_certain(void **state)
{
    static const struct {
        const char *label;
        const char *there;
        bool limited; /* it has an argument of its own */
        enum queue_type configured;
        bool written;
        bool only_looks;
        bool want;
    } table[] = {
        {"made as configured, quorum", NULL, false, QUEUE_QUORUM, false, false, true},
        {"made as configured, classic", NULL, false, QUEUE_CLASSIC, true, false, false},
        {"there, quorum", "quorum", false, QUEUE_QUORUM, false, false, true},
        {"there, classic", "classic", false, QUEUE_QUORUM, false, false, false},
        {"there, classic, and the file says quorum", "classic", false, QUEUE_QUORUM, true, false,
         false},
        {"there, classic, but another argument differs first", "classic", true, QUEUE_QUORUM, false,
         false, false},
        {"there, quorum, likewise", "quorum", true, QUEUE_QUORUM, false, false, false},
        {"likewise, and the file says quorum", "quorum", true, QUEUE_QUORUM, true, false, true},
        {"not ours to declare", "quorum", false, QUEUE_QUORUM, false, true, false},
        {"likewise, and the file says quorum", "quorum", false, QUEUE_QUORUM, true, true, true},
        {"likewise, and it says classic", "classic", false, QUEUE_CLASSIC, true, true, false},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct bench b;
        bench_set_up(&b);
        if (table[i].there)
            make_queue(&b, table[i].there, table[i].limited);
        b.route.to.queue_type = table[i].configured;
        b.route.to.type_is_written = table[i].written;
        b.route.to.declare = !table[i].only_looks;
        bench_open_sink(&b);
        if (sink_nack_is_certain(b.sink) != table[i].want)
            fail_msg("%s", table[i].label);
        bench_tear_down(&b);
    }
    (void)state;
}

/* A queue that takes the place of a quorum queue may be a classic one. */
static void test_a_queue_made_anew_is_looked_at(void **state)
{
    struct bench b;
    bool permanent;
    enum sink_answer answer;
    bench_set_up(&b);
    make_queue(&b, "quorum", false);
    bench_open_sink(&b);
    assert_true(sink_nack_is_certain(b.sink));
    amqp_queue_delete(b.admin, 1, amqp_cstring_bytes(LOOP), 0, 0);
    struct message *m = bench_publish(&b, bench_message("in", bench_no_properties, 1));
    assert_ptr_equal(bench_await_answer(&b, &answer), m);
    assert_int_equal(answer, SINK_RETURNED);
    assert_false(sink_nack_is_certain(b.sink));

    make_queue(&b, "classic", false);
    message_free(m);
    m = bench_publish(&b, bench_message("in", bench_no_properties, 1));
    assert_ptr_equal(bench_await_answer(&b, &answer), m);
    assert_int_equal(answer, SINK_CONFIRMED);
    assert_false(sink_nack_is_certain(b.sink));
    assert_true(sink_is_up(b.sink));
    bench_turn(&b); /* All is answered now. */
    assert_false(sink_is_up(b.sink));
    assert_non_null(strstr(sink_error(b.sink), "was made anew"));

    amqp_queue_delete(b.admin, 1, amqp_cstring_bytes(LOOP), 0, 0);
    make_queue(&b, "quorum", false);
    sink_close(b.sink, 0);
    assert_true(sink_open(b.sink, &permanent));
    assert_true(sink_nack_is_certain(b.sink));
    message_free(m);
    bench_tear_down(&b);
    (void)state;
}

/* The answer would be that it is certain. */
static void test_a_sink_for_others_does_not_ask(void **state)
{
    struct bench b;
    bool permanent;
    bench_set_up(&b);
    make_queue(&b, "quorum", false);
    b.sink = sink_new(&b.config, &b.route, SINK_OTHERS);
    assert_true(sink_open(b.sink, &permanent));
    assert_false(sink_nack_is_certain(b.sink));
    bench_tear_down(&b);
    (void)state;
}

static void test_refusals_are_clear(void **state)
{
    static char wrong[] = "S3cret";
    static char nowhere[] = "no-such-vhost";
    enum what { QUEUE, PASSWORD, VHOST, PORT };
    static const struct {
        const char *label;
        enum what what;
        bool permanent;
        const char *says;
    } table[] = {
        {"a queue that is missing", QUEUE, true,
         "looking for queue '" PARKED "' as user 'guest': 404 NOT_FOUND - no queue '" PARKED "'"},
        {"a wrong password", PASSWORD, true, "403 ACCESS_REFUSED"},
        {"a missing vhost", VHOST, true, "530 NOT_ALLOWED - vhost no-such-vhost not found"},
        {"a closed port", PORT, false, "cannot connect to 127.0.0.1:1: Connection refused"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct bench b;
        bench_set_up(&b);
        struct broker_url changed = b.url;
        b.config.broker.parsed = &changed;
        b.route.from.declare = table[i].what != QUEUE;
        changed.password = table[i].what == PASSWORD ? wrong : changed.password;
        changed.vhost = table[i].what == VHOST ? nowhere : changed.vhost;
        changed.port = table[i].what == PORT ? 1 : changed.port;
        bool permanent = !table[i].permanent;
        assert_false(source_open(b.source, &permanent));
        if (permanent != table[i].permanent || !strstr(source_error(b.source), table[i].says))
            fail_msg("%s: %s", table[i].label, source_error(b.source));
        assert_null(strstr(source_error(b.source), wrong));
        assert_false(source_is_up(b.source));
        bench_tear_down(&b);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bodies_of_every_size_come_back),
        cmocka_unit_test(test_headers_of_every_type_come_back),
        cmocka_unit_test(test_what_the_broker_would_refuse_is_not_sent),
        cmocka_unit_test(test_what_exists_is_used_as_it_is),
        cmocka_unit_test(test_only_a_quorum_queue_refuses_for_certain),
        cmocka_unit_test(test_a_queue_made_anew_is_looked_at),
        cmocka_unit_test(test_a_sink_for_others_does_not_ask),
        cmocka_unit_test(test_refusals_are_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
