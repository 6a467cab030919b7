#include "amqp.h"

#include "clock.h"
#include "frames.h"
#include "login.h"
#include "refusal.h"

#include <amqp_tcp_socket.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define CONNECT_SECONDS 5
#define RPC_SECONDS 10
#define OPEN_BUDGET 5000 /* ms, after which link_open() tries no further URL */
#define DRAIN_BUDGET 2000

struct link {
    const struct broker_config *broker;
    char *purpose;
    size_t next_url;
    amqp_connection_state_t library; /* NULL: closed */
    bool up;
    bool started; /* the socket is ours */
    enum link_failure failure;
    char error[640];

    char *describe;
    const char *user;
    int version;
    bool blocked;
    char blocked_reason[256];

    int64_t heartbeat; /* ms */
    int64_t last_sent;
    int64_t last_received;
    struct frames frames;
};

struct link *link_new(const struct broker_config *broker, const char *purpose)
{
    assert(broker->urls.count > 0);
    struct link *l = xcalloc(1, sizeof *l);
    l->broker = broker;
    l->purpose = xstrdup(purpose);
    l->describe = xstrdup("the broker");
    l->user = "guest";
    frames_init(&l->frames);
    return l;
}

void link_free(struct link *l)
{
    if (!l)
        return;
    link_close(l, 0);
    frames_free(&l->frames);
    free(l->describe);
    free(l->purpose);
    free(l);
}

amqp_connection_state_t link_library(struct link *l)
{
    assert(l->up && !l->started);
    return l->library;
}

bool link_is_up(const struct link *l)
{
    return l->up;
}

const char *link_error(const struct link *l)
{
    return l->error;
}

enum link_failure link_how_failed(const struct link *l)
{
    return l->failure;
}

bool link_blocked(const struct link *l, const char **reason)
{
    if (reason)
        *reason = l->blocked_reason;
    return l->up && l->blocked;
}

int link_broker_version(const struct link *l)
{
    return l->version;
}

const char *link_describe(const struct link *l)
{
    return l->describe;
}

const char *link_user(const struct link *l)
{
    return l->user;
}

/* The first reason counts: what comes after it is its consequence. */
__attribute__((format(printf, 3, 0))) static void go_down(struct link *l, enum link_failure failure,
                                                          const char *fmt, va_list args)
{
    if (!l->up)
        return;
    vsnprintf(l->error, sizeof l->error, fmt, args);
    l->failure = failure;
    l->up = false;
}

void link_fail(struct link *l, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    go_down(l, LINK_FAILED, fmt, args);
    va_end(args);
}

__attribute__((format(printf, 3, 4))) static void fail_as(struct link *l, enum link_failure failure,
                                                          const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    go_down(l, failure, fmt, args);
    va_end(args);
}

static void fail_errno(struct link *l, int error)
{
    char text[128];
    link_fail(l, "%s", strerror_r(error, text, sizeof text));
}

static void fail_refused(struct link *l, const char *what, const struct refusal *r)
{
    fail_as(l, refusal_is_final(r) ? LINK_REFUSED : LINK_FAILED, "%s: %u %.*s", what, r->code,
            (int)r->text.len, (const char *)r->text.data);
}

enum link_failure link_rpc_failed(struct link *l, amqp_rpc_reply_t reply, const char *what)
{
    struct refusal refusal;
    if (refusal_of_reply(reply, &refusal))
        fail_refused(l, what, &refusal);
    else if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION)
        link_fail(l, "%s: %s", what, amqp_error_string2(reply.library_error));
    else
        link_fail(l, "%s: no proper answer", what);
    return l->failure;
}

static bool dial(struct link *l, const struct broker_url *url)
{
    const char *error = "out of memory";
    l->library = amqp_new_connection();
    amqp_socket_t *socket = l->library ? amqp_tcp_socket_new(l->library) : NULL;
    if (socket) {
        struct timeval timeout = {CONNECT_SECONDS, 0};
        int status = amqp_socket_open_noblock(socket, url->host, url->port, &timeout);
        if (status == AMQP_STATUS_OK)
            return true;
        /* The library loses errno; this is what its socket errors come from at this point. */
        error = status == AMQP_STATUS_SOCKET_ERROR ? "connection refused, or no route to it"
                                                   : amqp_error_string2(status);
    }
    link_fail(l, "cannot connect to %s: %s", l->describe, error);
    return false;
}

