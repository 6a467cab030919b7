/*
 * relay_inside - what relay.c and the relay_*.c share: the relay itself, and the moving of
 * messages. No other file includes it.
 */
#ifndef ONLYONCE_RELAY_INSIDE_H
#define ONLYONCE_RELAY_INSIDE_H

#include "claim.h"
#include "delivery.h"
#include "flight.h"
#include "message.h"
#include "relay.h"

struct relay {
    const struct config *config;
    const struct route_config *route;
    struct source *source;
    struct sink *sink;
    struct sink *replies; /* where TARGET_REPLY goes; NULL: the route sends none */
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
    bool replies_wait;         /* some are left for the next tick */
    int64_t next_due;          /* the earliest `due` in HELD, or earlier */
    int64_t next_look;         /* when to look for messages held for too long */
    int64_t oldest;            /* `arrived` of the oldest at the last look; 0: there was none */
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

/* The rules, with the message's own window. */
struct claim_rules relay_rules(const struct relay *r, const struct message *m);

/* It is a duplicate of what is `known` to be on record, or in conflict with it. */
void relay_duplicate(struct relay *r, struct message *m, const struct record *known, bool conflict);
void relay_say_conflict(struct relay *r, const struct message *m);

/* Fills in the copy of a duplicate, or its reply. */
void relay_fill_duplicate(struct relay *r, struct message *m);
/* Its copy was confirmed; before it moves on. */
void relay_duplicate_published(struct relay *r, struct message *m);
/* Its reply got an answer, or never will. */
void relay_replied(struct relay *r, struct message *m, bool arrived);

/* Remembers a message that is not forwarded; `what` and `why` as in recent.h. */
void relay_not_forwarded(struct relay *r, const struct message *m, const char *what,
                         const char *why, int64_t first_seen);

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

/* The batch: room for so many; the op of message i; asking about them all, fenced by the session.
 * One call is a round: what needs another one, message and op `from`, is kept at index `to`. Nobody
 * asks about more than RELAY_BATCH_MOST at once, nor in more than RELAY_ROUNDS. */
#define RELAY_BATCH_MOST 1000
#define RELAY_ROUNDS 4
void relay_want_batch(struct relay *r, size_t size);
void relay_set_op(struct relay *r, size_t i, const struct record *expect,
                  const struct record *write);
bool relay_apply(struct relay *r, size_t count);
void relay_keep_op(struct relay *r, size_t to, size_t from);

/* What is stored under its key is not onlyonce's. */
void relay_say_foreign(struct relay *r, const struct message *m);

/* How many copies that rest on claims may be published now. What is confirmed and not recorded
 * takes room like what is in flight: a crash leaves both in doubt. */
size_t relay_room(const struct relay *r);

void relay_publish(struct relay *r);
void relay_confirm(struct relay *r);

/* Its claim stands, as m->claim: where does its copy go? */
void relay_aim(const struct relay *r, struct message *m);

void relay_claim(struct relay *r);
void relay_record(struct relay *r);
void relay_release(struct relay *r);

/* Counts duplicates in their records, before they are published or acknowledged; at no cost to
 * others. */
void relay_count_duplicates(struct relay *r);
void relay_look(struct relay *r);

#endif
