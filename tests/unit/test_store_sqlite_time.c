/*
 * An SQLite file as time goes by: what expires, and is swept. Time is the real one, moved at will.
 */
#include "clock.h"
#include "sqlite_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <time.h>

/* ---- The clock, in place of src/clock.c ---- */

static int64_t moved;   /* ms, of the wall clock */
static int64_t stopped; /* where it stands; 0: it runs */

static int64_t read_clock(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t clock_now(void)
{
    return read_clock(CLOCK_BOOTTIME);
}

int64_t clock_wall(void)
{
    return (stopped ? stopped : read_clock(CLOCK_REALTIME)) + moved;
}

static int set_up(void **state)
{
    moved = 0;
    stopped = 0;
    return sqlite_bench_set_up(state);
}

/* ---- The tests ---- */

static void a_clock_set_forward_ends_sessions(void **state)
{
    struct sqlite_bench *b = *state;
    bool exists;
    assert_opens(b->store);
    open_session(b->store, SESSION_A, MINUTE);
    claim(b->store, SESSION_A, "k");
    moved = MINUTE - 1000;
    assert_int_equal(claim(b->store, SESSION_A, "k"), STORE_MET);
    moved = MINUTE + 1000;
    assert_int_equal(claim(b->store, SESSION_A, "l"), STORE_FENCED);
    assert_true(store_session_renew(b->store, SESSION_A, MINUTE, &exists));
    assert_false(exists);
    open_session(b->store, SESSION_B, MINUTE);
    assert_int_equal(claim(b->store, SESSION_B, "k"), STORE_APPLIED); /* its time is over, too */
    moved = 0;
    assert_true(store_session_renew(b->store, SESSION_B, MINUTE, &exists));
    assert_true(exists); /* set back: it lives longer */
    assert_int_equal(claim(b->store, SESSION_B, "k"), STORE_MET);
    assert_true(llabs(store_now(b->store) - clock_wall()) < 1000);
}

/* A minute's windows, and 200 keys each second, for three minutes. */
static void under_a_constant_load_the_file_stops_growing(void **state)
{
    struct sqlite_bench *b = *state;
    struct batch batch;
    int64_t after_two = 0;
    stopped = clock_wall();
    b->config.synchronous = SYNCHRONOUS_NORMAL;
    assert_opens(b->store);
    for (int second = 0; second < 180; second++) {
        for (int i = 0; i < 4; i++) {
            make_batch(&batch, SESSION_A, 4 * second + i);
            apply(b->store, NULL, batch.ops, BATCH);
        }
        moved += 1000;
        if (second == 120)
            after_two = ask_sql(b, "PRAGMA page_count");
    }
    assert_in_range(ask_sql(b, "PRAGMA page_count"), 1, after_two * 21 / 20);
    assert_int_equal(count_held(b->store), 59 * 200);
    assert_in_range(ask_sql(b, "SELECT count(*) FROM \"oo{a}.b-c_records\""), 1, 61 * 200);
    assert_in_range(file_size(b, "-wal"), 0, 20 << 20);
}

static void complete(struct store *s, const char *key)
{
    struct record done = {.now = {.state = RECORD_COMPLETED,
                                  .number = 1,
                                  .first_seen = 1700000000000,
                                  .since = 1700000000002,
                                  .ends = 1700000090000,
                                  .completed = 1700000000003,
                                  .has_result = true}};
    struct store_op op = op_of(key, pending(SESSION_A, 1), done);
    if (!store_complete(s, &op, span_of("{}")))
        fail_msg("%s", store_error(s));
    assert_int_equal(op.answer, STORE_APPLIED);
}

static void an_idle_relay_empties_the_file(void **state)
{
    struct sqlite_bench *b = *state;
    struct batch batch;
    bool exists;
    assert_opens(b->store);
    open_session(b->store, SESSION_A, MINUTE);
    for (int i = 0; i < 10; i++) {
        make_batch(&batch, SESSION_A, i);
        apply(b->store, SESSION_A, batch.ops, BATCH);
    }
    complete(b->store, "1-0");
    moved = MINUTE + 1000;
    open_session(b->store, SESSION_B, MINUTE);
    assert_int_equal(ask_sql(b, "SELECT count(*) FROM \"oo{a}.b-c_sessions\""), 1);
    for (int i = 0; i < 3; i++)
        assert_true(store_session_renew(b->store, SESSION_B, MINUTE, &exists));
    assert_int_equal(ask_sql(b, "SELECT count(*) FROM \"oo{a}.b-c_records\""), 0);
    assert_int_equal(ask_sql(b, "SELECT count(*) FROM \"oo{a}.b-c_results\""), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, sqlite_bench_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_clock_set_forward_ends_sessions),
        TEST(under_a_constant_load_the_file_stops_growing),
        TEST(an_idle_relay_empties_the_file),
    };
    return cmocka_run_group_tests_name("store: sqlite, time", tests, NULL, NULL);
}
