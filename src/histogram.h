/*
 * histogram - how often something took how long, in fixed buckets.
 *
 * Written by workers and read by anybody; an observation is two relaxed additions. The count is the
 * sum of the buckets, so that the two never disagree.
 */
#ifndef ONLYONCE_HISTOGRAM_H
#define ONLYONCE_HISTOGRAM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_BUCKETS 16 /* at most; the last one has no upper bound */

/* The upper bounds of the buckets but the last, in microseconds, rising; 0 ends them. */
typedef int64_t histogram_bounds[HISTOGRAM_BUCKETS];

extern const histogram_bounds histogram_short; /* half a millisecond to half a minute */
extern const histogram_bounds histogram_long;  /* a tenth of a second to a month */

struct histogram {
    atomic_uint_fast64_t buckets[HISTOGRAM_BUCKETS];
    atomic_uint_fast64_t sum; /* microseconds */
};

/* Below 0 counts as 0: clocks of two machines may disagree. */
void histogram_add(struct histogram *h, const histogram_bounds bounds, int64_t us);

#endif
