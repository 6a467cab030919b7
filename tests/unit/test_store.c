/*
 * The contract of store.h, for every kind of store: compare and set, what expires, and how a store
 * opens and closes. More of it is in test_store_list, test_store_results and test_store_sessions;
 * what only one kind can do wrong is in tests of their own.
 */
#include "clock.h"
#include "store_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Compare and set ---- */

static void a_new_key_is_claimed_once(void **state)
{
    struct store_bench *b = *state;
    open_session(b->store, SESSION_A, MINUTE);
    struct store_op op = apply_one(b->store, SESSION_A, "k", nothing, pending(SESSION_A, 1));
    assert_answer(op, STORE_APPLIED, nothing);
    op = apply_one(b->store, SESSION_A, "k", nothing, pending(SESSION_A, 2));
    assert_answer(op, STORE_MET, pending(SESSION_A, 1));
    assert_held(b->store, "k", pending(SESSION_A, 1));
}

static void what_is_expected_is_replaced(void **state)
{
    struct store_bench *b = *state;
    apply_one(b->store, NULL, "k", nothing, pending(SESSION_A, 1));
    struct store_op op = apply_one(b->store, NULL, "k", pending(SESSION_A, 1), forwarded(1));
    assert_answer(op, STORE_APPLIED, nothing);
    assert_held(b->store, "k", forwarded(1));
}

static void what_is_not_expected_stays(void **state)
{
    struct store_bench *b = *state;
    apply_one(b->store, NULL, "k", nothing, pending(SESSION_A, 1));
    struct store_op op = apply_one(b->store, NULL, "k", pending(SESSION_A, 2), forwarded(1));
    assert_answer(op, STORE_MET, pending(SESSION_A, 1));
    op = apply_one(b->store, NULL, "k", pending(SESSION_B, 1), nothing);
    assert_answer(op, STORE_MET, pending(SESSION_A, 1));
    assert_held(b->store, "k", pending(SESSION_A, 1));
    op = apply_one(b->store, NULL, "gone", pending(SESSION_A, 1), forwarded(1));
    assert_answer(op, STORE_MET, nothing);
    assert_held(b->store, "gone", nothing);
}

static void a_record_is_deleted(void **state)
{
    struct store_bench *b = *state;
    apply_one(b->store, NULL, "k", nothing, pending(SESSION_A, 1));
    struct store_op op = apply_one(b->store, NULL, "k", pending(SESSION_A, 1), nothing);
    assert_answer(op, STORE_APPLIED, nothing);
    assert_held(b->store, "k", nothing);
    op = apply_one(b->store, NULL, "k", pending(SESSION_A, 1), nothing);
    assert_answer(op, STORE_MET, nothing);
}

static void nothing_for_nothing_is_a_read(void **state)
{
    struct store_bench *b = *state;
    struct store_op op = apply_one(b->store, NULL, "k", nothing, nothing);
    assert_answer(op, STORE_APPLIED, nothing);
    apply_one(b->store, NULL, "k", nothing, forwarded(3));
    op = apply_one(b->store, NULL, "k", nothing, nothing);
    assert_answer(op, STORE_MET, forwarded(3));
}

static void ops_go_in_order(void **state)
{
    struct store_bench *b = *state;
    struct store_op ops[] = {
        op_of("k", nothing, pending(SESSION_A, 1)),
        op_of("k", nothing, pending(SESSION_A, 2)),
        op_of("k", pending(SESSION_A, 1), forwarded(1)),
        op_of("k", forwarded(1), nothing),
        op_of("k", nothing, forwarded(2)),
    };
    apply(b->store, NULL, ops, 5);
    assert_answer(ops[0], STORE_APPLIED, nothing);
    assert_answer(ops[1], STORE_MET, pending(SESSION_A, 1));
    assert_answer(ops[2], STORE_APPLIED, nothing);
    assert_answer(ops[3], STORE_APPLIED, nothing);
    assert_answer(ops[4], STORE_APPLIED, nothing);
    assert_held(b->store, "k", forwarded(2));
}

static void no_ops_are_fine(void **state)
{
    struct store_bench *b = *state;
    assert_true(store_apply(b->store, SESSION_A, NULL, 0));
    assert_true(store_sessions_live(b->store, NULL, 0, NULL));
}

