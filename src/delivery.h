/*
 * delivery - what a message's headers say of its past: is it new, or coming back on purpose?
 *
 * x-onlyonce-first-seen and -attempt are believed only beside this route's own x-onlyonce-route.
 */
#ifndef ONLYONCE_DELIVERY_H
#define ONLYONCE_DELIVERY_H

#include "memory.h"

#include <stdbool.h>
#include <stdint.h>

enum delivery_kind {
    DELIVERY_PLAIN,      /* not (or not from us) a copy */
    DELIVERY_RETRY,      /* a copy that was dead-lettered from this route's destination */
    DELIVERY_PUT_BACK,   /* a copy from the parking queue: it has x-onlyonce-reason */
    DELIVERY_LOOP,       /* a copy, and nothing says why it is back */
    DELIVERY_BAD_HEADER, /* a copy whose attempt or first-seen make no sense */
    DELIVERY_UNREADABLE  /* properties or header table cannot be read at all */
};

struct delivery {
    enum delivery_kind kind;
    uint32_t attempt;     /* RETRY, PUT_BACK, LOOP: of the copy that came back, 1 or more */
    int64_t first_seen;   /* RETRY, PUT_BACK, LOOP: of that copy's record, ms since 1970 */
    bool redelivered;     /* the broker says so */
    uint64_t fingerprint; /* of its content, if the route takes fingerprints; 0: none */
    bool other_route;     /* PLAIN: bears another route's x-onlyonce-route, and an x-death */
};

/* What a route calls its own. Exactly one of queue and exchange is set. */
struct delivery_origin {
    const char *route;
    const char *queue;
    const char *exchange;
};

struct delivery delivery_read(struct span properties, bool redelivered,
                              const struct delivery_origin *origin);

#endif
