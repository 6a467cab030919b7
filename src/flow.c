#include "flow.h"

/* A cell of the table: a place, or a choice between places by the facts. */
enum step {
    IMPOSSIBLE, /* what the empty cells are */
    TO_FRESH,
    TO_HELD,
    TO_CLAIMED,
    TO_SENT,
    TO_CONFIRMED,
    TO_UNWIND,
    TO_SETTLE,
    TO_GONE,
    BY_STORE_POLICY,  /* wait for the store, or go on without it */
    IF_SENDS_CLAIMED, /* a duplicate is settled, unless something of it is published first */
    GO_ON, /* its key is to be recorded first, if it has a claim; or it is to be answered, too */
    IF_CLAIM_UNWIND, /* its claim is to be released first, if it has one */
    DROP,            /* forget the delivery; release its claim first, if it has one */
    ACKNOWLEDGE,     /* unless there is nothing to acknowledge any more */
    TRY_AGAIN        /* unless it is an orphan, or can never be written */
};

/* clang-format off */
static const unsigned char table[PLACE_COUNT][EVENT_COUNT] = {
    [PLACE_FRESH] = {
        [EVENT_MINE]          = TO_CLAIMED,
        [EVENT_DUPLICATE]     = IF_SENDS_CLAIMED,
        [EVENT_BUSY]          = TO_HELD,
        [EVENT_UNCLAIMED]     = TO_CLAIMED,
        [EVENT_STORE_UNKNOWN] = BY_STORE_POLICY,
        [EVENT_UNWRITABLE]    = IF_CLAIM_UNWIND,
        [EVENT_MOVED]         = TO_CLAIMED,
        [EVENT_NOT_MOVED]     = TO_FRESH,
        [EVENT_SOURCE_LOST]   = DROP,
        [EVENT_STOPPING]      = DROP,
    },
    [PLACE_HELD] = {
        [EVENT_DUE]           = TO_FRESH,
        [EVENT_DUPLICATE]     = IF_SENDS_CLAIMED,
        [EVENT_MOVED]         = TO_CLAIMED,
        [EVENT_NOT_MOVED]     = TO_HELD,
        [EVENT_SOURCE_LOST]   = DROP,
        [EVENT_STOPPING]      = DROP,
    },
    [PLACE_CLAIMED] = {
        [EVENT_PUBLISHED]     = TO_SENT,
        [EVENT_UNWRITABLE]    = IF_CLAIM_UNWIND,
        [EVENT_SINK_LOST]     = IF_CLAIM_UNWIND,
        [EVENT_REPLIED]       = ACKNOWLEDGE,
        [EVENT_MOVED]         = TO_CLAIMED,
        [EVENT_NOT_MOVED]     = TO_FRESH,
        [EVENT_SOURCE_LOST]   = DROP,
        [EVENT_STOPPING]      = DROP,
    },
    [PLACE_SENT] = {
        [EVENT_CONFIRMED]     = GO_ON,
        [EVENT_RETURNED]      = IF_CLAIM_UNWIND,
        [EVENT_NACKED]        = IF_CLAIM_UNWIND,
        [EVENT_SINK_LOST]     = IF_CLAIM_UNWIND,
        [EVENT_REPLIED]       = ACKNOWLEDGE,
        [EVENT_MOVED]         = TO_SENT,
        [EVENT_NOT_MOVED]     = TO_SENT,
        [EVENT_SOURCE_LOST]   = TO_SENT,
        [EVENT_STOPPING]      = TO_SENT,
    },
    [PLACE_CONFIRMED] = {
        [EVENT_RECORDED]      = ACKNOWLEDGE,
        [EVENT_STORE_UNKNOWN] = TO_CONFIRMED,
        [EVENT_MOVED]         = TO_CONFIRMED,
        [EVENT_NOT_MOVED]     = TO_CONFIRMED,
        [EVENT_SOURCE_LOST]   = TO_CONFIRMED,
        [EVENT_STOPPING]      = TO_CONFIRMED,
    },
    [PLACE_UNWIND] = {
        [EVENT_RELEASED]      = TRY_AGAIN,
        [EVENT_STORE_UNKNOWN] = TO_UNWIND,
        [EVENT_MOVED]         = TO_UNWIND,
        [EVENT_NOT_MOVED]     = TO_UNWIND,
        [EVENT_SOURCE_LOST]   = TO_UNWIND,
        [EVENT_STOPPING]      = TO_UNWIND,
    },
    [PLACE_SETTLE] = {
        [EVENT_ACKED]         = TO_GONE,
        [EVENT_SOURCE_LOST]   = TO_GONE,
        [EVENT_STOPPING]      = TO_SETTLE,
    },
};
/* clang-format on */

