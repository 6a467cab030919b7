/*
 * The contract of store.h, sentence by sentence, for every backend. What only one of them can do
 * wrong is in tests of their own. Needs a Redis server of its own at $ONLYONCE_TEST_REDIS
 * (host:port), whose data it deletes, one that Sentinels lead (the URL in
 * $ONLYONCE_TEST_SENTINELS), and a PostgreSQL database of its own (the URL in
 * $ONLYONCE_TEST_POSTGRES).
 */
#include "store_backend.h"

#include "clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define A "aaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbb"
#define C "cccccccccccccccccccccccc"
#define D "dddddddddddddddddddddddd"

#define MINUTE 60000
/* ms that a record lives to see it end: more than a busy machine needs to see it before. */
#define BRIEF 500

static const struct record nothing;

struct bench {
    struct store_config config;
    struct store *store;
    redisContext *redis; /* a connection beside the store's; NULL: it is not Redis */
    sqlite3 *sqlite;     /* the same of SQLite */
    char folder[64];     /* of its file */
    PGconn *postgres;    /* the same of PostgreSQL */
};

static char text_name[] = "test";
static char text_prefix[] = "oo*[t]?";

/* ---- The bench ---- */

static redisReply *redis_do(struct bench *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    redisReply *reply = redisvCommand(b->redis, fmt, args);
    va_end(args);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", fmt, reply ? reply->str : b->redis->errstr);
    return reply;
}

static void find_redis(struct bench *b)
{
    const char *address = getenv("ONLYONCE_TEST_REDIS");
    const char *colon = address ? strrchr(address, ':') : NULL;
    if (!address || !colon) {
        fail_msg("set ONLYONCE_TEST_REDIS to the host:port of a Redis server for this test alone");
        return;
    }
    b->config.parsed.host = strndup(address, (size_t)(colon - address));
    b->config.parsed.port = atoi(colon + 1);
    b->redis = redisConnect(b->config.parsed.host, b->config.parsed.port);
    if (!b->redis || b->redis->err)
        fail_msg("%s: %s", address, b->redis ? b->redis->errstr : "out of memory");
    freeReplyObject(redis_do(b, "FLUSHALL"));
}

static void find_sentinels(struct bench *b)
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
static void find_master(struct bench *b)
{
    const char *colon = strchr(store_describe(b->store), ':');
    assert_non_null(colon);
    b->redis = redisConnect("127.0.0.1", atoi(colon + 1));
    freeReplyObject(redis_do(b, "FLUSHALL"));
}

static void make_folder(struct bench *b)
{
    /* Disks are slow. "full" has test_store_sqlite. */
    b->config.synchronous = SYNCHRONOUS_NORMAL;
    snprintf(b->folder, sizeof b->folder, P_tmpdir "/onlyonce-store.XXXXXX");
    assert_non_null(mkdtemp(b->folder));
    b->config.parsed.path = xasprintf("%s/a b?c#.db", b->folder);
}

/* Once the store has made the file. */
static void find_sqlite(struct bench *b)
{
    assert_int_equal(sqlite3_open(b->config.parsed.path, &b->sqlite), SQLITE_OK);
    sqlite3_busy_timeout(b->sqlite, 2000);
}

static void remove_folder(struct bench *b)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    char name[128];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", b->config.parsed.path, ends[i]);
        unlink(name);
    }
    assert_int_equal(rmdir(b->folder), 0);
}

static void postgres_do(struct bench *b, const char *sql)
{
    PGresult *result = PQexec(b->postgres, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(b->postgres));
    PQclear(result);
}

static void find_postgres(struct bench *b)
{
    const char *url = getenv("ONLYONCE_TEST_POSTGRES");
    if (!url) {
        fail_msg("set ONLYONCE_TEST_POSTGRES to the URL of a database for this test alone");
        return;
    }
    b->config.parsed.postgres = xstrdup(url);
    b->postgres = PQconnectdb(url);
    if (PQstatus(b->postgres) != CONNECTION_OK)
        fail_msg("%s", PQerrorMessage(b->postgres));
    postgres_do(b, "SET client_min_messages = warning");
    postgres_do(b, "DROP SCHEMA IF EXISTS \"oo*[t]?\" CASCADE");
}

static struct store *another_store(struct bench *b, const char *scope)
{
    bool permanent;
    struct store *s = store_new(&b->config, scope);
    if (!store_open(s, &permanent))
        fail_msg("%s", store_error(s));
    return s;
}

static int set_up(void **state, enum store_kind kind)
{
    struct bench *b = xcalloc(1, sizeof *b);
    *state = b;
    b->config = (struct store_config){
        .name = text_name, .prefix = text_prefix, .timeout = 2000, .parsed.kind = kind};
    if (kind == STORE_REDIS)
        find_redis(b);
    if (kind == STORE_SQLITE)
        make_folder(b);
    if (kind == STORE_POSTGRES)
        find_postgres(b);
    store_memory_reset();
    b->store = another_store(b, "scope");
    if (kind == STORE_SQLITE)
        find_sqlite(b);
    return 0;
}

