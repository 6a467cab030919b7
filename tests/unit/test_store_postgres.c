/*
 * The PostgreSQL store against what servers do wrong: outages, refusals, schemas of others, late
 * transactions, and many connections at once. Starts its own servers.
 */
#include "postgres_server.h"
#include "redis_server.h"
#include "store_backend.h"

#include "clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define A "aaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbb"
#define MINUTE 60000

static char text_name[] = "test";
static char text_prefix[] = "oo";
static char text_secret[] = "s3cret'pass";
static char text_wrong[] = "wr0ng";
static char text_user[] = "guarded";

static const struct record nothing;

/* One for all tests, as it takes some seconds to make one. */
static struct postgres_server server;

struct bench {
    struct store_config config;
    struct store *store;
};

/* ---- The bench ---- */

static void pause_ms(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static int start_server(void **state)
{
    (void)state;
    postgres_server_create(&server);
    return 0;
}

static int remove_server(void **state)
{
    (void)state;
    postgres_server_remove(&server);
    return 0;
}

static void use_url(struct bench *b, const char *url)
{
    store_free(b->store);
    free(b->config.parsed.postgres);
    b->config.parsed.postgres = xstrdup(url);
    b->store = store_new(&b->config, "scope");
}

/* No schema yet, and a store that is not open. */
static int set_up_empty(void **state)
{
    struct bench *b = xcalloc(1, sizeof *b);
    *state = b;
    b->config = (struct store_config){.name = text_name, .prefix = text_prefix, .timeout = 1500};
    b->config.parsed = (struct store_url){.kind = STORE_POSTGRES};
    PQreset(server.connection); /* whatever the test before has left there */
    postgres_server_do(&server, "SET client_min_messages = warning");
    postgres_server_do(&server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                                " WHERE application_name LIKE 'onlyonce:%%'");
    postgres_server_do(&server, "DROP SCHEMA IF EXISTS oo CASCADE");
    use_url(b, server.url);
    return 0;
}

static void assert_opens(struct bench *b)
{
    bool permanent;
    if (!store_open(b->store, &permanent))
        fail_msg("%s", store_error(b->store));
}

static int set_up(void **state)
{
    set_up_empty(state);
    assert_opens(*state);
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    store_free(b->store);
    free(b->config.parsed.postgres);
    free(b);
    return 0;
}

static struct store *another_store(struct bench *b)
{
    bool permanent;
    struct store *s = store_new(&b->config, "scope");
    if (!store_open(s, &permanent))
        fail_msg("%s", store_error(s));
    return s;
}

/* ---- Short forms ---- */

static struct record pending(const char *session, uint64_t claim)
{
    struct record r = {.now = {.state = RECORD_PENDING,
                               .number = 1,
                               .first_seen = 1700000000000,
                               .since = 1700000000000},
                       .claim = claim};
    snprintf(r.session, sizeof r.session, "%s", session);
    return r;
}

static struct store_op op_of(const char *key, struct record expect, struct record write)
{
    return (struct store_op){.key = span_of(key), .expect = expect, .write = write, .ttl = MINUTE};
}

static void apply_one(struct bench *b, const char *session, struct store_op *op)
{
    if (!store_apply(b->store, session, op, 1))
        fail_msg("%s", store_error(b->store));
}

static void assert_claims(struct bench *b, const char *key, enum store_answer want)
{
    struct store_op op = op_of(key, nothing, pending(A, 1));
    apply_one(b, NULL, &op);
    assert_int_equal(op.answer, want);
}

static void assert_error(struct bench *b, const char *part)
{
    if (!strstr(store_error(b->store), part))
        fail_msg("\"%s\" lacks \"%s\"", store_error(b->store), part);
    assert_null(strstr(store_error(b->store), text_secret));
    assert_null(strchr(store_error(b->store), '\n'));
    assert_false(store_is_open(b->store));
}

static void assert_claim_fails(struct bench *b, const char *part)
{
    struct store_op op = op_of("k", nothing, pending(A, 1));
    assert_false(store_apply(b->store, NULL, &op, 1));
    assert_error(b, part);
}

static void assert_open_fails(struct bench *b, const char *part, bool want_permanent)
{
    bool permanent;
    assert_false(store_open(b->store, &permanent));
    assert_error(b, part);
    assert_int_equal(permanent, want_permanent);
}

/* The server process behind the store's connection. */
static pid_t backend_of_store(void)
{
    return atoi(postgres_server_do(&server, "SELECT pid FROM pg_stat_activity"
                                            " WHERE application_name LIKE 'onlyonce:%%'"));
}

static struct record held(struct bench *b, const char *key)
{
    struct record r;
    int64_t ttl;
    bool foreign;
    if (!store_get(b->store, span_of(key), &r, &ttl, &foreign))
        fail_msg("%s", store_error(b->store));
    return r;
}

/* ---- What is in the database ---- */

static void rows_are_as_documented(void **state)
{
    struct bench *b = *state;
    char host[256] = "";
    assert_true(store_session_open(b->store, A, 5000, NULL, 0, NULL, 0));
    assert_claims(b, "txn:1", STORE_APPLIED);
    assert_string_equal(postgres_server_do(&server, "SELECT text FROM oo.records WHERE scope = "
                                                    "'scope' AND key = 'txn:1'"),
                        "2P 1 1700000000000 t0 o" A ".1");
    gethostname(host, sizeof host - 1);
    char *want = xasprintf("%s/%ld", host, (long)getpid());
    assert_string_equal(postgres_server_do(&server, "SELECT owner FROM oo.sessions"), want);
    free(want);
    const char *version = postgres_server_do(&server, "SHOW server_version");
    want = xasprintf("PostgreSQL %.*s ", (int)strcspn(version, " "), version);
    assert_int_equal(strncmp(store_describe(b->store), want, strlen(want)), 0);
    free(want);
    assert_non_null(strstr(store_describe(b->store), "/postgres, schema oo"));
    assert_true(backend_of_store() > 0);
    assert_string_equal(postgres_server_do(&server, "SELECT version FROM oo.version"), "1");

    struct record r;
    int64_t ttl;
    bool foreign;
    postgres_server_do(&server, "UPDATE oo.records SET expires = 'infinity'");
    assert_true(store_get(b->store, span_of("txn:1"), &r, &ttl, &foreign));
    assert_int_equal(ttl, -1);
}

/* Batches of new keys with that time to live. */
static void write_batches(struct bench *b, const char *prefix, int batches, int64_t ttl)
{
    enum { SIZE = 100 };
    struct store_op ops[SIZE];
    char keys[SIZE][24];
    for (int n = 0; n < batches; n++) {
        for (int i = 0; i < SIZE; i++) {
            snprintf(keys[i], sizeof keys[i], "%s%d", prefix, n * SIZE + i);
            ops[i] = op_of(keys[i], nothing, pending(A, 1));
            ops[i].ttl = ttl;
        }
        if (!store_apply(b->store, NULL, ops, SIZE))
            fail_msg("%s", store_error(b->store));
    }
}

static void what_expired_is_swept(void **state)
{
    struct bench *b = *state;
    postgres_server_do(&server, "INSERT INTO oo.records SELECT 'scope', 'old' || i, 'x', now()"
                                " FROM generate_series(1, 3000) i");
    postgres_server_do(&server, "INSERT INTO oo.results SELECT 'scope', 'old' || i, 'x', now()"
                                " FROM generate_series(1, 500) i");
    write_batches(b, "new", 20, MINUTE);
    assert_string_equal(postgres_server_do(&server, "SELECT count(*) FROM oo.records"), "2000");
    assert_string_equal(postgres_server_do(&server, "SELECT count(*) FROM oo.results"), "0");
    write_batches(b, "short", 100, 1);
    assert_in_range(atoi(postgres_server_do(&server, "SELECT count(*) FROM oo.records")), 2000,
                    6000); /* of 12000 */
}

/* ---- The schema ---- */

static void assert_missing(struct bench *b, const char *want)
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
    struct bench *b = *state;
    struct buffer lines = {0};
    assert_missing(b, "schema oo is missing");
    assert_true(store_dangers(b->store, &lines));
    assert_int_equal(lines.len, 0);
    assert_string_equal(postgres_server_do(&server, "SELECT to_regnamespace('oo')"), "");
    postgres_server_do(&server, "CREATE SCHEMA oo");
    assert_missing(b, "schema oo has no tables of onlyonce");
    assert_string_equal(postgres_server_do(&server, "SELECT to_regclass('oo.version')"), "");
    assert_opens(b);
    assert_missing(b, NULL);
    assert_claims(b, "k", STORE_APPLIED);
}

