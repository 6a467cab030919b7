/*
 * flow - where a message goes next. Pure: one table, no I/O, no clock, no allocation.
 *
 * A message is always in exactly one place. flow_next() answers, for a place and an event, the
 * next place, from what the route's policy and the message's facts say. A cell that is empty in
 * the table is an event that cannot happen there: PLACE_IMPOSSIBLE, and relay panics before
 * anything is acknowledged.
 *
 * A lost session (EVENT_NOT_MOVED) leads from CLAIMED back to FRESH; a lost source connection leads
 * from every place before SETTLE to UNWIND or GONE, unless a copy is on its way: that goes on to
 * its end as an orphan, without an acknowledgement (docs/protocol.md, rule 9).
 *
 *              claim           publish          confirm          record
 *  pull ─► FRESH ────────► CLAIMED ───────► SENT ────────► CONFIRMED ──────► SETTLE ─► gone
 *            │ duplicate (to be published or answered: CLAIMED, without a claim)│
 *            │                                │ refused                         ▲
 *            ├────────────────────────────────┼─────────────────────────────────┤
 *            │ busy, store away               ▼                                 │
 *            └───────► HELD ─ due ─► FRESH  UNWIND ─ release ─► HELD, or rejected
 */
#ifndef ONLYONCE_FLOW_H
#define ONLYONCE_FLOW_H

#include <stdbool.h>

enum place {
    PLACE_FRESH,     /* has arrived, or is to be tried again: nothing is known yet */
    PLACE_HELD,      /* waits for a moment, a key, the store or the broker */
    PLACE_CLAIMED,   /* may be published now */
    PLACE_SENT,      /* published, not confirmed */
    PLACE_CONFIRMED, /* confirmed; its key is to be recorded */
    PLACE_UNWIND,    /* its claim is to be released */
    PLACE_SETTLE,    /* to be acknowledged */
    PLACE_GONE,      /* to be freed */
    PLACE_COUNT,
    PLACE_IMPOSSIBLE = PLACE_COUNT
};

enum event {
    EVENT_MINE,      /* the store says: claimed, taken over, or ours already */
    EVENT_DUPLICATE, /* the store says: recorded */
    EVENT_BUSY,      /* somebody else's live claim, or another message of its key is on its way */
    EVENT_UNCLAIMED, /* it needs no claim: it has no key, or is parked as it is */
    EVENT_STORE_UNKNOWN, /* the store's answer is unknown */
    EVENT_DUE,           /* its time has come, or what it waited for is over */
    EVENT_PUBLISHED,     /* handed to the sink */
    EVENT_UNWRITABLE, /* its copy cannot be written: unreadable, or larger than the broker takes */
    EVENT_CONFIRMED,  /* ack, and no return */
    EVENT_RETURNED,   /* returned as unroutable, then acked */
    EVENT_NACKED,
    EVENT_SINK_LOST,
    EVENT_REPLIED,   /* its reply is there, or is lost: either way it was the last to be done */
    EVENT_RECORDED,  /* the store answered the recording: recorded, or no longer this claim's */
    EVENT_RELEASED,  /* the store answered the release, likewise */
    EVENT_MOVED,     /* the session is another one now, and its record is in it */
    EVENT_NOT_MOVED, /* the session is another one now, and its record is not in it */
    EVENT_SOURCE_LOST,
    EVENT_STOPPING, /* give back what has not been published */
    EVENT_ACKED,
    EVENT_COUNT
};

/* All that a decision may look at. */
struct flow_facts {
    bool claim;      /* a pending record of ours is in the store, or may be */
    bool sends;      /* a duplicate that is to be published, or answered, before it is settled */
    bool orphan;     /* its delivery is gone: nothing to acknowledge */
    bool unwritable; /* its copy cannot be written */
    bool rejectable; /* the inbound queue dead-letters what is rejected */
};

struct flow_policy {
    bool store_failure_holds; /* on_store_failure: hold */
};

enum place flow_next(enum place place, enum event event, const struct flow_policy *policy,
                     const struct flow_facts *facts);

const char *place_name(enum place place);
const char *event_name(enum event event);

#endif
