/*
 * outage - one connection's ups and downs: said in the log at both edges, and in between where the
 * reason becomes another one, with exponential backoff and jitter between the attempts.
 */
#ifndef ONLYONCE_OUTAGE_H
#define ONLYONCE_OUTAGE_H

#include <stdbool.h>
#include <stdint.h>

struct outage {
    const char *route; /* for the log; NULL: of no route */
    const char *link;  /* which of the connections */
    int64_t next_try;  /* clock_now() */
    int64_t since;     /* of the outage; 0: there is none, or none was said yet */
    int64_t up_since;
    uint64_t said; /* the reason that was said last, as a hash */
    uint32_t tries;
    bool ever_up;
    bool patient; /* a refusal is not the end, even if it never was up */
};

/* The connection is up, to what `to` says. True: it is so again. */
bool outage_ends(struct outage *o, const char *to);

/*
 * The connection is down: says why, once for each reason in a row, and sets the time of the next
 * try. True: it never was up, and trying again will not help (`permanent`). *random is the state of
 * the jitter, never 0.
 */
bool outage_begins(struct outage *o, uint64_t *random, const char *why, bool permanent);

/* Puts the next try off, by the next of the growing delays. */
void outage_put_off(struct outage *o, uint64_t *random);

bool outage_is_due(const struct outage *o, int64_t now);

#endif
