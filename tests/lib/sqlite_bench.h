/*
 * sqlite_bench - a store in an SQLite file of a test's own, and a connection beside it. Its tables
 * are oo{a}.b-c_records and so on.
 */
#ifndef ONLYONCE_TESTS_SQLITE_BENCH_H
#define ONLYONCE_TESTS_SQLITE_BENCH_H

#include "store_case.h"

#include <sqlite3.h>

/* The state of a test. */
struct sqlite_bench {
    struct store_config config;
    struct store *store; /* not open yet */
    sqlite3 *other;      /* a connection beside the store's, once there is SQL for it */
    char folder[64];     /* of the file alone */
};

int sqlite_bench_set_up(void **state);
int sqlite_bench_tear_down(void **state);

/* ---- The file ---- */

void run_sql(struct sqlite_bench *b, const char *sql);
int64_t ask_sql(struct sqlite_bench *b, const char *sql); /* the first number of its answer */
/* The size of the file whose name ends so: "", or "-wal" for the log; 0: it is not there. */
int64_t file_size(struct sqlite_bench *b, const char *end);

/* ---- Records ---- */

/* Claims a key. */
enum store_answer claim(struct store *s, const char *session, const char *key);
bool is_held(struct store *s, const char *key);

/* A batch of claims of new keys. */
enum { BATCH = 50 };

struct batch {
    struct store_op ops[BATCH];
    char keys[BATCH][32];
};

void make_batch(struct batch *b, const char *session, int number);
/* How many of a batch's keys are there. */
int held_of_batch(struct store *s, int number);

/* ---- Processes ---- */

/* Runs it in a process of its own; its exit code, or what signal killed it, less than 0. */
int in_child(struct sqlite_bench *b, int (*run)(struct sqlite_bench *b));

#endif
