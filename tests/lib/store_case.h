/*
 * store_case - records and operations for tests of stores, and what a test expects of any store.
 *
 * What does not come as it is expected fails the test, with the store's own error.
 */
#ifndef ONLYONCE_TESTS_STORE_CASE_H
#define ONLYONCE_TESTS_STORE_CASE_H

#include "store.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* Ids of sessions. */
#define SESSION_A "aaaaaaaaaaaaaaaaaaaaaaaa"
#define SESSION_B "bbbbbbbbbbbbbbbbbbbbbbbb"
#define SESSION_C "cccccccccccccccccccccccc"
#define SESSION_D "dddddddddddddddddddddddd"

#define MINUTE 60000 /* ms */
#define BRIEF 500L   /* ms, after which a test sees something end: enough to see it before, too */

extern char text_name[];   /* of every store in tests */
extern char text_secret[]; /* a password, which no error may show, */
extern char text_wrong[];  /* and another one */

void pause_ms(long ms);

/* ---- Records and operations ---- */

extern const struct record nothing;
struct record pending(const char *session, uint64_t claim);
struct record forwarded(uint32_t number);

/* With a minute to live. */
struct store_op op_of(const char *key, struct record expect, struct record write);

void assert_record(struct record got, struct record want);
void assert_answer(struct store_op op, enum store_answer answer, struct record met);

/* ---- What succeeds ---- */

/* A store that is open; the caller frees it. */
struct store *opened_store(const struct store_config *config, const char *scope);
void assert_opens(struct store *s);
void open_session(struct store *s, const char *id, int64_t life);
bool lives(struct store *s, const char *id); /* the session */
void apply(struct store *s, const char *session, struct store_op *ops, size_t count);
struct store_op apply_one(struct store *s, const char *session, const char *key,
                          struct record expect, struct record write);

/* Claims a key as A, behind no fence. */
void assert_claims(struct store *s, const char *key, enum store_answer want);

/* What is under a key, which must not be foreign; its time to live, unless `ttl` is NULL. */
struct record held(struct store *s, const char *key, int64_t *ttl);
void assert_held(struct store *s, const char *key, struct record want);
size_t count_held(struct store *s);

/* A line of store_dangers() says `part`; NULL: there is none. */
void assert_danger(struct store *s, const char *part);

/* ---- What fails ---- */

void assert_says(const char *text, const char *part);

/* The store is closed, for a reason that says `part`, on one line and without text_secret. */
void assert_error(const struct store *s, const char *part);
void assert_open_fails(struct store *s, const char *part, bool permanent);
/* The claim of the key "k". */
void assert_claim_fails(struct store *s, const char *part);

#endif
