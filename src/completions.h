/*
 * completions - one thread that consumes workers' reports and applies them to the stores of their
 * routes.
 *
 * A report is acknowledged only after the store has answered it. A bad one goes to a parking queue,
 * its headers kept, with x-onlyonce-reason; the broker's confirm of that comes before the
 * acknowledgement. While its store is away a report is held, and the others go on. Nothing is
 * shared with the workers: a store that is slow or away stops only this thread.
 */
#ifndef ONLYONCE_COMPLETIONS_H
#define ONLYONCE_COMPLETIONS_H

#include "config.h"
#include "stats.h"

#include <stdbool.h>

struct completions;

/* Of a configuration that has completions.queue. `stats` is the caller's, and outlives it. */
struct completions *completions_new(const struct config *config, struct report_stats *stats)
    __attribute__((returns_nonnull, warn_unused_result));
void completions_free(struct completions *c); /* NULL is fine */

/* Before it runs: the broker may say no at the first connect; it tries again. */
void completions_keep_trying(struct completions *c);

/* The thread. `on_exit` is called from it when it ends: after completions_ask_to_stop(), or because
 * the broker said no at the first connect. */
bool completions_start(struct completions *c, void (*on_exit)(void *), void *context);
void completions_ask_to_stop(struct completions *c); /* from any thread */
void completions_join(struct completions *c);
bool completions_have_failed(const struct completions *c);

#endif
