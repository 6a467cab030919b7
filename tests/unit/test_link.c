/*
 * amqp.h, content.h, sink.h and source.h against a peer that does what no broker should do, or what
 * none does on demand: broken frames, silence, a full socket, a connection that is gone.
 */
#include "amqp.h"
#include "clock.h"
#include "content.h"
#include "sink.h"
#include "source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FRAME_MAX 4096
#define CONSUME "\0\x3c\0\x14"

/* The peer: what it says while the link opens, and then a socket that the test speaks through. */
struct bench {
    struct config config;
    struct broker_url url;
    struct route_config route;
    struct link *link;
    int listener;
    int peer;
    struct buffer first; /* said at once */
    struct buffer then;  /* said when it was asked to consume */
    pthread_t thread;
};

static char name_host[] = "127.0.0.1";
static char name_vhost[] = "/";
static char name_route[] = "r";
static char name_queue[] = "q";

/* ---- The peer ---- */

static void add_frame(struct buffer *b, uint8_t type, uint16_t channel, const void *payload,
                      size_t len)
{
    buffer_add_u8(b, type);
    buffer_add_u16(b, channel);
    buffer_add_u32(b, (uint32_t)len);
    buffer_add(b, payload, len);
    buffer_add_u8(b, AMQP_FRAME_END);
}

static void add_method(struct buffer *b, uint16_t channel, amqp_method_number_t id, void *method)
{
    uint8_t payload[1024] = {(uint8_t)(id >> 24), (uint8_t)(id >> 16), (uint8_t)(id >> 8),
                             (uint8_t)id};
    int len = amqp_encode_method(id, method, (amqp_bytes_t){sizeof payload - 4, payload + 4});
    assert_true(len >= 0);
    add_frame(b, AMQP_FRAME_METHOD, channel, payload, (size_t)len + 4);
}

static void add_handshake(struct buffer *b)
{
    amqp_table_entry_t entries[2] = {{.key = amqp_cstring_bytes("product")},
                                     {.key = amqp_cstring_bytes("version")}};
    entries[0].value.kind = entries[1].value.kind = AMQP_FIELD_KIND_UTF8;
    entries[0].value.value.bytes = amqp_cstring_bytes("RabbitMQ");
    entries[1].value.value.bytes = amqp_cstring_bytes("4.1.0-rc.2");
    amqp_connection_start_t start = {.version_major = 0,
                                     .version_minor = 9,
                                     .server_properties = {2, entries},
                                     .mechanisms = amqp_cstring_bytes("PLAIN"),
                                     .locales = amqp_cstring_bytes("en_US")};
    amqp_connection_tune_t tune = {.channel_max = 10, .frame_max = FRAME_MAX, .heartbeat = 1};
    amqp_connection_open_ok_t open_ok = {0};
    amqp_channel_open_ok_t channel_ok = {0};
    add_method(b, 0, AMQP_CONNECTION_START_METHOD, &start);
    add_method(b, 0, AMQP_CONNECTION_TUNE_METHOD, &tune);
    add_method(b, 0, AMQP_CONNECTION_OPEN_OK_METHOD, &open_ok);
    add_method(b, 1, AMQP_CHANNEL_OPEN_OK_METHOD, &channel_ok);
}

static void say(int fd, const void *data, size_t len)
{
    assert_int_equal(send(fd, data, len, MSG_NOSIGNAL), (ssize_t)len);
}

static void say_buffer(struct bench *b, struct buffer *bytes)
{
    say(b->peer, bytes->data, bytes->len);
    buffer_clear(bytes);
}

static void *serve(void *arg)
{
    struct bench *b = arg;
    uint8_t seen[16384];
    size_t len = 0;
    b->peer = accept(b->listener, NULL, NULL);
    if (b->first.len == 0)
        shutdown(b->peer, SHUT_RDWR);
    else
        say_buffer(b, &b->first);
    while (b->then.len && len < sizeof seen) {
        ssize_t n = recv(b->peer, seen + len, sizeof seen - len, 0);
        if (n <= 0)
            break;
        len += (size_t)n;
        if (memmem(seen, len, CONSUME, 4))
            say_buffer(b, &b->then);
    }
    return NULL;
}

