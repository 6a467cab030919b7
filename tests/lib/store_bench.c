#include "store_bench.h"

#include "clock.h"
#include "redis_bench.h"
#include "store_backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char text_prefix[] = "oo*[t]?";

/* ---- Where the stores are ---- */

static void find_redis(struct store_bench *b)
{
    const char *address = getenv("ONLYONCE_TEST_REDIS");
    const char *colon = address ? strrchr(address, ':') : NULL;
    if (!address || !colon) {
        fail_msg("set ONLYONCE_TEST_REDIS to the host:port of a Redis server for this test alone");
        return;
    }
    b->config.parsed.kind = STORE_REDIS;
    b->config.parsed.host = strndup(address, (size_t)(colon - address));
    b->config.parsed.port = atoi(colon + 1);
    b->redis = redisConnect(b->config.parsed.host, b->config.parsed.port);
    if (!b->redis || b->redis->err)
        fail_msg("%s: %s", address, b->redis ? b->redis->errstr : "out of memory");
    redis_do(b->redis, "FLUSHALL");
}

static void find_sentinels(struct store_bench *b)
{
    const char *url = getenv("ONLYONCE_TEST_SENTINELS");
    char error[256];
    if (!url) {
        fail_msg("set ONLYONCE_TEST_SENTINELS to the URL of Sentinels for this test alone");
        return;
    }
    assert_null(url_read_store(url, &b->config.parsed, error));
    b->config.wait_replicas = 1;
}

/* Once the store has found it. */
static void find_master(struct store_bench *b)
{
    const char *colon = strchr(store_describe(b->store), ':');
    assert_non_null(colon);
    b->redis = redisConnect("127.0.0.1", atoi(colon + 1));
    redis_do(b->redis, "FLUSHALL");
}

static void make_folder(struct store_bench *b)
{
    b->config.parsed.kind = STORE_SQLITE;
    /* Disks are slow. "full" has test_store_sqlite_disks. */
    b->config.synchronous = SYNCHRONOUS_NORMAL;
    snprintf(b->folder, sizeof b->folder, P_tmpdir "/onlyonce-store.XXXXXX");
    assert_non_null(mkdtemp(b->folder));
    b->config.parsed.path = xasprintf("%s/a b?c#.db", b->folder);
}

/* Once the store has made the file. */
static void find_sqlite(struct store_bench *b)
{
    assert_int_equal(sqlite3_open(b->config.parsed.path, &b->sqlite), SQLITE_OK);
    sqlite3_busy_timeout(b->sqlite, 2000);
}

static void remove_folder(struct store_bench *b)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    char name[128];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", b->config.parsed.path, ends[i]);
        unlink(name);
    }
    assert_int_equal(rmdir(b->folder), 0);
}

static void postgres_do(struct store_bench *b, const char *sql)
{
    PGresult *result = PQexec(b->postgres, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(b->postgres));
    PQclear(result);
}

static void find_postgres(struct store_bench *b)
{
    const char *url = getenv("ONLYONCE_TEST_POSTGRES");
    if (!url) {
        fail_msg("set ONLYONCE_TEST_POSTGRES to the URL of a database for this test alone");
        return;
    }
    b->config.parsed.kind = STORE_POSTGRES;
    b->config.parsed.postgres = xstrdup(url);
    b->postgres = PQconnectdb(url);
    if (PQstatus(b->postgres) != CONNECTION_OK)
        fail_msg("%s", PQerrorMessage(b->postgres));
    postgres_do(b, "SET client_min_messages = warning");
    postgres_do(b, "DROP SCHEMA IF EXISTS \"oo*[t]?\" CASCADE");
}

/* ---- Set-up ---- */

enum kind { MEMORY, SQLITE, POSTGRES, REDIS, SENTINELS };

static int choose(void **state, const enum kind *kind)
{
    signal(SIGPIPE, SIG_IGN);
    *state = (void *)(uintptr_t)kind;
    return 0;
}

int store_bench_memory(void **state)
{
    static const enum kind kind = MEMORY;
    return choose(state, &kind);
}

int store_bench_sqlite(void **state)
{
    static const enum kind kind = SQLITE;
    return choose(state, &kind);
}

int store_bench_postgres(void **state)
{
    static const enum kind kind = POSTGRES;
    return choose(state, &kind);
}

int store_bench_redis(void **state)
{
    static const enum kind kind = REDIS;
    return choose(state, &kind);
}

int store_bench_sentinels(void **state)
{
    static const enum kind kind = SENTINELS;
    return choose(state, &kind);
}

/* Before the store is made. */
static void prepare(struct store_bench *b, enum kind kind)
{
    switch (kind) {
    case MEMORY:
        b->config.parsed.kind = STORE_MEMORY;
        store_memory_reset();
        break;
    case SQLITE: make_folder(b); break;
    case POSTGRES: find_postgres(b); break;
    case REDIS: find_redis(b); break;
    case SENTINELS: find_sentinels(b); break;
    }
}

int store_bench_set_up(void **state)
{
    enum kind kind = *(const enum kind *)*state;
    struct store_bench *b = xcalloc(1, sizeof *b);
    *state = b;
    b->config = (struct store_config){.name = text_name, .prefix = text_prefix, .timeout = 2000};
    prepare(b, kind);
    b->store = opened_store(&b->config, "scope");
    if (kind == SENTINELS)
        find_master(b);
    if (kind == SQLITE)
        find_sqlite(b);
    return 0;
}

int store_bench_tear_down(void **state)
{
    struct store_bench *b = *state;
    store_free(b->store);
    if (b->redis)
        redisFree(b->redis);
    sqlite3_close(b->sqlite);
    if (b->sqlite)
        remove_folder(b);
    PQfinish(b->postgres);
    url_free_store(&b->config.parsed);
    free(b);
    return 0;
}

/* ---- Behind the store's back ---- */

static void put_row(struct store_bench *b, const char *key, const char *text)
{
    char *sql =
        sqlite3_mprintf("INSERT OR REPLACE INTO \"%w_records\" VALUES ('scope', %Q, %Q, %lld)",
                        text_prefix, key, text, (long long)clock_wall() + MINUTE);
    if (sqlite3_exec(b->sqlite, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(b->sqlite));
    sqlite3_free(sql);
}

static void put_postgres_row(struct store_bench *b, const char *key, const char *text)
{
    char *sql = xasprintf("INSERT INTO \"oo*[t]?\".records VALUES ('scope', '%s', '%s', now() +"
                          " interval '1 min') ON CONFLICT (scope, key) DO UPDATE"
                          " SET text = excluded.text, expires = excluded.expires",
                          key, text);
    postgres_do(b, sql);
    free(sql);
}

void put_raw(struct store_bench *b, const char *key, const char *text)
{
    if (b->redis)
        redis_do(b->redis, "SET %s:key:scope:%s %s PX %d", text_prefix, key, text, MINUTE);
    else if (b->sqlite)
        put_row(b, key, text);
    else if (b->postgres)
        put_postgres_row(b, key, text);
    else
        store_memory_put(b->store, span_of(key), text, MINUTE);
}
