/*
 * The Redis store against what servers do wrong: outages, refusals, wrong servers, lost replies,
 * forgotten scripts. Starts its own redis-server, and a fake one for the rest.
 */
#include "fake_redis.h"
#include "redis_server.h"
#include "store_backend.h"

#include "clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define A "aaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbb"
#define MINUTE 60000

static char text_name[] = "test";
static char text_prefix[] = "oo";
static char text_host[] = "127.0.0.1";
static char text_secret[] = "s3cret'pass";
static char text_wrong[] = "wr0ng";
static char text_user[] = "relay";

struct bench {
    struct store_config config;
    struct store *store;
    redisContext *redis; /* a connection beside the store's */
    struct redis_server server;
};

/* ---- The bench ---- */

static void pause_ms(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static void start_server(struct bench *b)
{
    redis_server_start(&b->server, NULL);
    b->redis = redisConnect(text_host, b->server.port);
    if (!b->redis || b->redis->err)
        fail_msg("redis-server does not answer");
}

static void kill_server(struct bench *b)
{
    redisFree(b->redis);
    b->redis = NULL;
    redis_server_kill(&b->server);
}

static void redis_do(struct bench *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    redisReply *reply = redisvCommand(b->redis, fmt, args);
    va_end(args);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", fmt, reply ? reply->str : b->redis->errstr);
    freeReplyObject(reply);
}

static char *redis_text(struct bench *b, const char *command)
{
    redisReply *reply = redisCommand(b->redis, command);
    assert_non_null(reply);
    char *text = reply->str ? xstrdup(reply->str) : xasprintf("%lld", reply->integer);
    freeReplyObject(reply);
    return text;
}

static int set_up_config(void **state)
{
    struct bench *b = xcalloc(1, sizeof *b);
    *state = b;
    b->config = (struct store_config){.name = text_name, .prefix = text_prefix, .timeout = 1000};
    b->config.parsed = (struct store_url){.kind = STORE_REDIS, .host = text_host};
    return 0;
}

static int set_up(void **state)
{
    bool permanent;
    set_up_config(state);
    struct bench *b = *state;
    redis_server_create(&b->server);
    b->config.parsed.port = b->server.port;
    start_server(b);
    b->store = store_new(&b->config, "scope");
    if (!store_open(b->store, &permanent))
        fail_msg("%s", store_error(b->store));
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    store_free(b->store);
    if (b->redis)
        redisFree(b->redis);
    redis_server_remove(&b->server);
    free(b);
    return 0;
}

/* ---- Short forms ---- */

static struct record pending(uint64_t claim)
{
    struct record r = {.now = {.state = RECORD_PENDING,
                               .number = 1,
                               .first_seen = 1700000000000,
                               .since = 1700000000000},
                       .session = A,
                       .claim = claim};
    return r;
}

static struct store_op claim_of(const char *key, uint64_t claim)
{
    return (struct store_op){.key = span_of(key), .write = pending(claim), .ttl = MINUTE};
}

/* Claims a key, or fails to; what was answered. */
static bool claims(struct bench *b, const char *key, enum store_answer *answer)
{
    struct store_op op = claim_of(key, 1);
    bool done = store_apply(b->store, NULL, &op, 1);
    *answer = op.answer;
    return done;
}

static void assert_claims(struct bench *b, const char *key, enum store_answer want)
{
    enum store_answer answer;
    if (!claims(b, key, &answer))
        fail_msg("%s", store_error(b->store));
    assert_int_equal(answer, want);
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
    enum store_answer answer;
    assert_false(claims(b, "k", &answer));
    assert_error(b, part);
}

static void assert_opens(struct bench *b)
{
    bool permanent;
    if (!store_open(b->store, &permanent))
        fail_msg("%s", store_error(b->store));
}

static void assert_open_fails(struct bench *b, const char *part, bool want_permanent)
{
    bool permanent;
    assert_false(store_open(b->store, &permanent));
    assert_error(b, part);
    assert_int_equal(permanent, want_permanent);
}

static long long info_number(struct bench *b, const char *section, const char *field)
{
    char command[64];
    snprintf(command, sizeof command, "INFO %s", section);
    char *info = redis_text(b, command);
    const char *at = strstr(info, field);
    long long number = at ? strtoll(at + strlen(field), NULL, 10) : 0;
    free(info);
    return number;
}

/* ---- The real server ---- */

static void entries_are_named_as_documented(void **state)
{
    struct bench *b = *state;
    char host[256] = "";
    assert_true(store_session_open(b->store, A, 5000, NULL, 0, NULL, 0));
    assert_claims(b, "txn:1", STORE_APPLIED);

    char *text = redis_text(b, "GET oo:key:scope:txn:1");
    assert_string_equal(text, "2P 1 1700000000000 t0 o" A ".1");
    free(text);
    gethostname(host, sizeof host - 1);
    char *want = xasprintf("%s/%ld", host, (long)getpid());
    text = redis_text(b, "GET oo:session:" A);
    assert_string_equal(text, want);
    free(text);
    free(want);
    text = redis_text(b, "PTTL oo:session:" A);
    assert_in_range(atoi(text), 1000, 5000);
    free(text);
    text = redis_text(b, "CLIENT LIST");
    assert_non_null(strstr(text, "name=onlyonce:"));
    free(text);
}

static void a_database_is_selected(void **state)
{
    struct bench *b = *state;
    b->config.parsed.database = 3;
    store_free(b->store);
    b->store = store_new(&b->config, "scope");
    assert_opens(b);
    assert_claims(b, "k", STORE_APPLIED);
    assert_non_null(strstr(store_describe(b->store), "/3"));
    const char *server = getenv("RIG_REDIS_SERVER");
    const char *kind = server && strstr(server, "valkey") ? "Valkey " : "Redis ";
    assert_int_equal(strncmp(store_describe(b->store), kind, strlen(kind)), 0);
    redis_do(b, "SELECT 3");
    char *text = redis_text(b, "EXISTS oo:key:scope:k");
    assert_string_equal(text, "1");
    free(text);
    b->config.parsed.database = 99;
    assert_open_fails(b, "DB index", true);
}

static void a_batch_is_one_round_trip(void **state)
{
    enum { COUNT = 50 }; /* few enough for one read() of the server */
    struct bench *b = *state;
    struct store_op ops[COUNT];
    char keys[COUNT][16];
    assert_true(store_session_open(b->store, A, MINUTE, NULL, 0, NULL, 0));
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(keys[i], sizeof keys[i], "key%zu", i);
        ops[i] = claim_of(keys[i], i);
    }
    long long reads = info_number(b, "stats", "total_reads_processed:");
    assert_true(store_apply(b->store, A, ops, COUNT));
    /* One for the batch, and one for this INFO. */
    assert_int_equal(info_number(b, "stats", "total_reads_processed:") - reads, 2);
    assert_int_equal(info_number(b, "commandstats", "cmdstat_evalsha:calls="), 2);
    assert_int_equal(info_number(b, "commandstats", "cmdstat_exists:calls="), 1);
    assert_int_equal(info_number(b, "commandstats", "cmdstat_set:calls="), COUNT + 2);
}

