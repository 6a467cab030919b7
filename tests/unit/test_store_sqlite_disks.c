/* An SQLite file on a disk that is broken or full. */
#include "faulty_disk.h"
#include "sqlite_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

static int tear_down(void **state)
{
    faulty_disk_mend();
    return sqlite_bench_tear_down(state);
}

/* Whatever call of whatever kind fails: a batch is there or not, and if its call succeeded it is
 * there. */
static void break_batch(struct sqlite_bench *b, enum disk_call call, int after, int number)
{
    struct batch batch;
    assert_opens(b->store);
    make_batch(&batch, SESSION_A, number);
    faulty_disk_break(call, after, call == DISK_WRITE_LOG ? SQLITE_FULL : SQLITE_IOERR);
    bool good = store_apply(b->store, SESSION_A, batch.ops, BATCH);
    bool broken = faulty_disk_mend();
    assert_true(good || broken);
    if (!good)
        assert_says(store_error(b->store), call == DISK_WRITE_LOG ? "full" : "disk I/O error");
    store_close(b->store);
    assert_opens(b->store);
    int held = held_of_batch(b->store, number);
    assert_true(held == BATCH || (held == 0 && !good));
}

static void a_broken_disk_is_no_answer(void **state)
{
    struct sqlite_bench *b = *state;
    int number = 0;
    assert_opens(b->store);
    open_session(b->store, SESSION_A, MINUTE);
    for (int call = DISK_READ; call < DISK_CALL_COUNT; call++)
        for (int after = 0; after < 12; after++)
            break_batch(b, (enum disk_call)call, after, number++);
    assert_int_equal(ask_sql(b, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
}

static void what_the_log_did_not_take_fails(void **state)
{
    static const enum disk_call calls[] = {DISK_WRITE_LOG, DISK_SYNC_LOG};
    struct sqlite_bench *b = *state;
    assert_opens(b->store);
    open_session(b->store, SESSION_A, MINUTE);
    for (int i = 0; i < 2; i++) {
        struct batch batch;
        make_batch(&batch, SESSION_A, i);
        faulty_disk_break(calls[i], 0, i == 0 ? SQLITE_FULL : SQLITE_IOERR_FSYNC);
        assert_false(store_apply(b->store, SESSION_A, batch.ops, BATCH));
        assert_true(faulty_disk_mend());
        assert_says(store_error(b->store), i == 0 ? "disk is full" : "disk I/O error");
        assert_opens(b->store);
        assert_int_equal(held_of_batch(b->store, i), 0);
    }
}

/* Only the log is synced when a batch ends; and with synchronous: normal not even that. */
static void syncs_as_it_is_told(void **state)
{
    struct sqlite_bench *b = *state;
    b->config.synchronous = SYNCHRONOUS_NORMAL;
    assert_opens(b->store);
    open_session(b->store, SESSION_A, MINUTE);
    faulty_disk_break(DISK_SYNC_LOG, 0, SQLITE_IOERR_FSYNC);
    assert_int_equal(claim(b->store, SESSION_A, "k"), STORE_APPLIED);
    assert_false(faulty_disk_mend());
}

/* Writes until files may not get longer. 0: the last call failed, and everything before it stayed.
 */
static int fill_disk(struct sqlite_bench *b)
{
    const struct rlimit limit = {1 << 20, 1 << 20};
    struct batch batch;
    bool permanent;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    if (!store_open(b->store, &permanent))
        return 1;
    int number = 0;
    for (make_batch(&batch, SESSION_A, 0); store_apply(b->store, NULL, batch.ops, BATCH); number++)
        make_batch(&batch, SESSION_A, number + 1);
    if (number < 3 || !strstr(store_error(b->store), "File too large"))
        return 2;
    if (!store_open(b->store, &permanent))
        return 3;
    for (int i = 0; i < number; i++)
        if (held_of_batch(b->store, i) != BATCH)
            return 4;
    return held_of_batch(b->store, number) == 0 ? 0 : 5;
}

static void a_full_disk_keeps_what_was_written(void **state)
{
    assert_int_equal(in_child(*state, fill_disk), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, sqlite_bench_set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_broken_disk_is_no_answer),
        TEST(what_the_log_did_not_take_fails),
        TEST(syncs_as_it_is_told),
        TEST(a_full_disk_keeps_what_was_written),
    };
    faulty_disk_install();
    return cmocka_run_group_tests_name("store: sqlite, disks", tests, NULL, NULL);
}
