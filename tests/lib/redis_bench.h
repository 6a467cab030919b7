/*
 * redis_bench - a store at a redis-server of a test's own, and a connection beside it; or a store
 * that a test leads to a fake server (fake_redis.h).
 */
#ifndef ONLYONCE_TESTS_REDIS_BENCH_H
#define ONLYONCE_TESTS_REDIS_BENCH_H

#include "redis_server.h"
#include "store_case.h"

#include <hiredis/hiredis.h>

/* The state of a test. */
struct redis_bench {
    struct store_config config;
    struct store *store;
    redisContext *redis; /* a connection beside the store's */
    struct redis_server server;
};

/* A server, and a store that is open. */
int redis_bench_set_up(void **state);
/* Neither of them: only a configuration, for redis_bench_meet(). */
int redis_bench_set_up_config(void **state);
int redis_bench_tear_down(void **state);

/* Starts the server again, and kills it. */
void redis_bench_start(struct redis_bench *b);
void redis_bench_kill(struct redis_bench *b);

/* A store that is not open yet, at another server. */
void redis_bench_meet(struct redis_bench *b, int port);

/* A command, which must not fail. */
void redis_do(redisContext *redis, const char *fmt, ...);
/* The text or number that a command gives; the caller frees it. */
char *redis_text(redisContext *redis, const char *command);

extern char text_user[]; /* whom tests make with ACL SETUSER */

#endif
