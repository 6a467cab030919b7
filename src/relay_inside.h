/*
 * relay_inside - what relay.c, relay_store.c and relay_look.c share: the relay itself, and the
 * moving of messages. No other file includes it.
 */
#ifndef ONLYONCE_RELAY_INSIDE_H
#define ONLYONCE_RELAY_INSIDE_H

#include "claim.h"
#include "delivery.h"
#include "flight.h"
#include "message.h"
#include "relay.h"

struct relay {
    const struct route_config *route;
    struct source *source;
    struct sink *sink;
    struct store *store;
    struct session *session;
    struct route_stats *stats;

    struct flow_policy policy;
    struct claim_rules rules;
    struct delivery_origin origin;

    struct message_list places[PLACE_COUNT];
    size_t counts[PLACE_COUNT];
    size_t bytes; /* of all messages together */
    struct flight flight;

    struct relay_wishes wishes;
    bool stopping;
    int64_t now;               /* clock_now() at the beginning of the tick */
    int64_t next_due;          /* the earliest `due` in HELD, or earlier */
    int64_t next_look;         /* when to look for messages held for too long */
    int64_t next_refusal_line; /* when to log a refused copy again */

    /* The batch that is being asked about: message and operation at the same index. */
    struct message **batch;
    struct store_op *ops;
    size_t batch_size;
};

/* The only writer of a message's place. Frees the message if it is gone. */
void relay_move(struct relay *r, struct message *m, enum event event);

/* To HELD by `event`, for `delay` ms (or INT64_MAX); or wherever else the table says. */
void relay_hold(struct relay *r, struct message *m, enum event event, const char *why,
                int64_t delay);

/* The message has no claim any more, nor may have. Who followed it goes on, by what is `known` to
 * be on record now (or NULL). */
void relay_unclaim(struct relay *r, struct message *m, const struct record *known);

/* It is a duplicate of what is on record. */
void relay_duplicate(struct relay *r, struct message *m);

/* It goes to the parking queue, without a claim. */
void relay_park(struct relay *r, struct message *m, enum park_reason reason);

/* Its copy cannot be written, for the reason `why` (static text). */
void relay_cannot_write(struct relay *r, struct message *m, const char *why);

/* How long a message is held whose key somebody else claims: first, and at most. */
#define RELAY_BUSY_FIRST_MS 20
#define RELAY_BUSY_MOST_MS 1000

/* How long to hold a message that was held `tries` times before: doubling, from `first` to `most`
 * ms. */
int64_t relay_backoff(uint32_t tries, int64_t first, int64_t most);

/* Makes room in `batch` and `ops`. */
void relay_want_batch(struct relay *r, size_t size);

void relay_claim(struct relay *r);
void relay_record(struct relay *r);
void relay_release(struct relay *r);
void relay_look(struct relay *r);

#endif
