/*
 * copy - the header of a message's copy: its properties, less what would harm, plus our headers.
 *
 * Properties keep their presence, order and bytes; headers keep order, type and bytes. Taken out,
 * because RabbitMQ acts on them or refuses them: user_id unless it is the
 * relay's own user, CC, BCC, x-death, x-first-death-*, x-last-death-*, x-delivery-count,
 * x-acquired-count, and every inbound header whose name begins with x-onlyonce-.
 * Added: x-onlyonce-route, -key, -first-seen, -attempt (from 2 on), the marks -in-doubt,
 * -unchecked, -no-key (true), and on a parked copy -reason, -exchange and -routing-key. A
 * duplicate's copy has -route, -key, -first-seen, -state and -duplicates.
 *
 * A reply is no copy: its body is message.reply, its only properties are content_type and the
 * message's correlation_id.
 */
#ifndef ONLYONCE_COPY_H
#define ONLYONCE_COPY_H

#include "memory.h"

#include <stdbool.h>
#include <stdint.h>

enum target { TARGET_WORK, TARGET_PARKING, TARGET_DUPLICATES, TARGET_REPLY };

/* Why a message is parked; park_reason_text() is the header's and the metric's word for it. */
enum park_reason {
    PARK_NONE,
    PARK_LOOP,          /* loop: it bears this route's mark, and nothing says why it is back */
    PARK_STALE,         /* stale: it belongs to an earlier life of its key */
    PARK_BAD_HEADER,    /* bad_header: x-onlyonce-attempt or -first-seen make no sense */
    PARK_DEAD_LETTERED, /* dead_lettered: would be a retry, and on_dead_lettered says check */
    PARK_OTHER_ROUTE,   /* other_route: a duplicate here, but another route's retry */
    PARK_NO_KEY,        /* no_key: on_missing_key says park */
    PARK_STORE_FAILURE, /* store_failure: on_store_failure says park */
    PARK_UNROUTABLE,    /* unroutable: returned three times, and on_unroutable says park */
    PARK_CONFLICT,      /* conflict: its key is recorded for another content */
    PARK_IN_DOUBT,      /* in_doubt: on_in_doubt says park */
    /* Why a worker's report is: */
    PARK_UNKNOWN_ROUTE, /* unknown_route: it names no route of the configuration */
    PARK_NOT_FOUND,     /* not_found: its key is not on record, or with another first-seen */
    PARK_PENDING,       /* pending: its key is to be released, and is on its way */
    PARK_FOREIGN,       /* foreign: what is stored under its key is not ours */
    PARK_BAD_ACTION,    /* bad_action: x-onlyonce-action is neither complete nor release */
    PARK_BAD_RESULT,    /* bad_result: its body is no JSON of at most 4 KiB */
    PARK_REASON_COUNT
};
const char *park_reason_text(enum park_reason reason);

struct message;

/* What a copy says beyond the message itself. Kept in the message while it is SENT. */
struct copy {
    enum target target;
    enum park_reason reason; /* TARGET_PARKING */
    int64_t first_seen;      /* ms since 1970; always set */
    uint32_t attempt;        /* written from 2 on */
    uint32_t duplicates;     /* TARGET_DUPLICATES: how many came, with this one */
    bool in_doubt;
    bool unchecked;
    bool no_key;
    bool report;       /* a worker's: its x-onlyonce headers are its own, and stay */
    bool key_left_out; /* sink's answer: x-onlyonce-key did not fit */
    const char *state; /* TARGET_DUPLICATES: of the record of its key */
};

enum copy_result {
    COPY_OK,
    COPY_WITHOUT_KEY, /* written, but x-onlyonce-key did not fit */
    COPY_TOO_LARGE,   /* not even without it */
    COPY_UNREADABLE   /* the message's own properties or header table cannot be read */
};

/* What is published as the body: the message's own, or the reply. */
struct span copy_body(const struct message *m, const struct copy *copy);

/*
 * Appends to *out the payload of the copy's content header frame: class, weight, body size,
 * property flags and list (AMQP 0-9-1, 4.2.6.1), at most `max` bytes. `route` is the route's name,
 * `own_user` the relay's user on the broker (NULL: not known, so no user_id stays). On
 * COPY_TOO_LARGE and COPY_UNREADABLE *out is as it was. The same message, copy and arguments give
 * the same bytes: returns are matched by them.
 */
enum copy_result copy_write(const struct message *m, const struct copy *copy, const char *route,
                            const char *own_user, size_t max, struct buffer *out)
    __attribute__((warn_unused_result));

#endif
