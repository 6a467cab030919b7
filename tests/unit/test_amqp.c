/*
 * source.h, sink.h and topology.h against a real RabbitMQ of its own at $ONLYONCE_TEST_AMQP
 * (amqp://user:password@host:port/vhost), in which it makes and deletes queues. Faults of the
 * connection itself are in test_link.c.
 */
#include "clock.h"
#include "headers.h"
#include "sink.h"
#include "source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_tcp_socket.h>
#include <cmocka.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOP "onlyonce-test-loop" /* source and sink on one queue: what is published comes back */
#define PARKED "onlyonce-test-loop.parked"
#define EXCHANGE "onlyonce-test-exchange"
#define PATIENCE 20000
#define FRAME_ROOM 131064

struct bench {
    struct config config;
    struct broker_url url;
    struct route_config route;
    struct source *source;
    struct sink *sink;
    amqp_connection_state_t admin; /* a plain connection, to prepare and to look */
};

static char name_route[] = "test";
static char name_loop[] = LOOP;
static char name_parked[] = PARKED;
static char name_exchange[] = EXCHANGE;

/* ---- The bench ---- */

static void admin_open(struct bench *b)
{
    b->admin = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(b->admin);
    assert_int_equal(amqp_socket_open(socket, b->url.host, b->url.port), AMQP_STATUS_OK);
    amqp_rpc_reply_t reply = amqp_login(b->admin, b->url.vhost, 1, 131072, 60,
                                        AMQP_SASL_METHOD_PLAIN, b->url.username, b->url.password);
    assert_int_equal(reply.reply_type, AMQP_RESPONSE_NORMAL);
    assert_non_null(amqp_channel_open(b->admin, 1));
}