static int set_up_redis(void **state)
{
    return set_up(state, STORE_REDIS);
}

static int set_up_sentinels(void **state)
{
    struct bench *b = xcalloc(1, sizeof *b);
    *state = b;
    b->config = (struct store_config){.name = text_name, .prefix = text_prefix, .timeout = 2000};
    find_sentinels(b);
    b->store = another_store(b, "scope");
    find_master(b);
    return 0;
}

static int set_up_sqlite(void **state)
{
    return set_up(state, STORE_SQLITE);
}

static int set_up_postgres(void **state)
{
    return set_up(state, STORE_POSTGRES);
}

static int set_up_memory(void **state)
{
    return set_up(state, STORE_MEMORY);
}

static int tear_down(void **state)
{
    struct bench *b = *state;
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

static void put_row(struct bench *b, const char *key, const char *text)
{
    char *sql =
        sqlite3_mprintf("INSERT OR REPLACE INTO \"%w_records\" VALUES ('scope', %Q, %Q, %lld)",
                        text_prefix, key, text, (long long)clock_wall() + MINUTE);
    if (sqlite3_exec(b->sqlite, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(b->sqlite));
    sqlite3_free(sql);
}

static void put_postgres_row(struct bench *b, const char *key, const char *text)
{
    char *sql = xasprintf("INSERT INTO \"oo*[t]?\".records VALUES ('scope', '%s', '%s', now() +"
                          " interval '1 min') ON CONFLICT (scope, key) DO UPDATE"
                          " SET text = excluded.text, expires = excluded.expires",
                          key, text);
    postgres_do(b, sql);
    free(sql);
}

/* Puts something under a key behind the store's back. */
static void put_raw(struct bench *b, const char *key, const char *text)
{
    if (b->redis)
        freeReplyObject(
            redis_do(b, "SET %s:key:scope:%s %s PX %d", text_prefix, key, text, MINUTE));
    else if (b->sqlite)
        put_row(b, key, text);
    else if (b->postgres)
        put_postgres_row(b, key, text);
    else
        store_memory_put(b->store, span_of(key), text, MINUTE);
}

static void pause_ms(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

/* ---- Short forms ---- */

static struct record pending(const char *session, uint64_t claim)
{
    struct record r = {.now = {.state = RECORD_PENDING, .number = 1, .first_seen = 1700000000000}};
    r.now.since = 1700000000001;
    snprintf(r.session, sizeof r.session, "%s", session);
    r.claim = claim;
    return r;
}

static struct record forwarded(uint32_t number)
{
    struct record r = {.now = {.state = RECORD_FORWARDED,
                               .number = number,
                               .first_seen = 1700000000000,
                               .since = 1700000000002,
                               .ends = 1700000090000}};
    return r;
}

static struct store_op op_of(const char *key, struct record expect, struct record write)
{
    return (struct store_op){.key = span_of(key), .expect = expect, .write = write, .ttl = MINUTE};
}

static void apply(struct store *s, const char *session, struct store_op *ops, size_t count)
{
    if (!store_apply(s, session, ops, count))
        fail_msg("%s", store_error(s));
}

static struct store_op apply_one(struct bench *b, const char *session, const char *key,
                                 struct record expect, struct record write)
{
    struct store_op op = op_of(key, expect, write);
    apply(b->store, session, &op, 1);
    return op;
}

static void open_session(struct store *s, const char *id, int64_t life)
{
    if (!store_session_open(s, id, life, NULL, 0, NULL, 0))
        fail_msg("%s", store_error(s));
}

static bool lives(struct store *s, const char *id)
{
    bool live;
    assert_true(store_sessions_live(s, &id, 1, &live));
    return live;
}

static void assert_record(struct record got, struct record want)
{
    char got_text[RECORD_TEXT_MAX];
    char want_text[RECORD_TEXT_MAX];
    record_write(&got, got_text);
    record_write(&want, want_text);
    assert_string_equal(got_text, want_text);
}

/* What is under a key; its time to live. */
static struct record held(struct store *s, const char *key, int64_t *ttl)
{
    struct record r;
    bool foreign;
    if (!store_get(s, span_of(key), &r, ttl, &foreign))
        fail_msg("%s", store_error(s));
    assert_false(foreign);
    return r;
}

static void assert_held(struct bench *b, const char *key, struct record want)
{
    int64_t ttl;
    assert_record(held(b->store, key, &ttl), want);
}

static void assert_answer(struct store_op op, enum store_answer answer, struct record met)
{
    assert_int_equal(op.answer, answer);
    assert_record(op.met, met);
}

/* ---- Compare and set ---- */

static void a_new_key_is_claimed_once(void **state)
{
    struct bench *b = *state;
    open_session(b->store, A, MINUTE);
    struct store_op op = apply_one(b, A, "k", nothing, pending(A, 1));
    assert_answer(op, STORE_APPLIED, nothing);
    op = apply_one(b, A, "k", nothing, pending(A, 2));
    assert_answer(op, STORE_MET, pending(A, 1));
    assert_held(b, "k", pending(A, 1));
}

static void what_is_expected_is_replaced(void **state)
{
    struct bench *b = *state;
    apply_one(b, NULL, "k", nothing, pending(A, 1));
    struct store_op op = apply_one(b, NULL, "k", pending(A, 1), forwarded(1));
    assert_answer(op, STORE_APPLIED, nothing);
    assert_held(b, "k", forwarded(1));
}

static void what_is_not_expected_stays(void **state)
{
    struct bench *b = *state;
    apply_one(b, NULL, "k", nothing, pending(A, 1));
    struct store_op op = apply_one(b, NULL, "k", pending(A, 2), forwarded(1));
    assert_answer(op, STORE_MET, pending(A, 1));
    op = apply_one(b, NULL, "k", pending(B, 1), nothing);
    assert_answer(op, STORE_MET, pending(A, 1));
    assert_held(b, "k", pending(A, 1));
    op = apply_one(b, NULL, "gone", pending(A, 1), forwarded(1));
    assert_answer(op, STORE_MET, nothing);
    assert_held(b, "gone", nothing);
}

static void a_record_is_deleted(void **state)
{
    struct bench *b = *state;
    apply_one(b, NULL, "k", nothing, pending(A, 1));
    struct store_op op = apply_one(b, NULL, "k", pending(A, 1), nothing);
    assert_answer(op, STORE_APPLIED, nothing);
    assert_held(b, "k", nothing);
    op = apply_one(b, NULL, "k", pending(A, 1), nothing);
    assert_answer(op, STORE_MET, nothing);
}

static void nothing_for_nothing_is_a_read(void **state)
{
    struct bench *b = *state;
    struct store_op op = apply_one(b, NULL, "k", nothing, nothing);
    assert_answer(op, STORE_APPLIED, nothing);
    apply_one(b, NULL, "k", nothing, forwarded(3));
    op = apply_one(b, NULL, "k", nothing, nothing);
    assert_answer(op, STORE_MET, forwarded(3));
}

static void ops_go_in_order(void **state)
{
    struct bench *b = *state;
    struct store_op ops[] = {
        op_of("k", nothing, pending(A, 1)),      op_of("k", nothing, pending(A, 2)),
        op_of("k", pending(A, 1), forwarded(1)), op_of("k", forwarded(1), nothing),
        op_of("k", nothing, forwarded(2)),
    };
    apply(b->store, NULL, ops, 5);
    assert_answer(ops[0], STORE_APPLIED, nothing);
    assert_answer(ops[1], STORE_MET, pending(A, 1));
    assert_answer(ops[2], STORE_APPLIED, nothing);
    assert_answer(ops[3], STORE_APPLIED, nothing);
    assert_answer(ops[4], STORE_APPLIED, nothing);
    assert_held(b, "k", forwarded(2));
}

static void no_ops_are_fine(void **state)
{
    struct bench *b = *state;
    assert_true(store_apply(b->store, A, NULL, 0));
    assert_true(store_sessions_live(b->store, NULL, 0, NULL));
}

static void large_batches(void **state)
{
    enum { COUNT = 5000 };
    struct bench *b = *state;
    struct store_op *ops = xcalloc(COUNT, sizeof *ops);
    char(*keys)[16] = xcalloc(COUNT, sizeof *keys);
    open_session(b->store, A, MINUTE);
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(keys[i], sizeof keys[i], "key%zu", i);
        ops[i] = op_of(keys[i], nothing, pending(A, i + 1));
    }
    apply(b->store, A, ops, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(ops[i].answer, STORE_APPLIED);
    apply(b->store, A, ops, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        assert_answer(ops[i], STORE_MET, pending(A, i + 1));
    free(keys);
    free(ops);
}

static void awkward_keys_stay_apart(void **state)
{
    static const char *const keys[] = {"a",   "A",  "a:b",  "a b", "*",        "?",
                                       "[a]", "\\", "\r\n", "'",   "\xff\xfe", "scope:a"};
    enum { COUNT = sizeof keys / sizeof *keys };
    struct bench *b = *state;
    for (uint32_t i = 0; i < COUNT; i++)
        assert_answer(apply_one(b, NULL, keys[i], nothing, forwarded(i + 1)), STORE_APPLIED,
                      nothing);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_held(b, keys[i], forwarded(i + 1));

    char long_key[256];
    memset(long_key, 'x', 255);
    long_key[255] = '\0';
    apply_one(b, NULL, long_key, nothing, forwarded(1));
    long_key[254] = 'y';
    assert_held(b, long_key, nothing);
    long_key[254] = 'x';
    assert_held(b, long_key, forwarded(1));
}

/* ---- Fences ---- */

static void assert_fenced(struct bench *b, const char *session)
{
    struct store_op ops[] = {
        op_of("new", nothing, pending(session, 1)),
        op_of("old", forwarded(1), nothing),
        op_of("old", nothing, nothing),
    };
    apply(b->store, session, ops, 3);
    for (int i = 0; i < 3; i++)
        assert_answer(ops[i], STORE_FENCED, nothing);
    assert_held(b, "new", nothing);
    assert_held(b, "old", forwarded(1));
}

static void no_session_no_effect(void **state)
{
    struct bench *b = *state;
    apply_one(b, NULL, "old", nothing, forwarded(1));
    assert_fenced(b, A); /* never was */

    open_session(b->store, A, 60);
    pause_ms(120);
    assert_fenced(b, A); /* lapsed */

    open_session(b->store, B, MINUTE);
    assert_answer(apply_one(b, B, "old", nothing, nothing), STORE_MET, forwarded(1));
    assert_true(store_session_end(b->store, B));
    assert_fenced(b, B); /* ended */
    assert_true(store_session_end(b->store, B));
}

/* ---- Foreign values ---- */

static void foreign_values_are_left_alone(void **state)
{
    static const char *const texts[] = {"",
                                        "1",
                                        "P:token",
                                        "2F 1 1700000000000",
                                        "2F 1 1700000000000 t2 e17 ",
                                        "1F 1 1700000000000 t1700000000002 e1700000090000",
                                        "0"};
    struct bench *b = *state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put_raw(b, "odd", texts[i]);
        struct store_op ops[] = {
            op_of("odd", nothing, pending(A, 1)), op_of("odd", forwarded(1), forwarded(2)),
            op_of("odd", forwarded(1), nothing),  op_of("odd", nothing, nothing),
            op_of("fine", nothing, forwarded(9)), op_of("fine", forwarded(9), nothing),
        };
        apply(b->store, NULL, ops, 6);
        for (int j = 0; j < 4; j++)
            assert_int_equal(ops[j].answer, STORE_FOREIGN);
        assert_int_equal(ops[4].answer, STORE_APPLIED);
        assert_int_equal(ops[5].answer, STORE_APPLIED);

        struct record r;
        int64_t ttl;
        bool foreign;
        assert_true(store_get(b->store, span_of("odd"), &r, &ttl, &foreign));
        assert_true(foreign);
        assert_int_equal(r.now.state, RECORD_NONE);
    }
}

/* ---- Time ---- */

static void records_expire(void **state)
{
    struct bench *b = *state;
    int64_t ttl;
    struct store_op op = op_of("k", nothing, pending(A, 1));
    op.ttl = BRIEF;
    apply(b->store, NULL, &op, 1);
    assert_record(held(b->store, "k", &ttl), pending(A, 1));
    assert_in_range(ttl, 1, BRIEF);
    pause_ms(BRIEF + 60);
    assert_held(b, "k", nothing);
    assert_answer(apply_one(b, NULL, "k", pending(A, 1), forwarded(1)), STORE_MET, nothing);
    assert_answer(apply_one(b, NULL, "k", nothing, pending(A, 2)), STORE_APPLIED, nothing);

    op = op_of("k", pending(A, 2), forwarded(1));
    op.ttl = 5000;
    apply(b->store, NULL, &op, 1);
    assert_record(held(b->store, "k", &ttl), forwarded(1));
    assert_in_range(ttl, 4000, 5000);
}

static void the_clock_is_the_stores(void **state)
{
    struct bench *b = *state;
    bool exists;
    int64_t before = store_now(b->store);
    assert_true(llabs(before - clock_wall()) < 2000);
    pause_ms(30);
    assert_in_range(store_now(b->store) - before, 29, 2000);
    open_session(b->store, A, MINUTE);
    assert_true(store_session_renew(b->store, A, MINUTE, &exists));
    assert_true(llabs(store_now(b->store) - clock_wall()) < 2000);
}

/* ---- Completing and results ---- */

static struct record completed(struct record r, bool has_result)
{
    if (r.now.state == RECORD_FORWARDED)
        r.now.state = RECORD_COMPLETED;
    r.now.completed = 1700000000009;
    r.now.has_result = has_result;
    return r;
}

static enum store_answer complete(struct bench *b, struct store_op op, struct span result)
{
    struct record met = op.met;
    if (!store_complete(b->store, &op, result))
        fail_msg("%s", store_error(b->store));
    assert_record(op.met, op.answer == STORE_MET ? met : nothing);
    return op.answer;
}

static void assert_result(struct store *s, const char *key, struct span want)
{
    struct buffer got = {0};
    assert_true(store_get_result(s, span_of(key), &got));
    assert_int_equal(got.len, want.len);
    assert_true(span_equal(buffer_span(&got), want));
    buffer_free(&got);
}

static void a_result_is_kept_beside_its_record(void **state)
{
    static const uint8_t odd[] = {'"', 0, 0xff, '\r', '\n', '"', ' '};
    struct bench *b = *state;
    uint8_t most[STORE_RESULT_MAX];
    for (size_t i = 0; i < sizeof most; i++)
        most[i] = (uint8_t)(i * 7);
    const struct span results[] = {
        span_of("{\"a\": [1, 2.50]}\n"), {odd, sizeof odd}, {most, sizeof most}, span_of("0")};
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%zu", i);
        apply_one(b, NULL, key, nothing, forwarded(1));
        struct store_op op = op_of(key, forwarded(1), completed(forwarded(1), true));
        assert_int_equal(complete(b, op, results[i]), STORE_APPLIED);
        assert_held(b, key, op.write);
    }
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%zu", i);
        assert_result(b->store, key, results[i]);
    }
    struct buffer behind = {0};
    buffer_add(&behind, "x", 1);
    assert_true(store_get_result(b->store, span_of("k3"), &behind));
    assert_true(span_is(buffer_span(&behind), "x0"));
    buffer_free(&behind);
}

static void completing_needs_no_result(void **state)
{
    struct bench *b = *state;
    apply_one(b, NULL, "k", nothing, pending(A, 1));
    struct store_op op = op_of("k", pending(A, 1), completed(pending(A, 1), false));
    assert_int_equal(complete(b, op, (struct span){0}), STORE_APPLIED);
    assert_held(b, "k", op.write);
    assert_result(b->store, "k", (struct span){0});
}

static void completing_what_is_not_there_writes_nothing(void **state)
{
    struct bench *b = *state;
    struct span result = span_of("{}");
    struct store_op op = op_of("k", forwarded(1), completed(forwarded(1), true));
    assert_int_equal(complete(b, op, result), STORE_MET); /* never was, or was deleted meanwhile */
    assert_held(b, "k", nothing);
    assert_result(b->store, "k", (struct span){0});

    apply_one(b, NULL, "k", nothing, forwarded(2));
    op.met = forwarded(2);
    assert_int_equal(complete(b, op, result), STORE_MET);
    assert_held(b, "k", forwarded(2));
    assert_result(b->store, "k", (struct span){0});

    put_raw(b, "k", "something else");
    assert_int_equal(complete(b, op, result), STORE_FOREIGN);
    assert_result(b->store, "k", (struct span){0});
    if (b->redis) {
        freeReplyObject(redis_do(b, "DEL %s:key:scope:k", text_prefix));
        freeReplyObject(redis_do(b, "LPUSH %s:key:scope:k x", text_prefix));
        assert_int_equal(complete(b, op, result), STORE_FOREIGN);
        assert_result(b->store, "k", (struct span){0});
    }
}

static void the_first_result_stays(void **state)
{
    struct bench *b = *state;
    apply_one(b, NULL, "k", nothing, forwarded(1));
    struct store_op op = op_of("k", forwarded(1), completed(forwarded(1), true));
    assert_int_equal(complete(b, op, span_of("1")), STORE_APPLIED);
    op.met = op.write;
    assert_int_equal(complete(b, op, span_of("2")), STORE_MET);
    assert_result(b->store, "k", span_of("1"));
}

static void results_expire_with_their_records(void **state)
{
    struct bench *b = *state;
    int64_t ttl;
    apply_one(b, NULL, "k", nothing, forwarded(1));
    struct store_op op = op_of("k", forwarded(1), completed(forwarded(1), true));
    op.ttl = BRIEF;
    assert_int_equal(complete(b, op, span_of("1")), STORE_APPLIED);
    held(b->store, "k", &ttl);
    assert_in_range(ttl, 1, BRIEF);
    assert_result(b->store, "k", span_of("1"));
    pause_ms(BRIEF + 60);
    assert_held(b, "k", nothing);
    assert_result(b->store, "k", (struct span){0});
}

static void results_live_on_with_their_records(void **state)
{
    struct bench *b = *state;
    for (int i = 0; i < 2; i++) {
        const char *key = i ? "moved" : "only counted";
        apply_one(b, NULL, key, nothing, forwarded(1));
        struct store_op op = op_of(key, forwarded(1), completed(forwarded(1), true));
        op.ttl = BRIEF;
        assert_int_equal(complete(b, op, span_of("1")), STORE_APPLIED);
        struct record next = op.write;
        next.now.duplicates = 1;
        next.now.ends += i ? 10000 : 0;
        assert_int_equal(apply_one(b, NULL, key, op.write, next).answer, STORE_APPLIED);
    }
    pause_ms(BRIEF + 60);
    assert_result(b->store, "only counted", (struct span){0});
    assert_result(b->store, "moved", span_of("1"));
}

static bool count_listed(void *context, struct span key, const struct record *r, int64_t ttl)
{
    size_t *count = context;
    (void)key;
    (void)ttl;
    assert_non_null(r);
    ++*count;
    return true;
}

static void results_are_of_their_scope_and_not_listed(void **state)
{
    struct bench *b = *state;
    size_t count = 0;
    struct store *other = another_store(b, "scope2");
    apply_one(b, NULL, "k", nothing, forwarded(1));
    struct store_op op = op_of("k", forwarded(1), completed(forwarded(1), true));
    assert_int_equal(complete(b, op, span_of("1")), STORE_APPLIED);
    assert_result(other, "k", (struct span){0});
    assert_true(store_list(b->store, count_listed, &count));
    assert_int_equal(count, 1);
    store_free(other);

    store_close(b->store);
    struct buffer out = {0};
    assert_false(store_complete(b->store, &op, span_of("1")));
    assert_false(store_get_result(b->store, span_of("k"), &out));
    assert_int_equal(out.len, 0);
}

/* ---- Sessions ---- */

static void a_session_is_created_once(void **state)
{
    struct bench *b = *state;
    bool permanent;
    open_session(b->store, A, MINUTE);
    struct store *other = another_store(b, "scope");
    const char *former[] = {B};
    open_session(other, B, MINUTE);
    assert_false(store_session_open(other, A, MINUTE, former, 1, NULL, 0));
    assert_non_null(strstr(store_error(other), A));
    assert_false(store_is_open(other));
    assert_true(store_open(other, &permanent));
    assert_true(lives(other, A));
    assert_true(lives(other, B)); /* the step that failed did nothing */
    store_free(other);
}

static void renewal(void **state)
{
    struct bench *b = *state;
    bool exists;
    open_session(b->store, A, 2 * BRIEF);
    pause_ms(BRIEF);
    assert_true(store_session_renew(b->store, A, 3 * BRIEF, &exists));
    assert_true(exists);
    pause_ms(BRIEF + 60); /* for longer than without the renewal */
    assert_true(lives(b->store, A));
    pause_ms(2 * BRIEF);
    assert_true(store_session_renew(b->store, A, 3 * BRIEF, &exists));
    assert_false(exists);
    assert_false(lives(b->store, A)); /* it stays gone */
    assert_true(store_session_renew(b->store, C, 3 * BRIEF, &exists));
    assert_false(exists);
}

static void which_sessions_live(void **state)
{
    struct bench *b = *state;
    const char *ids[] = {D, A, C, B, A};
    bool live[5];
    open_session(b->store, A, MINUTE);
    open_session(b->store, B, MINUTE);
    assert_true(store_sessions_live(b->store, ids, 5, live));
    assert_false(live[0]);
    assert_true(live[1]);
    assert_false(live[2]);
    assert_true(live[3]);
    assert_true(live[4]);
}

static struct store_move move_of(const char *key, struct record claim)
{
    return (struct store_move){.key = span_of(key), .claim = claim, .ttl = 30000};
}

static void records_move_to_the_next_session(void **state)
{
    struct bench *b = *state;
    const char *former[] = {A, B};
    struct record doubtful = pending(A, 4);
    doubtful.now.in_doubt = true;
    open_session(b->store, A, MINUTE);
    open_session(b->store, B, MINUTE);
    struct store_op ops[] = {
        op_of("of a", nothing, pending(A, 1)),    op_of("of b", nothing, pending(B, 2)),
        op_of("of d", nothing, pending(D, 3)),    op_of("doubtful", nothing, doubtful),
        op_of("recorded", nothing, forwarded(1)), op_of("other claim", nothing, pending(A, 66)),
    };
    apply(b->store, NULL, ops, 6);
    put_raw(b, "foreign", "x");

    struct store_move moves[] = {
        move_of("of a", pending(D, 1)),     move_of("of b", pending("", 2)),
        move_of("of d", pending(A, 3)),     move_of("doubtful", pending(A, 4)),
        move_of("recorded", pending(A, 5)), move_of("other claim", pending(A, 6)),
        move_of("gone", pending(A, 7)),     move_of("foreign", pending(A, 8)),
        move_of("of a", pending(A, 1)),
    };
    assert_true(store_session_open(b->store, C, MINUTE, former, 2, moves, 9));
    const struct record met[] = {nothing,        nothing, pending(D, 3), doubtful,     forwarded(1),
                                 pending(A, 66), nothing, nothing,       pending(C, 1)};
    for (int i = 0; i < 9; i++) {
        assert_int_equal(moves[i].moved, i < 2);
        assert_record(moves[i].met, met[i]);
    }
    int64_t ttl;
    assert_record(held(b->store, "of a", &ttl), pending(C, 1));
    assert_in_range(ttl, 20000, 30000);
    assert_held(b, "of b", pending(C, 2));
    assert_held(b, "doubtful", doubtful);
    assert_true(lives(b->store, C));
    assert_false(lives(b->store, A));
    assert_false(lives(b->store, B));
}

static void nothing_moves_without_former_sessions(void **state)
{
    struct bench *b = *state;
    apply_one(b, NULL, "k", nothing, pending(A, 1));
    struct store_move move = move_of("k", pending(A, 1));
    assert_true(store_session_open(b->store, B, MINUTE, NULL, 0, &move, 1));
    assert_false(move.moved);
    assert_record(move.met, pending(A, 1));
}

static void many_moves_from_many_sessions(void **state)
{
    enum { COUNT = 2000 };
    struct bench *b = *state;
    char ids[STORE_FORMER_MAX][SESSION_ID_LEN + 1];
    const char *former[STORE_FORMER_MAX];
    struct store_op *ops = xcalloc(COUNT, sizeof *ops);
    struct store_move *moves = xcalloc(COUNT, sizeof *moves);
    char(*keys)[16] = xcalloc(COUNT, sizeof *keys);
    for (int i = 0; i < STORE_FORMER_MAX; i++) {
        snprintf(ids[i], sizeof ids[i], "%024d", i);
        former[i] = ids[i];
    }
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(keys[i], sizeof keys[i], "key%zu", i);
        ops[i] = op_of(keys[i], nothing, pending(ids[i % STORE_FORMER_MAX], i));
        moves[i] = move_of(keys[i], pending("", i));
    }
    apply(b->store, NULL, ops, COUNT);
    assert_true(store_session_open(b->store, C, MINUTE, former, STORE_FORMER_MAX, moves, COUNT));
    for (size_t i = 0; i < COUNT; i++)
        assert_true(moves[i].moved);
    assert_held(b, keys[1999], pending(C, 1999));
    free(keys);
    free(moves);
    free(ops);
}

