/*
 * session - what makes a worker's claims its own: a short-lived entry in the store that it renews.
 *
 * docs/protocol.md, rule 3. Sessions are never reused. An entry lives `life` ms and is renewed
 * every third of that, timed from the moment of sending by clock_now(). After two thirds without a
 * renewal its worker publishes nothing that rests on a claim. A session that lapsed, or whose
 * store connection was lost, is over: the next one is opened, which takes over its claims.
 */
#ifndef ONLYONCE_SESSION_H
#define ONLYONCE_SESSION_H

#include "record.h"
#include "store.h"

#include <stdbool.h>
#include <stdint.h>

struct session {
    char id[SESSION_ID_LEN + 1];
    bool open;
    int64_t life;    /* ms */
    int64_t renewed; /* clock_now() when the last successful renewal was sent */
    uint64_t claims; /* the number of the last claim; counts on from session to session */
    /* Sessions that may own records of messages still in flight: the last one that was open, and
     * those whose opening had no answer. */
    char former[STORE_FORMER_MAX][SESSION_ID_LEN + 1];
    size_t former_count;
};

/* Opens the next session and moves the claims of `moves` to it. False: the store call failed, the
 * store is to be closed. */
bool session_open(struct session *s, struct store *store, struct store_move *moves, size_t count)
    __attribute__((warn_unused_result));

/* Renews it if a third of its life is over. False: the store call failed. A session found to be
 * gone is closed, which is no failure. */
bool session_renew(struct session *s, struct store *store) __attribute__((warn_unused_result));

/* The session is over: its store connection was lost, or the store does not know it. */
void session_close(struct session *s);

/* Ends it in the store too: its claims are abandoned from now on. */
void session_end(struct session *s, struct store *store);

/* Whether to publish what was claimed in it: it is open, and was renewed lately enough. */
bool session_is_sure(const struct session *s, int64_t now);

/* When session_renew() wants to be called (clock_now()). */
int64_t session_deadline(const struct session *s);

#endif