static void admin_close(struct bench *b)
{
    amqp_connection_close(b->admin, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(b->admin);
}

static void delete_all(struct bench *b)
{
    amqp_queue_delete(b->admin, 1, amqp_cstring_bytes(LOOP), 0, 0);
    amqp_queue_delete(b->admin, 1, amqp_cstring_bytes(PARKED), 0, 0);
    amqp_exchange_delete(b->admin, 1, amqp_cstring_bytes(EXCHANGE), 0);
}

static void set_up(struct bench *b)
{
    *b = (struct bench){0};
    char error[256];
    const char *text = getenv("ONLYONCE_TEST_AMQP");
    if (!text)
        fail_msg("set ONLYONCE_TEST_AMQP to the URL of a RabbitMQ for this test alone");
    if (url_read_broker(text, &b->url, error))
        fail_msg("ONLYONCE_TEST_AMQP: %s", error);
    b->config.broker.urls.count = 1;
    b->config.broker.parsed = &b->url;
    b->config.broker.heartbeat = 10000;
    b->route.name = name_route;
    b->route.from.queue = name_loop;
    b->route.from.declare = true;
    b->route.from.prefetch = 1000;
    b->route.to.queue = name_loop;
    b->route.to.declare = true;
    b->route.to.unconfirmed = 300;
    b->route.park.queue = name_parked;
    b->source = source_new(&b->config, &b->route);
    admin_open(b);
    delete_all(b);
}

/* The sink is made late, because it looks at the configuration when it is made. */
static void open_sink(struct bench *b)
{
    bool permanent;
    b->sink = sink_new(&b->config, &b->route);
    if (!sink_open(b->sink, &permanent))
        fail_msg("sink: %s", sink_error(b->sink));
}

static void open_source(struct bench *b)
{
    bool permanent;
    if (!source_open(b->source, &permanent))
        fail_msg("source: %s", source_error(b->source));
}

static void open_both(struct bench *b)
{
    open_source(b); /* first: the inbound queue is to be made as such */
    open_sink(b);
}

static void tear_down(struct bench *b)
{
    source_free(b->source);
    sink_free(b->sink);
    delete_all(b);
    admin_close(b);
    url_free_broker(&b->url);
}

/* One turn of a loop, as a worker turns it. */
static void turn(struct bench *b)
{
    struct pollfd fds[2] = {{.fd = source_fd(b->source), .events = source_events(b->source, true)},
                            {.fd = -1}};
    if (b->sink)
        fds[1] = (struct pollfd){.fd = sink_fd(b->sink), .events = sink_events(b->sink)};
    poll(fds, 2, 10);
    int64_t now = clock_now();
    source_read(b->source, true, now);
    source_flush(b->source, now);
    if (!b->sink)
        return;
    sink_read(b->sink, now);
    sink_flush(b->sink, now);
}

static struct message *await_message(struct bench *b)
{
    struct message *m;
    int64_t until = clock_now() + PATIENCE;
    while (!(m = source_pull(b->source))) {
        if (!source_is_up(b->source) || clock_now() > until)
            fail_msg("no message: %s, %s", source_error(b->source), sink_error(b->sink));
        turn(b);
    }
    return m;
}

static struct message *await_answer(struct bench *b, enum sink_answer *answer)
{
    struct message *m;
    int64_t until = clock_now() + PATIENCE;
    while (!(m = sink_next(b->sink, answer))) {
        if (!sink_is_up(b->sink) || clock_now() > until)
            fail_msg("no answer: %s", sink_error(b->sink));
        turn(b);
    }
    return m;
}

static void assert_nothing_comes(struct bench *b)
{
    for (int i = 0; i < 20; i++) {
        turn(b);
        assert_null(source_pull(b->source));
    }
}

static uint8_t body_byte(size_t i)
{
    return (uint8_t)(i * 7 + i / 251);
}

/* A message as if it had been delivered, to be published. */
static struct message *new_message(const char *routing_key, struct span properties, size_t body)
{
    struct span key = span_of(routing_key);
    struct message *m = message_new(0, key.len, properties.len, body);
    uint8_t *to = (uint8_t *)(m + 1);
    memcpy(to, key.data, key.len);
    to += key.len;
    memcpy(to, properties.data, properties.len);
    to += properties.len;
    for (size_t i = 0; i < body; i++)
        to[i] = body_byte(i);
    m->copy = (struct copy){.first_seen = 1782640800123, .attempt = 1};
    return m;
}

static const uint8_t no_properties_bytes[] = {0, 0};
static const struct span no_properties = {no_properties_bytes, sizeof no_properties_bytes};

static struct message *publish(struct bench *b, struct message *m)
{
    int64_t until = clock_now() + PATIENCE;
    while (sink_room(b->sink) == 0) {
        if (!sink_is_up(b->sink) || clock_now() > until)
            fail_msg("no room: %s", sink_error(b->sink));
        turn(b);
    }
    assert_int_equal(sink_publish(b->sink, m), SINK_PUBLISHED);
    return m;
}

static uint32_t queue_depth(struct bench *b, const char *queue)
{
    amqp_queue_declare_ok_t *ok =
        amqp_queue_declare(b->admin, 1, amqp_cstring_bytes(queue), 1, 0, 0, 0, amqp_empty_table);
    assert_non_null(ok);
    return ok->message_count;
}

static void await_depth(struct bench *b, const char *queue, uint32_t depth)
{
    int64_t until = clock_now() + PATIENCE;
    while (queue_depth(b, queue) != depth) {
        if (clock_now() > until)
            fail_msg("%s holds %u messages, not %u", queue, queue_depth(b, queue), depth);
        turn(b);
    }
}

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
    set_up(&b);
    open_both(&b);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct message *m = publish(&b, new_message("in", no_properties, sizes[i]));
        struct message *got = await_message(&b);
        assert_same_message(got, m);
        enum sink_answer answer;
        assert_ptr_equal(await_answer(&b, &answer), m);
        assert_int_equal(answer, SINK_CONFIRMED);
        source_ack(b.source, got);
        message_free(got);
        message_free(m);
    }
    tear_down(&b);
    (void)state;
}

