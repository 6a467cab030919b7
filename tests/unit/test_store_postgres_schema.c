/*
 * The schema of the PostgreSQL store: what is in it, what is swept from it, who makes it, and which
 * are refused.
 */
#include "postgres_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- What is in the database ---- */

static void rows_are_as_documented(void **state)
{
    struct postgres_bench *b = *state;
    char host[256] = "";
    assert_true(store_session_open(b->store, SESSION_A, 5000, NULL, 0, NULL, 0));
    assert_claims(b->store, "txn:1", STORE_APPLIED);
    assert_string_equal(postgres_server_do(b->server, "SELECT text FROM oo.records WHERE scope = "
                                                      "'scope' AND key = 'txn:1'"),
                        "2P 1 1700000000000 t1 o" SESSION_A ".1");
    gethostname(host, sizeof host - 1);
    char *want = xasprintf("%s/%ld", host, (long)getpid());
    assert_string_equal(postgres_server_do(b->server, "SELECT owner FROM oo.sessions"), want);
    free(want);
    const char *version = postgres_server_do(b->server, "SHOW server_version");
    want = xasprintf("PostgreSQL %.*s ", (int)strcspn(version, " "), version);
    assert_int_equal(strncmp(store_describe(b->store), want, strlen(want)), 0);
    free(want);
    assert_non_null(strstr(store_describe(b->store), "/postgres, schema oo"));
    assert_true(backend_of_store(b) > 0);
    assert_string_equal(postgres_server_do(b->server, "SELECT version FROM oo.version"), "1");

    struct record r;
    int64_t ttl;
    bool foreign;
    postgres_server_do(b->server, "UPDATE oo.records SET expires = 'infinity'");
    assert_true(store_get(b->store, span_of("txn:1"), &r, &ttl, &foreign));
    assert_int_equal(ttl, -1);
}

/* Batches of new keys with that time to live. */
static void write_batches(struct postgres_bench *b, const char *prefix, int batches, int64_t ttl)
{
    enum { SIZE = 100 };
    struct store_op ops[SIZE];
    char keys[SIZE][24];
    for (int n = 0; n < batches; n++) {
        for (int i = 0; i < SIZE; i++) {
            snprintf(keys[i], sizeof keys[i], "%s%d", prefix, n * SIZE + i);
            ops[i] = op_of(keys[i], nothing, pending(SESSION_A, 1));
            ops[i].ttl = ttl;
        }
        if (!store_apply(b->store, NULL, ops, SIZE))
            fail_msg("%s", store_error(b->store));
    }
}

static void what_expired_is_swept(void **state)
{
    struct postgres_bench *b = *state;
    postgres_server_do(b->server, "INSERT INTO oo.records SELECT 'scope', 'old' || i, 'x', now()"
                                  " FROM generate_series(1, 3000) i");
    postgres_server_do(b->server, "INSERT INTO oo.results SELECT 'scope', 'old' || i, 'x', now()"
                                  " FROM generate_series(1, 500) i");
    write_batches(b, "new", 20, MINUTE);
    assert_string_equal(postgres_server_do(b->server, "SELECT count(*) FROM oo.records"), "2000");
    assert_string_equal(postgres_server_do(b->server, "SELECT count(*) FROM oo.results"), "0");
    write_batches(b, "short", 100, 1);
    assert_in_range(atoi(postgres_server_do(b->server, "SELECT count(*) FROM oo.records")), 2000,
                    6000); /* of 12000 */
}

/* ---- The schema ---- */

static void assert_missing(struct postgres_bench *b, const char *want)
{
    const char *missing;
    if (!store_look(b->store, &missing))
        fail_msg("%s", store_error(b->store));
    if (want)
        assert_string_equal(missing, want);
    else
        assert_null(missing);
}

static void a_look_makes_nothing(void **state)
{
    struct postgres_bench *b = *state;
    struct buffer lines = {0};
    assert_missing(b, "schema oo is missing");
    assert_true(store_dangers(b->store, &lines));
    assert_int_equal(lines.len, 0);
    assert_string_equal(postgres_server_do(b->server, "SELECT to_regnamespace('oo')"), "");
    postgres_server_do(b->server, "CREATE SCHEMA oo");
    assert_missing(b, "schema oo has no tables of onlyonce");
    assert_string_equal(postgres_server_do(b->server, "SELECT to_regclass('oo.version')"), "");
    assert_opens(b->store);
    assert_missing(b, NULL);
    assert_claims(b->store, "k", STORE_APPLIED);
}

static void a_schema_of_another_layout(void **state)
{
    struct postgres_bench *b = *state;
    postgres_server_do(b->server, "UPDATE oo.version SET version = 2");
    assert_open_fails(b->store, "schema oo has layout 2, and this program knows 1", true);
    postgres_server_do(b->server, "DELETE FROM oo.version");
    assert_open_fails(b->store, "schema oo is not onlyonce's: its table version has 0 rows", true);
    postgres_server_do(b->server, "DROP TABLE oo.version; CREATE TABLE oo.version (name text)");
    assert_open_fails(b->store, "column v.version does not exist", true);
}

static void a_schema_of_somebody_else(void **state)
{
    struct postgres_bench *b = *state;
    postgres_server_do(b->server, "CREATE SCHEMA oo; CREATE TABLE oo.sessions (user_id int)");
    assert_open_fails(b->store, "relation \"sessions\" already exists", true);
    assert_string_equal(postgres_server_do(b->server, "SELECT to_regclass('oo.version')"), "");
}

static void *open_at_once(void *context)
{
    struct store *s = context;
    bool permanent;
    return store_open(s, &permanent) ? s : NULL;
}

static void many_start_at_once(void **state)
{
    enum { COUNT = 6 };
    struct postgres_bench *b = *state;
    struct store *stores[COUNT];
    pthread_t threads[COUNT];
    b->config.timeout = 10000;
    for (int i = 0; i < COUNT; i++) {
        stores[i] = store_new(&b->config, "scope");
        assert_int_equal(pthread_create(&threads[i], NULL, open_at_once, stores[i]), 0);
    }
    for (int i = 0; i < COUNT; i++) {
        void *opened = NULL;
        pthread_join(threads[i], &opened);
        if (!opened)
            fail_msg("%s", store_error(stores[i]));
        store_free(stores[i]);
    }
    assert_string_equal(postgres_server_do(b->server, "SELECT count(*) FROM oo.version"), "1");
}

#define TEST(name, set_up) cmocka_unit_test_setup_teardown(name, set_up, postgres_bench_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rows_are_as_documented, postgres_bench_set_up),
        TEST(what_expired_is_swept, postgres_bench_set_up),
        TEST(a_look_makes_nothing, postgres_bench_set_up_empty),
        TEST(a_schema_of_another_layout, postgres_bench_set_up),
        TEST(a_schema_of_somebody_else, postgres_bench_set_up_empty),
        TEST(many_start_at_once, postgres_bench_set_up_empty),
    };
    return cmocka_run_group_tests_name("store: PostgreSQL, schema", tests, postgres_bench_start,
                                       postgres_bench_remove);
}
