/*
 * report_store - the stores that reports of workers are applied to: one for each route, opened when
 * a report first needs it.
 *
 * A store that is away is said once an outage, and tried again with growing delays; the others
 * know nothing of it. One thread uses them all.
 */
#ifndef ONLYONCE_REPORT_STORE_H
#define ONLYONCE_REPORT_STORE_H

#include "config.h"
#include "report.h"

struct report_stores;

struct report_stores *report_stores_new(const struct config *config)
    __attribute__((returns_nonnull, warn_unused_result));
void report_stores_free(struct report_stores *s); /* NULL is fine */
void report_stores_close(struct report_stores *s);

/* Whether the configuration has a route of that name. */
bool report_stores_have(const struct report_stores *s, struct span route);

/* Applies a report of one of its routes. REPORT_UNREACHABLE: the store is away, and is not asked
 * again before *next_try. */
enum report_answer report_stores_apply(struct report_stores *s, const struct report *report,
                                       int64_t *next_try) __attribute__((warn_unused_result));

#endif