static void scripts_that_were_forgotten(void **state)
{
    struct bench *b = *state;
    redis_do(b, "SCRIPT FLUSH");
    assert_claims(b, "k1", STORE_APPLIED);
    assert_claims(b, "k2", STORE_APPLIED);
    assert_int_equal(info_number(b, "commandstats", "cmdstat_evalsha:calls="), 3);
    redis_do(b, "SCRIPT FLUSH");
    assert_true(store_session_open(b->store, A, MINUTE, NULL, 0, NULL, 0));
}

static void records_that_were_forgotten(void **state)
{
    struct bench *b = *state;
    bool exists;
    assert_true(store_session_open(b->store, A, MINUTE, NULL, 0, NULL, 0));
    assert_claims(b, "k", STORE_APPLIED);
    redis_do(b, "FLUSHALL");
    assert_true(store_session_renew(b->store, A, MINUTE, &exists));
    assert_false(exists);
    struct store_op op = {.key = span_of("k"), .expect = pending(1)};
    assert_true(store_apply(b->store, NULL, &op, 1));
    assert_int_equal(op.answer, STORE_MET);
    assert_int_equal(op.met.now.state, RECORD_NONE);
}

static void values_of_other_types(void **state)
{
    struct bench *b = *state;
    redis_do(b, "RPUSH oo:key:scope:list x");
    redis_do(b, "HSET oo:key:scope:hash x y");
    redis_do(b, "SET oo:key:scope:eternal 2F%b", " 1 1 t0 e0", (size_t)10);
    struct store_op ops[] = {claim_of("list", 1),
                             claim_of("hash", 2),
                             claim_of("k", 3),
                             {.key = span_of("list"), .expect = pending(1)},
                             {.key = span_of("list")}};
    assert_true(store_apply(b->store, NULL, ops, 5));
    for (int i = 0; i < 5; i++)
        assert_int_equal(ops[i].answer, i == 2 ? STORE_APPLIED : STORE_FOREIGN);

    struct store_move move = {.key = span_of("list"), .claim = pending(1), .ttl = MINUTE};
    const char *former[] = {A};
    assert_true(store_session_open(b->store, B, MINUTE, former, 1, &move, 1));
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

/* The server stands still with the batch in its buffer, and carries it out afterwards. */
static void a_reply_is_lost(void **state)
{
    struct bench *b = *state;
    b->config.timeout = 150;
    int64_t before = clock_now();
    kill(b->server.pid, SIGSTOP);
    assert_claim_fails(b, "no answer within 150 ms");
    assert_in_range(clock_now() - before, 150, 400);
    kill(b->server.pid, SIGCONT);
    pause_ms(50);
    b->config.timeout = 1000;
    assert_opens(b);
    struct store_op op = {.key = span_of("k")};
    assert_true(store_apply(b->store, NULL, &op, 1));
    assert_int_equal(op.answer, STORE_MET);
    assert_true(op.met.claim == 1);
}

/* A server that lets writes wait drops those of a connection that was closed meanwhile. */
static void writes_are_paused(void **state)
{
    struct bench *b = *state;
    b->config.timeout = 150;
    redis_do(b, "CLIENT PAUSE 400 WRITE");
    assert_claim_fails(b, "no answer within 150 ms");
    assert_open_fails(b, "no answer within 150 ms", false);
    pause_ms(400);
    assert_opens(b);
    assert_claims(b, "k", STORE_APPLIED);
}

static void a_server_dies_and_comes_back(void **state)
{
    struct bench *b = *state;
    assert_claims(b, "k", STORE_APPLIED);
    kill_server(b);
    assert_claim_fails(b, "closed the connection");
    assert_claim_fails(b, "closed the connection"); /* still the reason */
    assert_open_fails(b, "Connection refused", false);
    start_server(b);
    assert_opens(b);
    assert_claims(b, "k", STORE_APPLIED);
}

static void a_login_is_refused(void **state)
{
    struct bench *b = *state;
    b->config.password = text_secret;
    assert_open_fails(b, "without any password", true);
    redis_do(b, "CONFIG SET requirepass %s", text_secret);
    b->config.password = NULL;
    assert_open_fails(b, "NOAUTH", true);
    b->config.password = text_wrong;
    assert_open_fails(b, "WRONGPASS", true);
    b->config.parsed.password = text_secret; /* the URL's yields */
    assert_open_fails(b, "WRONGPASS", true);
    b->config.password = NULL;
    assert_opens(b);
    b->config.username = text_user;
    assert_open_fails(b, "WRONGPASS", true);
    redis_do(b, "ACL SETUSER relay on >%s ~oo:* +@all", text_secret);
    assert_opens(b);
    assert_claims(b, "k", STORE_APPLIED);
    redis_do(b, "ACL SETUSER relay resetkeys ~other:*");
    assert_claim_fails(b, "NOPERM");
    assert_open_fails(b, "NOPERM", true);
}

static void a_full_memory(void **state)
{
    struct bench *b = *state;
    assert_claims(b, "old", STORE_APPLIED);
    redis_do(b, "CONFIG SET maxmemory 1");
    assert_claim_fails(b, "OOM");
    /* Releasing is still possible: it frees memory. */
    assert_opens(b);
    struct store_op op = {.key = span_of("old"), .expect = pending(1)};
    assert_true(store_apply(b->store, NULL, &op, 1));
    assert_int_equal(op.answer, STORE_APPLIED);
    assert_false(store_session_open(b->store, A, MINUTE, NULL, 0, NULL, 0));
    assert_error(b, "OOM");
    redis_do(b, "CONFIG SET maxmemory 0");
    assert_opens(b);
    assert_claims(b, "k", STORE_APPLIED);
}

static void a_master_becomes_a_replica(void **state)
{
    struct bench *b = *state;
    redis_do(b, "REPLICAOF 127.0.0.1 1");
    assert_claim_fails(b, "READONLY");
    assert_open_fails(b, "is a replica", false);
    redis_do(b, "REPLICAOF NO ONE");
    assert_opens(b);
    assert_claims(b, "k", STORE_APPLIED);
}

static void too_few_replicas(void **state)
{
    struct bench *b = *state;
    redis_do(b, "CONFIG SET min-replicas-to-write 1");
    assert_claim_fails(b, "NOREPLICAS");
    redis_do(b, "CONFIG SET min-replicas-to-write 0");
    assert_opens(b);
    assert_claims(b, "k", STORE_APPLIED);
}

/* ---- Dangers ---- */

static char *dangers(struct bench *b)
{
    struct buffer lines = {0};
    if (!store_dangers(b->store, &lines))
        fail_msg("%s", store_error(b->store));
    buffer_add_u8(&lines, '\0');
    return (char *)lines.data;
}

static void assert_danger(struct bench *b, const char *part)
{
    char *lines = dangers(b);
    if (part ? !strstr(lines, part) : *lines)
        fail_msg("want %s, got %s", part ? part : "nothing", lines);
    free(lines);
}

static void settings_that_endanger(void **state)
{
    static const struct {
        const char *settings[3]; /* names and values for CONFIG SET, one after the other */
        const char *want;
    } cases[] = {
        {{"save", ""}, "nothing is persisted"},
        {{"save", "3600 1"}, "its last snapshot (save 3600 1)"},
        {{"appendonly", "yes"}, "appendfsync is everysec: a crash of the server forgets the last"},
        {{"appendfsync", "no"}, "its operating system had not written"},
        {{"appendfsync", "always"}, NULL},
        {{"maxmemory-policy", "volatile-ttl"}, "maxmemory-policy is volatile-ttl"},
        {{"maxmemory-policy", "noeviction"}, NULL},
    };
    struct bench *b = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        redis_do(b, "CONFIG SET %s %s", cases[i].settings[0], cases[i].settings[1]);
        assert_danger(b, cases[i].want);
    }
    redis_do(b, "CONFIG SET appendonly no");
}

