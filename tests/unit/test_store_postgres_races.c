/*
 * Transactions of several at once in PostgreSQL, and batches that come to one key more than once.
 */
#include "clock.h"
#include "postgres_bench.h"
#include "store_backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Who has begun already ---- */

struct neighbour {
    struct postgres_server *server;
    const char *sql;
    long after;
};

/* Ends the transaction of the test's own connection while the store waits for it. */
static void *end_later(void *context)
{
    const struct neighbour *n = context;
    pause_ms(n->after);
    postgres_server_do(n->server, "%s", n->sql);
    return NULL;
}

/* While `begun` of somebody else is not yet ended by `end`, the op waits; then it is applied, or
 * has met a record of that claim. */
static void race(struct postgres_bench *b, const char *begun, const char *end, struct store_op op,
                 uint64_t want_claim)
{
    pthread_t thread;
    struct neighbour n = {.server = b->server, .sql = end, .after = 150};
    postgres_server_do(b->server, "BEGIN");
    postgres_server_do(b->server, "%s", begun);
    int64_t before = clock_now();
    assert_int_equal(pthread_create(&thread, NULL, end_later, &n), 0);
    apply(b->store, NULL, &op, 1);
    assert_true(clock_now() - before >= 100);
    pthread_join(thread, NULL);
    assert_int_equal(op.answer, want_claim ? STORE_MET : STORE_APPLIED);
    assert_int_equal(op.met.claim, want_claim);
}

#define ROW(claim) "'2P 1 1700000000000 t1 o" SESSION_B "." claim "', now() + interval '1 min'"
#define INSERT_ROW(key, claim) "INSERT INTO oo.records VALUES ('scope', '" key "', " ROW(claim) ")"
#define CHANGE_ROW(key, claim)                                                                     \
    "UPDATE oo.records SET (text, expires) = (" ROW(claim) ") WHERE key = '" key "'"
#define DROP_ROW(key) "DELETE FROM oo.records WHERE key = '" key "'"

static void who_was_faster_is_met(void **state)
{
    struct postgres_bench *b = *state;
    struct store_op claim = op_of("k", nothing, pending(SESSION_A, 1));
    race(b, INSERT_ROW("k", "7"), "COMMIT", claim, 7);
    assert_true(held(b->store, "k", NULL).claim == 7);
    claim.key = span_of("l");
    race(b, INSERT_ROW("l", "7"), "ROLLBACK", claim, 0);
    assert_true(held(b->store, "l", NULL).claim == 1);

    struct store_op change = op_of("k", pending(SESSION_B, 7), pending(SESSION_A, 2));
    race(b, CHANGE_ROW("k", "8"), "COMMIT", change, 8);
    change.expect = pending(SESSION_B, 8);
    race(b, CHANGE_ROW("k", "9"), "ROLLBACK", change, 0);
    assert_true(held(b->store, "k", NULL).claim == 2);

    /* It was there, and then it is not: then nothing is there. */
    change.expect = pending(SESSION_A, 2);
    change.write = pending(SESSION_A, 3);
    postgres_server_do(b->server, "BEGIN");
    postgres_server_do(b->server, DROP_ROW("k"));
    struct neighbour n = {.server = b->server, .sql = "COMMIT", .after = 150};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, end_later, &n), 0);
    apply(b->store, NULL, &change, 1);
    pthread_join(thread, NULL);
    assert_int_equal(change.answer, STORE_MET);
    assert_int_equal(change.met.now.state, RECORD_NONE);
}

struct waiter {
    struct store *store;
    struct store_op op;
    bool done;
};

static void *apply_later(void *context)
{
    struct waiter *w = context;
    w->done = store_apply(w->store, SESSION_A, &w->op, 1);
    return NULL;
}

/* Until somebody waits for a lock. */
static void await_waiting(struct postgres_bench *b)
{
    const char *ask = "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted";
    for (int i = 0; i < 1000 && *postgres_server_do(b->server, "%s", ask) != 't'; i++)
        pause_ms(10);
    assert_string_equal(postgres_server_do(b->server, "%s", ask), "t");
}

