/*
 * stats - what a route shows: one table of counters, written by its workers and read by anybody,
 * the last messages that it did not forward, its last ten minutes, and its workers' vitals.
 *
 * The rows below make the enum, the names and the help texts. Counters are relaxed atomics: each
 * is right by itself, and that is all a reader may rely on.
 */
#ifndef ONLYONCE_STATS_H
#define ONLYONCE_STATS_H

#include "copy.h"
#include "histogram.h"
#include "history.h"
#include "recent.h"
#include "vitals.h"

#include <stdatomic.h>
#include <stdint.h>

#define STATS_ROWS(ROW)                                                                            \
    ROW(DELIVERIES, "deliveries", "messages that arrived from the inbound queue")                  \
    ROW(FORWARDED, "forwarded", "copies confirmed into the work queue or exchange")                \
    ROW(DUPLICATES, "duplicates", "messages acknowledged because their key was recorded")          \
    ROW(DUPLICATES_PUBLISHED, "duplicates_published", "duplicates confirmed into their exchange")  \
    ROW(REPLIES, "replies", "duplicates answered with their key's status")                         \
    ROW(REPLIES_DROPPED, "replies_dropped", "answers to duplicates that did not arrive")           \
    ROW(CONFLICTS, "conflicts", "messages whose key was recorded for another content")             \
    ROW(CONFLICTS_DROPPED, "conflicts_dropped", "conflicts acknowledged, as on_conflict says")     \
    ROW(WINDOWS_IGNORED, "windows_ignored", "messages whose own window made no sense")             \
    ROW(PARKED, "parked", "copies confirmed into the parking queue")                               \
    ROW(REJECTED, "rejected", "unreadable or unwritable messages that the broker dead-lettered")   \
    ROW(MARKED_IN_DOUBT, "in_doubt", "copies marked in doubt")                                     \
    ROW(MARKED_UNCHECKED, "unchecked", "copies marked unchecked")                                  \
    ROW(MARKED_NO_KEY, "no_key", "copies marked as having no key")                                 \
    ROW(RETRIES, "retries", "copies forwarded again after a dead-lettering or from parking")       \
    ROW(RETURNED, "returned", "copies that the broker returned as unroutable")                     \
    ROW(NACKED, "nacked", "copies that the broker refused")                                        \
    ROW(TAKEN_OVER, "taken_over", "abandoned claims taken over")                                   \
    ROW(NOT_RECORDED, "not_recorded", "recordings that found their claim gone or somebody else's") \
    ROW(KEY_LEFT_OUT, "key_left_out", "copies whose x-onlyonce-key did not fit")                   \
    ROW(FOREIGN, "foreign", "answers of the store that were no records of ours")                   \
    ROW(GIVEN_BACK, "given_back", "times that everything held was given back to the broker")       \
    ROW(RECONNECTS, "reconnects", "connections opened again, of any kind")

enum stat {
#define ROW(id, name, help) STAT_##id,
    STATS_ROWS(ROW)
#undef ROW
        STAT_COUNT
};

#define STATS_ALTERNATIVES 17 /* by the rule's order; the last one: none */

struct route_stats {
    atomic_uint_fast64_t counters[STAT_COUNT];
    atomic_uint_fast64_t parked[PARK_REASON_COUNT];
    atomic_uint_fast64_t alternatives[STATS_ALTERNATIVES];
    atomic_uint_fast64_t reconnects[LINK_COUNT];
    struct histogram claims;   /* one call to the store that claims a batch */
    struct histogram confirms; /* a copy, from its publishing to its confirm */
    struct histogram relays;   /* a forwarded message, from its arrival to its acknowledgement */
    struct histogram duplicate_age; /* a duplicate, since its key was first seen */
    struct recent recent;
    struct history history;
    struct vitals *workers;
    size_t worker_count;
};

/* What the thread that takes workers' reports shows. Of its vitals: that it turns, sink and source.
 */
struct report_stats {
    atomic_uint_fast64_t completed;
    atomic_uint_fast64_t released;
    atomic_uint_fast64_t parked;
    struct vitals vitals;
};

void stats_init(struct route_stats *s, size_t workers);
/* The route goes on with so many workers: the counters stay, and the former workers' vitals go. */
void stats_set_workers(struct route_stats *s, size_t workers);
void stats_free(struct route_stats *s);

/* Adds what is counted now (clock_now()) to its history. */
void stats_sample(struct route_stats *s, int64_t now);

static inline void stats_add(struct route_stats *s, enum stat stat, uint64_t n)
{
    atomic_fetch_add_explicit(&s->counters[stat], n, memory_order_relaxed);
}

static inline uint64_t stats_get(const struct route_stats *s, enum stat stat)
{
    return atomic_load_explicit(&s->counters[stat], memory_order_relaxed);
}

static inline void stats_count(atomic_uint_fast64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Messages that had no key. */
static inline uint64_t stats_without_key(const struct route_stats *s)
{
    return atomic_load_explicit(&s->alternatives[STATS_ALTERNATIVES - 1], memory_order_relaxed);
}

const char *stats_name(enum stat stat);
const char *stats_help(enum stat stat);

#endif
