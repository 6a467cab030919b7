/*
 * What the Redis store keeps in a server, how it speaks to it, and what others do to that: flush,
 * and write.
 */
#include "redis_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long long info_number(struct redis_bench *b, const char *section, const char *field)
{
    char command[64];
    snprintf(command, sizeof command, "INFO %s", section);
    char *info = redis_text(b->redis, command);
    const char *at = strstr(info, field);
    long long number = at ? strtoll(at + strlen(field), NULL, 10) : 0;
    free(info);
    return number;
}

static void entries_are_named_as_documented(void **state)
{
    struct redis_bench *b = *state;
    char host[256] = "";
    assert_true(store_session_open(b->store, SESSION_A, 5000, NULL, 0, NULL, 0));
    assert_claims(b->store, "txn:1", STORE_APPLIED);

    char *text = redis_text(b->redis, "GET oo:key:scope:txn:1");
    assert_string_equal(text, "2P 1 1700000000000 t1 o" SESSION_A ".1");
    free(text);
    gethostname(host, sizeof host - 1);
    char *want = xasprintf("%s/%ld", host, (long)getpid());
    text = redis_text(b->redis, "GET oo:session:" SESSION_A);
    assert_string_equal(text, want);
    free(text);
    free(want);
    text = redis_text(b->redis, "PTTL oo:session:" SESSION_A);
    assert_in_range(atoi(text), 1000, 5000);
    free(text);
    text = redis_text(b->redis, "CLIENT LIST");
    assert_non_null(strstr(text, "name=onlyonce:"));
    free(text);
}

static void a_database_is_selected(void **state)
{
    struct redis_bench *b = *state;
    b->config.parsed.database = 3;
    redis_bench_meet(b, b->config.parsed.port);
    assert_opens(b->store);
    assert_claims(b->store, "k", STORE_APPLIED);
    assert_non_null(strstr(store_describe(b->store), "/3"));
    const char *server = getenv("RIG_REDIS_SERVER");
    const char *kind = server && strstr(server, "valkey") ? "Valkey " : "Redis ";
    assert_int_equal(strncmp(store_describe(b->store), kind, strlen(kind)), 0);
    redis_do(b->redis, "SELECT 3");
    char *text = redis_text(b->redis, "EXISTS oo:key:scope:k");
    assert_string_equal(text, "1");
    free(text);
    b->config.parsed.database = 99;
    assert_open_fails(b->store, "DB index", true);
}

static void a_batch_is_one_round_trip(void **state)
{
    enum { COUNT = 50 }; /* few enough for one read() of the server */
    struct redis_bench *b = *state;
    struct store_op ops[COUNT];
    char keys[COUNT][16];
    assert_true(store_session_open(b->store, SESSION_A, MINUTE, NULL, 0, NULL, 0));
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(keys[i], sizeof keys[i], "key%zu", i);
        ops[i] = op_of(keys[i], nothing, pending(SESSION_A, i));
    }
    long long reads = info_number(b, "stats", "total_reads_processed:");
    assert_true(store_apply(b->store, SESSION_A, ops, COUNT));
    /* One for the batch, and one for this INFO. */
    assert_int_equal(info_number(b, "stats", "total_reads_processed:") - reads, 2);
    assert_int_equal(info_number(b, "commandstats", "cmdstat_evalsha:calls="), 2);
    assert_int_equal(info_number(b, "commandstats", "cmdstat_exists:calls="), 1);
    assert_int_equal(info_number(b, "commandstats", "cmdstat_set:calls="), COUNT + 2);
}

static void scripts_that_were_forgotten(void **state)
{
    struct redis_bench *b = *state;
    redis_do(b->redis, "SCRIPT FLUSH");
    assert_claims(b->store, "k1", STORE_APPLIED);
    assert_claims(b->store, "k2", STORE_APPLIED);
    assert_int_equal(info_number(b, "commandstats", "cmdstat_evalsha:calls="), 3);
    redis_do(b->redis, "SCRIPT FLUSH");
    assert_true(store_session_open(b->store, SESSION_A, MINUTE, NULL, 0, NULL, 0));
}

static void records_that_were_forgotten(void **state)
{
    struct redis_bench *b = *state;
    bool exists;
    assert_true(store_session_open(b->store, SESSION_A, MINUTE, NULL, 0, NULL, 0));
    assert_claims(b->store, "k", STORE_APPLIED);
    redis_do(b->redis, "FLUSHALL");
    assert_true(store_session_renew(b->store, SESSION_A, MINUTE, &exists));
    assert_false(exists);
    struct store_op op = {.key = span_of("k"), .expect = pending(SESSION_A, 1)};
    assert_true(store_apply(b->store, NULL, &op, 1));
    assert_int_equal(op.answer, STORE_MET);
    assert_int_equal(op.met.now.state, RECORD_NONE);
}

static void values_of_other_types(void **state)
{
    struct redis_bench *b = *state;
    redis_do(b->redis, "RPUSH oo:key:scope:list x");
    redis_do(b->redis, "HSET oo:key:scope:hash x y");
    redis_do(b->redis, "SET oo:key:scope:eternal 2F%b", " 1 1 t0 e0", (size_t)10);
    struct store_op ops[] = {op_of("list", nothing, pending(SESSION_A, 1)),
                             op_of("hash", nothing, pending(SESSION_A, 2)),
                             op_of("k", nothing, pending(SESSION_A, 3)),
                             {.key = span_of("list"), .expect = pending(SESSION_A, 1)},
                             {.key = span_of("list")}};
    assert_true(store_apply(b->store, NULL, ops, 5));
    for (int i = 0; i < 5; i++)
        assert_int_equal(ops[i].answer, i == 2 ? STORE_APPLIED : STORE_FOREIGN);

    struct store_move move = {
        .key = span_of("list"), .claim = pending(SESSION_A, 1), .ttl = MINUTE};
    const char *former[] = {SESSION_A};
    assert_true(store_session_open(b->store, SESSION_B, MINUTE, former, 1, &move, 1));
    assert_false(move.moved);

    struct record r;
    int64_t ttl;
    bool foreign;
    assert_true(store_get(b->store, span_of("hash"), &r, &ttl, &foreign));
    assert_true(foreign);
    assert_true(store_get(b->store, span_of("eternal"), &r, &ttl, &foreign));
    assert_int_equal(ttl, -1);
    assert_int_equal(r.now.state, RECORD_FORWARDED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, redis_bench_set_up, redis_bench_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(entries_are_named_as_documented), TEST(a_database_is_selected),
        TEST(a_batch_is_one_round_trip),       TEST(scripts_that_were_forgotten),
        TEST(records_that_were_forgotten),     TEST(values_of_other_types),
    };
    return cmocka_run_group_tests_name("store: Redis, entries", tests, NULL, NULL);
}
