/*
 * relay - one worker's messages: the lists they are in, and the phases that drain them.
 *
 * relay_tick() reads as the pipeline: what was confirmed, recording, releasing, what has arrived,
 * what is due, claiming, publishing, acknowledging; each phase drains one place in one batch, and
 * relay_tick() answers how long it may sleep. relay is the only writer of a message's place; where
 * a message goes next is flow.h's table, what a claim may do is claim.h's rules.
 *
 * It includes no header of an I/O library and never waits. Connections are opened and closed by its
 * worker, which tells relay about it; relay asks for it by relay_wishes().
 */
#ifndef ONLYONCE_RELAY_H
#define ONLYONCE_RELAY_H

#include "config.h"
#include "flow.h"
#include "session.h"
#include "sink.h"
#include "source.h"
#include "stats.h"
#include "store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct relay;

/* What relay wants its worker to do, found out in the last tick. */
struct relay_wishes {
    bool store_failed; /* a call failed: close the store and open it again */
    bool session_lost; /* the store does not know the session: open the next one */
    bool give_back;    /* hold_limit is over: close the source, and look again at the sink */
};

/* For a route of the configuration. The links and the session belong to the caller and outlive the
 * relay. `replies`: NULL, unless the route answers duplicates. */
struct relay *relay_new(const struct config *config, const struct route_config *route,
                        struct source *source, struct sink *sink, struct sink *replies,
                        struct store *store, struct session *session, struct route_stats *stats)
    __attribute__((returns_nonnull, warn_unused_result));
void relay_free(struct relay *r); /* forgets everything, as a crash would */

/* One turn. How many ms it may sleep, unless a socket becomes ready; 0: not at all. */
int64_t relay_tick(struct relay *r, int64_t now);
struct relay_wishes relay_wishes(const struct relay *r);

/* May the source be read? Not while the messages held fill the route's buffer. */
bool relay_reads(const struct relay *r);

/* A link was lost or closed; call it before the link is opened again. */
void relay_source_lost(struct relay *r);
void relay_sink_lost(struct relay *r);
void relay_replies_lost(struct relay *r);

/* Opens the next session with all claims in flight. False: the store call failed. */
bool relay_open_session(struct relay *r) __attribute__((warn_unused_result));

/* From now on nothing new is begun: what was not published is released and dropped. */
void relay_stop(struct relay *r);
/* Nothing is published without an answer, or on its way to be recorded, released or acknowledged.
 */
bool relay_is_drained(const struct relay *r);

size_t relay_count(const struct relay *r, enum place place);
/* To the second: clock_now() at the arrival of the oldest message, 0 if there is none; and why the
 * oldest held one waits, or NULL. */
int64_t relay_oldest(const struct relay *r);
const char *relay_holding(const struct relay *r);

#endif
