#include "amqp_inside.h"

#include "clock.h"
#include "login.h"
#include "visible.h"

#include <assert.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES 7 /* which tell a broker from another peer: a frame's head */

struct link *link_new(const struct broker_config *broker, const char *purpose)
{
    assert(broker->urls.count > 0);
    struct link *l = xcalloc(1, sizeof *l);
    l->broker = broker;
    l->purpose = xstrdup(purpose);
    l->describe = xstrdup("the broker");
    l->whom = xstrdup("nobody");
    l->wire.fd = -1;
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
    free(l->whom);
    free(l->purpose);
    free(l);
}

bool link_is_up(const struct link *l)
{
    return l->up;
}

const char *link_error(const struct link *l)
{
    return l->error;
}

const char *link_refusal(const struct link *l)
{
    return l->refusal;
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

const char *link_whom(const struct link *l)
{
    return l->whom;
}

/* The first reason counts: what comes after it is its consequence. */
__attribute__((format(printf, 3, 0))) static void go_down(struct link *l, enum link_failure failure,
                                                          const char *fmt, va_list args)
{
    if (!l->up)
        return;
    int len = 0;
    if (l->doing)
        len = snprintf(l->error, sizeof l->error, "%s: ", l->doing);
    if (len >= 0 && (size_t)len < sizeof l->error)
        vsnprintf(l->error + len, sizeof l->error - (size_t)len, fmt, args);
    visible_make(l->error); /* the broker's words are its own */
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

void link_refuse(struct link *l, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    go_down(l, LINK_REFUSED, fmt, args);
    va_end(args);
}

void link_fail_as(struct link *l, enum link_failure failure, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    go_down(l, failure, fmt, args);
    va_end(args);
}

static void fail_wire(struct link *l)
{
    const char *why = l->wire.error;
    link_fail_as(l, l->wire.refused ? LINK_REFUSED : LINK_FAILED, "%s",
                 *why ? why : "broker closed the connection without a word");
}

void link_fail_unexpected(struct link *l, const struct link_frame *f, unsigned channel)
{
    link_fail(l, "broker sent an unexpected frame: type %u, channel %u, method %u.%u", f->type,
              channel, f->method >> 16, f->method & 0xffff);
}

void link_put_method(struct link *l, amqp_method_number_t id, void *method)
{
    if (l->up)
        frames_put_method(&l->frames, LINK_CHANNEL, id, method);
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
    frames_put(&l->frames, AMQP_FRAME_HEADER, LINK_CHANNEL, header);
    while (body.len) {
        size_t part = body.len < room ? body.len : room;
        frames_put(&l->frames, AMQP_FRAME_BODY, LINK_CHANNEL, (struct span){body.data, part});
        body = (struct span){body.data + part, body.len - part};
    }
}

size_t link_unsent(const struct link *l)
{
    return frames_unsent(&l->frames);
}

bool link_wants_write(const struct link *l)
{
    return l->up && wire_wants_write(&l->wire, link_unsent(l) > 0);
}

int link_fd(const struct link *l)
{
    return l->up ? l->wire.fd : -1;
}

void link_flush(struct link *l, int64_t now)
{
    if (!l->up)
        return;
    if (link_unsent(l) == 0 && now - l->last_sent >= l->heartbeat / 2)
        frames_put(&l->frames, AMQP_FRAME_HEARTBEAT, 0, (struct span){0});
    if (link_unsent(l) == 0)
        return;
    ssize_t n = frames_send(&l->frames, &l->wire);
    if (n > 0)
        l->last_sent = now;
    else if (n < 0)
        fail_wire(l);
}

void link_read(struct link *l, int64_t now)
{
    if (!l->up || !frames_hungry(&l->frames))
        return;
    ssize_t n = frames_receive(&l->frames, &l->wire);
    if (n > 0)
        l->last_received = now;
    else if (n < 0)
        fail_wire(l);
    else if (now - l->last_received >= 2 * l->heartbeat)
        link_fail(l, "nothing heard from the broker for %lld s",
                  (long long)(now - l->last_received) / 1000);
}

bool link_is_left(const struct link *l)
{
    struct pollfd p = {.fd = link_fd(l), .events = POLLRDHUP};
    return l->up && poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

void link_rest(struct link *l, int64_t now)
{
    if (!l->up)
        return;
    if (wire_receive_wants_write(&l->wire))
        link_read(l, now);
    l->last_received = now;
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

/* ---- Frames ---- */

/* RabbitMQ as it is installed lets guest in from its own host alone, and does not say so. */
static bool is_guest_from_afar(const struct link *l, const struct refusal *r)
{
    static const char *const near[] = {"127.", "localhost:", "[::1]:"};
    for (size_t i = 0; i < sizeof near / sizeof *near; i++)
        if (strncmp(l->describe, near[i], strlen(near[i])) == 0)
            return false;
    return r->code == AMQP_ACCESS_REFUSED && !r->channel && l->user &&
           strcmp(l->user, "guest") == 0;
}

/* The close is answered, in one attempt to send: the broker waits for that before it lets go. */
void link_take_close(struct link *l, const struct refusal *r)
{
    amqp_connection_close_ok_t ok = {0};
    frames_put_method(&l->frames, r->channel ? LINK_CHANNEL : 0,
                      r->channel ? AMQP_CHANNEL_CLOSE_OK_METHOD : AMQP_CONNECTION_CLOSE_OK_METHOD,
                      &ok);
    link_flush(l, clock_now());
    const char *what = "";
    if (!l->doing) /* else that says what the broker refused */
        what = r->channel ? "broker closed the channel: " : "broker closed the connection: ";
    link_fail_as(l, refusal_is_final(r) ? LINK_REFUSED : LINK_FAILED, "%s%u %.*s%s", what, r->code,
                 (int)r->text.len, (const char *)r->text.data,
                 is_guest_from_afar(l, r) ? " (RabbitMQ lets guest in from its own host alone, "
                                            "unless loopback_users there says otherwise)"
                                          : "");
}

/* Methods about the connection itself. False: it is another one. */
static bool take_method(struct link *l, amqp_method_number_t id, void *decoded)
{
    struct refusal refusal;
    if (id == AMQP_CONNECTION_CLOSE_METHOD && refusal_of_method(id, decoded, &refusal)) {
        link_take_close(l, &refusal);
    } else if (id == AMQP_CONNECTION_BLOCKED_METHOD) {
        const amqp_connection_blocked_t *m = decoded;
        l->blocked = true;
        snprintf(l->blocked_reason, sizeof l->blocked_reason, "%.*s", (int)m->reason.len,
                 (const char *)m->reason.bytes);
        visible_make(l->blocked_reason);
    } else if (id == AMQP_CONNECTION_UNBLOCKED_METHOD) {
        l->blocked = false;
        l->blocked_reason[0] = '\0';
    } else {
        return false;
    }
    return true;
}

/* Is it a broker that answers? Its first bytes tell; false: not, or not yet known. */
static bool meet(struct link *l)
{
    char error[LOGIN_ERROR_MAX];
    struct span first = frames_unread(&l->frames);
    if (first.len < FIRST_BYTES)
        return false;
    const char *foreign = login_foreign(first, error);
    if (foreign)
        link_fail(l, "%s", foreign);
    l->met = !foreign;
    return l->met;
}

/* The next raw frame; what is no frame takes the link down. */
static bool next_raw(struct link *l, struct raw_frame *raw)
{
    if (!l->met && !meet(l))
        return false;
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

bool link_next_of(struct link *l, unsigned channel, struct link_frame *frame)
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
        bool fits = channel == 0 ? frame->method != 0 : content || frame->decoded;
        if (raw.channel == channel && fits)
            return true;
        link_fail_unexpected(l, frame, raw.channel);
    }
    return false;
}

bool link_next(struct link *l, struct link_frame *frame)
{
    struct refusal refusal;
    if (!link_next_of(l, LINK_CHANNEL, frame))
        return false;
    if (!refusal_of_method(frame->method, frame->decoded, &refusal))
        return true;
    link_take_close(l, &refusal);
    return false;
}

void link_turn(struct link *l, int64_t until)
{
    int64_t now = clock_now();
    link_flush(l, now);
    int64_t deadline = link_deadline(l);
    int64_t wait = (deadline < until ? deadline : until) - now;
    struct pollfd p = {.fd = link_fd(l), .events = POLLIN};
    if (link_wants_write(l))
        p.events |= POLLOUT;
    if (l->up && wait > 0)
        (void)poll(&p, 1, (int)wait);
    link_read(l, clock_now());
}

/* ---- Closing ---- */

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
    int64_t until = clock_now() + patience;
    while (l->up && !see_close_ok(l) && clock_now() < until)
        link_turn(l, until);
}

void link_close(struct link *l, int patience)
{
    if (l->up && patience > 0)
        say_goodbye(l, patience);
    wire_close(&l->wire);
    l->up = false;
}
