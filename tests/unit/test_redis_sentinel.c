/*
 * The Redis store led by Sentinels that are down, silent, wrong, or behind; and wait_replicas, with
 * a real master and its replica. tests/fault/sentinel.sh has real Sentinels.
 */
#include "fake_redis.h"
#include "redis_server.h"
#include "store_case.h"

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

#define TIMEOUT 1800
#define LONG_TIMEOUT 9000 /* of which a part is more than a busy machine costs */
#define SENTINELS 3

static char text_prefix[] = "oo";
static char text_host[] = "127.0.0.1";
static char text_master[] = "mymaster";
static char text_user[] = "relay";

static const struct fake_rule healthy[] = {{NULL, NULL}};

struct bench {
    struct store_config config;
    struct store *store;
    struct fake_redis *sentinels[SENTINELS];
    struct fake_redis *master;
    struct fake_redis *other;
    struct redis_server servers[2];
    char address[64]; /* what a good Sentinel answers */
    struct fake_rule good[4];
};

/* ---- The bench ---- */

static void write_address(char out[64], int port)
{
    char digits[8];
    int len = snprintf(digits, sizeof digits, "%d", port);
    snprintf(out, 64, "*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%s\r\n", len, digits);
}

static int set_up(void **state)
{
    struct bench *b = xcalloc(1, sizeof *b);
    *state = b;
    b->config = (struct store_config){.name = text_name, .prefix = text_prefix, .timeout = TIMEOUT};
    b->config.parsed = (struct store_url){.kind = STORE_REDIS, .master = text_master};
    b->master = fake_redis_start(healthy, 0);
    write_address(b->address, fake_redis_port(b->master));
    b->good[0] = (struct fake_rule){"SENTINEL get-master-addr-by-name mymaster", b->address};
    return 0;
}

static void add_sentinel_at(struct bench *b, int port)
{
    struct store_url *url = &b->config.parsed;
    url->sentinels[url->sentinel_count++] = (struct host_port){text_host, port};
}

static void add_sentinel(struct bench *b, const struct fake_rule *rules)
{
    struct fake_redis *f = fake_redis_start(rules, 0);
    b->sentinels[b->config.parsed.sentinel_count] = f;
    add_sentinel_at(b, fake_redis_port(f));
}

static void remove_sentinels(struct bench *b)
{
    for (int i = 0; i < SENTINELS; i++) {
        if (b->sentinels[i])
            fake_redis_stop(b->sentinels[i]);
        b->sentinels[i] = NULL;
    }
    b->config.parsed.sentinel_count = 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    store_free(b->store);
    remove_sentinels(b);
    if (b->master)
        fake_redis_stop(b->master);
    if (b->other)
        fake_redis_stop(b->other);
    for (int i = 0; i < 2; i++)
        redis_server_remove(&b->servers[i]);
    free(b);
    return 0;
}

static void new_store(struct bench *b)
{
    store_free(b->store);
    b->store = store_new(&b->config, "scope");
}

static bool claims(struct bench *b, const char *key)
{
    struct store_op op = op_of(key, nothing, pending(SESSION_A, 1));
    bool done = store_apply(b->store, NULL, &op, 1);
    return done && op.answer == STORE_APPLIED;
}

/* ---- Sentinels ---- */

static void the_others_are_asked(void **state)
{
    static const struct fake_rule silent[] = {{"SENTINEL", NULL}, {NULL, NULL}};
    struct bench *b = *state;
    char want[96];
    add_sentinel_at(b, free_port()); /* nobody is there */
    add_sentinel(b, silent);
    add_sentinel(b, b->good);
    b->config.timeout = LONG_TIMEOUT;
    new_store(b);
    assert_string_equal(store_describe(b->store), "Redis, the master mymaster of the Sentinels");
    int64_t before = clock_now();
    assert_opens(b->store);
    assert_in_range(clock_now() - before, 0, LONG_TIMEOUT / 2);
    snprintf(want, sizeof want, "Redis 7.0.15 at 127.0.0.1:%d/0 (master mymaster of the Sentinels)",
             fake_redis_port(b->master));
    assert_string_equal(store_describe(b->store), want);
    assert_true(claims(b, "k"));
    /* The one that answered is asked first from now on. */
    before = clock_now();
    assert_opens(b->store);
    assert_in_range(clock_now() - before, 0, LONG_TIMEOUT / 7); /* a silent one takes a sixth */
}

/* Together they take no longer than a call may. */
static void all_are_silent(void **state)
{
    static const struct fake_rule silent[] = {{"SENTINEL", NULL}, {NULL, NULL}};
    struct bench *b = *state;
    for (int i = 0; i < SENTINELS; i++)
        add_sentinel(b, silent);
    new_store(b);
    int64_t before = clock_now();
    assert_open_fails(
        b->store, "no Sentinel tells where the master mymaster is; Sentinel at 127.0.0.1:", false);
    assert_error(b->store, "no answer within 30"); /* a third of the half */
    assert_in_range(clock_now() - before, TIMEOUT / 2 - 10, TIMEOUT);
}

struct odd_sentinel {
    const char *label;
    struct fake_rule rules[3];
    bool permanent; /* if all say so */
    const char *want;
};

