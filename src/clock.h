/*
 * clock - the two clocks. Tests replace this file at link time.
 */
#ifndef ONLYONCE_CLOCK_H
#define ONLYONCE_CLOCK_H

#include <stdint.h>

/* Milliseconds since some fixed moment, never stepped, and running while the machine is suspended
 * (CLOCK_BOOTTIME): a session's life is measured with it. */
int64_t clock_now(void);

/* The same clock, in microseconds: for what takes less than its milliseconds can show. */
int64_t clock_micros(void);

/* Milliseconds since 1970-01-01 UTC. May be wrong, and may jump. */
int64_t clock_wall(void);

#endif
