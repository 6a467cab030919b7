/*
 * metrics - what is counted and shown, as Prometheus reads it (text format 0.0.4).
 *
 * Every metric has its HELP and TYPE, and every series of a route is there from the beginning, with
 * 0, so that rates are right from the first event on. A route's workers are added up; of what is up
 * or not, and old or not, the worst one counts.
 */
#ifndef ONLYONCE_METRICS_H
#define ONLYONCE_METRICS_H

#include "config.h"
#include "stats.h"

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* `stats` of each route; `reports` NULL: nobody reports by AMQP. `now` is clock_now(). */
void metrics_write(const struct config *config, struct route_stats *const *stats,
                   const struct report_stats *reports, int64_t now, struct buffer *out);

#endif