static void a_schema_of_another_layout(void **state)
{
    struct bench *b = *state;
    postgres_server_do(&server, "UPDATE oo.version SET version = 2");
    assert_open_fails(b, "schema oo has layout 2, and this program knows 1", true);
    postgres_server_do(&server, "DELETE FROM oo.version");
    assert_open_fails(b, "schema oo is not onlyonce's: its table version has 0 rows", true);
    postgres_server_do(&server, "DROP TABLE oo.version; CREATE TABLE oo.version (name text)");
    assert_open_fails(b, "column v.version does not exist", true);
}

static void a_schema_of_somebody_else(void **state)
{
    struct bench *b = *state;
    postgres_server_do(&server, "CREATE SCHEMA oo; CREATE TABLE oo.sessions (user_id int)");
    assert_open_fails(b, "relation \"sessions\" already exists", true);
    assert_string_equal(postgres_server_do(&server, "SELECT to_regclass('oo.version')"), "");
}

static void be_poor(struct bench *b)
{
    char url[100];
    postgres_server_do(&server, "DROP OWNED BY poor");
    snprintf(url, sizeof url, "postgresql://poor@127.0.0.1:%d/postgres", server.port);
    use_url(b, url);
}

static void a_user_of_few_permissions(void **state)
{
    struct bench *b = *state;
    postgres_server_do(&server, "DROP ROLE IF EXISTS poor; CREATE ROLE poor LOGIN");
    be_poor(b);
    assert_open_fails(b, "permission denied for database postgres (42501)", true);
    /* In a schema that somebody has made for him, he may make the tables. */
    postgres_server_do(&server, "CREATE SCHEMA oo; GRANT CREATE, USAGE ON SCHEMA oo TO poor");
    assert_opens(b);
    assert_claims(b, "k", STORE_APPLIED);
    be_poor(b);

    use_url(b, server.url);
    postgres_server_do(&server, "DROP SCHEMA oo CASCADE");
    assert_opens(b);
    be_poor(b);
    assert_open_fails(b, "permission denied for schema oo", true);
    postgres_server_do(&server, "GRANT USAGE ON SCHEMA oo TO poor");
    postgres_server_do(&server, "GRANT ALL ON ALL TABLES IN SCHEMA oo TO poor");
    assert_opens(b);
    assert_claims(b, "k", STORE_APPLIED);
    postgres_server_do(&server, "REVOKE UPDATE ON oo.records FROM poor");
    assert_claim_fails(b, "permission denied for table records");
    assert_open_fails(b, "user poor lacks permissions in schema oo: UPDATE on records; grant",
                      true);
    be_poor(b);
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
    struct bench *b = *state;
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
    assert_string_equal(postgres_server_do(&server, "SELECT count(*) FROM oo.version"), "1");
}

