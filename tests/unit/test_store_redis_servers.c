/*
 * The Redis store at servers that are something else than it expects, and answer what makes no
 * sense, or too slowly.
 */
#include "clock.h"
#include "fake_redis.h"
#include "redis_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

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
    {"silent", {{"EVALSHA", NULL}}, true, false, "no answer within 900 ms"},
    {"half an answer", {{"EVALSHA", "*1\r\n$10\r\nabc"}}, true, false, "no answer within 900 ms"},
};
/* clang-format on */

static void meet(struct redis_bench *b, const struct odd_server *odd)
{
    struct fake_redis *f = fake_redis_start(odd->rules, 0);
    print_message("           %s\n", odd->label);
    redis_bench_meet(b, fake_redis_port(f));
    if (odd->opens) {
        assert_opens(b->store);
        assert_claim_fails(b->store, odd->want);
    } else {
        assert_open_fails(b->store, odd->want, odd->permanent);
    }
    store_free(b->store);
    b->store = NULL;
    fake_redis_stop(f);
}

static void servers_of_all_kinds(void **state)
{
    struct redis_bench *b = *state;
    b->config.timeout = 900;
    b->config.password = text_secret;
    for (size_t i = 0; i < COUNT(odd_servers); i++)
        meet(b, &odd_servers[i]);
}

static void valkey_is_welcome(void **state)
{
    static const struct fake_rule rules[] = {
        {"INFO", "=redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n"},
        {"SET", "-OOM command not allowed\r\n"}, /* it may be full just now */
        {NULL, NULL},
    };
    struct redis_bench *b = *state;
    struct fake_redis *f = fake_redis_start(rules, 0);
    redis_bench_meet(b, fake_redis_port(f));
    assert_opens(b->store);
    assert_int_equal(strncmp(store_describe(b->store), "Valkey 8.1.1 at 127.0.0.1:", 26), 0);
    assert_in_range(store_now(b->store), 1700000000000, 1700000001000);
    store_close(b->store);
    fake_redis_stop(f);
}

/* Each byte comes in time, and all of them together do not. */
static void a_server_dribbles(void **state)
{
    static const struct fake_rule none[] = {{NULL, NULL}};
    struct redis_bench *b = *state;
    struct fake_redis *f = fake_redis_start(none, 20);
    b->config.timeout = 300;
    redis_bench_meet(b, fake_redis_port(f));
    int64_t before = clock_now();
    assert_open_fails(b->store, "no answer within 300 ms", false);
    assert_in_range(clock_now() - before, 300, 2000);
    fake_redis_stop(f);
}

#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, redis_bench_set_up_config, redis_bench_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(servers_of_all_kinds),
        TEST(valkey_is_welcome),
        TEST(a_server_dribbles),
    };
    return cmocka_run_group_tests_name("store: Redis, servers", tests, NULL, NULL);
}