/* A batch that has passed its fence, and waits for a record, is waited for by whoever takes its
 * session over: he sees what it did. */
static void a_takeover_waits_for_the_late(void **state)
{
    struct postgres_bench *b = *state;
    const char *former[] = {SESSION_A};
    struct waiter w = {.store = opened_store(&b->config, "scope"),
                       .op = op_of("k", nothing, pending(SESSION_A, 1))};
    pthread_t thread;
    bool exists;
    assert_true(store_session_open(b->store, SESSION_A, MINUTE, NULL, 0, NULL, 0));
    postgres_server_do(b->server, "BEGIN");
    postgres_server_do(b->server, INSERT_ROW("k", "7"));
    assert_int_equal(pthread_create(&thread, NULL, apply_later, &w), 0);
    await_waiting(b);
    assert_true(store_session_renew(b->store, SESSION_A, MINUTE, &exists)); /* that one goes on */
    assert_true(exists);
    b->config.timeout = 300;
    assert_false(store_session_open(b->store, SESSION_B, MINUTE, former, 1, NULL, 0));
    assert_error(b->store, "no answer within 300 ms");
    postgres_server_do(b->server, "ROLLBACK");
    pthread_join(thread, NULL);
    assert_true(w.done);
    assert_int_equal(w.op.answer, STORE_APPLIED);
    store_free(w.store);
    pause_ms(200);
    b->config.timeout = 1500;
    assert_opens(b->store);
    struct store_move move = {.key = span_of("k"), .claim = pending(SESSION_A, 1), .ttl = MINUTE};
    assert_true(
        store_session_open(b->store, "cccccccccccccccccccccccc", MINUTE, former, 1, &move, 1));
    assert_true(move.moved);
}

static void who_never_ends_is_not_waited_for(void **state)
{
    struct postgres_bench *b = *state;
    postgres_server_do(b->server, "BEGIN");
    postgres_server_do(b->server, INSERT_ROW("k", "7"));
    b->config.timeout = 300;
    assert_opens(b->store);
    int64_t before = clock_now();
    assert_claim_fails(b->store, "no answer within 300 ms");
    assert_in_range(clock_now() - before, 300, 1400);
    postgres_server_do(b->server, "ROLLBACK");
}

/* ---- Keys in any order ---- */

enum { FIGHTERS = 4, FIGHT_KEYS = 60, FIGHT_ROUNDS = 80 };

struct fighter {
    pthread_t thread;
    struct store *store;
    unsigned seed;
    char session[SESSION_ID_LEN + 1];
    char keys[FIGHT_KEYS][16];
    uint64_t claims[FIGHT_KEYS]; /* the claim that it has on the key, or 0 */
    size_t wins;
    bool robbed; /* what it had was not there any more */
    char error[320];
};

/* Of each key: what it has, it releases; what it has not, it claims. */
static struct store_op fighters_op(const struct fighter *f, int key, uint64_t round)
{
    struct record mine = pending(f->session, f->claims[key]);
    if (f->claims[key])
        return op_of(f->keys[key], mine, nothing);
    return op_of(f->keys[key], nothing, pending(f->session, round));
}

static bool fight_round(struct fighter *f, uint64_t round)
{
    struct store_op ops[FIGHT_KEYS];
    int keys[FIGHT_KEYS] = {0};
    for (int i = 0; i < FIGHT_KEYS; i++) {
        int other = rand_r(&f->seed) % (i + 1); /* shuffled */
        keys[i] = keys[other];
        keys[other] = i;
    }
    for (int i = 0; i < FIGHT_KEYS; i++)
        ops[i] = fighters_op(f, keys[i], round);
    if (!store_apply(f->store, f->session, ops, FIGHT_KEYS))
        return false;
    for (int i = 0; i < FIGHT_KEYS; i++) {
        bool applied = ops[i].answer == STORE_APPLIED;
        f->robbed = f->robbed || (f->claims[keys[i]] && !applied);
        f->wins += applied && !f->claims[keys[i]];
        f->claims[keys[i]] = applied && !f->claims[keys[i]] ? round : 0;
    }
    return true;
}

