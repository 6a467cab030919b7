/*
 * amqp - one connection to the broker, with one channel, driven by frames that never block.
 *
 * link_open() connects, with TLS for amqps://, logs in with the capabilities that make the broker
 * tell us things, and opens channel 1; link_rpc() asks something of it and waits for the answer, at
 * most 10 s. All of it together has 20 s from link_open() on, less than a worker may stand still
 * (vitals.h). All else only reads what has come and writes what can go.
 *
 * rabbitmq-c encodes and decodes methods for us. Sockets and waiting are our own, since its publish
 * and acknowledge have no send timeout, wait for ever for a silent peer (0.11), break a connection
 * at header tables that they cannot decode, and keep TLS to themselves. Headers and bodies are
 * passed as bytes.
 *
 * Output collects in a buffer and leaves with link_flush(), one send() for many frames. Heartbeats
 * go out of link_flush() and are watched by link_read().
 *
 * A link that is down stays down: link_error() says why, and nothing but link_close() is left.
 */
#ifndef ONLYONCE_AMQP_H
#define ONLYONCE_AMQP_H

#include "config.h"
#include "memory.h"

#include <amqp.h>
#include <amqp_framing.h>
#include <stdbool.h>
#include <stdint.h>

struct link;

struct link_frame {
    uint8_t type;                /* AMQP_FRAME_METHOD, _HEADER or _BODY */
    amqp_method_number_t method; /* of a method frame, */
    void *decoded;               /* and its amqp_basic_deliver_t or the like */
    struct span payload;         /* of a header or body frame; valid until the next link_next() */
};

enum link_failure {
    LINK_FAILED, /* not reachable, or it went away: try again */
    LINK_REFUSED /* it said no: 403, 404, 406 or a refused login: trying again will hardly help */
};

struct link *link_new(const struct broker_config *broker, const char *purpose)
    __attribute__((returns_nonnull, warn_unused_result));
void link_free(struct link *l);

/* Tries the broker's URLs in turn, beginning behind the one that was tried last. False: it is down.
 */
bool link_open(struct link *l) __attribute__((warn_unused_result));

struct link_rpc {
    const char *doing; /* what it is for, to begin an error with */
    amqp_method_number_t id;
    void *method; /* the library's struct for `id` */
    amqp_method_number_t reply;
    unsigned spared[2]; /* see link_rpc() */
};

/*
 * Sends a method on channel 1 and waits for its reply. False: the link is down.
 * Where the broker closes the channel instead, with a code that is one of `spared` and its last
 * word, the channel is opened anew, and *refused is that code, whose text link_refusal() has; else
 * it is 0.
 */
bool link_rpc(struct link *l, const struct link_rpc *rpc, unsigned *refused)
    __attribute__((warn_unused_result));

const char *link_refusal(const struct link *l);

bool link_is_up(const struct link *l);
const char *link_error(const struct link *l);
enum link_failure link_how_failed(const struct link *l); /* of a link that is down */
/* Marks the link down for a reason of the caller's; and as link_how_failed() calls LINK_REFUSED. */
void link_fail(struct link *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void link_refuse(struct link *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Closes: politely (connection.close, flushed, its answer awaited for at most `patience` ms) if the
 * link is up and patience > 0, so that acknowledgements sent before are not lost; else at once. */
void link_close(struct link *l, int patience);

int link_fd(const struct link *l); /* -1 if down */
bool link_wants_write(const struct link *l);
size_t link_unsent(const struct link *l); /* bytes that wait in the output buffer */

/* Reads what has arrived, without waiting, at most some 256 KiB; notices a silent or closed peer.
 * `now` is clock_now(). */
void link_read(struct link *l, int64_t now);
/* Instead of link_read(), by a caller that does not want to read now: the broker's silence does not
 * count meanwhile; link_is_left() tells of a connection that is gone. */
void link_rest(struct link *l, int64_t now);

/* Whether the broker has hung up: what is still unread is the last of it. */
bool link_is_left(const struct link *l);

/* The next complete frame that was read, or false. Heartbeats, connection.blocked and unblocked,
 * and closes by the broker are dealt with here; a close takes the link down. */
bool link_next(struct link *l, struct link_frame *frame);
bool link_blocked(const struct link *l, const char **reason);

/* Appends a method frame. `method` is the library's struct for `id`. */
void link_put_method(struct link *l, amqp_method_number_t id, void *method);
/* Appends a content: header frame and body frames of at most the negotiated size. */
void link_put_content(struct link *l, struct span header, struct span body);
/* The most that a header frame's payload may have. */
size_t link_frame_room(const struct link *l);

/* Sends what it can, without waiting; a heartbeat, if one is due. */
void link_flush(struct link *l, int64_t now);

/* When link_flush() or link_read() must be called again at the latest (clock_now()): the past if
 * the link is down. */
int64_t link_deadline(const struct link *l);

/* The broker's version as a number, 4.0.5 -> 40005; 0 if it did not say. And its name and version
 * as text. */
int link_broker_version(const struct link *l);
const char *link_describe(const struct link *l); /* "RabbitMQ 3.10.8 at rabbitmq:5672" */
/* Whom it logged in as; NULL: whomever the broker takes our certificate for. And the same for
 * errors: "user 'guest'". */
const char *link_user(const struct link *l);
const char *link_whom(const struct link *l);

/* The library's byte strings and ours. The library never writes to what it is given, but does not
 * say so. */
static inline struct span link_span(amqp_bytes_t b)
{
    return (struct span){b.bytes, b.len};
}

static inline amqp_bytes_t link_bytes(struct span s)
{
    return (amqp_bytes_t){s.len, (void *)(uintptr_t)s.data};
}

#endif