/*
 * Every field type, two of them with others inside, and one nested deeper than anybody follows. An
 * L that went through a queue is an l: RabbitMQ writes it so.
 */
static void add_every_type(struct buffer *table, char l)
{
    static const char fields[] = "\1tt\1"
                                 "\1bb\x80"
                                 "\1BB\xff"
                                 "\1ss\x80\0"
                                 "\1uu\xff\xff"
                                 "\1II\x80\0\0\0"
                                 "\1ii\xff\xff\xff\xff"
                                 "\1ll\x80\0\0\0\0\0\0\0"
                                 "\1L?\x7f\xff\xff\xff\xff\xff\xff\xff"
                                 "\1ff\x3f\xc0\0\0"
                                 "\1dd\x3f\xf8\0\0\0\0\0\1"
                                 "\1DD\2\0\0\0\1"
                                 "\1SS\0\0\0\2\0\xff"
                                 "\1xx\0\0\0\2\0\xff"
                                 "\1TT\0\0\0\0\0\0\0\1"
                                 "\1VV"
                                 "\0V"
                                 "\1AA\0\0\0\3t\1V"
                                 "\1FF\0\0\0\4\1at\1";
    buffer_add(table, fields, sizeof fields - 1);
    *(uint8_t *)memchr(table->data, '?', table->len) = (uint8_t)l;
    uint32_t depth = 300;
    buffer_add(table, "\4deep", 5);
    for (uint32_t i = depth; i > 0; i--) {
        buffer_add_u8(table, 'F');
        buffer_add_u32(table, (i - 1) * 6);
        if (i > 1)
            buffer_add_u8(table, 0); /* the inner one's name */
    }
}

static struct buffer properties_of_every_type(void)
{
    struct buffer table = {0};
    struct buffer properties = {0};
    add_every_type(&table, 'L');
    buffer_add_u16(&properties, 1 << 13 | 1 << 12); /* headers, delivery mode */
    buffer_add_u32(&properties, (uint32_t)table.len);
    buffer_add_span(&properties, buffer_span(&table));
    buffer_add_u8(&properties, 2);
    buffer_free(&table);
    return properties;
}

static void test_headers_of_every_type_come_back(void **state)
{
    struct bench b;
    set_up(&b);
    open_both(&b);
    struct buffer properties = properties_of_every_type();
    struct buffer table = {0};
    add_every_type(&table, 'l');
    struct message *m = publish(&b, new_message("in", buffer_span(&properties), 3));
    struct message *got = await_message(&b);
    struct properties p;
    assert_true(properties_read(got->properties, &p));
    struct span headers = p.value[PROPERTY_HEADERS];
    assert_true(headers.len > table.len);
    assert_memory_equal(headers.data, table.data, table.len);
    message_free(got);
    message_free(m);
    buffer_free(&table);
    buffer_free(&properties);
    tear_down(&b);
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
    set_up(&b);
    open_both(&b);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct span properties = {(const uint8_t *)table[i].properties, table[i].len};
        struct message *m = new_message("in", properties, 1);
        enum sink_result result = sink_publish(b.sink, m);
        if (result != table[i].want)
            fail_msg("%s: %d", table[i].label, (int)result);
        enum sink_answer answer;
        if (result == SINK_PUBLISHED)
            assert_ptr_equal(await_answer(&b, &answer), m);
        message_free(m);
    }
    assert_true(sink_is_up(b.sink));
    tear_down(&b);
    (void)state;
}

/* ---- Answers ---- */