static bool open_channel(struct link *l)
{
    amqp_channel_open(l->library, LOGIN_CHANNEL);
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(l->library);
    if (reply.reply_type != AMQP_RESPONSE_NORMAL)
        link_rpc_failed(l, reply, "opening a channel");
    return l->up;
}

static bool log_in(struct link *l, const struct broker_url *url)
{
    struct timeval timeout = {CONNECT_SECONDS, 0};
    amqp_set_handshake_timeout(l->library, &timeout);
    timeout.tv_sec = RPC_SECONDS;
    amqp_set_rpc_timeout(l->library, &timeout);
    struct login login = {.vhost = url->vhost,
                          .username = l->user,
                          .password = url->password ? url->password : "guest",
                          .purpose = l->purpose,
                          .heartbeat = l->broker->heartbeat};
    amqp_rpc_reply_t reply = login_send(l->library, &login);
    if (reply.reply_type != AMQP_RESPONSE_NORMAL) {
        char what[512];
        snprintf(what, sizeof what, "login to %s as user '%s', vhost '%s'", l->describe, l->user,
                 url->vhost);
        link_rpc_failed(l, reply, what);
        return false;
    }
    char *product = login_product(l->library, &l->version);
    char *describe = xasprintf("%s at %s", product, l->describe);
    free(product);
    free(l->describe);
    l->describe = describe;
    return open_channel(l);
}

static bool try_url(struct link *l, const struct broker_url *url)
{
    bool v6 = strchr(url->host, ':');
    free(l->describe);
    l->describe = xasprintf("%s%s%s:%d", v6 ? "[" : "", url->host, v6 ? "]" : "", url->port);
    l->user = url->username ? url->username : "guest";
    l->version = 0;
    l->failure = LINK_FAILED;
    l->blocked = false;
    l->error[0] = '\0';
    l->up = true;
    if (url->tls)
        fail_as(l, LINK_REFUSED, "%s: amqps:// is not supported; write amqp://", l->describe);
    return l->up && dial(l, url) && log_in(l, url);
}

bool link_open(struct link *l, enum link_failure *failure)
{
    assert(!l->library);
    int64_t start = clock_now();
    for (size_t i = 0; i < l->broker->urls.count; i++) {
        if (try_url(l, &l->broker->parsed[l->next_url++ % l->broker->urls.count]))
            return true;
        link_close(l, 0);
        /* All nodes of a cluster know the same users; and the caller has other work to do. */
        if (l->failure == LINK_REFUSED || clock_now() - start >= OPEN_BUDGET)
            break;
    }
    *failure = l->failure;
    return false;
}

bool link_reopen_channel(struct link *l)
{
    amqp_channel_close_ok_t ok = {0};
    int status =
        amqp_send_method(link_library(l), LOGIN_CHANNEL, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok);
    if (status == AMQP_STATUS_OK)
        return open_channel(l);
    link_fail(l, "opening a channel again: %s", amqp_error_string2(status));
    return false;
}

void link_put_method(struct link *l, amqp_method_number_t id, void *method)
{
    if (l->up)
        frames_put_method(&l->frames, LOGIN_CHANNEL, id, method);
}

size_t link_frame_room(const struct link *l)
{
    return frames_room(&l->frames);
}

void link_put_content(struct link *l, struct span header, struct span body)
{
    if (!l->up)
        return;
    size_t room = link_frame_room(l);
    frames_put(&l->frames, AMQP_FRAME_HEADER, LOGIN_CHANNEL, header);
    while (body.len) {
        size_t part = body.len < room ? body.len : room;
        frames_put(&l->frames, AMQP_FRAME_BODY, LOGIN_CHANNEL, (struct span){body.data, part});
        body = (struct span){body.data + part, body.len - part};
    }
}

size_t link_unsent(const struct link *l)
{
    return frames_unsent(&l->frames);
}

bool link_wants_write(const struct link *l)
{
    return l->up && link_unsent(l) > 0;
}