/* ---- Listing ---- */

struct listing {
    struct store *store;
    size_t stop_after;
    size_t calls;
    size_t foreign;
    bool seen[3000];
};

static bool take_listed(void *context, struct span key, const struct record *r, int64_t ttl)
{
    struct listing *l = context;
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)key.len, (const char *)key.data);
    assert_in_range(ttl, 1, MINUTE);
    l->calls++;
    if (r) {
        size_t i = strtoul(text + strlen("?*:"), NULL, 10);
        assert_true(i < 3000);
        assert_record(*r, forwarded((uint32_t)i + 1));
        l->seen[i] = true;
    } else {
        assert_string_equal(text, "odd");
        l->foreign++;
    }
    /* The store may be used while it lists. */
    assert_true(held(l->store, "nowhere", &ttl).now.state == RECORD_NONE);
    return l->calls != l->stop_after;
}

static void fill(struct store *s, size_t count)
{
    char key[32];
    for (size_t i = 0; i < count; i++) {
        snprintf(key, sizeof key, "?*:%zu", i);
        struct store_op op = op_of(key, nothing, forwarded((uint32_t)i + 1));
        apply(s, NULL, &op, 1);
    }
}

static void a_scope_is_listed(void **state)
{
    struct bench *b = *state;
    struct listing all = {.store = b->store};
    assert_true(store_list(b->store, take_listed, &all));
    assert_int_equal(all.calls, 0);

    struct store *near = another_store(b, "scope2");
    struct store_op op = op_of("of another scope", nothing, forwarded(1));
    apply(near, NULL, &op, 1);
    open_session(b->store, A, MINUTE);
    fill(b->store, 3000);
    put_raw(b, "odd", "x");
    assert_true(store_list(b->store, take_listed, &all));
    for (size_t i = 0; i < 3000; i++)
        assert_true(all.seen[i]);
    assert_true(all.foreign >= 1);

    struct listing some = {.store = b->store, .stop_after = 7};
    assert_true(store_list(b->store, take_listed, &some));
    assert_int_equal(some.calls, 7);
    store_free(near);
}

