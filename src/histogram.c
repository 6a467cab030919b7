#include "histogram.h"

#define MS INT64_C(1000)
#define S (1000 * MS)
#define HOUR (3600 * S)

const histogram_bounds histogram_short = {500,     1 * MS,    2500,     5 * MS,   10 * MS,
                                          25 * MS, 50 * MS,   100 * MS, 250 * MS, 500 * MS,
                                          1 * S,   2500 * MS, 5 * S,    10 * S,   30 * S};

const histogram_bounds histogram_long = {100 * MS,  1 * S,      10 * S,    60 * S,
                                         600 * S,   1 * HOUR,   6 * HOUR,  24 * HOUR,
                                         72 * HOUR, 168 * HOUR, 720 * HOUR};

void histogram_add(struct histogram *h, const histogram_bounds bounds, int64_t us)
{
    size_t i = 0;
    if (us < 0)
        us = 0;
    while (bounds[i] && us > bounds[i])
        i++;
    atomic_fetch_add_explicit(&h->buckets[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->sum, (uint64_t)us, memory_order_relaxed);
}
