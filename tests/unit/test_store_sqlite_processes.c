/*
 * What several processes do to each other that have one SQLite file: locks, races, and a process
 * that is killed.
 */
#include "clock.h"
#include "sqlite_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Locks ---- */

static void a_lock_is_waited_for_within_the_timeout(void **state)
{
    struct sqlite_bench *b = *state;
    struct store_op op = op_of("k", nothing, pending(SESSION_A, 1));
    assert_opens(b->store);
    run_sql(b, "BEGIN IMMEDIATE");
    int64_t began = clock_now();
    assert_false(store_apply(b->store, NULL, &op, 1));
    assert_in_range(clock_now() - began, 290, 2000);
    assert_says(store_error(b->store), "no answer within 300 ms: another process holds the lock");
    assert_false(store_is_open(b->store));
    run_sql(b, "COMMIT");
    assert_opens(b->store);
    assert_false(is_held(b->store, "k"));
    apply(b->store, NULL, &op, 1);
    assert_int_equal(op.answer, STORE_APPLIED);
}

static void who_reads_waits_for_nobody(void **state)
{
    struct sqlite_bench *b = *state;
    const char *id = SESSION_A;
    bool live;
    struct buffer result = {0};
    assert_opens(b->store);
    open_session(b->store, SESSION_A, MINUTE);
    claim(b->store, SESSION_A, "k");
    store_close(b->store);
    run_sql(b, "BEGIN IMMEDIATE; DELETE FROM \"oo{a}.b-c_records\"");
    b->config.timeout = 9000;
    int64_t began = clock_now();
    assert_opens(b->store);
    assert_true(is_held(b->store, "k"));
    assert_true(store_get_result(b->store, span_of("k"), &result));
    assert_true(store_sessions_live(b->store, &id, 1, &live));
    assert_true(live);
    assert_int_equal(count_held(b->store), 1);
    assert_true(clock_now() - began < b->config.timeout);
    run_sql(b, "ROLLBACK");
}

/* A transaction of another process that only reads keeps nobody from writing. */
static void who_writes_waits_for_no_reader(void **state)
{
    struct sqlite_bench *b = *state;
    assert_opens(b->store);
    open_session(b->store, SESSION_A, MINUTE);
    run_sql(b, "BEGIN; SELECT count(*) FROM \"oo{a}.b-c_records\"");
    assert_int_equal(claim(b->store, SESSION_A, "k"), STORE_APPLIED);
    run_sql(b, "COMMIT");
}

/* ---- Races ---- */

enum { RACERS = 4, RACE_KEYS = 800, RACE_BATCH = 20 };

/* Tells for each key whether it was won, a byte each. Every racer has its own order. */
static int race(struct sqlite_bench *b, int index, int out)
{
    bool won[RACE_KEYS] = {0};
    char keys[RACE_BATCH][16];
    struct store_op ops[RACE_BATCH];
    char id[SESSION_ID_LEN + 1];
    snprintf(id, sizeof id, "%024d", index);
    struct store *s = opened_store(&b->config, "scope");
    open_session(s, id, MINUTE);
    for (int at = 0; at < RACE_KEYS; at += RACE_BATCH) {
        for (int i = 0; i < RACE_BATCH; i++) {
            int key = index % 2 ? RACE_KEYS - 1 - at - i : at + i;
            snprintf(keys[i], sizeof keys[i], "%d", key);
            ops[i] = op_of(keys[i], nothing, pending(id, (uint64_t)key + 1));
        }
        apply(s, id, ops, RACE_BATCH);
        for (int i = 0; i < RACE_BATCH; i++)
            won[atoi(keys[i])] = ops[i].answer == STORE_APPLIED;
    }
    store_free(s);
    return write(out, won, sizeof won) == sizeof won ? 0 : 1;
}

