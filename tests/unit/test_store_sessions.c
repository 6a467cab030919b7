/*
 * The contract of store.h, for every kind of store: sessions, the fence that they are, and what
 * moves from former sessions to the next one.
 */
#include "store_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Fences ---- */

static void assert_fenced(struct store_bench *b, const char *session)
{
    struct store_op ops[] = {
        op_of("new", nothing, pending(session, 1)),
        op_of("old", forwarded(1), nothing),
        op_of("old", nothing, nothing),
    };
    apply(b->store, session, ops, 3);
    for (int i = 0; i < 3; i++)
        assert_answer(ops[i], STORE_FENCED, nothing);
    assert_held(b->store, "new", nothing);
    assert_held(b->store, "old", forwarded(1));
}

static void no_session_no_effect(void **state)
{
    struct store_bench *b = *state;
    apply_one(b->store, NULL, "old", nothing, forwarded(1));
    assert_fenced(b, SESSION_A); /* never was */

    open_session(b->store, SESSION_A, 60);
    pause_ms(120);
    assert_fenced(b, SESSION_A); /* lapsed */

    open_session(b->store, SESSION_B, MINUTE);
    assert_answer(apply_one(b->store, SESSION_B, "old", nothing, nothing), STORE_MET, forwarded(1));
    assert_true(store_session_end(b->store, SESSION_B));
    assert_fenced(b, SESSION_B); /* ended */
    assert_true(store_session_end(b->store, SESSION_B));
}

/* ---- Sessions ---- */

static void a_session_is_created_once(void **state)
{
    struct store_bench *b = *state;
    bool permanent;
    open_session(b->store, SESSION_A, MINUTE);
    struct store *other = opened_store(&b->config, "scope");
    const char *former[] = {SESSION_B};
    open_session(other, SESSION_B, MINUTE);
    assert_false(store_session_open(other, SESSION_A, MINUTE, former, 1, NULL, 0));
    assert_non_null(strstr(store_error(other), SESSION_A));
    assert_false(store_is_open(other));
    assert_true(store_open(other, &permanent));
    assert_true(lives(other, SESSION_A));
    assert_true(lives(other, SESSION_B)); /* the step that failed did nothing */
    store_free(other);
}

static void renewal(void **state)
{
    struct store_bench *b = *state;
    bool exists;
    open_session(b->store, SESSION_A, 2 * BRIEF);
    pause_ms(BRIEF);
    assert_true(store_session_renew(b->store, SESSION_A, 3 * BRIEF, &exists));
    assert_true(exists);
    pause_ms(BRIEF + 60); /* for longer than without the renewal */
    assert_true(lives(b->store, SESSION_A));
    pause_ms(2 * BRIEF);
    assert_true(store_session_renew(b->store, SESSION_A, 3 * BRIEF, &exists));
    assert_false(exists);
    assert_false(lives(b->store, SESSION_A)); /* it stays gone */
    assert_true(store_session_renew(b->store, SESSION_C, 3 * BRIEF, &exists));
    assert_false(exists);
}

static void which_sessions_live(void **state)
{
    struct store_bench *b = *state;
    const char *ids[] = {SESSION_D, SESSION_A, SESSION_C, SESSION_B, SESSION_A};
    bool live[5];
    open_session(b->store, SESSION_A, MINUTE);
    open_session(b->store, SESSION_B, MINUTE);
    assert_true(store_sessions_live(b->store, ids, 5, live));
    assert_false(live[0]);
    assert_true(live[1]);
    assert_false(live[2]);
    assert_true(live[3]);
    assert_true(live[4]);
}

/* ---- Moves ---- */

static struct store_move move_of(const char *key, struct record claim)
{
    return (struct store_move){.key = span_of(key), .claim = claim, .ttl = 30000};
}

static void records_move_to_the_next_session(void **state)
{
    struct store_bench *b = *state;
    const char *former[] = {SESSION_A, SESSION_B};
    struct record doubtful = pending(SESSION_A, 4);
    doubtful.now.in_doubt = true;
    open_session(b->store, SESSION_A, MINUTE);
    open_session(b->store, SESSION_B, MINUTE);
    struct store_op ops[] = {
        op_of("of a", nothing, pending(SESSION_A, 1)),
        op_of("of b", nothing, pending(SESSION_B, 2)),
        op_of("of d", nothing, pending(SESSION_D, 3)),
        op_of("doubtful", nothing, doubtful),
        op_of("recorded", nothing, forwarded(1)),
        op_of("other claim", nothing, pending(SESSION_A, 66)),
    };
    apply(b->store, NULL, ops, 6);
    put_raw(b, "foreign", "x");

    struct store_move moves[] = {
        move_of("of a", pending(SESSION_D, 1)),     move_of("of b", pending("", 2)),
        move_of("of d", pending(SESSION_A, 3)),     move_of("doubtful", pending(SESSION_A, 4)),
        move_of("recorded", pending(SESSION_A, 5)), move_of("other claim", pending(SESSION_A, 6)),
        move_of("gone", pending(SESSION_A, 7)),     move_of("foreign", pending(SESSION_A, 8)),
        move_of("of a", pending(SESSION_A, 1)),
    };
    assert_true(store_session_open(b->store, SESSION_C, MINUTE, former, 2, moves, 9));
    const struct record met[] = {nothing,  nothing,      pending(SESSION_D, 3),
                                 doubtful, forwarded(1), pending(SESSION_A, 66),
                                 nothing,  nothing,      pending(SESSION_C, 1)};
    for (int i = 0; i < 9; i++) {
        assert_int_equal(moves[i].moved, i < 2);
        assert_record(moves[i].met, met[i]);
    }
    int64_t ttl;
    assert_record(held(b->store, "of a", &ttl), pending(SESSION_C, 1));
    assert_in_range(ttl, 20000, 30000);
    assert_held(b->store, "of b", pending(SESSION_C, 2));
    assert_held(b->store, "doubtful", doubtful);
    assert_true(lives(b->store, SESSION_C));
    assert_false(lives(b->store, SESSION_A));
    assert_false(lives(b->store, SESSION_B));
}

static void nothing_moves_without_former_sessions(void **state)
{
    struct store_bench *b = *state;
    apply_one(b->store, NULL, "k", nothing, pending(SESSION_A, 1));
    struct store_move move = move_of("k", pending(SESSION_A, 1));
    assert_true(store_session_open(b->store, SESSION_B, MINUTE, NULL, 0, &move, 1));
    assert_false(move.moved);
    assert_record(move.met, pending(SESSION_A, 1));
}

static void many_moves_from_many_sessions(void **state)
{
    enum { COUNT = 2000 };
    struct store_bench *b = *state;
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
    assert_true(
        store_session_open(b->store, SESSION_C, MINUTE, former, STORE_FORMER_MAX, moves, COUNT));
    for (size_t i = 0; i < COUNT; i++)
        assert_true(moves[i].moved);
    assert_held(b->store, keys[1999], pending(SESSION_C, 1999));
    free(keys);
    free(moves);
    free(ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(no_session_no_effect),
        STORE_TEST(a_session_is_created_once),
        STORE_TEST(renewal),
        STORE_TEST(which_sessions_live),
        STORE_TEST(records_move_to_the_next_session),
        STORE_TEST(nothing_moves_without_former_sessions),
        STORE_TEST(many_moves_from_many_sessions),
    };
    return STORE_BENCH_RUN(tests);
}
