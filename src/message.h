/*
 * message - one delivery, from its arrival to its acknowledgement.
 *
 * A message is one allocation: this struct, then exchange, routing key, encoded properties and
 * body. It has one owner at a time: source makes it, relay holds it until it is gone; sink and
 * key only look. The bytes never change: a copy's header is written anew beside them (copy.h).
 */
#ifndef ONLYONCE_MESSAGE_H
#define ONLYONCE_MESSAGE_H

#include "claim.h"
#include "delivery.h"
#include "flow.h"
#include "memory.h"
#include "record.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define KEY_TEXT_MAX 255 /* alternative's name, ':' and a text of at most 200 bytes: see key.h */

TAILQ_HEAD(message_list, message);

struct message {
    /* As delivered; set by source. */
    uint64_t tag;     /* delivery tag */
    uint32_t epoch;   /* which connection of the source the tag belongs to */
    bool redelivered; /* the broker's flag */
    struct span exchange;
    struct span routing_key;
    struct span properties; /* flags and list as encoded: a header frame from byte 12 on */
    struct span body;

    /* What relay found out about it. */
    struct delivery delivery;
    char key[KEY_TEXT_MAX + 1];
    uint16_t key_len;     /* 0: it has no key */
    int16_t alternative;  /* of the route's key rule; -1: none */
    struct span key_name; /* of the alternative, for counters */

    /* Where it is, and what it waits for; written by relay alone. */
    enum place place;
    TAILQ_ENTRY(message) link; /* in the list of its place */
    struct flow_facts facts;
    int64_t arrived;     /* clock_now() at its arrival */
    int64_t first_seen;  /* its own, should it become the first of its key; ms since 1970 */
    int64_t sent;        /* clock_now() when its copy was published last */
    uint32_t attempt;    /* of a copy without a claim: its record's number, where it met one */
    int64_t window;      /* ms: its own, or the route's */
    int64_t waits_since; /* in doubt, it waits for a completion since then (clock_now()); 0: no */
    int64_t due;         /* HELD: when to try again; INT64_MAX: when something wakes it */
    uint32_t tries;      /* how often it was held since it last got further */
    uint32_t returns;    /* how often the broker returned its copy as unroutable */
    uint32_t refusals;   /* how often the broker returned or nacked its copy */
    bool looked;         /* up, during an alarm: it was no duplicate then */
    bool is_duplicate;   /* of the record that `claim` then is */
    bool counted;        /* as a duplicate, in its record */
    bool in_doubt;       /* a copy of it may be in the work queue already */
    const char *why;     /* what it waits for, for people; static text */

    /* Its claim: the record as it stands in the store, or may stand there; if facts.claim. */
    struct record claim;

    struct span reply_to; /* TARGET_REPLY: the queue that waits for the reply, */
    char *reply;          /* which is this text, its own */

    /* Its copy: what sink writes. */
    struct copy copy;

    /* Its key in flight: while facts.claim it is in relay's table, and others follow it. */
    struct message *next_in_bucket;
    struct message_list followers;
    struct message *leader; /* HELD: whom it follows */
    TAILQ_ENTRY(message) follow;

    /* Sink's, while SENT. */
    uint64_t sequence;
};

/* A message with room for these four; the caller fills what the spans point to (body included). */
struct message *message_new(size_t exchange_len, size_t routing_key_len, size_t properties_len,
                            size_t body_len) __attribute__((returns_nonnull, warn_unused_result));
void message_free(struct message *m);         /* NULL is fine */
size_t message_size(const struct message *m); /* what it costs in memory, bytes */

static inline struct span message_key(const struct message *m)
{
    return (struct span){(const uint8_t *)m->key, m->key_len};
}

#endif