#define ADDR "SENTINEL get-master-addr-by-name"

/* clang-format off */
static const struct odd_sentinel odd_sentinels[] = {
    {"unknown name", {{ADDR, "*-1\r\n"}, {"SENTINEL MASTERS", "*2\r\n*4\r\n$2\r\nip\r\n$1\r\nx\r\n$4\r\nname\r\n"
     "$3\r\none\r\n*2\r\n$4\r\nname\r\n$3\r\ntwo\r\n"}}, true, "does not know it, but one, two"},
    {"knows none", {{ADDR, "*-1\r\n"}, {"SENTINEL MASTERS", "*0\r\n"}}, true, "does not know it, but none"},
    {"knows nonsense", {{ADDR, "*-1\r\n"}, {"SENTINEL MASTERS", "*1\r\n:1\r\n"}}, true, "but none"},
    {"no sentinel", {{ADDR, "-ERR unknown command 'SENTINEL', with args beginning with: 'x'\r\n"}}, true,
     "is no Sentinel"},
    {"password", {{ADDR, "-NOAUTH Authentication required.\r\n"}}, true, "NOAUTH"},
    {"status", {{ADDR, "+OK\r\n"}}, false, "the answer to SENTINEL makes no sense"},
    {"one word", {{ADDR, "*1\r\n$1\r\nx\r\n"}}, false, "makes no sense"},
    {"no port", {{ADDR, "*2\r\n$1\r\nx\r\n$1\r\nx\r\n"}}, false, "makes no sense"},
    {"large port", {{ADDR, "*2\r\n$1\r\nx\r\n$5\r\n65536\r\n"}}, false, "makes no sense"},
    {"no host", {{ADDR, "*2\r\n$0\r\n\r\n$4\r\n6379\r\n"}}, false, "makes no sense"},
    {"no redis", {{"", "HTTP/1.1 400 Bad Request\r\n\r\n"}}, false, "Protocol error"},
    {"hangs up", {{"", ""}}, false, "closed the connection"},
};
/* clang-format on */

static void sentinels_of_all_kinds(void **state)
{
    struct bench *b = *state;
    for (size_t i = 0; i < sizeof odd_sentinels / sizeof *odd_sentinels; i++) {
        const struct odd_sentinel *odd = &odd_sentinels[i];
        print_message("           %s\n", odd->label);
        add_sentinel(b, odd->rules);
        new_store(b);
        assert_open_fails(b->store, odd->want, odd->permanent);
        /* Another one that knows makes it good. */
        add_sentinel(b, b->good);
        new_store(b);
        assert_opens(b->store);
        store_close(b->store);
        remove_sentinels(b);
    }
}

/* One that is away may know what the others do not. */
static void a_refusal_of_some_is_not_for_ever(void **state)
{
    static const struct fake_rule unknown[] = {{ADDR, "*-1\r\n"}, {NULL, NULL}};
    struct bench *b = *state;
    add_sentinel(b, unknown);
    add_sentinel_at(b, free_port());
    new_store(b);
    assert_open_fails(b->store, "does not know it", false);
    assert_error(b->store, "Connection refused");
}

static void sentinels_ask_for_a_login(void **state)
{
    struct bench *b = *state;
    b->good[1] = (struct fake_rule){"AUTH relay s3cret'pass", "+OK\r\n"};
    b->good[2] = (struct fake_rule){"AUTH", "-WRONGPASS invalid username-password pair\r\n"};
    add_sentinel(b, b->good);
    new_store(b);
    b->config.sentinel.username = text_user;
    b->config.sentinel.password = text_name;
    assert_open_fails(b->store, "WRONGPASS", true);
    b->config.sentinel.password = text_secret;
    assert_opens(b->store);
}

/* A Sentinel that has not heard of the failover names the old master. */
static void the_next_one_may_know_better(void **state)
{
    static const struct fake_rule replica[] = {{"ROLE", "*1\r\n$5\r\nslave\r\n"}, {NULL, NULL}};
    struct bench *b = *state;
    char address[64];
    struct fake_rule behind[] = {{ADDR, address}, {NULL, NULL}};
    b->other = fake_redis_start(replica, 0);
    write_address(address, fake_redis_port(b->other));
    add_sentinel(b, behind);
    add_sentinel(b, b->good);
    new_store(b);
    assert_open_fails(b->store, "is a replica, though a Sentinel calls it the master mymaster",
                      false);
    assert_opens(b->store);
    store_close(b->store);
    write_address(address, free_port());
    new_store(b);
    assert_open_fails(b->store, "Connection refused", false);
    assert_opens(b->store);
    store_close(b->store);
}

static void the_master_is_asked_for_at_every_connect(void **state)
{
    struct bench *b = *state;
    b->other = fake_redis_start(healthy, 0);
    add_sentinel(b, b->good);
    new_store(b);
    assert_opens(b->store);
    store_close(b->store);
    write_address(b->address, fake_redis_port(b->other));
    assert_opens(b->store);
    char *want = xasprintf("127.0.0.1:%d/", fake_redis_port(b->other));
    assert_non_null(strstr(store_describe(b->store), want));
    free(want);
    store_close(b->store);
}

