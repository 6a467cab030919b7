#include "peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONSUME "\0\x3c\0\x14" /* basic.consume, as it stands in its frame */

static char name_host[] = "127.0.0.1";
static char name_user[] = "guest";
static char name_vhost[] = "/";
static char name_route[] = "r";
static char name_queue[] = "q";

void peer_add_frame(struct buffer *b, uint8_t type, uint16_t channel, const void *payload,
                    size_t len)
{
    buffer_add_u8(b, type);
    buffer_add_u16(b, channel);
    buffer_add_u32(b, (uint32_t)len);
    buffer_add(b, payload, len);
    buffer_add_u8(b, AMQP_FRAME_END);
}

void peer_add_method(struct buffer *b, uint16_t channel, amqp_method_number_t id, void *method)
{
    uint8_t payload[1024] = {(uint8_t)(id >> 24), (uint8_t)(id >> 16), (uint8_t)(id >> 8),
                             (uint8_t)id};
    int len = amqp_encode_method(id, method, (amqp_bytes_t){sizeof payload - 4, payload + 4});
    assert_true(len >= 0);
    peer_add_frame(b, AMQP_FRAME_METHOD, channel, payload, (size_t)len + 4);
}

void peer_add_login(struct buffer *b, uint16_t heartbeat)
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
    amqp_connection_tune_t tune = {
        .channel_max = 10, .frame_max = PEER_FRAME_MAX, .heartbeat = heartbeat};
    amqp_connection_open_ok_t open_ok = {0};
    amqp_channel_open_ok_t channel_ok = {0};
    peer_add_method(b, 0, AMQP_CONNECTION_START_METHOD, &start);
    peer_add_method(b, 0, AMQP_CONNECTION_TUNE_METHOD, &tune);
    peer_add_method(b, 0, AMQP_CONNECTION_OPEN_OK_METHOD, &open_ok);
    peer_add_method(b, 1, AMQP_CHANNEL_OPEN_OK_METHOD, &channel_ok);
}

void peer_say(struct peer *p, const void *data, size_t len)
{
    assert_int_equal(send(p->fd, data, len, MSG_NOSIGNAL), (ssize_t)len);
}

void peer_say_all(struct peer *p, struct buffer *bytes)
{
    peer_say(p, bytes->data, bytes->len);
    buffer_clear(bytes);
}

static void *serve(void *arg)
{
    struct peer *p = arg;
    uint8_t seen[16384];
    size_t len = 0;
    p->fd = accept(p->listener, NULL, NULL);
    if (p->first.len == 0)
        shutdown(p->fd, SHUT_RDWR);
    else
        peer_say_all(p, &p->first);
    if (p->hangs_up)
        shutdown(p->fd, SHUT_WR);
    while (p->then.len && len < sizeof seen) {
        ssize_t n = recv(p->fd, seen + len, sizeof seen - len, 0);
        if (n <= 0)
            break;
        len += (size_t)n;
        if (memmem(seen, len, CONSUME, 4))
            peer_say_all(p, &p->then);
    }
    return NULL;
}

void peer_open(struct peer *p)
{
    *p = (struct peer){.fd = -1};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    p->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(p->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(p->listener, 1), 0);
    getsockname(p->listener, (struct sockaddr *)&address, &size);
    p->url = (struct broker_url){.host = name_host,
                                 .port = ntohs(address.sin_port),
                                 .vhost = name_vhost,
                                 .username = name_user,
                                 .password = name_user};
    p->config.broker.urls.count = 1;
    p->config.broker.parsed = &p->url;
    p->config.broker.heartbeat = 10000;
    p->route.name = name_route;
    p->route.from.queue = name_queue;
    p->route.from.prefetch = 10;
    p->route.to.queue = name_queue;
    p->route.to.unconfirmed = 4;
    p->route.park.queue = name_queue;
    peer_add_login(&p->first, 1);
}

void peer_add_content(struct buffer *b, const char *body)
{
    struct buffer header = {0};
    buffer_add_u32(&header, 60 << 16);
    buffer_add_u64(&header, strlen(body));
    buffer_add_u16(&header, 0);
    peer_add_frame(b, AMQP_FRAME_HEADER, 1, header.data, header.len);
    peer_add_frame(b, AMQP_FRAME_BODY, 1, body, strlen(body));
    buffer_free(&header);
}

void peer_serve(struct peer *p)
{
    assert_int_equal(pthread_create(&p->thread, NULL, serve, p), 0);
}

void peer_served(struct peer *p)
{
    pthread_join(p->thread, NULL);
}

void peer_close(struct peer *p)
{
    if (p->fd >= 0)
        close(p->fd);
    close(p->listener);
    buffer_free(&p->first);
    buffer_free(&p->then);
}

void peer_await_readable(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&one, 1, 5000), 1);
}

void peer_assert_says(const char *label, const char *error, const char *want)
{
    if (!strstr(error, want))
        fail_msg("%s: \"%s\" does not say \"%s\"", label, error, want);
}
