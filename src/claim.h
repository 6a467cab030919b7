/*
 * claim - the rules by which a delivery and the record it meets decide what happens. Pure: values
 * in, values out; no clock, no I/O. Times are ms since 1970, by the store's clock.
 *
 * These are the rules of docs/protocol.md, and each function names those it is made of. They
 * were checked in a model and are checked again by tests/sim, which also breaks each on purpose.
 */
#ifndef ONLYONCE_CLAIM_H
#define ONLYONCE_CLAIM_H

#include "copy.h"
#include "delivery.h"
#include "record.h"

#include <stdbool.h>
#include <stdint.h>

enum on_conflict { CONFLICT_PARK, CONFLICT_DROP, CONFLICT_FORWARD };

struct claim_rules {
    int64_t window;           /* ms, of the message in question */
    int64_t window_completed; /* ms from completion; -1: the rest of the window */
    int64_t hold_limit;       /* ms */
    bool check_dead_lettered;
    bool sliding;
    enum on_conflict on_conflict;
};

/* How long a pending record lives: max(window, 24h). */
int64_t claim_pending_ttl(const struct claim_rules *rules);

/* The record that a delivery writes where there is none. */
struct record claim_new(const struct delivery *d, const char *session, uint64_t claim, int64_t now);

enum verdict {
    VERDICT_CLAIM,     /* write `next` over what was met; then it is ours */
    VERDICT_MINE,      /* it is ours already: the answer to an earlier claim was lost */
    VERDICT_DUPLICATE, /* it was forwarded, completed or parked */
    VERDICT_COMPLETE,  /* write `next`, which is completed, over it; then it is a duplicate */
    VERDICT_WAIT,      /* somebody is at it */
    VERDICT_PARK       /* for `reason` */
};

struct decision {
    enum verdict verdict;
    struct record next;
    enum park_reason reason;
    bool conflict; /* its content is not that of the message that was forwarded */
};

/*
 * What a delivery does that met a record; `number` is that of its claim. `owner_lives`: the session
 * that owns it exists (only looked at if the record is pending, has an owner, and the owner is not
 * `session`).
 */
struct decision claim_decide(const struct delivery *d, const struct record *met, bool owner_lives,
                             const char *session, uint64_t number, int64_t now,
                             const struct claim_rules *rules);

/* What recording writes over our claim: forwarded, completed where a completion was noted, or
 * parked. `as` is RECORD_FORWARDED or RECORD_PARKED. */
struct record claim_recorded(const struct record *mine, enum record_state as, int64_t now,
                             const struct claim_rules *rules);

/*
 * Recording or releasing met another record than expected. True: it is ours all the same (a
 * completion was noted on it), or recording may still write over it (a parked record of the same
 * life and number): go on with *met as what is expected. False: it is no longer this claim's.
 */
bool claim_still_mine(const struct record *mine, const struct record *met);
bool claim_may_record(const struct record *mine, const struct record *met, enum record_state as);

/* What releasing leaves in the place of our claim: RECORD_NONE means that the record goes. */
struct record claim_released(const struct record *mine, int64_t now);

/*
 * What a record becomes when `count` duplicates have come to it: it counts them, and with `sliding`
 * its window begins anew, never earlier than it would have ended. False: the record stays as it is.
 */
bool claim_count_duplicates(const struct record *met, uint32_t count, int64_t now,
                            const struct claim_rules *rules, struct record *next);

/* Completing. `first_seen` 0: any. */
enum completion { COMPLETION_WRITE, COMPLETION_ALREADY, COMPLETION_NOT_FOUND };
enum completion claim_complete(const struct record *met, int64_t first_seen, int64_t now,
                               struct record *next);

/* The time to live that goes with writing r. At least 1. */
int64_t claim_ttl(const struct record *r, int64_t now, const struct claim_rules *rules);

#endif
