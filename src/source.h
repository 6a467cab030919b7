/*
 * source - the inbound queue: consumes with manual acknowledgement, acknowledges by tag and epoch.
 *
 * A delivery tag means something only on the connection it came by; so each connection has an
 * epoch, and a tag of another epoch is never acknowledged. Acknowledgements are
 * collected and joined: contiguous tags go out as one basic.ack with multiple.
 * Tests replace this file at link time.
 */
#ifndef ONLYONCE_SOURCE_H
#define ONLYONCE_SOURCE_H

#include "config.h"
#include "message.h"

#include <stdbool.h>
#include <stdint.h>

struct source;

struct source *source_new(const struct config *config, const struct route_config *route)
    __attribute__((returns_nonnull, warn_unused_result));
void source_free(struct source *s);

/* Connects, checks or makes the topology, and consumes. *permanent: the broker said no. */
bool source_open(struct source *s, bool *permanent) __attribute__((warn_unused_result));
/* All that is unacknowledged is delivered again by the broker. patience: see link_close(). */
void source_close(struct source *s, int patience);
bool source_is_up(const struct source *s); /* false too once the broker cancelled the consumer */
const char *source_error(const struct source *s);
const char *source_describe(const struct source *s);

int source_fd(const struct source *s);
short source_events(const struct source *s, bool read); /* what to poll for */
/* Reads from the socket (if `read`), to be called when it is readable or its deadline is there. Of
 * a broker that has hung up nothing more is delivered. */
void source_read(struct source *s, bool read, int64_t now);
/* The next complete message, or NULL. Its owner is the caller. */
struct message *source_pull(struct source *s);

/* Acknowledges, or rejects without requeue, by which it is dead-lettered to the parking queue; if
 * that is gone, nothing is rejected, and the source goes down. Nothing happens if the message's
 * epoch is over. */
void source_ack(struct source *s, const struct message *m);
void source_reject(struct source *s, const struct message *m);
/* Does the inbound queue dead-letter what is rejected? Known only of one that is as we would make
 * it. */
bool source_dead_letters(const struct source *s);
/* What people should know of the inbound queue, as a line for the log; NULL: nothing. */
const char *source_warning(const struct source *s);
/* Stops the consumer: nothing new arrives, what was delivered can still be acknowledged. */
void source_cancel(struct source *s);
/*
 * Sends what is to be sent. An acknowledgement behind an open tag, of a duplicate behind a message
 * whose confirm is on its way, waits up to `patience` ms for that one, to be joined with it: singly
 * it would cost the broker as much as a message. None waits once they take up a quarter of what the
 * prefetch leaves, or at source_close().
 */
void source_flush(struct source *s, int64_t now, int64_t patience);
int64_t source_deadline(const struct source *s);

#endif