/* ---- wait_replicas ---- */

static redisReply *ask(int port, const char *command)
{
    redisContext *c = redisConnect(text_host, port);
    redisReply *reply = c && !c->err ? redisCommand(c, command) : NULL;
    redisFree(c);
    if (!reply)
        fail_msg("%s", command);
    return reply;
}

/* Whether it keeps up. A master that had no replica before counts no writes, so the first WAIT may
 * be content with one that is only just coming. */
static bool has_replica(int port)
{
    redisContext *c = redisConnect(text_host, port);
    bool has = true;
    for (int i = 0; i < 2; i++) {
        redisReply *set = redisCommand(c, "SET ready %d", i);
        redisReply *wait = redisCommand(c, "WAIT 1 200");
        has = has && set && wait && wait->integer == 1;
        freeReplyObject(set);
        freeReplyObject(wait);
    }
    redisFree(c);
    return has;
}

/* A real master and its replica. */
static void start_pair(struct bench *b)
{
    char port[16];
    const char *const master[] = {"--repl-diskless-sync-delay", "0", NULL};
    const char *const replica[] = {"--replicaof", text_host, port, NULL};
    redis_server_create(&b->servers[0]);
    redis_server_start(&b->servers[0], master);
    snprintf(port, sizeof port, "%d", b->servers[0].port);
    redis_server_create(&b->servers[1]);
    redis_server_start(&b->servers[1], replica);
    for (int tries = 0; tries < 100 && !has_replica(b->servers[0].port); tries++)
        pause_ms(10);
    b->config.parsed.host = text_host;
    b->config.parsed.port = b->servers[0].port;
    b->config.parsed.master = NULL;
    b->config.wait_replicas = 1;
    new_store(b);
    assert_opens(b->store);
}

static void a_claim_counts_when_a_replica_has_it(void **state)
{
    struct bench *b = *state;
    start_pair(b);
    if (!store_session_open(b->store, SESSION_A, MINUTE, NULL, 0, NULL, 0))
        fail_msg("%s", store_error(b->store));
    assert_true(claims(b, "k"));
    redisReply *reply = ask(b->servers[1].port, "EXISTS oo:key:scope:k");
    assert_int_equal(reply->integer, 1);
    freeReplyObject(reply);
    /* Replies stay in step when the script has to be told again. */
    freeReplyObject(ask(b->servers[0].port, "SCRIPT FLUSH"));
    assert_true(claims(b, "k2"));
    assert_true(claims(b, "k3"));

    kill(b->servers[1].pid, SIGSTOP);
    int64_t before = clock_now();
    assert_false(claims(b, "k4"));
    assert_error(b->store, "0 of the 1 replicas that wait_replicas asks for have the last writes");
    assert_in_range(clock_now() - before, TIMEOUT * 3 / 4, TIMEOUT + 1000);
    assert_opens(b->store);
    assert_false(store_session_open(b->store, SESSION_B, MINUTE, NULL, 0, NULL, 0));
    assert_error(b->store, "0 of the 1 replicas");

    kill(b->servers[1].pid, SIGCONT);
    assert_opens(b->store);
    assert_false(claims(b, "k4")); /* it is there: only that the replica had it was unknown */
    assert_true(claims(b, "k5"));
    assert_true(store_is_open(b->store));
}

static void what_is_refused_is_the_reason(void **state)
{
    static const struct fake_rule refuses[] = {
        {"EVALSHA", "-READONLY You can't write against a read only replica.\r\n"},
        {"WAIT", "-ERR WAIT cannot be used with replica instances.\r\n"},
        {NULL, NULL}};
    static const struct fake_rule no_wait[] = {{"WAIT", "-ERR unknown command 'WAIT'\r\n"},
                                               {NULL, NULL}};
    static const struct {
        const struct fake_rule *rules;
        const char *want;
    } cases[] = {{refuses, "READONLY"}, {no_wait, "unknown command 'WAIT'"}};
    struct bench *b = *state;
    for (size_t i = 0; i < 2; i++) {
        struct fake_redis *f = fake_redis_start(cases[i].rules, 0);
        b->config.parsed =
            (struct store_url){.kind = STORE_REDIS, .host = text_host, .port = fake_redis_port(f)};
        b->config.wait_replicas = 1;
        new_store(b);
        assert_opens(b->store);
        assert_false(claims(b, "k"));
        assert_error(b->store, cases[i].want);
        fake_redis_stop(f);
    }
}

/* clang-format off */
#define TEST(name) {#name, name, set_up, tear_down, NULL}
/* clang-format on */

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_others_are_asked),
        TEST(all_are_silent),
        TEST(sentinels_of_all_kinds),
        TEST(a_refusal_of_some_is_not_for_ever),
        TEST(sentinels_ask_for_a_login),
        TEST(the_next_one_may_know_better),
        TEST(the_master_is_asked_for_at_every_connect),
        TEST(a_claim_counts_when_a_replica_has_it),
        TEST(what_is_refused_is_the_reason),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("store: Sentinels", tests, NULL, NULL);
}
