/*
 * history - what a route had counted every few seconds of the last ten minutes.
 *
 * A ring in memory, of a fixed size. One thread writes it and anybody reads it, under one lock,
 * which is held for no more than the copying; no worker ever takes it.
 */
#ifndef ONLYONCE_HISTORY_H
#define ONLYONCE_HISTORY_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define HISTORY_STEP_MS 5000
#define HISTORY_MAX 121 /* the ends of ten minutes' 120 steps */

struct history_sample {
    int64_t at; /* clock_now() */
    uint64_t forwarded;
    uint64_t duplicates;
};

struct history {
    pthread_mutex_t lock;
    uint64_t added; /* ever; the next one goes to added % HISTORY_MAX */
    struct history_sample ring[HISTORY_MAX];
};

void history_init(struct history *h);
void history_free(struct history *h);

void history_add(struct history *h, const struct history_sample *sample);

/* Copies all, the oldest first; how many there are. */
size_t history_copy(struct history *h, struct history_sample out[HISTORY_MAX]);

#endif
