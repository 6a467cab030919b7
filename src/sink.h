/*
 * sink - the publishing connection: copies out, one answer for each back.
 *
 * A copy is published with mandatory, in confirm mode. Its answer is matched to its own publish:
 * confirms by their sequence number, singly or `multiple`; returns, which carry none, by comparing
 * what came back with what was sent, in publish order (returns arrive in that order, and before
 * their ack). A returned copy is answered once its ack is there. Nothing here waits.
 * Tests replace this file at link time.
 */
#ifndef ONLYONCE_SINK_H
#define ONLYONCE_SINK_H

#include "config.h"
#include "message.h"

#include <stdbool.h>
#include <stdint.h>

struct sink;

/* What a client sets as reply_to to be answered directly; the broker writes an address behind it.
 * One that the broker did not write ends the connection that publishes to it. */
#define SINK_DIRECT_REPLY "amq.rabbitmq.reply-to"

enum sink_result {
    SINK_PUBLISHED,  /* in the output buffer; the message must stay until its answer, or until the
                        sink is closed */
    SINK_UNREADABLE, /* nothing was sent: its properties cannot be read, or the broker would close
                      * the channel at them (an expiration that is no number, a bare reply-to
                      * literal), */
    SINK_TOO_LARGE   /* or its copy would not fit a frame, or a body as large was refused before */
};

enum sink_answer { SINK_CONFIRMED, SINK_RETURNED, SINK_NACKED };

enum sink_use {
    SINK_COPIES, /* to the work queue, of which it asks the broker what a nack means, */
    SINK_OTHERS  /* or whatever else: every nack of a copy is in doubt */
};

struct sink *sink_new(const struct config *config, const struct route_config *route,
                      enum sink_use use) __attribute__((returns_nonnull, warn_unused_result));
void sink_free(struct sink *s);

bool sink_open(struct sink *s, bool *permanent) __attribute__((warn_unused_result));
/* Whatever has no answer yet never gets one: it is in doubt. */
void sink_close(struct sink *s, int patience);
bool sink_is_up(const struct sink *s);
const char *sink_error(const struct sink *s);
const char *sink_describe(const struct sink *s);
/* Whether a nack tells for certain that a copy to the work queue was not stored: as it was when the
 * sink was opened, until a copy is returned, as the queue is gone. When it is there again the sink
 * goes down, once nothing is on its way, to be opened anew. */
bool sink_nack_is_certain(const struct sink *s);
/* The broker has stopped reading what we publish (memory or disk alarm). */
bool sink_blocked(const struct sink *s, const char **reason);

int sink_fd(const struct sink *s);
short sink_events(const struct sink *s);
void sink_read(struct sink *s, int64_t now);

/* How many copies may be published now: `unconfirmed` less those in flight; 0 while blocked, down,
 * or while too much waits to be sent. */
size_t sink_room(const struct sink *s);
/* Publishes m->copy. Only while sink_room() > 0. */
enum sink_result sink_publish(struct sink *s, struct message *m)
    __attribute__((warn_unused_result));
/* The next message that got its answer, or NULL. */
struct message *sink_next(struct sink *s, enum sink_answer *answer);
void sink_flush(struct sink *s, int64_t now);
int64_t sink_deadline(const struct sink *s);

#endif