static void set_up(struct bench *b)
{
    *b = (struct bench){.peer = -1};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    b->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(b->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(b->listener, 1), 0);
    getsockname(b->listener, (struct sockaddr *)&address, &size);
    b->url = (struct broker_url){
        .host = name_host, .port = ntohs(address.sin_port), .vhost = name_vhost};
    b->config.broker.urls.count = 1;
    b->config.broker.parsed = &b->url;
    b->config.broker.heartbeat = 10000;
    b->route.name = name_route;
    b->route.from.queue = name_queue;
    b->route.from.prefetch = 10;
    b->route.to.queue = name_queue;
    b->route.to.unconfirmed = 4;
    b->route.park.queue = name_queue;
    add_handshake(&b->first);
}

static void begin_serving(struct bench *b)
{
    assert_int_equal(pthread_create(&b->thread, NULL, serve, b), 0);
}

static void open_link(struct bench *b)
{
    enum link_failure failure;
    b->link = link_new(&b->config.broker, "test");
    begin_serving(b);
    if (!link_open(b->link, &failure))
        fail_msg("%s", link_error(b->link));
    pthread_join(b->thread, NULL);
}

static void start_link(struct bench *b)
{
    open_link(b);
    if (!link_start(b->link))
        fail_msg("%s", link_error(b->link));
}

static void tear_down(struct bench *b)
{
    link_free(b->link);
    if (b->peer >= 0)
        close(b->peer);
    close(b->listener);
    buffer_free(&b->first);
    buffer_free(&b->then);
}

static void await_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 5000), 1);
}

/* Reads from the link until it has a frame or is down. */
static bool next_frame(struct bench *b, struct link_frame *f)
{
    while (link_is_up(b->link)) {
        if (link_next(b->link, f))
            return true;
        if (!link_is_up(b->link))
            break;
        await_readable(link_fd(b->link));
        link_read(b->link, clock_now());
    }
    return false;
}

static void assert_down(const char *label, const char *error, const char *want)
{
    if (!strstr(error, want))
        fail_msg("%s: \"%s\" does not say \"%s\"", label, error, want);
}

/* ---- Opening ---- */

static void test_what_the_peer_says_of_itself(void **state)
{
    struct bench b;
    set_up(&b);
    start_link(&b);
    char want[64];
    snprintf(want, sizeof want, "RabbitMQ 4.1.0-rc.2 at 127.0.0.1:%d", b.url.port);
    assert_string_equal(link_describe(b.link), want);
    assert_int_equal(link_broker_version(b.link), 40100);
    assert_string_equal(link_user(b.link), "guest");
    assert_int_equal(link_frame_room(b.link), FRAME_MAX - 8);
    tear_down(&b);
    (void)state;
}

/* What the library has read already, but nobody asked for, is not lost. */
static void test_blocked_at_once(void **state)
{
    struct bench b;
    set_up(&b);
    amqp_connection_blocked_t blocked = {amqp_cstring_bytes("low on disk")};
    add_method(&b.first, 0, AMQP_CONNECTION_BLOCKED_METHOD, &blocked);
    start_link(&b);
    const char *reason;
    struct link_frame f;
    assert_true(link_blocked(b.link, &reason));
    assert_string_equal(reason, "low on disk");
    amqp_connection_unblocked_t unblocked = {0};
    struct buffer more = {0};
    add_method(&more, 0, AMQP_CONNECTION_UNBLOCKED_METHOD, &unblocked);
    say_buffer(&b, &more);
    await_readable(link_fd(b.link));
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
    set_up(&b);
    buffer_add(&b.first, "\x08\0\0", 3);
    open_link(&b);
    assert_false(link_start(b.link));
    assert_down("half a frame", link_error(b.link), "taking the connection over: ");
    tear_down(&b);
    (void)state;
}