/* ---- Refusals ---- */

static void a_login_is_refused(void **state)
{
    struct bench *b = *state;
    char url[140];
    postgres_server_do(&server, "DROP ROLE IF EXISTS guarded");
    postgres_server_do(&server, "CREATE ROLE guarded LOGIN SUPERUSER PASSWORD 's3cret''pass'");
    snprintf(url, sizeof url, "postgresql://guarded:wrong@127.0.0.1:%d/postgres", server.port);
    use_url(b, url);
    assert_open_fails(b, "password authentication failed for user \"guarded\"", true);
    b->config.password = text_secret; /* the URL's yields */
    assert_opens(b);
    assert_claims(b, "k", STORE_APPLIED);
    use_url(b, server.url);
    b->config.username = text_user;
    assert_opens(b);
    b->config.password = text_wrong;
    assert_open_fails(b, "password authentication failed", true);
    b->config.password = NULL;
    assert_open_fails(b, "no password supplied", true);
    b->config.username = NULL;
    snprintf(url, sizeof url, "postgresql://nobody@127.0.0.1:%d/postgres", server.port);
    use_url(b, url);
    assert_open_fails(b, "role \"nobody\" does not exist", true);
    snprintf(url, sizeof url, "postgresql://onlyonce@127.0.0.1:%d/nowhere", server.port);
    use_url(b, url);
    assert_open_fails(b, "database \"nowhere\" does not exist", true);
}