static void large_batches(void **state)
{
    enum { COUNT = 5000 };
    struct store_bench *b = *state;
    struct store_op *ops = xcalloc(COUNT, sizeof *ops);
    char(*keys)[16] = xcalloc(COUNT, sizeof *keys);
    open_session(b->store, SESSION_A, MINUTE);
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(keys[i], sizeof keys[i], "key%zu", i);
        ops[i] = op_of(keys[i], nothing, pending(SESSION_A, i + 1));
    }
    apply(b->store, SESSION_A, ops, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(ops[i].answer, STORE_APPLIED);
    apply(b->store, SESSION_A, ops, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        assert_answer(ops[i], STORE_MET, pending(SESSION_A, i + 1));
    free(keys);
    free(ops);
}

static void awkward_keys_stay_apart(void **state)
{
    static const char *const keys[] = {"a",   "A",  "a:b",  "a b", "*",        "?",
                                       "[a]", "\\", "\r\n", "'",   "\xff\xfe", "scope:a"};
    enum { COUNT = COUNT(keys) };
    struct store_bench *b = *state;
    for (uint32_t i = 0; i < COUNT; i++)
        assert_answer(apply_one(b->store, NULL, keys[i], nothing, forwarded(i + 1)), STORE_APPLIED,
                      nothing);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_held(b->store, keys[i], forwarded(i + 1));

    char long_key[256];
    memset(long_key, 'x', 255);
    long_key[255] = '\0';
    apply_one(b->store, NULL, long_key, nothing, forwarded(1));
    long_key[254] = 'y';
    assert_held(b->store, long_key, nothing);
    long_key[254] = 'x';
    assert_held(b->store, long_key, forwarded(1));
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
    struct store_bench *b = *state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        put_raw(b, "odd", texts[i]);
        struct store_op ops[] = {
            op_of("odd", nothing, pending(SESSION_A, 1)), op_of("odd", forwarded(1), forwarded(2)),
            op_of("odd", forwarded(1), nothing),          op_of("odd", nothing, nothing),
            op_of("fine", nothing, forwarded(9)),         op_of("fine", forwarded(9), nothing),
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
    struct store_bench *b = *state;
    int64_t ttl;
    struct store_op op = op_of("k", nothing, pending(SESSION_A, 1));
    op.ttl = BRIEF;
    apply(b->store, NULL, &op, 1);
    assert_record(held(b->store, "k", &ttl), pending(SESSION_A, 1));
    assert_in_range(ttl, 1, BRIEF);
    pause_ms(BRIEF + 60);
    assert_held(b->store, "k", nothing);
    assert_answer(apply_one(b->store, NULL, "k", pending(SESSION_A, 1), forwarded(1)), STORE_MET,
                  nothing);
    assert_answer(apply_one(b->store, NULL, "k", nothing, pending(SESSION_A, 2)), STORE_APPLIED,
                  nothing);

    op = op_of("k", pending(SESSION_A, 2), forwarded(1));
    op.ttl = 5000;
    apply(b->store, NULL, &op, 1);
    assert_record(held(b->store, "k", &ttl), forwarded(1));
    assert_in_range(ttl, 4000, 5000);
}

static void the_clock_is_the_stores(void **state)
{
    struct store_bench *b = *state;
    bool exists;
    int64_t before = store_now(b->store);
    assert_true(llabs(before - clock_wall()) < 2000);
    pause_ms(30);
    assert_in_range(store_now(b->store) - before, 29, 2000);
    open_session(b->store, SESSION_A, MINUTE);
    assert_true(store_session_renew(b->store, SESSION_A, MINUTE, &exists));
    assert_true(llabs(store_now(b->store) - clock_wall()) < 2000);
}

/* ---- Being closed ---- */

static void a_closed_store_says_so(void **state)
{
    struct store_bench *b = *state;
    struct store_op op = op_of("k", nothing, forwarded(1));
    bool permanent;
    assert_true(store_is_open(b->store));
    store_close(b->store);
    assert_false(store_is_open(b->store));
    assert_false(store_apply(b->store, NULL, &op, 1));
    assert_non_null(strstr(store_error(b->store), "not open"));
    assert_false(store_session_end(b->store, SESSION_A));
    assert_true(store_open(b->store, &permanent));
    assert_string_equal(store_error(b->store), "");
    apply(b->store, NULL, &op, 1);
    assert_true(strlen(store_describe(b->store)) > 0);
    store_free(NULL);
}

static void records_outlive_the_connection(void **state)
{
    struct store_bench *b = *state;
    open_session(b->store, SESSION_A, MINUTE);
    apply_one(b->store, SESSION_A, "k", nothing, pending(SESSION_A, 1));
    store_free(b->store);
    b->store = opened_store(&b->config, "scope");
    assert_held(b->store, "k", pending(SESSION_A, 1));
    assert_true(lives(b->store, SESSION_A));
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
    struct store_bench *b = *state;
    struct racer *racers = xcalloc(RACERS, sizeof *racers);
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, RACERS);
    for (int i = 0; i < RACERS; i++) {
        snprintf(racers[i].session, sizeof racers[i].session, "%024d", i);
        racers[i].start = &start;
        racers[i].store = opened_store(&b->config, "scope");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(a_new_key_is_claimed_once),
        STORE_TEST(what_is_expected_is_replaced),
        STORE_TEST(what_is_not_expected_stays),
        STORE_TEST(a_record_is_deleted),
        STORE_TEST(nothing_for_nothing_is_a_read),
        STORE_TEST(ops_go_in_order),
        STORE_TEST(no_ops_are_fine),
        STORE_TEST(large_batches),
        STORE_TEST(awkward_keys_stay_apart),
        STORE_TEST(foreign_values_are_left_alone),
        STORE_TEST(records_expire),
        STORE_TEST(the_clock_is_the_stores),
        STORE_TEST(a_closed_store_says_so),
        STORE_TEST(records_outlive_the_connection),
        STORE_TEST(each_key_has_one_winner),
    };
    return STORE_BENCH_RUN(tests);
}