static void test_a_peer_that_closes_during_login_may_be_tried_again(void **state)
{
    struct bench b;
    set_up(&b);
    buffer_clear(&b.first); /* a proxy in front of no broker does this */
    b.link = link_new(&b.config.broker, "test");
    begin_serving(&b);
    enum link_failure failure = LINK_REFUSED;
    assert_false(link_open(b.link, &failure));
    pthread_join(b.thread, NULL);
    assert_int_equal(failure, LINK_FAILED);
    tear_down(&b);
    (void)state;
}

/* ---- Frames ---- */

static void test_broken_frames_take_the_link_down(void **state)
{
#define BYTES(text) text, sizeof text - 1
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
        start_link(&b);
        say(b.peer, table[i].bytes, table[i].len);
        struct link_frame f;
        assert_false(next_frame(&b, &f));
        assert_down(table[i].label, link_error(b.link), table[i].want);
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
    start_link(&b);
    struct buffer bytes = {0};
    amqp_basic_deliver_t deliver = {.consumer_tag = amqp_cstring_bytes("c"),
                                    .delivery_tag = 77,
                                    .routing_key = amqp_cstring_bytes("key")};
    add_frame(&bytes, AMQP_FRAME_HEARTBEAT, 0, NULL, 0);
    add_method(&bytes, 1, AMQP_BASIC_DELIVER_METHOD, &deliver);
    struct link_frame f;
    for (size_t i = 0; i < bytes.len; i++) {
        assert_false(link_next(b.link, &f));
        say(b.peer, bytes.data + i, 1);
        await_readable(link_fd(b.link));
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
    start_link(&b);
    add_method(&bytes, 1, AMQP_CHANNEL_CLOSE_METHOD, &channel);
    say_buffer(&b, &bytes);
    assert_false(next_frame(&b, &f));
    assert_string_equal(link_error(b.link), "broker closed the channel: 406 WHY - x");
    assert_int_equal(link_how_failed(b.link), LINK_REFUSED);
    tear_down(&b);

    set_up(&b);
    start_link(&b);
    add_method(&bytes, 0, AMQP_CONNECTION_CLOSE_METHOD, &connection);
    say_buffer(&b, &bytes);
    assert_false(next_frame(&b, &f));
    assert_string_equal(link_error(b.link), "broker closed the connection: 320 BYE");
    assert_int_equal(link_how_failed(b.link), LINK_FAILED);
    link_close(b.link, 0);
    size_t len = 0;
    uint8_t all[4096];
    for (ssize_t n; (n = recv(b.peer, all + len, sizeof all - len, 0)) > 0;)
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
    start_link(&b);
    uint8_t drop[4096];
    assert_true(recv(b.peer, drop, sizeof drop, 0) > 0); /* our part of the login */
    int64_t start = link_deadline(b.link) - 500;         /* the peer asked for one second */
    link_flush(b.link, start + 499);
    assert_int_equal(recv(b.peer, drop, sizeof drop, MSG_DONTWAIT), -1);
    link_flush(b.link, start + 500);
    await_readable(b.peer);
    assert_int_equal(recv(b.peer, drop, sizeof drop, 0), 8);
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
    start_link(&b);
    uint8_t *body = xcalloc(1, SIZE);
    link_put_content(b.link, span_of("header"), (struct span){body, SIZE});
    size_t total = link_unsent(b.link);
    int64_t now = clock_now();
    for (int i = 0; i < 100; i++)
        link_flush(b.link, now + i * 100); /* heartbeats would be due */
    assert_true(clock_now() - now < 1000);
    assert_true(link_is_up(b.link));
    assert_true(link_wants_write(b.link));
    size_t stuck = link_unsent(b.link);
    assert_true(stuck > 0 && stuck < total);
    /* It reads again, and everything is there once. */
    uint8_t *got = xmalloc(total + 65536);
    size_t len = 0;
    while (link_wants_write(b.link)) {
        link_flush(b.link, now);
        ssize_t n = recv(b.peer, got + len, total + 65536 - len, MSG_DONTWAIT);
        len += n > 0 ? (size_t)n : 0;
    }
    shutdown(link_fd(b.link), SHUT_WR);
    for (ssize_t n; (n = recv(b.peer, got + len, total + 65536 - len, 0)) > 0;)
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
    setsockopt(b->peer, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(b->peer);
    b->peer = -1;
    struct pollfd p = {.fd = link_fd(b->link)};
    assert_int_equal(poll(&p, 1, 5000), 1);
}

static void test_a_connection_that_is_gone(void **state)
{
    struct bench b;
    struct link_frame f;
    set_up(&b);
    start_link(&b);
    shutdown(b.peer, SHUT_WR);
    assert_false(next_frame(&b, &f));
    assert_string_equal(link_error(b.link), "broker closed the connection without a word");
    tear_down(&b);

    set_up(&b);
    start_link(&b);
    reset_connection(&b);
    link_rest(b.link, clock_now()); /* seen even by somebody who does not read */
    assert_string_equal(link_error(b.link), "Connection reset by peer");
    tear_down(&b);

    set_up(&b);
    start_link(&b);
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
    start_link(&b);
    int64_t before = clock_now();
    link_close(b.link, 200);
    int64_t took = clock_now() - before;
    assert_true(took >= 200 && took < 2000);
    tear_down(&b);

    set_up(&b);
    start_link(&b);
    amqp_connection_close_ok_t ok = {0};
    add_frame(&bytes, AMQP_FRAME_BODY, 1, "still on its way", 16);
    add_method(&bytes, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &ok);
    say_buffer(&b, &bytes);
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
        start_link(&b);
        if (table[i].begin)
            content_begin(&content, amqp_cstring_bytes("e"), amqp_cstring_bytes("k"));
        for (size_t n = 0; table[i].types[n]; n++) {
            struct link_frame f = {.type = table[i].types[n],
                                   .payload = {(const uint8_t *)table[i].payload, table[i].len}};
            assert_null(content_add(&content, b.link, &f));
        }
        assert_down(table[i].label, link_error(b.link), table[i].want);
        content_reset(&content);
        tear_down(&b);
    }
    (void)state;
}

/* ---- A sink that hears nonsense ---- */

static struct message *new_message(const char *body)
{
    struct message *m = message_new(0, 0, 2, strlen(body));
    memcpy(m + 1, "\0\0", 2);
    memcpy((uint8_t *)(m + 1) + 2, body, strlen(body));
    m->copy = (struct copy){.first_seen = 1, .attempt = 1};
    return m;
}

static struct sink *open_sink(struct bench *b)
{
    amqp_queue_declare_ok_t declared = {.queue = amqp_cstring_bytes("q")};
    amqp_confirm_select_ok_t selected = {0};
    add_method(&b->first, 1, AMQP_QUEUE_DECLARE_OK_METHOD, &declared);
    add_method(&b->first, 1, AMQP_QUEUE_DECLARE_OK_METHOD, &declared);
    add_method(&b->first, 1, AMQP_CONFIRM_SELECT_OK_METHOD, &selected);
    struct sink *s = sink_new(&b->config, &b->route);
    begin_serving(b);
    bool permanent;
    if (!sink_open(s, &permanent))
        fail_msg("%s", sink_error(s));
    pthread_join(b->thread, NULL);
    return s;
}

static void add_confirm(struct buffer *b, char what, uint64_t tag)
{
    amqp_basic_ack_t ack = {tag, what == 'A'};
    amqp_basic_nack_t nack = {tag, what == 'N', 0};
    if (what == 'a' || what == 'A')
        add_method(b, 1, AMQP_BASIC_ACK_METHOD, &ack);
    else
        add_method(b, 1, AMQP_BASIC_NACK_METHOD, &nack);
}

static void add_return(struct buffer *b, const char *properties, size_t len, const char *body)
{
    amqp_basic_return_t back = {.reply_code = 312,
                                .reply_text = amqp_cstring_bytes("NO_ROUTE"),
                                .routing_key = amqp_cstring_bytes("q")};
    struct buffer header = {0};
    add_method(b, 1, AMQP_BASIC_RETURN_METHOD, &back);
    buffer_add_u32(&header, 60 << 16);
    buffer_add_u64(&header, strlen(body));
    buffer_add(&header, properties, len);
    add_frame(b, AMQP_FRAME_HEADER, 1, header.data, header.len);
    if (*body)
        add_frame(b, AMQP_FRAME_BODY, 1, body, strlen(body));
    buffer_free(&header);
}

/* What the sink makes of four copies, with bodies a a b c, and of what the peer says then. */
static void hear(struct sink *s, char answers[8])
{
    struct message *m;
    enum sink_answer answer;
    memset(answers, 0, 8);
    strcpy(answers, "....");
    await_readable(sink_fd(s));
    sink_read(s, clock_now());
    while ((m = sink_next(s, &answer)))
        answers[m->sequence - 1] = answer == SINK_CONFIRMED  ? 'c'
                                   : answer == SINK_RETURNED ? 'r'
                                                             : 'n';
}

static void test_confirms_and_returns(void **state)
{
    /* A script of steps: a tag with a, A, n, N (multiple); R and a body. */
    static const struct {
        const char *label;
        const char *script;
        const char *want; /* for each copy: confirmed, nacked, returned, nothing */
        const char *error;
    } table[] = {
        {"one by one, in any order", "a3 a1 n2", "cnc.", ""},
        {"several at once", "A3", "ccc.", ""},
        {"what is behind was answered before", "n1 A4", "nccc", ""},
        {"nacks several at once", "a2 N4", "ncnn", ""},
        {"returned, then confirmed", "Rb A4", "ccrc", ""},
        {"returned, not confirmed yet", "Rb a1", "c...", ""},
        {"of two that look alike, one of them", "Rb a3 Rc a4", "..rr", ""},
        {"returned is returned, whatever comes then", "Rb n3", "..r.", ""},
        {"a tag never given", "a1 a5", "c...", "confirmed publish 5"},
        {"tag 0", "A0", "....", "confirmed publish 0"},
        {"twice, at once", "a1 a1", "c...", ""},
        {"several, of which some are unknown", "A9", "....", "confirmed publish 9"},
        {"a return of something else", "a1 Rx", "c...", "no copy in flight"},
        {"a return that may be of either", "Ra", "....", "no copy in flight"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct bench b;
        set_up(&b);
        struct sink *s = open_sink(&b);
        struct message *m[4];
        for (size_t n = 0; n < 4; n++) {
            m[n] = new_message((const char *[]){"a", "a", "b", "c"}[n]);
            assert_int_equal(sink_publish(s, m[n]), SINK_PUBLISHED);
        }
        assert_int_equal(sink_room(s), 0);
        struct buffer bytes = {0};
        for (const char *step = table[i].script; *step; step += step[2] ? 3 : 2) {
            if (*step == 'R') /* with a header that a broker's interceptor wrote */
                add_return(&bytes, "\0\0", 2, (char[]){step[1], 0});
            else
                add_confirm(&bytes, *step, (uint64_t)(step[1] - '0'));
        }
        say_buffer(&b, &bytes);
        char answers[8];
        hear(s, answers);
        if (strcmp(answers, table[i].want) != 0)
            fail_msg("%s: %s, not %s", table[i].label, answers, table[i].want);
        assert_down(table[i].label, sink_error(s), table[i].error);
        assert_true(sink_is_up(s) == !*table[i].error);
        for (size_t n = 0; n < 4; n++)
            message_free(m[n]);
        buffer_free(&bytes);
        sink_free(s);
        tear_down(&b);
    }
    (void)state;
}

/* ---- A source that hears nonsense ---- */

static void add_delivery(struct buffer *b, uint64_t tag, const char *body)
{
    amqp_basic_deliver_t deliver = {.consumer_tag = amqp_cstring_bytes("c"), .delivery_tag = tag};
    struct buffer header = {0};
    add_method(b, 1, AMQP_BASIC_DELIVER_METHOD, &deliver);
    if (!body)
        return;
    buffer_add_u32(&header, 60 << 16);
    buffer_add_u64(&header, strlen(body));
    buffer_add_u16(&header, 0);
    add_frame(b, AMQP_FRAME_HEADER, 1, header.data, header.len);
    add_frame(b, AMQP_FRAME_BODY, 1, body, strlen(body));
    buffer_free(&header);
}

static void test_a_source_that_hears_nonsense(void **state)
{
    enum what { AGAIN, BACKWARDS, MIDDLE, ACK, REFUSED };
    static const struct {
        enum what what;
        const char *want;
    } table[] = {
        {AGAIN, "delivery tag 7 after 7"},
        {BACKWARDS, "delivery tag 6 after 7"},
        {MIDDLE, "in the middle of a message"},
        {ACK, "method 60.80 to a consumer"},
        {REFUSED, "broker closed the channel: 403 NO"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct bench b;
        set_up(&b);
        amqp_queue_declare_ok_t declared = {.queue = amqp_cstring_bytes("q")};
        amqp_basic_qos_ok_t qos = {0};
        amqp_basic_consume_ok_t consuming = {amqp_cstring_bytes("c")};
        amqp_channel_close_t no = {.reply_code = 403, .reply_text = amqp_cstring_bytes("NO")};
        add_method(&b.first, 1, AMQP_QUEUE_DECLARE_OK_METHOD, &declared);
        add_method(&b.first, 1, AMQP_QUEUE_DECLARE_OK_METHOD, &declared);
        add_method(&b.first, 1, AMQP_BASIC_QOS_OK_METHOD, &qos);
        if (table[i].what == REFUSED) {
            add_method(&b.then, 1, AMQP_CHANNEL_CLOSE_METHOD, &no);
        } else {
            add_method(&b.then, 1, AMQP_BASIC_CONSUME_OK_METHOD, &consuming);
            add_delivery(&b.then, 7, table[i].what == MIDDLE ? NULL : "body");
            if (table[i].what == ACK)
                add_confirm(&b.then, 'a', 1);
            else
                add_delivery(&b.then, table[i].what == BACKWARDS ? 6 : 7 + (i == MIDDLE), "body");
        }
        struct source *s = source_new(&b.config, &b.route);
        begin_serving(&b);
        bool permanent = false;
        bool opened = source_open(s, &permanent);
        assert_true(opened == (table[i].what != REFUSED));
        assert_true(permanent == (table[i].what == REFUSED));
        while (source_is_up(s)) {
            struct message *m;
            while ((m = source_pull(s)))
                message_free(m);
            if (!source_is_up(s))
                break;
            await_readable(source_fd(s));
            source_read(s, true, clock_now());
        }
        assert_down("source", source_error(s), table[i].want);
        pthread_join(b.thread, NULL);
        source_free(s);
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
        cmocka_unit_test(test_broken_frames_take_the_link_down),
        cmocka_unit_test(test_frames_arrive_byte_by_byte),
        cmocka_unit_test(test_closes_by_the_peer_are_answered),
        cmocka_unit_test(test_heartbeats),
        cmocka_unit_test(test_a_peer_that_does_not_read),
        cmocka_unit_test(test_a_connection_that_is_gone),
        cmocka_unit_test(test_closing_waits_no_longer_than_its_patience),
        cmocka_unit_test(test_contents_out_of_turn),
        cmocka_unit_test(test_confirms_and_returns),
        cmocka_unit_test(test_a_source_that_hears_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
