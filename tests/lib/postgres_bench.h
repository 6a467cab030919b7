/*
 * postgres_bench - a store in a PostgreSQL server of a test's own, in the schema "oo". As it takes
 * some seconds to make a server, all tests of a group have the same one.
 */
#ifndef ONLYONCE_TESTS_POSTGRES_BENCH_H
#define ONLYONCE_TESTS_POSTGRES_BENCH_H

#include "postgres_server.h"
#include "store_case.h"

/* The state of a test. */
struct postgres_bench {
    struct store_config config;
    struct store *store;
    struct postgres_server *server;
};

/* Set-up and tear-down of a group of tests: the server. */
int postgres_bench_start(void **state);
int postgres_bench_remove(void **state);

/* No schema yet, and a store that is not open. */
int postgres_bench_set_up_empty(void **state);
/* A store that is open. */
int postgres_bench_set_up(void **state);
int postgres_bench_tear_down(void **state);

/* From now on the store, which is not open, is there. */
void use_url(struct postgres_bench *b, const char *url);

/* The server process behind the store's connection. */
pid_t backend_of_store(struct postgres_bench *b);

#endif