static void scopes_never_meet(void **state)
{
    struct bench *b = *state;
    struct store *other = another_store(b, "scope2");
    struct store *same = another_store(b, "scope");
    int64_t ttl;
    apply_one(b, NULL, "k", nothing, forwarded(1));
    assert_record(held(other, "k", &ttl), nothing);
    assert_record(held(same, "k", &ttl), forwarded(1));
    open_session(other, A, MINUTE);
    assert_true(lives(b->store, A)); /* sessions are the store's, not the scope's */
    store_free(other);
    store_free(same);
}

/* ---- Being closed ---- */

static void a_closed_store_says_so(void **state)
{
    struct bench *b = *state;
    struct store_op op = op_of("k", nothing, forwarded(1));
    bool permanent;
    assert_true(store_is_open(b->store));
    store_close(b->store);
    assert_false(store_is_open(b->store));
    assert_false(store_apply(b->store, NULL, &op, 1));
    assert_non_null(strstr(store_error(b->store), "not open"));
    assert_false(store_session_end(b->store, A));
    assert_true(store_open(b->store, &permanent));
    assert_string_equal(store_error(b->store), "");
    apply(b->store, NULL, &op, 1);
    assert_true(strlen(store_describe(b->store)) > 0);
    store_free(NULL);
}

static void records_outlive_the_connection(void **state)
{
    struct bench *b = *state;
    open_session(b->store, A, MINUTE);
    apply_one(b, A, "k", nothing, pending(A, 1));
    store_free(b->store);
    b->store = another_store(b, "scope");
    assert_held(b, "k", pending(A, 1));
    assert_true(lives(b->store, A));
}

