/* What a Redis server is warned about: what it may forget, evict, or not replicate in time. */
#include "fake_redis.h"
#include "redis_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

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
    struct redis_bench *b = *state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        redis_do(b->redis, "CONFIG SET %s %s", cases[i].settings[0], cases[i].settings[1]);
        assert_danger(b->store, cases[i].want);
    }
    redis_do(b->redis, "CONFIG SET appendonly no");
}

static void settings_that_are_hidden(void **state)
{
    struct redis_bench *b = *state;
    redis_do(b->redis, "CONFIG SET maxmemory-policy allkeys-lru");
    redis_do(b->redis, "ACL SETUSER relay on >%s ~* +@all -config", text_secret);
    b->config.username = text_user;
    b->config.password = text_secret;
    assert_opens(b->store);
    assert_danger(b->store, "maxmemory-policy is allkeys-lru");
    assert_danger(b->store, "every key if it makes none");
    assert_danger(b->store, "does not tell all");
    assert_claims(b->store, "k", STORE_APPLIED);
}

static void evictions_are_told_once(void **state)
{
    struct redis_bench *b = *state;
    redis_do(b->redis, "CONFIG SET appendonly yes");
    redis_do(b->redis, "CONFIG SET appendfsync always");
    for (int i = 0; i < 200; i++)
        redis_do(b->redis, "SET filler%d %0200d", i, i);
    assert_danger(b->store, NULL);
    redis_do(b->redis, "CONFIG SET maxmemory-policy allkeys-random");
    redis_do(b->redis, "CONFIG SET maxmemory 1");
    redisReply *reply = redisCommand(b->redis, "SET more 1");
    freeReplyObject(reply);
    redis_do(b->redis, "CONFIG SET maxmemory 0");
    redis_do(b->redis, "CONFIG SET maxmemory-policy noeviction");
    assert_danger(b->store, "has evicted");
    assert_danger(b->store, NULL);
    redis_do(b->redis, "CONFIG SET appendonly no");
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
    struct redis_bench *b = *state;
    struct fake_redis *f = fake_redis_start(rules, 0);
    redis_bench_meet(b, fake_redis_port(f));
    assert_opens(b->store);
    assert_danger(b->store,
                  "there are replicas (2), and wait_replicas and min-replicas-to-write are 0");
    b->config.wait_replicas = 3;
    assert_danger(b->store, "there are 2 replicas, and wait_replicas is 3");
    b->config.wait_replicas = 1;
    assert_danger(b->store,
                  "there are 2 replicas, and wait_replicas is 1: a master that is replaced");
    b->config.wait_replicas = 2;
    assert_danger(b->store, NULL);
    store_close(b->store);
    fake_redis_stop(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, redis_bench_set_up, redis_bench_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(settings_that_endanger),
        TEST(settings_that_are_hidden),
        TEST(evictions_are_told_once),
        cmocka_unit_test_setup_teardown(replicas_that_may_lag, redis_bench_set_up_config,
                                        redis_bench_tear_down),
    };
    return cmocka_run_group_tests_name("store: Redis, dangers", tests, NULL, NULL);
}
