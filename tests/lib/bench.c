#include "bench.h"

#include "clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <amqp_framing.h>
#include <amqp_tcp_socket.h>
#include <cmocka.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

static char name_route[] = "test";
static char name_loop[] = LOOP;
static char name_parked[] = PARKED;
char bench_exchange[] = EXCHANGE;

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

void bench_set_up(struct bench *b)
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

void bench_open_sink(struct bench *b)
{
    bool permanent;
    b->sink = sink_new(&b->config, &b->route, SINK_COPIES);
    if (!sink_open(b->sink, &permanent))
        fail_msg("sink: %s", sink_error(b->sink));
}

void bench_open_source(struct bench *b)
{
    bool permanent;
    if (!source_open(b->source, &permanent))
        fail_msg("source: %s", source_error(b->source));
}

void bench_open_both(struct bench *b)
{
    bench_open_source(b); /* first: the inbound queue is to be made as such */
    bench_open_sink(b);
}

void bench_tear_down(struct bench *b)
{
    source_free(b->source);
    sink_free(b->sink);
    delete_all(b);
    admin_close(b);
    url_free_broker(&b->url);
}

void bench_turn(struct bench *b)
{
    struct pollfd fds[2] = {{.fd = source_fd(b->source), .events = source_events(b->source, true)},
                            {.fd = -1}};
    if (b->sink)
        fds[1] = (struct pollfd){.fd = sink_fd(b->sink), .events = sink_events(b->sink)};
    poll(fds, 2, 10);
    int64_t now = clock_now();
    source_read(b->source, true, now);
    source_flush(b->source, now, 0);
    if (!b->sink)
        return;
    sink_read(b->sink, now);
    sink_flush(b->sink, now);
}

struct message *bench_await_message(struct bench *b)
{
    struct message *m;
    int64_t until = clock_now() + PATIENCE;
    while (!(m = source_pull(b->source))) {
        if (!source_is_up(b->source) || clock_now() > until)
            fail_msg("no message: %s, %s", source_error(b->source), sink_error(b->sink));
        bench_turn(b);
    }
    return m;
}

struct message *bench_await_answer(struct bench *b, enum sink_answer *answer)
{
    struct message *m;
    int64_t until = clock_now() + PATIENCE;
    while (!(m = sink_next(b->sink, answer))) {
        if (!sink_is_up(b->sink) || clock_now() > until)
            fail_msg("no answer: %s", sink_error(b->sink));
        bench_turn(b);
    }
    return m;
}

void bench_expect_nothing(struct bench *b)
{
    for (int i = 0; i < 20; i++) {
        bench_turn(b);
        assert_null(source_pull(b->source));
    }
}

uint8_t bench_body_byte(size_t i)
{
    return (uint8_t)(i * 7 + i / 251);
}

struct message *bench_message(const char *routing_key, struct span properties, size_t body)
{
    struct span key = span_of(routing_key);
    struct message *m = message_new(0, key.len, properties.len, body);
    uint8_t *to = (uint8_t *)(m + 1);
    memcpy(to, key.data, key.len);
    to += key.len;
    memcpy(to, properties.data, properties.len);
    to += properties.len;
    for (size_t i = 0; i < body; i++)
        to[i] = bench_body_byte(i);
    m->copy = (struct copy){.first_seen = 1782640800123, .attempt = 1};
    return m;
}

static const uint8_t no_properties_bytes[] = {0, 0};
const struct span bench_no_properties = {no_properties_bytes, sizeof no_properties_bytes};

struct message *bench_publish(struct bench *b, struct message *m)
{
    int64_t until = clock_now() + PATIENCE;
    while (sink_room(b->sink) == 0) {
        if (!sink_is_up(b->sink) || clock_now() > until)
            fail_msg("no room: %s", sink_error(b->sink));
        bench_turn(b);
    }
    assert_int_equal(sink_publish(b->sink, m), SINK_PUBLISHED);
    return m;
}

uint32_t bench_depth(struct bench *b, const char *queue)
{
    amqp_queue_declare_ok_t *ok =
        amqp_queue_declare(b->admin, 1, amqp_cstring_bytes(queue), 1, 0, 0, 0, amqp_empty_table);
    assert_non_null(ok);
    return ok->message_count;
}

void bench_await_depth(struct bench *b, const char *queue, uint32_t depth)
{
    int64_t until = clock_now() + PATIENCE;
    while (bench_depth(b, queue) != depth) {
        if (clock_now() > until)
            fail_msg("%s holds %u messages, not %u", queue, bench_depth(b, queue), depth);
        bench_turn(b);
    }
}

void bench_add_every_type(struct buffer *table, char l)
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

struct buffer bench_properties_of_every_type(void)
{
    struct buffer table = {0};
    struct buffer properties = {0};
    bench_add_every_type(&table, 'L');
    buffer_add_u16(&properties, 1 << 13 | 1 << 12); /* headers, delivery mode */
    buffer_add_u32(&properties, (uint32_t)table.len);
    buffer_add_span(&properties, buffer_span(&table));
    buffer_add_u8(&properties, 2);
    buffer_free(&table);
    return properties;
}

void bench_make_full_queue(struct bench *b)
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

int bench_broker_major(const struct bench *b)
{
    const amqp_table_t *about = amqp_get_server_properties(b->admin);
    for (int i = 0; i < about->num_entries; i++) {
        const amqp_table_entry_t *e = &about->entries[i];
        if (e->key.len == strlen("version") && memcmp(e->key.bytes, "version", e->key.len) == 0)
            return (int)strtol(e->value.value.bytes.bytes, NULL, 10);
    }
    fail_msg("the broker tells no version");
    return 0;
}
