/*
 * replay - what a replayed relay has around it: a source that is never empty, a sink that confirms
 * at once, and a store that finds every key new (or every key a duplicate). replay.c says what for.
 *
 * replay_source.c, replay_sink.c and replay_store.c replace the modules of those names at link
 * time, as replay.c does with the clock.
 */
#ifndef ONLYONCE_BENCH_REPLAY_H
#define ONLYONCE_BENCH_REPLAY_H

#include "memory.h"
#include "message.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BATCH 100 /* messages that arrive, and copies that are confirmed, in one turn */
#define NOW INT64_C(1750000000000)

struct world {
    uint64_t left;    /* messages that are still to come */
    uint64_t in_turn; /* of this turn */
    uint64_t made;    /* so far */
    uint64_t acked;
    bool duplicates; /* every key is on record */
    struct message *sent[BATCH * 2];
    size_t sent_count;
    size_t sent_next;
    int64_t now;
    struct buffer header;
};

extern struct world world;

/* Ends the program. */
void die(const char *why);

#endif