static void test_returns_find_their_copies_among_many(void **state)
{
    enum { COUNT = 300 };
    struct bench b;
    set_up(&b);
    b.route.to.queue = NULL;
    b.route.to.exchange = name_exchange;
    amqp_exchange_declare(b.admin, 1, amqp_cstring_bytes(EXCHANGE), amqp_cstring_bytes("direct"), 0,
                          0, 0, 0, amqp_empty_table);
    open_both(&b);
    amqp_queue_bind(b.admin, 1, amqp_cstring_bytes(LOOP), amqp_cstring_bytes(EXCHANGE),
                    amqp_cstring_bytes("known"), amqp_empty_table);
    struct message *sent[COUNT];
    struct buffer properties = properties_of_every_type();
    for (size_t i = 0; i < COUNT; i++) {
        sent[i] = new_message(i % 3 == 1 ? "known" : "unknown", buffer_span(&properties), i % 5);
        sent[i]->copy.first_seen += (int64_t)i; /* it is all that tells them apart */
        publish(&b, sent[i]);
    }
    for (size_t i = 0; i < COUNT; i++) {
        enum sink_answer answer;
        struct message *m = await_answer(&b, &answer);
        size_t at = (size_t)(m->copy.first_seen - 1782640800123);
        assert_ptr_equal(sent[at], m);
        assert_int_equal(answer, at % 3 == 1 ? SINK_CONFIRMED : SINK_RETURNED);
        sent[at] = NULL;
        message_free(m);
    }
    assert_int_equal(sink_room(b.sink), COUNT);
    buffer_free(&properties);
    tear_down(&b);
    (void)state;
}

static void make_full_queue(struct bench *b)
{
    amqp_table_entry_t entries[2] = {{.key = amqp_cstring_bytes("x-max-length")},
                                     {.key = amqp_cstring_bytes("x-overflow")}};
    entries[0].value.kind = AMQP_FIELD_KIND_I32;
    entries[0].value.value.i32 = 1;
    entries[1].value.kind = AMQP_FIELD_KIND_UTF8;
    entries[1].value.value.bytes = amqp_cstring_bytes("reject-publish");
    amqp_table_t arguments = {2, entries};
    assert_non_null(
        amqp_queue_declare(b->admin, 1, amqp_cstring_bytes(LOOP), 0, 1, 0, 0, arguments));
}

static void test_a_full_queue_nacks(void **state)
{
    enum { COUNT = 50 };
    struct bench b;
    set_up(&b);
    make_full_queue(&b);
    open_sink(&b);
    for (size_t i = 0; i < COUNT; i++)
        publish(&b, new_message("in", no_properties, i));
    size_t nacked = 0;
    for (size_t i = 0; i < COUNT; i++) {
        enum sink_answer answer;
        struct message *m = await_answer(&b, &answer);
        assert_int_not_equal(answer, SINK_RETURNED);
        nacked += answer == SINK_NACKED;
        message_free(m);
    }
    assert_int_equal(queue_depth(&b, LOOP), COUNT - nacked);
    assert_true(nacked >= COUNT - 2);
    tear_down(&b);
    (void)state;
}

static void test_room_is_what_is_not_in_flight(void **state)
{
    struct bench b;
    set_up(&b);
    b.route.to.unconfirmed = 3;
    open_sink(&b);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(sink_room(b.sink), 3 - i);
        publish(&b, new_message("in", no_properties, 0));
    }
    assert_int_equal(sink_room(b.sink), 0);
    for (size_t i = 0; i < 3; i++) {
        enum sink_answer answer;
        message_free(await_answer(&b, &answer));
    }
    assert_int_equal(sink_room(b.sink), 3);
    /* More than a socket takes: for now there is room for nothing else. */
    struct message *large = publish(&b, new_message("in", no_properties, 32 << 20));
    assert_int_equal(sink_room(b.sink), 0);
    enum sink_answer answer;
    assert_ptr_equal(await_answer(&b, &answer), large);
    message_free(large);
    tear_down(&b);
    (void)state;
}