static void settings_that_are_hidden(void **state)
{
    struct bench *b = *state;
    redis_do(b, "CONFIG SET maxmemory-policy allkeys-lru");
    redis_do(b, "ACL SETUSER relay on >%s ~* +@all -config", text_secret);
    b->config.username = text_user;
    b->config.password = text_secret;
    assert_opens(b);
    assert_danger(b, "maxmemory-policy is allkeys-lru");
    assert_danger(b, "every key if it makes none");
    assert_danger(b, "does not tell all");
    assert_claims(b, "k", STORE_APPLIED);
}

static void evictions_are_told_once(void **state)
{
    struct bench *b = *state;
    redis_do(b, "CONFIG SET appendonly yes");
    redis_do(b, "CONFIG SET appendfsync always");
    for (int i = 0; i < 200; i++)
        redis_do(b, "SET filler%d %0200d", i, i);
    assert_danger(b, NULL);
    redis_do(b, "CONFIG SET maxmemory-policy allkeys-random");
    redis_do(b, "CONFIG SET maxmemory 1");
    redisReply *reply = redisCommand(b->redis, "SET more 1");
    freeReplyObject(reply);
    redis_do(b, "CONFIG SET maxmemory 0");
    redis_do(b, "CONFIG SET maxmemory-policy noeviction");
    assert_danger(b, "has evicted");
    assert_danger(b, NULL);
    redis_do(b, "CONFIG SET appendonly no");
}