static void set_and_reload(const char *setting)
{
    postgres_server_do(&server, "ALTER SYSTEM %s", setting);
    postgres_server_do(&server, "SELECT pg_reload_conf()");
    pause_ms(200);
}

static void a_server_is_read_only(void **state)
{
    struct bench *b = *state;
    set_and_reload("SET default_transaction_read_only = on");
    assert_claim_fails(b, "read-only transaction (25006)");
    assert_open_fails(b, "is read-only", false);
    postgres_server_do(&server, "SET default_transaction_read_only = off");
    set_and_reload("RESET default_transaction_read_only");
    assert_opens(b);
    assert_claims(b, "k", STORE_APPLIED);
}

static void settings_that_endanger(void **state)
{
    static const struct {
        const char *setting;
        const char *want;
    } cases[] = {
        {"SET fsync = off", "fsync is off: "},
        {"RESET fsync", NULL},
        {"SET full_page_writes = off", "full_page_writes is off: "},
        {"RESET full_page_writes", NULL},
        {"SET synchronous_commit = off", "synchronous_commit is off: "},
        {"SET synchronous_commit = local", NULL},
        {"RESET synchronous_commit", NULL},
    };
    struct bench *b = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buffer lines = {0};
        set_and_reload(cases[i].setting);
        assert_true(store_dangers(b->store, &lines));
        buffer_add_u8(&lines, '\0');
        const char *got = (const char *)lines.data;
        if (cases[i].want ? !strstr(got, cases[i].want) : *got)
            fail_msg("%s: %s", cases[i].setting, got);
        buffer_free(&lines);
    }
}

/* ---- Outages ---- */

static void a_server_dies_and_comes_back(void **state)
{
    struct bench *b = *state;
    assert_claims(b, "k", STORE_APPLIED);
    postgres_server_kill(&server);
    /* It closed, or its child had time to say that it was terminating, the connection. */
    assert_claim_fails(b, " connection");
    assert_claim_fails(b, " connection"); /* still the reason */
    assert_open_fails(b, "Connection refused", false);
    postgres_server_start(&server);
    assert_opens(b);
    assert_claims(b, "k", STORE_MET);
}

/* Until the process is gone. */
static void await_end(pid_t backend)
{
    for (int i = 0; i < 1000 && kill(backend, 0) == 0; i++)
        pause_ms(10);
    assert_int_equal(kill(backend, 0), -1);
}

static void a_connection_is_ended(void **state)
{
    struct bench *b = *state;
    pid_t backend = backend_of_store();
    postgres_server_do(&server, "SELECT pg_terminate_backend(%d)", backend);
    await_end(backend);
    assert_claim_fails(b, "terminating connection due to administrator command");
    assert_opens(b);
    assert_claims(b, "k", STORE_APPLIED);
}