int link_fd(const struct link *l)
{
    return l->up ? amqp_get_sockfd(l->library) : -1;
}

void link_flush(struct link *l, int64_t now)
{
    if (!l->up || !l->started)
        return;
    if (link_unsent(l) == 0 && now - l->last_sent >= l->heartbeat / 2)
        frames_put(&l->frames, AMQP_FRAME_HEARTBEAT, 0, (struct span){0});
    if (link_unsent(l) == 0)
        return;
    ssize_t n = frames_send(&l->frames, link_fd(l));
    if (n > 0)
        l->last_sent = now;
    else if (n < 0)
        fail_errno(l, (int)-n);
}

void link_read(struct link *l, int64_t now)
{
    if (!l->up || !l->started || !frames_hungry(&l->frames))
        return;
    ssize_t n = frames_receive(&l->frames, link_fd(l));
    if (n > 0)
        l->last_received = now;
    else if (n == -EPIPE)
        link_fail(l, "broker closed the connection without a word");
    else if (n < 0)
        fail_errno(l, (int)-n);
    else if (now - l->last_received >= 2 * l->heartbeat)
        link_fail(l, "nothing heard from the broker for %lld s",
                  (long long)(now - l->last_received) / 1000);
}

void link_rest(struct link *l, int64_t now)
{
    if (!l->up)
        return;
    l->last_received = now;
    struct pollfd p = {.fd = link_fd(l)};
    if (poll(&p, 1, 0) != 1 || (p.revents & (POLLERR | POLLHUP)) == 0)
        return;
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(p.fd, SOL_SOCKET, SO_ERROR, &error, &size);
    fail_errno(l, error ? error : ECONNRESET);
}

int64_t link_deadline(const struct link *l)
{
    if (!l->up)
        return 0; /* Somebody has to see it. */
    int64_t silent = l->last_received + 2 * l->heartbeat;
    int64_t beat = l->last_sent + l->heartbeat / 2;
    /* While output waits for the socket, a heartbeat would only wait behind it. */
    return link_unsent(l) == 0 && beat < silent ? beat : silent;
}

/* The close is answered, in one attempt to send: the broker waits for that before it lets go. */
static void take_close(struct link *l, const struct refusal *r)
{
    if (l->started) {
        amqp_connection_close_ok_t ok = {0};
        frames_put_method(
            &l->frames, r->channel ? LOGIN_CHANNEL : 0,
            r->channel ? AMQP_CHANNEL_CLOSE_OK_METHOD : AMQP_CONNECTION_CLOSE_OK_METHOD, &ok);
        link_flush(l, clock_now());
    }
    fail_refused(l, r->channel ? "broker closed the channel" : "broker closed the connection", r);
}

/* Methods about the connection itself. False: it is one for the caller. */
static bool take_method(struct link *l, amqp_method_number_t id, void *decoded)
{
    struct refusal refusal;
    if (refusal_of_method(id, decoded, &refusal)) {
        take_close(l, &refusal);
    } else if (id == AMQP_CONNECTION_BLOCKED_METHOD) {
        const amqp_connection_blocked_t *m = decoded;
        l->blocked = true;
        snprintf(l->blocked_reason, sizeof l->blocked_reason, "%.*s", (int)m->reason.len,
                 (const char *)m->reason.bytes);
    } else if (id == AMQP_CONNECTION_UNBLOCKED_METHOD) {
        l->blocked = false;
        l->blocked_reason[0] = '\0';
    } else {
        return false;
    }
    return true;
}

/* Whatever the library has read and not yet given away; after this it is never asked again. */
static bool drain_library(struct link *l)
{
    amqp_connection_state_t c = l->library;
    int64_t until = clock_now() + DRAIN_BUDGET;
    while (l->up &&
           (!amqp_release_buffers_ok(c) || amqp_frames_enqueued(c) || amqp_data_in_buffer(c))) {
        struct timeval wait = {0, 50000};
        amqp_frame_t f;
        int status = amqp_simple_wait_frame_noblock(c, &f, &wait);
        if (status == AMQP_STATUS_OK && f.frame_type == AMQP_FRAME_METHOD)
            take_method(l, f.payload.method.id, f.payload.method.decoded);
        else if (status != AMQP_STATUS_OK && status != AMQP_STATUS_TIMEOUT)
            link_fail(l, "taking the connection over: %s", amqp_error_string2(status));
        if (clock_now() > until)
            link_fail(l, "taking the connection over: the broker does not finish a frame");
    }
    return l->up;
}