static void replicas_that_may_lag(void **state)
{
    static const struct fake_rule rules[] = {
        {"CONFIG GET min", "*2\r\n$21\r\nmin-replicas-to-write\r\n$1\r\n0\r\n"},
        {"CONFIG GET appendfsync", "*2\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n"},
        {"CONFIG GET appendonly", "*2\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n"},
        {"CONFIG GET save", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n"},
        {"CONFIG GET max", "*2\r\n$16\r\nmaxmemory-policy\r\n$10\r\nnoeviction\r\n"},
        {"INFO", "=redis_version:7.0.15\r\nconnected_slaves:2\r\n"},
        {NULL, NULL},
    };
    struct bench *b = *state;
    struct fake_redis *f = fake_redis_start(rules, 0);
    b->config.parsed.port = fake_redis_port(f);
    b->store = store_new(&b->config, "scope");
    assert_opens(b);
    assert_danger(b, "there are replicas (2), and wait_replicas and min-replicas-to-write are 0");
    b->config.wait_replicas = 3;
    assert_danger(b, "there are 2 replicas, and wait_replicas is 3");
    b->config.wait_replicas = 1;
    assert_danger(b, "there are 2 replicas, and wait_replicas is 1: a master that is replaced");
    b->config.wait_replicas = 2;
    assert_danger(b, NULL);
    store_close(b->store);
    fake_redis_stop(f);
}

/* ---- Wrong servers ---- */

struct odd_server {
    const char *label;
    struct fake_rule rules[4];
    bool opens; /* then a claim fails */
    bool permanent;
    const char *want;
};

/* clang-format off */
static const struct odd_server odd_servers[] = {
    {"old", {{"INFO", "=redis_version:6.0.16\r\n"}}, false, true,
     " is too old: SET with NX and GET needs 7.0 or newer"},
    {"cluster", {{"INFO", "=redis_version:7.0.15\r\nredis_mode:cluster\r\n"}}, false, true,
     "Redis Cluster, which is not supported"},
    {"cluster of Valkey",
     {{"INFO", "=server_name:valkey\r\nvalkey_version:8.1.1\r\nserver_mode:cluster\r\n"}},
     false, true, "is part of a Redis Cluster, which is not supported"},
    {"no version", {{"INFO", "=a:b\n"}}, false, false, "does not tell a version"},
    {"info is no text", {{"INFO", ":1\r\n"}}, false, false, "the answer to INFO makes no sense"},
    {"no NX with GET", {{"SET", "-ERR syntax error\r\n"}}, false, true,
     "cannot SET with both NX and GET"},
    {"sentinel", {{"ROLE", "*2\r\n$8\r\nsentinel\r\n*0\r\n"}}, false, true, "is a Sentinel"},
    {"replica", {{"ROLE", "*1\r\n$5\r\nslave\r\n"}}, false, false, "is a replica"},
    {"role is empty", {{"ROLE", "*0\r\n"}}, false, false, "the answer to ROLE makes no sense"},
    {"time is short", {{"TIME", "*1\r\n:1\r\n"}}, false, false, "the answer to TIME makes no sense"},
    {"loading", {{"SCRIPT", "-LOADING Redis is loading\r\n"}}, false, false, "LOADING"},
    {"full house", {{"", "-ERR max number of clients reached\r\n"}}, false, false, "max number of"},
    {"protected", {{"", "-DENIED Redis is running in protected mode\r\n"}}, false, true, "DENIED"},
    {"no redis at all", {{"", "HTTP/1.1 400 Bad Request\r\n\r\n"}}, false, false,
     "(is it Redis that listens there?)"},
    {"hangs up", {{"", ""}}, false, false, "closed the connection"},
    {"echoes", {{"AUTH", "-ERR unknown command 'AUTH', with args beginning with: 's3cret'pass'\r\n"}},
     false, true, "unknown command 'AUTH'"},
    {"moved", {{"EVALSHA", "-MOVED 3999 127.0.0.1:6381\r\n"}}, true, false,
     "MOVED 3999 127.0.0.1:6381: Redis Cluster is not supported"},
    {"ask", {{"EVALSHA", "-ASK 3999 127.0.0.1:6381\r\n"}}, true, false, "Cluster is not supported"},
    {"masterdown", {{"EVALSHA", "-MASTERDOWN Link with MASTER is down\r\n"}}, true, false,
     "MASTERDOWN"},
    {"misconf", {{"EVALSHA", "-MISCONF Redis is configured to save\r\n"}}, true, false, "MISCONF"},
    {"busy", {{"EVALSHA", "-BUSY Redis is busy running a script\r\n"}}, true, false, "BUSY"},
    {"keeps forgetting", {{"EVALSHA", "-NOSCRIPT No matching script\r\n"}}, true, false,
     "NOSCRIPT"},
    {"too few answers", {{"EVALSHA", "*0\r\n"}}, true, false, "the answer to a batch makes no sense"},
    {"odd answers", {{"EVALSHA", "*1\r\n:3\r\n"}}, true, false, "makes no sense"},
    {"odd status", {{"EVALSHA", "+OK\r\n"}}, true, false, "makes no sense"},
    {"silent", {{"EVALSHA", NULL}}, true, false, "no answer within 200 ms"},
    {"half an answer", {{"EVALSHA", "*1\r\n$10\r\nabc"}}, true, false, "no answer within 200 ms"},
};
/* clang-format on */

static void meet(struct bench *b, const struct odd_server *odd)
{
    struct fake_redis *f = fake_redis_start(odd->rules, 0);
    print_message("           %s\n", odd->label);
    b->config.parsed.port = fake_redis_port(f);
    b->store = store_new(&b->config, "scope");
    if (odd->opens) {
        assert_opens(b);
        assert_claim_fails(b, odd->want);
    } else {
        assert_open_fails(b, odd->want, odd->permanent);
    }
    store_free(b->store);
    b->store = NULL;
    fake_redis_stop(f);
}

static void servers_of_all_kinds(void **state)
{
    struct bench *b = *state;
    b->config.timeout = 200;
    b->config.password = text_secret;
    for (size_t i = 0; i < sizeof odd_servers / sizeof *odd_servers; i++)
        meet(b, &odd_servers[i]);
}

static void valkey_is_welcome(void **state)
{
    static const struct fake_rule rules[] = {
        {"INFO", "=redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n"},
        {"SET", "-OOM command not allowed\r\n"}, /* it may be full just now */
        {NULL, NULL},
    };
    struct bench *b = *state;
    struct fake_redis *f = fake_redis_start(rules, 0);
    b->config.parsed.port = fake_redis_port(f);
    b->store = store_new(&b->config, "scope");
    assert_opens(b);
    assert_int_equal(strncmp(store_describe(b->store), "Valkey 8.1.1 at 127.0.0.1:", 26), 0);
    assert_in_range(store_now(b->store), 1700000000000, 1700000001000);
    store_close(b->store);
    fake_redis_stop(f);
}

/* Each byte comes in time, and all of them together do not. */
static void a_server_dribbles(void **state)
{
    static const struct fake_rule none[] = {{NULL, NULL}};
    struct bench *b = *state;
    struct fake_redis *f = fake_redis_start(none, 20);
    b->config.timeout = 300;
    b->config.parsed.port = fake_redis_port(f);
    b->store = store_new(&b->config, "scope");
    int64_t before = clock_now();
    assert_open_fails(b, "no answer within 300 ms", false);
    assert_in_range(clock_now() - before, 300, 600);
    fake_redis_stop(f);
}

/* clang-format off */
#define TEST(name, set_up_for) {#name, name, set_up_for, tear_down, NULL}
/* clang-format on */

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(entries_are_named_as_documented, set_up),
        TEST(a_database_is_selected, set_up),
        TEST(a_batch_is_one_round_trip, set_up),
        TEST(scripts_that_were_forgotten, set_up),
        TEST(records_that_were_forgotten, set_up),
        TEST(values_of_other_types, set_up),
        TEST(a_reply_is_lost, set_up),
        TEST(writes_are_paused, set_up),
        TEST(a_server_dies_and_comes_back, set_up),
        TEST(a_login_is_refused, set_up),
        TEST(a_full_memory, set_up),
        TEST(a_master_becomes_a_replica, set_up),
        TEST(too_few_replicas, set_up),
        TEST(settings_that_endanger, set_up),
        TEST(settings_that_are_hidden, set_up),
        TEST(evictions_are_told_once, set_up),
        TEST(replicas_that_may_lag, set_up_config),
        TEST(servers_of_all_kinds, set_up_config),
        TEST(valkey_is_welcome, set_up_config),
        TEST(a_server_dribbles, set_up_config),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("store: Redis", tests, NULL, NULL);
}
