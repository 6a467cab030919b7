/*
 * store - the records of one scope, behind one interface.
 *
 * A store is a map from keys to records with a time to live, changed only by compare-and-set, and
 * a set of sessions. What to write is decided elsewhere (claim.h); a backend only compares, writes
 * and fences, so that every backend is small and all behave alike. Backends: Redis, SQLite,
 * PostgreSQL, memory; one vtable each (struct store_backend).
 *
 * A store object is one connection, used by one thread. Calls block, at most for the configured
 * timeout. A call that answers false lost the connection or got an error from the server: what it
 * was to do may or may not have happened, store_error() says why, and the only
 * things left to do are store_close() and, later, store_open().
 */
#ifndef ONLYONCE_STORE_H
#define ONLYONCE_STORE_H

#include "config.h"
#include "memory.h"
#include "record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;

enum store_answer {
    STORE_APPLIED, /* what was expected was there, and was replaced */
    STORE_MET,     /* something else was there: see met; nothing was changed */
    STORE_FENCED,  /* the session does not exist (any more): nothing was changed */
    STORE_FOREIGN  /* what is under the key is not a record of ours: nothing was changed */
};

struct store_op {
    struct span key;
    struct record expect; /* RECORD_NONE: there must be no record */
    struct record write;  /* RECORD_NONE: delete it */
    int64_t ttl;          /* ms, of what is written */
    /* the answer */
    enum store_answer answer;
    struct record met; /* STORE_MET; RECORD_NONE: nothing is there */
};

/* A pending record to be moved from a former session to the new one. */
struct store_move {
    struct span key;
    struct record claim; /* its session is ignored: any of the former ones matches */
    int64_t ttl;
    bool moved;        /* the answer */
    struct record met; /* if not moved: what is there; RECORD_NONE: nothing, or nothing of ours */
};

#define STORE_FORMER_MAX 8

struct store *store_new(const struct store_config *config, const char *scope)
    __attribute__((returns_nonnull, warn_unused_result));
void store_free(struct store *s);

/*
 * Connects and looks whether the server can do what is needed. False: see store_error();
 * *permanent tells that trying again will not help (refused login, a server too old).
 */
bool store_open(struct store *s, bool *permanent) __attribute__((warn_unused_result));

/*
 * The same for `check`: makes nothing of what store_open() would make. *missing says what that is,
 * as "schema onlyonce is missing", valid until the store is freed; then only store_dangers() and
 * store_close() may follow. NULL: nothing is missing.
 */
bool store_look(struct store *s, const char **missing) __attribute__((warn_unused_result));
void store_close(struct store *s);
bool store_is_open(const struct store *s);
const char *store_error(const struct store *s);

/*
 * Opens session `id` for `life` ms, in one atomic step: creates its entry (false if one exists),
 * moves the records of `moves` whose session is one of `former` to it by compare-and-set, and
 * deletes the entries of `former`.
 */
bool store_session_open(struct store *s, const char *id, int64_t life, const char *const *former,
                        size_t former_count, struct store_move *moves, size_t count)
    __attribute__((warn_unused_result));

/* Extends the session to `life` ms from now. *exists: false if its entry was gone, and it stays
 * gone. */
bool store_session_renew(struct store *s, const char *id, int64_t life, bool *exists)
    __attribute__((warn_unused_result));
bool store_session_end(struct store *s, const char *id);

/* Which of these sessions exist. One round trip. */
bool store_sessions_live(struct store *s, const char *const *ids, size_t count, bool *live)
    __attribute__((warn_unused_result));

/*
 * Applies every op, in order and atomically each, in one round trip. `session` NULL: unfenced, for
 * operators' commands; else all are fenced by it, checked once in the same atomic step. The result
 * beside a record whose window an op moves goes on living as long as the record.
 */
bool store_apply(struct store *s, const char *session, struct store_op *ops, size_t count)
    __attribute__((warn_unused_result));

/*
 * Completing: one unfenced op over a record, with a record, and in the same atomic step its result
 * (if it is not empty), with the same time to live. An op that is not applied writes neither.
 */
#define STORE_RESULT_MAX 4096
bool store_complete(struct store *s, struct store_op *op, struct span result)
    __attribute__((warn_unused_result));

/* The result beside a record, byte for byte, appended to *out; nothing if there is none. It may be
 * of an earlier life of the key: it is the record's only if that says has_result. */
bool store_get_result(struct store *s, struct span key, struct buffer *out)
    __attribute__((warn_unused_result));

/* One key. *ttl is in ms; -1: it never expires, so somebody else has had a hand in it. *foreign:
 * something that is not a record of ours is there. */
bool store_get(struct store *s, struct span key, struct record *out, int64_t *ttl, bool *foreign)
    __attribute__((warn_unused_result));

/* Calls `each` for every record of the scope, in no order, at least once each while it stays there.
 * A NULL record is a foreign value. `each` answers false to stop. */
typedef bool store_each(void *context, struct span key, const struct record *r, int64_t ttl);
bool store_list(struct store *s, store_each *each, void *context)
    __attribute__((warn_unused_result));

/* Ms since 1970 by the store's clock: asked at open and at every renewal, carried on by
 * clock_now(). */
int64_t store_now(const struct store *s);

/*
 * What endangers uniqueness in this store (eviction, no persistence, one process only): one line
 * each, ended by '\n'. Also what has happened since the last call, such as evictions.
 */
bool store_dangers(struct store *s, struct buffer *lines) __attribute__((warn_unused_result));

/* Who can share it, what a failover does to it, and whose clock counts, for people. */
const char *store_promises(const struct store *s);

/* What the server is, for people: "Redis 7.0.15 at redis:6379/0". */
const char *store_describe(const struct store *s);

#endif
