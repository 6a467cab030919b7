/*
 * store_bench - a store of every kind, for the contract of store.h, and a way into what it stores
 * behind its back.
 *
 * A test file lists its tests with STORE_TEST, and runs them all with each kind of store:
 *
 *     const struct CMUnitTest tests[] = {STORE_TEST(a_session_is_created_once)};
 *     return STORE_BENCH_RUN(tests);
 *
 * Each test begins with an open and empty store of the scope "scope". Needs a Redis server of its
 * own at $ONLYONCE_TEST_REDIS (host:port), whose data it deletes, one that Sentinels lead (the URL
 * in $ONLYONCE_TEST_SENTINELS), and a PostgreSQL database of its own (the URL in
 * $ONLYONCE_TEST_POSTGRES).
 */
#ifndef ONLYONCE_TESTS_STORE_BENCH_H
#define ONLYONCE_TESTS_STORE_BENCH_H

#include "store_case.h"

#include <hiredis/hiredis.h>
#include <libpq-fe.h>
#include <sqlite3.h>

/* The state of a test. */
struct store_bench {
    struct store_config config;
    struct store *store;
    redisContext *redis; /* a connection beside the store's; NULL: it is not Redis */
    sqlite3 *sqlite;     /* the same of SQLite */
    char folder[64];     /* of its file */
    PGconn *postgres;    /* the same of PostgreSQL */
};

/* Puts something under a key behind the store's back. */
void put_raw(struct store_bench *b, const char *key, const char *text);

/* A test, within a group of which one of these is the set-up: it chooses the kind. */
#define STORE_TEST(name)                                                                           \
    cmocka_unit_test_setup_teardown(name, store_bench_set_up, store_bench_tear_down)
int store_bench_memory(void **state);
int store_bench_sqlite(void **state);
int store_bench_postgres(void **state);
int store_bench_redis(void **state);
int store_bench_sentinels(void **state);

int store_bench_set_up(void **state);
int store_bench_tear_down(void **state);

/* How many failed. */
#define STORE_BENCH_RUN(tests)                                                                     \
    (cmocka_run_group_tests_name("store: memory", tests, store_bench_memory, NULL) +               \
     cmocka_run_group_tests_name("store: sqlite", tests, store_bench_sqlite, NULL) +               \
     cmocka_run_group_tests_name("store: postgres", tests, store_bench_postgres, NULL) +           \
     cmocka_run_group_tests_name("store: redis", tests, store_bench_redis, NULL) +                 \
     cmocka_run_group_tests_name("store: Sentinels", tests, store_bench_sentinels, NULL))

#endif