static void test_an_exchange_that_goes_takes_the_sink_down(void **state)
{
    struct bench b;
    set_up(&b);
    b.route.to.queue = NULL;
    b.route.to.exchange = name_exchange;
    amqp_exchange_declare(b.admin, 1, amqp_cstring_bytes(EXCHANGE), amqp_cstring_bytes("direct"), 0,
                          0, 0, 0, amqp_empty_table);
    open_sink(&b);
    amqp_exchange_delete(b.admin, 1, amqp_cstring_bytes(EXCHANGE), 0);
    struct message *m = publish(&b, new_message("in", no_properties, 0));
    for (int64_t until = clock_now() + PATIENCE; sink_is_up(b.sink) && clock_now() < until;)
        turn(&b);
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
    tear_down(&b);
    (void)state;
}

/* ---- Acknowledging ---- */

static void fill_loop(struct bench *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        publish(b, new_message("in", no_properties, i));
    for (size_t i = 0; i < count; i++) {
        enum sink_answer answer;
        message_free(await_answer(b, &answer));
    }
}

static void test_what_is_not_acknowledged_comes_again(void **state)
{
    enum { COUNT = 12 };
    /* Flush by flush, which are acknowledged: behind a gap, the gap's half, the rest up to another.
     */
    static const size_t flushes[][COUNT + 1] = {{3, 4, 6, 99}, {0, 99}, {2, 1, 99}, {9, 8, 7, 99}};
    struct bench b;
    set_up(&b);
    open_both(&b);
    fill_loop(&b, COUNT);
    struct message *m[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        m[i] = await_message(&b);
        assert_int_equal(m[i]->body.len, i);
        assert_int_equal(m[i]->epoch, m[0]->epoch);
        assert_false(m[i]->redelivered);
    }
    for (size_t f = 0; f < sizeof flushes / sizeof *flushes; f++) {
        for (size_t i = 0; flushes[f][i] != 99; i++)
            source_ack(b.source, m[flushes[f][i]]);
        turn(&b);
    }
    source_ack(b.source, m[11]); /* not flushed: that is closing's */
    source_close(b.source, 5000);
    open_source(&b);
    static const size_t left[] = {5, 10};
    for (size_t i = 0; i < 2; i++) {
        struct message *again = await_message(&b);
        assert_int_equal(again->body.len, left[i]);
        assert_true(again->redelivered);
        assert_int_not_equal(again->epoch, m[0]->epoch);
        message_free(again);
    }
    assert_nothing_comes(&b);
    /* Tags of the old connection: 1 and 2 are open again, as other messages. */
    source_ack(b.source, m[0]);
    source_reject(b.source, m[1]);
    source_close(b.source, 5000);
    await_depth(&b, LOOP, 2);
    for (size_t i = 0; i < COUNT; i++)
        message_free(m[i]);
    tear_down(&b);
    (void)state;
}

static void test_a_rejected_message_is_parked(void **state)
{
    struct bench b;
    set_up(&b);
    open_both(&b);
    assert_true(source_dead_letters(b.source));
    fill_loop(&b, 3);
    struct message *m[3];
    for (size_t i = 0; i < 3; i++)
        m[i] = await_message(&b);
    source_ack(b.source, m[0]);
    source_reject(b.source, m[1]);
    source_ack(b.source, m[2]);
    await_depth(&b, PARKED, 1);
    source_close(b.source, 5000);
    assert_int_equal(queue_depth(&b, LOOP), 0);
    open_source(&b); /* It is as it was made, which is known again. */
    assert_true(source_dead_letters(b.source));
    for (size_t i = 0; i < 3; i++)
        message_free(m[i]);
    tear_down(&b);
    (void)state;
}

