/*
 * admin - HTTP: a status page, health, readiness, metrics, and the keys (docs/openapi.yaml is what
 * it promises).
 *
 * Each connection has a thread of libmicrohttpd's, so that a request about a key that waits for its
 * store delays no other, and none delays a worker: what workers show is read without their help.
 * Connections, the bytes of a request, and the time that one may take to come in or to be taken are
 * bounded.
 */
#ifndef ONLYONCE_ADMIN_H
#define ONLYONCE_ADMIN_H

#include "config.h"
#include "stats.h"

#define ADMIN_ERROR_MAX 256

struct admin;

/* Listens at admin.listen, and serves. `stats` of each route and `reports` (NULL: nobody reports by
 * AMQP) outlive it. NULL: it cannot, and `error` says why. */
struct admin *admin_start(const struct config *config, struct route_stats *const *stats,
                          struct report_stats *reports, char error[ADMIN_ERROR_MAX])
    __attribute__((warn_unused_result));
/* Ends what is being answered, first; NULL is fine. */
void admin_stop(struct admin *a);

/* From now on /readyz says that the program is stopping. NULL is fine. */
void admin_stopping(struct admin *a);

/* Hangs up on clients that are too slow. To be called every ADMIN_WATCH_MS; NULL is fine. */
#define ADMIN_WATCH_MS 5000
void admin_watch(struct admin *a);

#endif