/* All of them open, and make, the file at the same moment. */
static void each_key_has_one_winner_among_processes(void **state)
{
    struct sqlite_bench *b = *state;
    int pipes[RACERS][2];
    int winners[RACE_KEYS] = {0};
    b->config.timeout = 10000;
    for (int i = 0; i < RACERS; i++) {
        assert_int_equal(pipe(pipes[i]), 0);
        pid_t child = fork();
        if (child == 0)
            _exit(race(b, i, pipes[i][1]));
        close(pipes[i][1]);
    }
    for (int i = 0; i < RACERS; i++) {
        bool won[RACE_KEYS];
        size_t got = 0;
        ssize_t n;
        while ((n = read(pipes[i][0], won + got, sizeof won - got)) > 0)
            got += (size_t)n;
        assert_int_equal(got, sizeof won);
        for (int k = 0; k < RACE_KEYS; k++)
            winners[k] += won[k];
        close(pipes[i][0]);
    }
    for (int i = 0; i < RACERS; i++)
        wait(NULL);
    for (int k = 0; k < RACE_KEYS; k++)
        assert_int_equal(winners[k], 1);
}

/* Two processes, without a pause. */
static void the_log_stays_short_under_two_writers(void **state)
{
    struct sqlite_bench *b = *state;
    struct batch batch;
    int64_t longest = 0;
    int status;
    b->config.synchronous = SYNCHRONOUS_NORMAL;
    b->config.timeout = 10000;
    assert_opens(b->store);
    store_close(b->store);
    pid_t child = fork();
    assert_opens(b->store);
    for (int i = 0; i < 400; i++) {
        make_batch(&batch, SESSION_A, (child == 0 ? 1000 : 0) + i * 7919 % 1000);
        apply(b->store, NULL, batch.ops, BATCH);
        int64_t size = file_size(b, "-wal");
        longest = size > longest ? size : longest;
    }
    if (child == 0) {
        store_free(b->store);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_in_range(longest, 1, 24 << 20);
    assert_int_equal(count_held(b->store), 2 * 400 * BATCH);
}

/* ---- A killed process ---- */

/* Writes batches, and says which are done, until it is killed. */
static void write_for_ever(struct sqlite_bench *b, int first, int out)
{
    struct batch batch;
    struct store *s = opened_store(&b->config, "scope");
    for (int number = first;; number++) {
        make_batch(&batch, SESSION_A, number);
        apply(s, NULL, batch.ops, BATCH);
        if (write(out, &number, sizeof number) != sizeof number)
            _exit(1);
    }
}

static int kill_writer(struct sqlite_bench *b, int first, long ms)
{
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0)
        write_for_ever(b, first, pipes[1]);
    close(pipes[1]);
    int done = first - 1;
    assert_int_equal(read(pipes[0], &done, sizeof done), sizeof done);
    pause_ms(ms);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    int more;
    while (read(pipes[0], &more, sizeof more) == sizeof more)
        done = more;
    close(pipes[0]);
    return done;
}

static void a_killed_process_leaves_whole_batches(void **state)
{
    struct sqlite_bench *b = *state;
    int first = 0;
    for (int round = 0; round < 12; round++) {
        int done = kill_writer(b, first, 3 + 7 * round);
        assert_opens(b->store);
        for (int number = first; number <= done; number++)
            assert_int_equal(held_of_batch(b->store, number), BATCH);
        int last = held_of_batch(b->store, done + 1);
        assert_true(last == 0 || last == BATCH);
        assert_int_equal(held_of_batch(b->store, done + 2), 0);
        store_close(b->store);
        first = done + 2;
    }
    assert_int_equal(ask_sql(b, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
}

#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, sqlite_bench_set_up, sqlite_bench_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_lock_is_waited_for_within_the_timeout),
        TEST(who_reads_waits_for_nobody),
        TEST(who_writes_waits_for_no_reader),
        TEST(each_key_has_one_winner_among_processes),
        TEST(the_log_stays_short_under_two_writers),
        TEST(a_killed_process_leaves_whole_batches),
    };
    return cmocka_run_group_tests_name("store: sqlite, processes", tests, NULL, NULL);
}
