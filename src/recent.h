/*
 * recent - the last messages of a route that were not forwarded: which, why and when.
 *
 * A ring in memory, of a fixed size. A route's workers write it and anybody reads it, under one
 * lock, which is held for no more than the copying of one entry, or of all.
 */
#ifndef ONLYONCE_RECENT_H
#define ONLYONCE_RECENT_H

#include "message.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define RECENT_MAX 100

struct recent_message {
    int64_t at;                 /* ms since 1970 */
    int64_t first_seen;         /* of its key's record, or its own; likewise */
    const char *what;           /* duplicate, conflict, parked or rejected; static text */
    const char *why;            /* of parked and rejected ones; static text, or NULL */
    char key[KEY_TEXT_MAX + 1]; /* "": it has none */
};

struct recent {
    pthread_mutex_t lock;
    uint64_t added; /* ever; the next one goes to added % RECENT_MAX */
    struct recent_message ring[RECENT_MAX];
};

void recent_init(struct recent *r);
void recent_free(struct recent *r);

void recent_add(struct recent *r, const struct recent_message *m);

/* Copies all, the oldest first; how many there are. */
size_t recent_copy(struct recent *r, struct recent_message out[RECENT_MAX]);

#endif
