/*
 * vitals - what a worker shows of itself while it runs: that its loop turns, what it reaches, what
 * it holds.
 *
 * The worker's thread writes and anybody reads. All of it are relaxed atomics, so writing costs the
 * loop next to nothing, and each value is right by itself; only the texts have a lock, which is
 * taken when a connection comes or goes, and for the copying of one text.
 */
#ifndef ONLYONCE_VITALS_H
#define ONLYONCE_VITALS_H

#include "flow.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A worker's connections. */
enum link_name { LINK_STORE, LINK_SINK, LINK_REPLIES, LINK_SOURCE, LINK_COUNT };
const char *link_name_text(enum link_name name);

#define VITALS_TEXT_MAX 256

struct vitals {
    _Atomic int64_t turned; /* clock_now() when its loop last went on; 0: it is not running */
    atomic_bool up[LINK_COUNT];
    atomic_bool blocked;    /* the broker takes no messages */
    atomic_bool endangered; /* the store's settings endanger uniqueness */
    atomic_uint_fast32_t messages[PLACE_GONE];
    _Atomic int64_t oldest; /* clock_now() at the arrival of the oldest message; 0: it has none */
    _Atomic(const char *) holding; /* why the oldest held one waits; static text, or NULL */

    pthread_mutex_t lock;
    char texts[LINK_COUNT][VITALS_TEXT_MAX];
};

void vitals_init(struct vitals *v);
void vitals_free(struct vitals *v);

/* The loop goes on: `now` is clock_now(); 0: it has ended. */
static inline void vitals_turn(struct vitals *v, int64_t now)
{
    atomic_store_explicit(&v->turned, now, memory_order_relaxed);
}

/* Of a connection that is up, what it leads to; of one that is down, why. It is cut to the room
 * that there is, and stays UTF-8. */
void vitals_say(struct vitals *v, enum link_name name, const char *text);
void vitals_text(struct vitals *v, enum link_name name, char out[VITALS_TEXT_MAX]);

/* Now. */
static inline bool vitals_is_up(const struct vitals *v, enum link_name name)
{
    return atomic_load_explicit(&v->up[name], memory_order_relaxed);
}

/* It reaches the store and the broker, and consumes. */
bool vitals_reaches_all(const struct vitals *v);

/* How many ms its loop has not turned at `now`; 0 if it is not running. */
int64_t vitals_still(const struct vitals *v, int64_t now);

/* It has not turned for so long that only a restart may help. */
bool vitals_hangs(const struct vitals *v, int64_t now);

#endif