static void *fight(void *context)
{
    struct fighter *f = context;
    for (int i = 0; i < FIGHT_KEYS; i++)
        snprintf(f->keys[i], sizeof f->keys[i], "key%d", i);
    for (uint64_t round = 1; round <= FIGHT_ROUNDS; round++)
        if (!fight_round(f, round))
            break;
    snprintf(f->error, sizeof f->error, "%s", store_error(f->store));
    return NULL;
}

static void nobody_deadlocks(void **state)
{
    struct postgres_bench *b = *state;
    struct fighter *fighters = xcalloc(FIGHTERS, sizeof *fighters);
    b->config.timeout = 10000;
    for (int i = 0; i < FIGHTERS; i++) {
        struct fighter *f = &fighters[i];
        snprintf(f->session, sizeof f->session, "%024d", i);
        f->seed = (unsigned)i + 1;
        f->store = opened_store(&b->config, "scope");
        assert_true(store_session_open(f->store, f->session, 300000, NULL, 0, NULL, 0));
    }
    for (int i = 0; i < FIGHTERS; i++)
        assert_int_equal(pthread_create(&fighters[i].thread, NULL, fight, &fighters[i]), 0);
    for (int i = 0; i < FIGHTERS; i++) {
        pthread_join(fighters[i].thread, NULL);
        assert_string_equal(fighters[i].error, "");
        assert_false(fighters[i].robbed);
        assert_true(fighters[i].wins > 0);
        store_free(fighters[i].store);
    }
    free(fighters);
}

/* ---- Equal keys ---- */

static struct record any_record(unsigned *seed)
{
    int which = rand_r(seed) % 4;
    return which == 0 ? nothing : pending(SESSION_A, (uint64_t)which);
}

static void assert_same_answers(const struct store_op *got, const struct store_op *want, int count)
{
    for (int i = 0; i < count; i++) {
        assert_int_equal(got[i].answer, want[i].answer);
        assert_true(record_equal(&got[i].met, &want[i].met));
    }
}

/* Whatever a batch does with few keys, the memory store, which goes op by op, does the same. */
static void batches_are_as_if_op_by_op(void **state)
{
    enum { BATCHES = 300, MOST = 12 };
    static const char *const keys[] = {"a", "b", "c"};
    struct postgres_bench *b = *state;
    struct store_config memory = {.name = text_name, .prefix = b->config.prefix, .timeout = 1000};
    memory.parsed.kind = STORE_MEMORY;
    struct store *model = store_new(&memory, "scope");
    bool permanent;
    unsigned seed = 1;
    store_memory_reset();
    assert_true(store_open(model, &permanent));
    for (int n = 0; n < BATCHES; n++) {
        struct store_op ops[MOST];
        struct store_op want[MOST];
        int count = rand_r(&seed) % MOST + 1;
        for (int i = 0; i < count; i++)
            ops[i] = op_of(keys[rand_r(&seed) % 3], any_record(&seed), any_record(&seed));
        memcpy(want, ops, sizeof ops);
        assert_true(store_apply(model, NULL, want, (size_t)count));
        if (!store_apply(b->store, NULL, ops, (size_t)count))
            fail_msg("%s", store_error(b->store));
        assert_same_answers(ops, want, count);
    }
    store_free(model);
}

#define TEST(name, set_up) cmocka_unit_test_setup_teardown(name, set_up, postgres_bench_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(who_was_faster_is_met, postgres_bench_set_up),
        TEST(a_takeover_waits_for_the_late, postgres_bench_set_up),
        TEST(who_never_ends_is_not_waited_for, postgres_bench_set_up),
        TEST(nobody_deadlocks, postgres_bench_set_up),
        TEST(batches_are_as_if_op_by_op, postgres_bench_set_up),
    };
    return cmocka_run_group_tests_name("store: PostgreSQL, races", tests, postgres_bench_start,
                                       postgres_bench_remove);
}