static enum place acknowledge(const struct flow_facts *facts)
{
    return facts->orphan ? PLACE_GONE : PLACE_SETTLE;
}

static enum place go_on(const struct flow_facts *facts)
{
    if (facts->claim)
        return PLACE_CONFIRMED;
    return facts->sends && !facts->orphan ? PLACE_CLAIMED : acknowledge(facts);
}

static enum place try_again(const struct flow_facts *facts)
{
    if (facts->orphan)
        return PLACE_GONE;
    /* What can never be written is rejected where it is dead-lettered, and else held for ever. */
    return facts->unwritable && facts->rejectable ? PLACE_SETTLE : PLACE_HELD;
}

enum place flow_next(enum place place, enum event event, const struct flow_policy *policy,
                     const struct flow_facts *facts)
{
    if (place >= PLACE_COUNT || event >= EVENT_COUNT)
        return PLACE_IMPOSSIBLE;
    switch ((enum step)table[place][event]) {
    case IMPOSSIBLE: return PLACE_IMPOSSIBLE;
    case TO_FRESH: return PLACE_FRESH;
    case TO_HELD: return PLACE_HELD;
    case TO_CLAIMED: return PLACE_CLAIMED;
    case TO_SENT: return PLACE_SENT;
    case TO_CONFIRMED: return PLACE_CONFIRMED;
    case TO_UNWIND: return PLACE_UNWIND;
    case TO_SETTLE: return PLACE_SETTLE;
    case TO_GONE: return PLACE_GONE;
    case BY_STORE_POLICY: return policy->store_failure_holds ? PLACE_HELD : PLACE_CLAIMED;
    case IF_SENDS_CLAIMED: return facts->sends ? PLACE_CLAIMED : PLACE_SETTLE;
    case GO_ON: return go_on(facts);
    case IF_CLAIM_UNWIND: return facts->claim ? PLACE_UNWIND : try_again(facts);
    case DROP: return facts->claim ? PLACE_UNWIND : PLACE_GONE;
    case ACKNOWLEDGE: return acknowledge(facts);
    case TRY_AGAIN: return try_again(facts);
    }
    return PLACE_IMPOSSIBLE;
}

const char *place_name(enum place place)
{
    static const char *const names[PLACE_COUNT] = {
        [PLACE_FRESH] = "fresh",         [PLACE_HELD] = "held",     [PLACE_CLAIMED] = "claimed",
        [PLACE_SENT] = "sent",           [PLACE_UNWIND] = "unwind", [PLACE_SETTLE] = "settle",
        [PLACE_CONFIRMED] = "confirmed", [PLACE_GONE] = "gone",
    };
    return place < PLACE_COUNT ? names[place] : "impossible";
}

const char *event_name(enum event event)
{
    static const char *const names[EVENT_COUNT] = {
        [EVENT_MINE] = "mine",
        [EVENT_DUPLICATE] = "duplicate",
        [EVENT_BUSY] = "busy",
        [EVENT_UNCLAIMED] = "unclaimed",
        [EVENT_STORE_UNKNOWN] = "store unknown",
        [EVENT_DUE] = "due",
        [EVENT_PUBLISHED] = "published",
        [EVENT_UNWRITABLE] = "unwritable",
        [EVENT_CONFIRMED] = "confirmed",
        [EVENT_RETURNED] = "returned",
        [EVENT_NACKED] = "nacked",
        [EVENT_SINK_LOST] = "sink lost",
        [EVENT_REPLIED] = "replied",
        [EVENT_RECORDED] = "recorded",
        [EVENT_RELEASED] = "released",
        [EVENT_MOVED] = "moved",
        [EVENT_NOT_MOVED] = "not moved",
        [EVENT_SOURCE_LOST] = "source lost",
        [EVENT_STOPPING] = "stopping",
        [EVENT_ACKED] = "acked",
    };
    return event < EVENT_COUNT ? names[event] : "?";
}