bool link_start(struct link *l)
{
    assert(!l->started);
    if (!l->up || !drain_library(l))
        return false;
    int frame_max = amqp_get_frame_max(l->library);
    l->heartbeat = amqp_get_heartbeat(l->library) * INT64_C(1000);
    if (frame_max < AMQP_FRAME_MIN_SIZE || frame_max > LOGIN_FRAME_MAX || l->heartbeat <= 0) {
        link_fail(l, "broker wants frames of %d bytes and a heartbeat of %lld ms", frame_max,
                  (long long)l->heartbeat);
        return false;
    }
    int on = 1;
    setsockopt(link_fd(l), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(link_fd(l), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    frames_reset(&l->frames, (size_t)frame_max);
    l->last_sent = l->last_received = clock_now();
    l->started = true;
    return true;
}

/* The next raw frame; what is no frame takes the link down. */
static bool next_raw(struct link *l, struct raw_frame *raw)
{
    switch (frames_next(&l->frames, raw)) {
    case FRAMES_ONE: return true;
    case FRAMES_NONE: break;
    case FRAMES_TOO_LARGE:
        link_fail(l, "broker sent a frame larger than the %zu bytes agreed upon", l->frames.max);
        break;
    case FRAMES_BROKEN: link_fail(l, "broker sent a frame that does not end as a frame"); break;
    }
    return false;
}

bool link_next(struct link *l, struct link_frame *frame)
{
    struct raw_frame raw;
    while (l->up && next_raw(l, &raw)) {
        *frame = (struct link_frame){.type = raw.type, .payload = raw.payload};
        if (raw.type == AMQP_FRAME_HEARTBEAT)
            continue;
        if (raw.type == AMQP_FRAME_METHOD) {
            frame->method = frames_method(raw.payload);
            frame->decoded = frames_decode(&l->frames, raw.payload);
            if (frame->decoded && take_method(l, frame->method, frame->decoded))
                continue;
        }
        bool content = raw.type == AMQP_FRAME_HEADER || raw.type == AMQP_FRAME_BODY;
        if (raw.channel == LOGIN_CHANNEL && (content || frame->decoded))
            return true;
        link_fail(l, "broker sent an unexpected frame: type %u, channel %u, method %u.%u", raw.type,
                  raw.channel, frame->method >> 16, frame->method & 0xffff);
    }
    return false;
}

/* Takes frames and drops them, up to the broker's answer to connection.close. */
static bool see_close_ok(struct link *l)
{
    struct raw_frame raw;
    while (l->up && next_raw(l, &raw))
        if (raw.type == AMQP_FRAME_METHOD &&
            frames_method(raw.payload) == AMQP_CONNECTION_CLOSE_OK_METHOD)
            return true;
    return false;
}

static void say_goodbye(struct link *l, int patience)
{
    amqp_connection_close_t bye = {.reply_code = AMQP_REPLY_SUCCESS,
                                   .reply_text = amqp_cstring_bytes("bye")};
    frames_put_method(&l->frames, 0, AMQP_CONNECTION_CLOSE_METHOD, &bye);
    int64_t now = clock_now();
    int64_t until = now + patience;
    link_flush(l, now);
    while (l->up && !see_close_ok(l) && now < until) {
        struct pollfd p = {.fd = link_fd(l), .events = POLLIN};
        if (link_wants_write(l))
            p.events |= POLLOUT;
        if (poll(&p, 1, (int)(until - now)) < 0 && errno != EINTR)
            return;
        now = clock_now();
        link_flush(l, now);
        link_read(l, now);
    }
}

void link_close(struct link *l, int patience)
{
    if (l->up && l->started && patience > 0)
        say_goodbye(l, patience);
    if (l->library)
        amqp_destroy_connection(l->library);
    l->library = NULL;
    l->up = false;
    l->started = false;
}
