/*
 * fleet - all that runs by a configuration: a lane for each route, with its workers, and the thread
 * that takes reports. It is started, changed to another configuration, and stopped.
 *
 * A change touches only the lanes whose settings differ: these stop first, as at the end of the
 * program, while the others go on; then what is new or different starts. Counters outlive the
 * change of their route.
 *
 * One thread owns a fleet: it polls fleet_fd() and calls fleet_turn() when that is readable.
 */
#ifndef ONLYONCE_FLEET_H
#define ONLYONCE_FLEET_H

#include "config.h"
#include "log.h"
#include "stats.h"

#include <stdbool.h>
#include <stddef.h>

struct fleet;

/* Nothing runs yet. The configuration is the fleet's from now on. NULL: out of descriptors. */
struct fleet *fleet_new(struct config *config) __attribute__((warn_unused_result));
void fleet_free(struct fleet *f); /* of which everything has ended */

/* False: a thread cannot be started, which is logged; what was started is to be stopped. */
bool fleet_start(struct fleet *f) __attribute__((warn_unused_result));

/* Begins to stop all, for good: fleet_turn() says when it has ended. */
void fleet_stop(struct fleet *f);

/* Begins to stop what is different by `next`, which is the fleet's from now on. A change that is
 * still going on goes on to `next` instead. False: nothing differs, and next is freed. */
bool fleet_change(struct fleet *f, struct config *next) __attribute__((warn_unused_result));
/* After FLEET_READY: the configuration is the next one, and what it asks for is started. What
 * fleet_config() and fleet_stats() answered before is gone. */
void fleet_switch(struct fleet *f);

enum fleet_state {
    FLEET_RUNS,
    FLEET_READY,  /* to be switched: what is different has stopped */
    FLEET_FAILED, /* to be stopped: something ended by itself, or could not be started */
    FLEET_ENDED   /* everything has */
};
int fleet_fd(const struct fleet *f);
/* Looks at what has ended. */
enum fleet_state fleet_turn(struct fleet *f);
/* Something was refused at the first connect, or could not be started. */
bool fleet_has_failed(const struct fleet *f);

const struct config *fleet_config(const struct fleet *f);
struct route_stats *const *fleet_stats(const struct fleet *f); /* of each route of it */
struct report_stats *fleet_report_stats(struct fleet *f);      /* NULL: there are no reports */

/* A thread's loop has stood still for so long that only a restart may help. */
bool fleet_hangs(const struct fleet *f);

/* How many routes do not reach their servers and consume, with all of their workers; *first: the
 * first one's name. */
size_t fleet_waiting(const struct fleet *f, const char **first);
/* Who takes reports, if anybody does, does not. With fleet_waiting() it is what /readyz says. */
bool fleet_reports_wait(const struct fleet *f);

/* Adds what is counted to the routes' history; to be called every HISTORY_STEP_MS. */
void fleet_sample(struct fleet *f);

/* Warns of routes whose messages mostly lack a key; to be called every KEY_WATCH_MS. */
void fleet_watch_keys(struct fleet *f);

/* Logs all that was counted, but for what never happened. */
void fleet_say_counts(const struct fleet *f, enum log_level level, const char *event);

#endif