/* The server stands still with the batch in its buffer, and carries it out afterwards. */
static void an_answer_is_lost(void **state)
{
    struct bench *b = *state;
    b->config.timeout = 300;
    int64_t before = clock_now();
    postgres_server_signal(&server, SIGSTOP);
    assert_claim_fails(b, "no answer within 300 ms");
    assert_in_range(clock_now() - before, 300, 1400);
    before = clock_now();
    assert_open_fails(b, "no answer within 300 ms", false);
    assert_in_range(clock_now() - before, 300, 1400);
    postgres_server_signal(&server, SIGCONT);
    b->config.timeout = 1500;
    assert_opens(b);
    for (int i = 0; i < 1000 && held(b, "k").now.state == RECORD_NONE; i++)
        pause_ms(10);
    assert_claims(b, "k", STORE_MET);
}

/* As above, but the session has been taken over before the late batch is carried out. */
static void a_late_batch_is_fenced(void **state)
{
    struct bench *b = *state;
    const char *former[] = {A};
    assert_true(store_session_open(b->store, A, MINUTE, NULL, 0, NULL, 0));
    pid_t backend = backend_of_store();
    b->config.timeout = 300;
    kill(backend, SIGSTOP);
    struct store_op op = op_of("k", nothing, pending(A, 1));
    assert_false(store_apply(b->store, A, &op, 1));
    b->config.timeout = 1500;
    assert_opens(b);
    struct store_move move = {.key = span_of("k"), .claim = pending(A, 1), .ttl = MINUTE};
    assert_true(store_session_open(b->store, B, MINUTE, former, 1, &move, 1));
    assert_false(move.moved);
    assert_int_equal(move.met.now.state, RECORD_NONE);
    kill(backend, SIGCONT);
    await_end(backend); /* it has read all */
    assert_int_equal(held(b, "k").now.state, RECORD_NONE);
}

/* A server that takes connections and says nothing is passed over the next time. */
static void a_host_is_silent(void **state)
{
    struct bench *b = *state;
    char url[160];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 8), 0);
    getsockname(fd, (struct sockaddr *)&address, &size);
    snprintf(url, sizeof url,
             "postgresql://onlyonce@127.0.0.1:%d,localhost:%d,127.0.0.1:%d/postgres",
             ntohs(address.sin_port), free_port(), server.port);
    use_url(b, url);
    b->config.timeout = 400;
    assert_open_fails(b, "no answer within 400 ms", false);
    b->config.timeout = 1500;
    assert_opens(b);
    assert_claims(b, "k", STORE_APPLIED);
    close(fd);
}

static int standbys(void)
{
    return atoi(postgres_server_do(&server, "SELECT count(*) FROM pg_stat_replication"
                                            " WHERE state = 'streaming'"));
}

static void a_failover_is_followed(void **state)
{
    struct bench *b = *state;
    char url[160];
    struct buffer lines = {0};
    struct postgres_server standby;
    assert_claims(b, "old", STORE_APPLIED);
    postgres_server_create_standby(&standby, &server);
    for (int i = 0; i < 100 && standbys() == 0; i++)
        pause_ms(50);
    assert_true(store_dangers(b->store, &lines));
    buffer_add_u8(&lines, '\0');
    assert_non_null(strstr((char *)lines.data, "there are standbys (1), and synchronous_standby"));
    buffer_free(&lines);

    use_url(b, standby.url);
    assert_open_fails(b, "is a standby", false);
    snprintf(url, sizeof url, "postgresql://onlyonce@127.0.0.1:%d,127.0.0.1:%d/postgres",
             standby.port, server.port);
    use_url(b, url);
    assert_opens(b);
    assert_claims(b, "old", STORE_MET);
    postgres_server_kill(&server);
    assert_claim_fails(b, " connection");
    assert_open_fails(b, "read-only", false);
    postgres_server_do(&standby, "SELECT pg_promote()");
    assert_opens(b);
    assert_claims(b, "old", STORE_MET);
    assert_claims(b, "new", STORE_APPLIED);
    store_close(b->store);
    postgres_server_remove(&standby);
    postgres_server_start(&server);
}

/* ---- Several at once ---- */

struct neighbour {
    const char *sql;
    long after;
};

