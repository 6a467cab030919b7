/*
 * A PostgreSQL server that dies, stands still, carries out late what it was asked, or is followed
 * by its standby.
 */
#include "clock.h"
#include "postgres_bench.h"
#include "redis_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void a_server_dies_and_comes_back(void **state)
{
    struct postgres_bench *b = *state;
    assert_claims(b->store, "k", STORE_APPLIED);
    postgres_server_kill(b->server);
    /* It closed, or its child had time to say that it was terminating, the connection. */
    assert_claim_fails(b->store, " connection");
    assert_claim_fails(b->store, " connection"); /* still the reason */
    assert_open_fails(b->store, "Connection refused", false);
    postgres_server_start(b->server);
    assert_opens(b->store);
    assert_claims(b->store, "k", STORE_MET);
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
    struct postgres_bench *b = *state;
    pid_t backend = backend_of_store(b);
    postgres_server_do(b->server, "SELECT pg_terminate_backend(%d)", backend);
    await_end(backend);
    assert_claim_fails(b->store, "terminating connection due to administrator command");
    assert_opens(b->store);
    assert_claims(b->store, "k", STORE_APPLIED);
}

/* The server stands still with the batch in its buffer, and carries it out afterwards. */
static void an_answer_is_lost(void **state)
{
    struct postgres_bench *b = *state;
    b->config.timeout = 300;
    int64_t before = clock_now();
    postgres_server_signal(b->server, SIGSTOP);
    assert_claim_fails(b->store, "no answer within 300 ms");
    assert_in_range(clock_now() - before, 300, 1400);
    before = clock_now();
    assert_open_fails(b->store, "no answer within 300 ms", false);
    assert_in_range(clock_now() - before, 300, 1400);
    postgres_server_signal(b->server, SIGCONT);
    b->config.timeout = 1500;
    assert_opens(b->store);
    for (int i = 0; i < 1000 && held(b->store, "k", NULL).now.state == RECORD_NONE; i++)
        pause_ms(10);
    assert_claims(b->store, "k", STORE_MET);
}

/* As above, but the session has been taken over before the late batch is carried out. */
static void a_late_batch_is_fenced(void **state)
{
    struct postgres_bench *b = *state;
    const char *former[] = {SESSION_A};
    assert_true(store_session_open(b->store, SESSION_A, MINUTE, NULL, 0, NULL, 0));
    pid_t backend = backend_of_store(b);
    b->config.timeout = 300;
    kill(backend, SIGSTOP);
    struct store_op op = op_of("k", nothing, pending(SESSION_A, 1));
    assert_false(store_apply(b->store, SESSION_A, &op, 1));
    b->config.timeout = 1500;
    assert_opens(b->store);
    struct store_move move = {.key = span_of("k"), .claim = pending(SESSION_A, 1), .ttl = MINUTE};
    assert_true(store_session_open(b->store, SESSION_B, MINUTE, former, 1, &move, 1));
    assert_false(move.moved);
    assert_int_equal(move.met.now.state, RECORD_NONE);
    kill(backend, SIGCONT);
    await_end(backend); /* it has read all */
    assert_int_equal(held(b->store, "k", NULL).now.state, RECORD_NONE);
}

/* A server that takes connections and says nothing is passed over the next time. */
static void a_host_is_silent(void **state)
{
    struct postgres_bench *b = *state;
    char url[160];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 8), 0);
    getsockname(fd, (struct sockaddr *)&address, &size);
    snprintf(url, sizeof url,
             "postgresql://onlyonce@127.0.0.1:%d,localhost:%d,127.0.0.1:%d/postgres",
             ntohs(address.sin_port), free_port(), b->server->port);
    use_url(b, url);
    b->config.timeout = 400;
    assert_open_fails(b->store, "no answer within 400 ms", false);
    b->config.timeout = 1500;
    assert_opens(b->store);
    assert_claims(b->store, "k", STORE_APPLIED);
    close(fd);
}

static int standbys(struct postgres_bench *b)
{
    return atoi(postgres_server_do(b->server, "SELECT count(*) FROM pg_stat_replication"
                                              " WHERE state = 'streaming'"));
}

static void a_failover_is_followed(void **state)
{
    struct postgres_bench *b = *state;
    char url[160];
    struct postgres_server standby;
    assert_claims(b->store, "old", STORE_APPLIED);
    postgres_server_create_standby(&standby, b->server);
    for (int i = 0; i < 100 && standbys(b) == 0; i++)
        pause_ms(50);
    assert_danger(b->store, "there are standbys (1), and synchronous_standby");

    use_url(b, standby.url);
    assert_open_fails(b->store, "is a standby", false);
    snprintf(url, sizeof url, "postgresql://onlyonce@127.0.0.1:%d,127.0.0.1:%d/postgres",
             standby.port, b->server->port);
    use_url(b, url);
    assert_opens(b->store);
    assert_claims(b->store, "old", STORE_MET);
    postgres_server_kill(b->server);
    assert_claim_fails(b->store, " connection");
    assert_open_fails(b->store, "read-only", false);
    postgres_server_do(&standby, "SELECT pg_promote()");
    assert_opens(b->store);
    assert_claims(b->store, "old", STORE_MET);
    assert_claims(b->store, "new", STORE_APPLIED);
    store_close(b->store);
    postgres_server_remove(&standby);
    postgres_server_start(b->server);
}

#define TEST(name, set_up) cmocka_unit_test_setup_teardown(name, set_up, postgres_bench_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_server_dies_and_comes_back, postgres_bench_set_up),
        TEST(a_connection_is_ended, postgres_bench_set_up),
        TEST(an_answer_is_lost, postgres_bench_set_up),
        TEST(a_late_batch_is_fenced, postgres_bench_set_up),
        TEST(a_host_is_silent, postgres_bench_set_up_empty),
        TEST(a_failover_is_followed, postgres_bench_set_up),
    };
    return cmocka_run_group_tests_name("store: PostgreSQL, outages", tests, postgres_bench_start,
                                       postgres_bench_remove);
}
