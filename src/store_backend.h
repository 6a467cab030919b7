/*
 * store_backend - what a backend of the store is made of. Internal to store*.c and their tests.
 *
 * store.c checks the arguments, keeps what all backends share, and closes the store after a call
 * that failed. A backend has a struct of its own whose first member is a struct store. All names
 * in it are made alike, so that people find them: "<prefix>:key:<scope>:<key>" holds a record's
 * text, "<prefix>:result:<scope>:<key>" the result beside it, "<prefix>:session:<id>" is a
 * session's entry. A scope has no ':', so scopes never meet. SQL stores have a table for each of
 * these three instead, scope and key in columns of their own.
 */
#ifndef ONLYONCE_STORE_BACKEND_H
#define ONLYONCE_STORE_BACKEND_H

#include "store.h"

struct store_backend {
    /* Its zeroed struct; what is in struct store is filled in by store.c afterwards. */
    struct store *(*create)(const struct store_config *config);
    void (*destroy)(struct store *s); /* of a closed store */
    bool (*open)(struct store *s, bool *permanent);
    bool (*look)(struct store *s, const char **missing); /* NULL: open() makes nothing */
    void (*close)(struct store *s);                      /* may come twice */
    /* The rest are those of store.h, called only while the store is open, and with count > 0. */
    bool (*session_open)(struct store *s, const char *id, int64_t life, const char *const *former,
                         size_t former_count, struct store_move *moves, size_t count);
    bool (*session_renew)(struct store *s, const char *id, int64_t life, bool *exists);
    bool (*session_end)(struct store *s, const char *id);
    bool (*sessions_live)(struct store *s, const char *const *ids, size_t count, bool *live);
    bool (*apply)(struct store *s, const char *session, struct store_op *ops, size_t count);
    bool (*complete)(struct store *s, struct store_op *op, struct span result);
    bool (*get_result)(struct store *s, struct span key, struct buffer *out);
    bool (*get)(struct store *s, struct span key, struct record *out, int64_t *ttl, bool *foreign);
    bool (*list)(struct store *s, store_each *each, void *context);
    bool (*dangers)(struct store *s, struct buffer *lines);
};

extern const struct store_backend store_redis_backend;
extern const struct store_backend store_sqlite_backend;
extern const struct store_backend store_postgres_backend;
extern const struct store_backend store_memory_backend;

struct store {
    const struct store_backend *backend;
    const struct store_config *config;
    char *names;                /* holds the next three */
    struct span key_prefix;     /* what a record's name begins with */
    struct span result_prefix;  /* a result's, */
    struct span session_prefix; /* and a session entry's */
    struct span scope;          /* for stores that name it apart */
    char *owner;                /* a session entry's value, "host/pid": who that is, for people */
    char *description;
    bool open;
    int64_t clock_offset; /* the store's clock less clock_now() */
    char error[640];
};

/* Notes why a call failed, and answers false. */
bool store_fail(struct store *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The store's clock shows `now`, ms since 1970. */
void store_set_clock(struct store *s, int64_t now);

void store_set_description(struct store *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The text of a record; its length, which is 0 for RECORD_NONE. */
size_t store_text(const struct record *r, char out[RECORD_TEXT_MAX]);

/* The text of a move's claim, as it would be under that session. */
size_t store_move_text(const struct store_move *move, const char *session,
                       char out[RECORD_TEXT_MAX]);

/* Reads a text that was met; false: it is foreign, and *r is nothing. */
bool store_read(struct record *r, const char *text, size_t len);

/* Does the op move the window of a record that has a result? Then the result has to live on with
 * it. */
bool store_moves_result(const struct store_op *op);

/* Answers an op that met `text`: STORE_MET, or STORE_FOREIGN if that is no record. */
void store_op_met(struct store_op *op, const char *text, size_t len);

/* For tests: memory stores of this process forget everything; how many entries they hold, dead ones
 * that were not swept yet included; and something put under a key that need not be a record. */
void store_memory_reset(void);
size_t store_memory_size(void);
void store_memory_put(struct store *s, struct span key, const char *text, int64_t ttl);

#endif