/* ---- Several at once ---- */

enum { RACERS = 2, RACE_KEYS = 10000 };

struct racer {
    pthread_t thread;
    pthread_barrier_t *start;
    struct store *store;
    char session[SESSION_ID_LEN + 1];
    bool won[RACE_KEYS];
};

static void *race(void *context)
{
    struct racer *r = context;
    char keys[50][16];
    struct store_op ops[50];
    pthread_barrier_wait(r->start);
    for (size_t at = 0; at < RACE_KEYS; at += 50) {
        for (size_t i = 0; i < 50; i++) {
            snprintf(keys[i], sizeof keys[i], "key%zu", at + i);
            ops[i] = op_of(keys[i], nothing, pending(r->session, at + i + 1));
        }
        if (!store_apply(r->store, r->session, ops, 50))
            return NULL;
        for (size_t i = 0; i < 50; i++)
            r->won[at + i] = ops[i].answer == STORE_APPLIED;
    }
    return r;
}

static void each_key_has_one_winner(void **state)
{
    struct bench *b = *state;
    struct racer *racers = xcalloc(RACERS, sizeof *racers);
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, RACERS);
    for (int i = 0; i < RACERS; i++) {
        snprintf(racers[i].session, sizeof racers[i].session, "%024d", i);
        racers[i].start = &start;
        racers[i].store = another_store(b, "scope");
        open_session(racers[i].store, racers[i].session, MINUTE);
    }
    for (int i = 0; i < RACERS; i++)
        assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
    for (int i = 0; i < RACERS; i++) {
        void *done = NULL;
        pthread_join(racers[i].thread, &done);
        assert_non_null(done);
        store_free(racers[i].store);
    }
    for (size_t k = 0; k < RACE_KEYS; k++)
        assert_int_equal(racers[0].won[k] + racers[1].won[k], 1);
    pthread_barrier_destroy(&start);
    free(racers);
}