/* Ends the transaction of the test's own connection while the store waits for it. */
static void *end_later(void *context)
{
    const struct neighbour *n = context;
    pause_ms(n->after);
    postgres_server_do(&server, "%s", n->sql);
    return NULL;
}

/* While `begun` of somebody else is not yet ended by `end`, the op waits; then it is applied, or
 * has met a record of that claim. */
static void race(struct bench *b, const char *begun, const char *end, struct store_op op,
                 uint64_t want_claim)
{
    pthread_t thread;
    struct neighbour n = {.sql = end, .after = 150};
    postgres_server_do(&server, "BEGIN");
    postgres_server_do(&server, "%s", begun);
    int64_t before = clock_now();
    assert_int_equal(pthread_create(&thread, NULL, end_later, &n), 0);
    apply_one(b, NULL, &op);
    assert_true(clock_now() - before >= 100);
    pthread_join(thread, NULL);
    assert_int_equal(op.answer, want_claim ? STORE_MET : STORE_APPLIED);
    assert_int_equal(op.met.claim, want_claim);
}

#define ROW(claim) "'2P 1 1700000000000 t0 o" B "." claim "', now() + interval '1 min'"
#define INSERT_ROW(key, claim) "INSERT INTO oo.records VALUES ('scope', '" key "', " ROW(claim) ")"
#define CHANGE_ROW(key, claim)                                                                     \
    "UPDATE oo.records SET (text, expires) = (" ROW(claim) ") WHERE key = '" key "'"
#define DROP_ROW(key) "DELETE FROM oo.records WHERE key = '" key "'"

static void who_was_faster_is_met(void **state)
{
    struct bench *b = *state;
    struct store_op claim = op_of("k", nothing, pending(A, 1));
    race(b, INSERT_ROW("k", "7"), "COMMIT", claim, 7);
    assert_true(held(b, "k").claim == 7);
    claim.key = span_of("l");
    race(b, INSERT_ROW("l", "7"), "ROLLBACK", claim, 0);
    assert_true(held(b, "l").claim == 1);

    struct store_op change = op_of("k", pending(B, 7), pending(A, 2));
    race(b, CHANGE_ROW("k", "8"), "COMMIT", change, 8);
    change.expect = pending(B, 8);
    race(b, CHANGE_ROW("k", "9"), "ROLLBACK", change, 0);
    assert_true(held(b, "k").claim == 2);

    /* It was there, and then it is not: then nothing is there. */
    change.expect = pending(A, 2);
    change.write = pending(A, 3);
    postgres_server_do(&server, "BEGIN");
    postgres_server_do(&server, DROP_ROW("k"));
    struct neighbour n = {.sql = "COMMIT", .after = 150};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, end_later, &n), 0);
    apply_one(b, NULL, &change);
    pthread_join(thread, NULL);
    assert_int_equal(change.answer, STORE_MET);
    assert_int_equal(change.met.now.state, RECORD_NONE);
}

struct waiter {
    struct store *store;
    struct store_op op;
    bool done;
};

static void *apply_later(void *context)
{
    struct waiter *w = context;
    w->done = store_apply(w->store, A, &w->op, 1);
    return NULL;
}

/* Until somebody waits for a lock. */
static void await_waiting(void)
{
    const char *ask = "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted";
    for (int i = 0; i < 1000 && *postgres_server_do(&server, "%s", ask) != 't'; i++)
        pause_ms(10);
    assert_string_equal(postgres_server_do(&server, "%s", ask), "t");
}

/* A batch that has passed its fence, and waits for a record, is waited for by whoever takes its
 * session over: he sees what it did. */
