/*
 * store_watch - tells in the log what endangers uniqueness in a store (store_dangers()): each
 * danger when it is found, and again only after it was gone.
 */
#ifndef ONLYONCE_STORE_WATCH_H
#define ONLYONCE_STORE_WATCH_H

#include "store.h"

struct store_watch {
    const char *route; /* for the log */
    const char *name;  /* of the store */
    int64_t next;      /* clock_now() of the next look; 0: at once */
    char *found;       /* lines, by the last look; NULL: there was none */
};

/* Looks, once a minute. False: the call failed, and the store is to be closed. */
bool store_watch_look(struct store_watch *w, struct store *s, int64_t now);

bool store_watch_finds(const struct store_watch *w);

void store_watch_free(struct store_watch *w);

#endif
