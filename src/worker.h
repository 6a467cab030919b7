/*
 * worker - one thread that turns one loop: connections with backoff, the session, the relay.
 *
 * A worker owns a source, a sink, a store connection and a relay, and shares nothing but counters.
 * The loop is  turn, poll, turn, poll...; worker_turn() never waits (a connection attempt and a
 * call to the store do, for at most their timeouts) and answers how long it may sleep. The
 * simulation drives worker_turn() itself, with source, sink, store and clock replaced.
 */
#ifndef ONLYONCE_WORKER_H
#define ONLYONCE_WORKER_H

#include "config.h"
#include "stats.h"

#include <stdbool.h>
#include <stdint.h>

struct worker;

struct worker *worker_new(const struct config *config, const struct route_config *route, int index,
                          struct route_stats *stats)
    __attribute__((returns_nonnull, warn_unused_result));
void worker_free(struct worker *w); /* drops everything at once, as a crash would */

/* Before it runs: the broker and the store may say no at the first connect; it tries again. */
void worker_keep_trying(struct worker *w);

/* One turn of the loop; how many ms it may sleep before the next one. */
int64_t worker_turn(struct worker *w);

/* Begins to stop: stop consuming, release what was not published, wait for confirms at most 8 s,
 * end the session. Turns go on until worker_is_done(). */
void worker_stop(struct worker *w);
bool worker_is_done(const struct worker *w);
/* It is done because the broker or the store said no at the first connect. */
bool worker_has_failed(const struct worker *w);

/* The thread. `on_exit` is called from it when it ends. */
bool worker_start(struct worker *w, void (*on_exit)(void *), void *context);
void worker_ask_to_stop(struct worker *w); /* from any thread */
void worker_join(struct worker *w);

#endif