static void a_takeover_waits_for_the_late(void **state)
{
    struct bench *b = *state;
    const char *former[] = {A};
    struct waiter w = {.store = another_store(b), .op = op_of("k", nothing, pending(A, 1))};
    pthread_t thread;
    bool exists;
    assert_true(store_session_open(b->store, A, MINUTE, NULL, 0, NULL, 0));
    postgres_server_do(&server, "BEGIN");
    postgres_server_do(&server, INSERT_ROW("k", "7"));
    assert_int_equal(pthread_create(&thread, NULL, apply_later, &w), 0);
    await_waiting();
    assert_true(store_session_renew(b->store, A, MINUTE, &exists)); /* that one goes on */
    assert_true(exists);
    b->config.timeout = 300;
    assert_false(store_session_open(b->store, B, MINUTE, former, 1, NULL, 0));
    assert_error(b, "no answer within 300 ms");
    postgres_server_do(&server, "ROLLBACK");
    pthread_join(thread, NULL);
    assert_true(w.done);
    assert_int_equal(w.op.answer, STORE_APPLIED);
    store_free(w.store);
    pause_ms(200);
    b->config.timeout = 1500;
    assert_opens(b);
    struct store_move move = {.key = span_of("k"), .claim = pending(A, 1), .ttl = MINUTE};
    assert_true(
        store_session_open(b->store, "cccccccccccccccccccccccc", MINUTE, former, 1, &move, 1));
    assert_true(move.moved);
}

static void who_never_ends_is_not_waited_for(void **state)
{
    struct bench *b = *state;
    postgres_server_do(&server, "BEGIN");
    postgres_server_do(&server, INSERT_ROW("k", "7"));
    b->config.timeout = 300;
    assert_opens(b);
    int64_t before = clock_now();
    assert_claim_fails(b, "no answer within 300 ms");
    assert_in_range(clock_now() - before, 300, 1400);
    postgres_server_do(&server, "ROLLBACK");
}

enum { FIGHTERS = 4, FIGHT_KEYS = 60, FIGHT_ROUNDS = 80 };

struct fighter {
    pthread_t thread;
    struct store *store;
    unsigned seed;
    char session[SESSION_ID_LEN + 1];
    char keys[FIGHT_KEYS][16];
    uint64_t claims[FIGHT_KEYS]; /* the claim that it has on the key, or 0 */
    size_t wins;
    bool robbed; /* what it had was not there any more */
    char error[320];
};

/* Of each key: what it has, it releases; what it has not, it claims. */
static struct store_op fighters_op(const struct fighter *f, int key, uint64_t round)
{
    struct record mine = pending(f->session, f->claims[key]);
    if (f->claims[key])
        return op_of(f->keys[key], mine, nothing);
    return op_of(f->keys[key], nothing, pending(f->session, round));
}

static bool fight_round(struct fighter *f, uint64_t round)
{
    struct store_op ops[FIGHT_KEYS];
    int keys[FIGHT_KEYS] = {0};
    for (int i = 0; i < FIGHT_KEYS; i++) {
        int other = rand_r(&f->seed) % (i + 1); /* shuffled */
        keys[i] = keys[other];
        keys[other] = i;
    }
    for (int i = 0; i < FIGHT_KEYS; i++)
        ops[i] = fighters_op(f, keys[i], round);
    if (!store_apply(f->store, f->session, ops, FIGHT_KEYS))
        return false;
    for (int i = 0; i < FIGHT_KEYS; i++) {
        bool applied = ops[i].answer == STORE_APPLIED;
        f->robbed = f->robbed || (f->claims[keys[i]] && !applied);
        f->wins += applied && !f->claims[keys[i]];
        f->claims[keys[i]] = applied && !f->claims[keys[i]] ? round : 0;
    }
    return true;
}

static void *fight(void *context)
{
    struct fighter *f = context;
    for (int i = 0; i < FIGHT_KEYS; i++)
        snprintf(f->keys[i], sizeof f->keys[i], "key%d", i);
    for (uint64_t round = 1; round <= FIGHT_ROUNDS; round++)
        if (!fight_round(f, round))
            break;
    snprintf(f->error, sizeof f->error, "%s", store_error(f->store));
    return NULL;
}