/* ---- Memory alone ---- */

static void the_dead_do_not_pile_up(void **state)
{
    struct bench *b = *state;
    char key[32];
    for (int i = 0; i < 20000; i++) {
        snprintf(key, sizeof key, "key%d", i);
        struct store_op op = op_of(key, nothing, forwarded(1));
        op.ttl = 1;
        apply(b->store, NULL, &op, 1);
        if (i % 100 == 0)
            pause_ms(2);
    }
    assert_in_range(store_memory_size(), 1, 600);
}

static void memory_says_what_it_cannot(void **state)
{
    struct bench *b = *state;
    struct buffer lines = {0};
    assert_true(store_dangers(b->store, &lines));
    buffer_add_u8(&lines, '\0');
    assert_non_null(strstr((char *)lines.data, "this process alone"));
    buffer_free(&lines);
}

/* clang-format off */
#define CONTRACT(backend) \
    TEST(a_new_key_is_claimed_once, backend), \
    TEST(what_is_expected_is_replaced, backend), \
    TEST(what_is_not_expected_stays, backend), \
    TEST(a_record_is_deleted, backend), \
    TEST(nothing_for_nothing_is_a_read, backend), \
    TEST(ops_go_in_order, backend), \
    TEST(no_ops_are_fine, backend), \
    TEST(large_batches, backend), \
    TEST(awkward_keys_stay_apart, backend), \
    TEST(no_session_no_effect, backend), \
    TEST(foreign_values_are_left_alone, backend), \
    TEST(records_expire, backend), \
    TEST(the_clock_is_the_stores, backend), \
    TEST(a_result_is_kept_beside_its_record, backend), \
    TEST(completing_needs_no_result, backend), \
    TEST(completing_what_is_not_there_writes_nothing, backend), \
    TEST(the_first_result_stays, backend), \
    TEST(results_expire_with_their_records, backend), \
    TEST(results_live_on_with_their_records, backend), \
    TEST(results_are_of_their_scope_and_not_listed, backend), \
    TEST(a_session_is_created_once, backend), \
    TEST(renewal, backend), \
    TEST(which_sessions_live, backend), \
    TEST(records_move_to_the_next_session, backend), \
    TEST(nothing_moves_without_former_sessions, backend), \
    TEST(many_moves_from_many_sessions, backend), \
    TEST(a_scope_is_listed, backend), \
    TEST(scopes_never_meet, backend), \
    TEST(a_closed_store_says_so, backend), \
    TEST(records_outlive_the_connection, backend), \
    TEST(each_key_has_one_winner, backend)

#define TEST(name, set_up_backend) {#name, name, set_up_backend, tear_down, NULL}
/* clang-format on */

int main(void)
{
    const struct CMUnitTest memory[] = {
        CONTRACT(set_up_memory),
        TEST(the_dead_do_not_pile_up, set_up_memory),
        TEST(memory_says_what_it_cannot, set_up_memory),
    };
    const struct CMUnitTest sqlite[] = {CONTRACT(set_up_sqlite)};
    const struct CMUnitTest postgres[] = {CONTRACT(set_up_postgres)};
    const struct CMUnitTest redis[] = {CONTRACT(set_up_redis)};
    const struct CMUnitTest sentinels[] = {CONTRACT(set_up_sentinels)};
    signal(SIGPIPE, SIG_IGN);
    int failed = cmocka_run_group_tests_name("store: memory", memory, NULL, NULL);
    failed += cmocka_run_group_tests_name("store: sqlite", sqlite, NULL, NULL);
    failed += cmocka_run_group_tests_name("store: postgres", postgres, NULL, NULL);
    failed += cmocka_run_group_tests_name("store: redis", redis, NULL, NULL);
    return failed + cmocka_run_group_tests_name("store: Sentinels", sentinels, NULL, NULL);
}