static void test_nothing_is_read_while_it_is_not_wanted(void **state)
{
    struct bench b;
    set_up(&b);
    open_both(&b);
    fill_loop(&b, 1);
    struct message *m = await_message(&b);
    source_ack(b.source, m);
    message_free(m);
    assert_int_equal(source_events(b.source, false) & POLLIN, 0);
    publish(&b, new_message("in", no_properties, 5));
    for (int i = 0; i < 30; i++) {
        int64_t now = clock_now();
        source_read(b.source, false, now);
        source_flush(b.source, now); /* acknowledges the first */
        assert_null(source_pull(b.source));
        poll(NULL, 0, 10);
        sink_read(b.sink, now);
        sink_flush(b.sink, now);
    }
    enum sink_answer answer;
    message_free(await_answer(&b, &answer));
    m = await_message(&b);
    assert_int_equal(m->body.len, 5);
    assert_int_equal(queue_depth(&b, LOOP), 0);
    message_free(m);
    tear_down(&b);
    (void)state;
}

static void test_after_cancel_nothing_new_comes(void **state)
{
    struct bench b;
    set_up(&b);
    open_both(&b);
    fill_loop(&b, 1);
    struct message *m = await_message(&b);
    source_cancel(b.source);
    for (int i = 0; i < 20; i++)
        turn(&b);
    fill_loop(&b, 1);
    assert_nothing_comes(&b);
    assert_true(source_is_up(b.source));
    source_ack(b.source, m); /* what came before can still be acknowledged */
    source_close(b.source, 5000);
    await_depth(&b, LOOP, 1);
    message_free(m);
    tear_down(&b);
    (void)state;
}

static void test_a_deleted_queue_takes_the_source_down(void **state)
{
    struct bench b;
    set_up(&b);
    open_source(&b);
    amqp_queue_delete(b.admin, 1, amqp_cstring_bytes(LOOP), 0, 0);
    for (int64_t until = clock_now() + PATIENCE; source_is_up(b.source) && clock_now() < until;) {
        turn(&b);
        assert_null(source_pull(b.source));
    }
    assert_string_equal(source_error(b.source),
                        "the broker cancelled the consumer (was queue '" LOOP "' deleted?)");
    source_close(b.source, 0);
    open_source(&b); /* which makes it again */
    tear_down(&b);
    (void)state;
}

/* ---- Topology ---- */

static void test_what_exists_is_used_as_it_is(void **state)
{
    struct bench b;
    set_up(&b);
    make_full_queue(&b);
    b.route.from.exchange = name_exchange;
    char all[] = "#";
    char *bindings[] = {all};
    b.route.from.bindings = (struct strings){bindings, 1};
    open_both(&b);
    assert_false(source_dead_letters(b.source));
    /* The exchange was made, and bound. */
    assert_int_equal(amqp_basic_publish(b.admin, 1, amqp_cstring_bytes(EXCHANGE),
                                        amqp_cstring_bytes("any.key"), 0, 0, NULL,
                                        amqp_cstring_bytes("hello")),
                     AMQP_STATUS_OK);
    struct message *m = await_message(&b);
    assert_true(span_is(m->body, "hello"));
    assert_true(span_is(m->exchange, EXCHANGE));
    assert_true(span_is(m->routing_key, "any.key"));
    message_free(m);
    tear_down(&b);
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
        set_up(&b);
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
        tear_down(&b);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bodies_of_every_size_come_back),
        cmocka_unit_test(test_headers_of_every_type_come_back),
        cmocka_unit_test(test_what_the_broker_would_refuse_is_not_sent),
        cmocka_unit_test(test_returns_find_their_copies_among_many),
        cmocka_unit_test(test_a_full_queue_nacks),
        cmocka_unit_test(test_room_is_what_is_not_in_flight),
        cmocka_unit_test(test_an_exchange_that_goes_takes_the_sink_down),
        cmocka_unit_test(test_what_is_not_acknowledged_comes_again),
        cmocka_unit_test(test_a_rejected_message_is_parked),
        cmocka_unit_test(test_nothing_is_read_while_it_is_not_wanted),
        cmocka_unit_test(test_after_cancel_nothing_new_comes),
        cmocka_unit_test(test_a_deleted_queue_takes_the_source_down),
        cmocka_unit_test(test_what_exists_is_used_as_it_is),
        cmocka_unit_test(test_refusals_are_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
