/* A Redis server that stands still, dies, or refuses what the store asks for. */
#include "clock.h"
#include "redis_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <signal.h>

/* ---- No answers ---- */

/* The server stands still with the batch in its buffer, and carries it out afterwards. */
static void a_reply_is_lost(void **state)
{
    struct redis_bench *b = *state;
    b->config.timeout = 150;
    int64_t before = clock_now();
    kill(b->server.pid, SIGSTOP);
    assert_claim_fails(b->store, "no answer within 150 ms");
    assert_in_range(clock_now() - before, 150, 900);
    kill(b->server.pid, SIGCONT);
    pause_ms(50);
    b->config.timeout = 1000;
    assert_opens(b->store);
    struct store_op op = {.key = span_of("k")};
    assert_true(store_apply(b->store, NULL, &op, 1));
    assert_int_equal(op.answer, STORE_MET);
    assert_true(op.met.claim == 1);
}

/* A server that lets writes wait drops those of a connection that was closed meanwhile. */
static void writes_are_paused(void **state)
{
    struct redis_bench *b = *state;
    b->config.timeout = 150;
    redis_do(b->redis, "CLIENT PAUSE 60000 WRITE");
    assert_claim_fails(b->store, "no answer within 150 ms");
    assert_open_fails(b->store, "no answer within 150 ms", false);
    redis_do(b->redis, "CLIENT UNPAUSE");
    b->config.timeout = 1000;
    assert_opens(b->store);
    assert_claims(b->store, "k", STORE_APPLIED);
}

static void a_server_dies_and_comes_back(void **state)
{
    struct redis_bench *b = *state;
    assert_claims(b->store, "k", STORE_APPLIED);
    redis_bench_kill(b);
    assert_claim_fails(b->store, "closed the connection");
    assert_claim_fails(b->store, "closed the connection"); /* still the reason */
    assert_open_fails(b->store, "Connection refused", false);
    redis_bench_start(b);
    assert_opens(b->store);
    assert_claims(b->store, "k", STORE_APPLIED);
}

/* ---- Refusals ---- */

static void a_login_is_refused(void **state)
{
    struct redis_bench *b = *state;
    b->config.password = text_secret;
    assert_open_fails(b->store, "without any password", true);
    redis_do(b->redis, "CONFIG SET requirepass %s", text_secret);
    b->config.password = NULL;
    assert_open_fails(b->store, "NOAUTH", true);
    b->config.password = text_wrong;
    assert_open_fails(b->store, "WRONGPASS", true);
    b->config.parsed.password = text_secret; /* the URL's yields */
    assert_open_fails(b->store, "WRONGPASS", true);
    b->config.password = NULL;
    assert_opens(b->store);
    b->config.username = text_user;
    assert_open_fails(b->store, "WRONGPASS", true);
    redis_do(b->redis, "ACL SETUSER relay on >%s ~oo:* +@all", text_secret);
    assert_opens(b->store);
    assert_claims(b->store, "k", STORE_APPLIED);
    redis_do(b->redis, "ACL SETUSER relay resetkeys ~other:*");
    assert_claim_fails(b->store, "NOPERM");
    assert_open_fails(b->store, "NOPERM", true);
}

static void a_full_memory(void **state)
{
    struct redis_bench *b = *state;
    assert_claims(b->store, "old", STORE_APPLIED);
    redis_do(b->redis, "CONFIG SET maxmemory 1");
    assert_claim_fails(b->store, "OOM");
    /* Releasing is still possible: it frees memory. */
    assert_opens(b->store);
    struct store_op op = {.key = span_of("old"), .expect = pending(SESSION_A, 1)};
    assert_true(store_apply(b->store, NULL, &op, 1));
    assert_int_equal(op.answer, STORE_APPLIED);
    assert_false(store_session_open(b->store, SESSION_A, MINUTE, NULL, 0, NULL, 0));
    assert_error(b->store, "OOM");
    redis_do(b->redis, "CONFIG SET maxmemory 0");
    assert_opens(b->store);
    assert_claims(b->store, "k", STORE_APPLIED);
}

static void a_master_becomes_a_replica(void **state)
{
    struct redis_bench *b = *state;
    redis_do(b->redis, "REPLICAOF 127.0.0.1 1");
    assert_claim_fails(b->store, "READONLY");
    assert_open_fails(b->store, "is a replica", false);
    redis_do(b->redis, "REPLICAOF NO ONE");
    assert_opens(b->store);
    assert_claims(b->store, "k", STORE_APPLIED);
}

static void too_few_replicas(void **state)
{
    struct redis_bench *b = *state;
    redis_do(b->redis, "CONFIG SET min-replicas-to-write 1");
    assert_claim_fails(b->store, "NOREPLICAS");
    redis_do(b->redis, "CONFIG SET min-replicas-to-write 0");
    assert_opens(b->store);
    assert_claims(b->store, "k", STORE_APPLIED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, redis_bench_set_up, redis_bench_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_reply_is_lost),    TEST(writes_are_paused), TEST(a_server_dies_and_comes_back),
        TEST(a_login_is_refused), TEST(a_full_memory),     TEST(a_master_becomes_a_replica),
        TEST(too_few_replicas),
    };
    return cmocka_run_group_tests_name("store: Redis, outages", tests, NULL, NULL);
}