static void nobody_deadlocks(void **state)
{
    struct bench *b = *state;
    struct fighter *fighters = xcalloc(FIGHTERS, sizeof *fighters);
    b->config.timeout = 10000;
    for (int i = 0; i < FIGHTERS; i++) {
        struct fighter *f = &fighters[i];
        snprintf(f->session, sizeof f->session, "%024d", i);
        f->seed = (unsigned)i + 1;
        f->store = another_store(b);
        assert_true(store_session_open(f->store, f->session, 300000, NULL, 0, NULL, 0));
    }
    for (int i = 0; i < FIGHTERS; i++)
        assert_int_equal(pthread_create(&fighters[i].thread, NULL, fight, &fighters[i]), 0);
    for (int i = 0; i < FIGHTERS; i++) {
        pthread_join(fighters[i].thread, NULL);
        assert_string_equal(fighters[i].error, "");
        assert_false(fighters[i].robbed);
        assert_true(fighters[i].wins > 0);
        store_free(fighters[i].store);
    }
    free(fighters);
}

/* ---- Equal keys ---- */

static struct record any_record(unsigned *seed)
{
    int which = rand_r(seed) % 4;
    return which == 0 ? nothing : pending(A, (uint64_t)which);
}

static void assert_same_answers(const struct store_op *got, const struct store_op *want, int count)
{
    for (int i = 0; i < count; i++) {
        assert_int_equal(got[i].answer, want[i].answer);
        assert_true(record_equal(&got[i].met, &want[i].met));
    }
}

/* Whatever a batch does with few keys, the memory store, which goes op by op, does the same. */
static void batches_are_as_if_op_by_op(void **state)
{
    enum { BATCHES = 300, MOST = 12 };
    static const char *const keys[] = {"a", "b", "c"};
    struct bench *b = *state;
    struct store_config memory = {.name = text_name, .prefix = text_prefix, .timeout = 1000};
    memory.parsed.kind = STORE_MEMORY;
    struct store *model = store_new(&memory, "scope");
    bool permanent;
    unsigned seed = 1;
    store_memory_reset();
    assert_true(store_open(model, &permanent));
    for (int n = 0; n < BATCHES; n++) {
        struct store_op ops[MOST];
        struct store_op want[MOST];
        int count = rand_r(&seed) % MOST + 1;
        for (int i = 0; i < count; i++)
            ops[i] = op_of(keys[rand_r(&seed) % 3], any_record(&seed), any_record(&seed));
        memcpy(want, ops, sizeof ops);
        assert_true(store_apply(model, NULL, want, (size_t)count));
        if (!store_apply(b->store, NULL, ops, (size_t)count))
            fail_msg("%s", store_error(b->store));
        assert_same_answers(ops, want, count);
    }
    store_free(model);
}

/* clang-format off */
#define TEST(name, set_up_for) {#name, name, set_up_for, tear_down, NULL}
/* clang-format on */

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rows_are_as_documented, set_up),
        TEST(what_expired_is_swept, set_up),
        TEST(a_look_makes_nothing, set_up_empty),
        TEST(a_schema_of_another_layout, set_up),
        TEST(a_schema_of_somebody_else, set_up_empty),
        TEST(a_user_of_few_permissions, set_up_empty),
        TEST(many_start_at_once, set_up_empty),
        TEST(a_login_is_refused, set_up_empty),
        TEST(a_server_is_read_only, set_up),
        TEST(settings_that_endanger, set_up),
        TEST(a_server_dies_and_comes_back, set_up),
        TEST(a_connection_is_ended, set_up),
        TEST(an_answer_is_lost, set_up),
        TEST(a_late_batch_is_fenced, set_up),
        TEST(a_host_is_silent, set_up_empty),
        TEST(a_failover_is_followed, set_up),
        TEST(who_was_faster_is_met, set_up),
        TEST(a_takeover_waits_for_the_late, set_up),
        TEST(who_never_ends_is_not_waited_for, set_up),
        TEST(nobody_deadlocks, set_up),
        TEST(batches_are_as_if_op_by_op, set_up),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("store: PostgreSQL", tests, start_server, remove_server);
}
