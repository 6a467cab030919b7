/*
 * The contract of store.h, for every kind of store: completing records, and the results that are
 * kept beside them.
 */
#include "redis_bench.h"
#include "store_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>

static struct record completed(struct record r, bool has_result)
{
    if (r.now.state == RECORD_FORWARDED)
        r.now.state = RECORD_COMPLETED;
    r.now.completed = 1700000000009;
    r.now.has_result = has_result;
    return r;
}

static enum store_answer complete(struct store_bench *b, struct store_op op, struct span result)
{
    struct record met = op.met;
    if (!store_complete(b->store, &op, result))
        fail_msg("%s", store_error(b->store));
    assert_record(op.met, op.answer == STORE_MET ? met : nothing);
    return op.answer;
}

static void assert_result(struct store *s, const char *key, struct span want)
{
    struct buffer got = {0};
    assert_true(store_get_result(s, span_of(key), &got));
    assert_int_equal(got.len, want.len);
    assert_true(span_equal(buffer_span(&got), want));
    buffer_free(&got);
}

static void a_result_is_kept_beside_its_record(void **state)
{
    static const uint8_t odd[] = {'"', 0, 0xff, '\r', '\n', '"', ' '};
    struct store_bench *b = *state;
    uint8_t most[STORE_RESULT_MAX];
    for (size_t i = 0; i < sizeof most; i++)
        most[i] = (uint8_t)(i * 7);
    const struct span results[] = {
        span_of("{\"a\": [1, 2.50]}\n"), {odd, sizeof odd}, {most, sizeof most}, span_of("0")};
    for (size_t i = 0; i < COUNT(results); i++) {
        char key[8];
        snprintf(key, sizeof key, "k%zu", i);
        apply_one(b->store, NULL, key, nothing, forwarded(1));
        struct store_op op = op_of(key, forwarded(1), completed(forwarded(1), true));
        assert_int_equal(complete(b, op, results[i]), STORE_APPLIED);
        assert_held(b->store, key, op.write);
    }
    for (size_t i = 0; i < COUNT(results); i++) {
        char key[8];
        snprintf(key, sizeof key, "k%zu", i);
        assert_result(b->store, key, results[i]);
    }
    struct buffer behind = {0};
    buffer_add(&behind, "x", 1);
    assert_true(store_get_result(b->store, span_of("k3"), &behind));
    assert_true(span_is(buffer_span(&behind), "x0"));
    buffer_free(&behind);
}

static void completing_needs_no_result(void **state)
{
    struct store_bench *b = *state;
    apply_one(b->store, NULL, "k", nothing, pending(SESSION_A, 1));
    struct store_op op = op_of("k", pending(SESSION_A, 1), completed(pending(SESSION_A, 1), false));
    assert_int_equal(complete(b, op, (struct span){0}), STORE_APPLIED);
    assert_held(b->store, "k", op.write);
    assert_result(b->store, "k", (struct span){0});
}

static void completing_what_is_not_there_writes_nothing(void **state)
{
    struct store_bench *b = *state;
    struct span result = span_of("{}");
    struct store_op op = op_of("k", forwarded(1), completed(forwarded(1), true));
    assert_int_equal(complete(b, op, result), STORE_MET); /* never was, or was deleted meanwhile */
    assert_held(b->store, "k", nothing);
    assert_result(b->store, "k", (struct span){0});

    apply_one(b->store, NULL, "k", nothing, forwarded(2));
    op.met = forwarded(2);
    assert_int_equal(complete(b, op, result), STORE_MET);
    assert_held(b->store, "k", forwarded(2));
    assert_result(b->store, "k", (struct span){0});

    put_raw(b, "k", "something else");
    assert_int_equal(complete(b, op, result), STORE_FOREIGN);
    assert_result(b->store, "k", (struct span){0});
    if (b->redis) {
        redis_do(b->redis, "DEL %s:key:scope:k", b->config.prefix);
        redis_do(b->redis, "LPUSH %s:key:scope:k x", b->config.prefix);
        assert_int_equal(complete(b, op, result), STORE_FOREIGN);
        assert_result(b->store, "k", (struct span){0});
    }
}

static void the_first_result_stays(void **state)
{
    struct store_bench *b = *state;
    apply_one(b->store, NULL, "k", nothing, forwarded(1));
    struct store_op op = op_of("k", forwarded(1), completed(forwarded(1), true));
    assert_int_equal(complete(b, op, span_of("1")), STORE_APPLIED);
    op.met = op.write;
    assert_int_equal(complete(b, op, span_of("2")), STORE_MET);
    assert_result(b->store, "k", span_of("1"));
}

static void results_expire_with_their_records(void **state)
{
    struct store_bench *b = *state;
    int64_t ttl;
    apply_one(b->store, NULL, "k", nothing, forwarded(1));
    struct store_op op = op_of("k", forwarded(1), completed(forwarded(1), true));
    op.ttl = BRIEF;
    assert_int_equal(complete(b, op, span_of("1")), STORE_APPLIED);
    held(b->store, "k", &ttl);
    assert_in_range(ttl, 1, BRIEF);
    assert_result(b->store, "k", span_of("1"));
    pause_ms(BRIEF + 60);
    assert_held(b->store, "k", nothing);
    assert_result(b->store, "k", (struct span){0});
}

static void results_live_on_with_their_records(void **state)
{
    struct store_bench *b = *state;
    for (int i = 0; i < 2; i++) {
        const char *key = i ? "moved" : "only counted";
        apply_one(b->store, NULL, key, nothing, forwarded(1));
        struct store_op op = op_of(key, forwarded(1), completed(forwarded(1), true));
        op.ttl = BRIEF;
        assert_int_equal(complete(b, op, span_of("1")), STORE_APPLIED);
        struct record next = op.write;
        next.now.duplicates = 1;
        next.now.ends += i ? 10000 : 0;
        assert_int_equal(apply_one(b->store, NULL, key, op.write, next).answer, STORE_APPLIED);
    }
    pause_ms(BRIEF + 60);
    assert_result(b->store, "only counted", (struct span){0});
    assert_result(b->store, "moved", span_of("1"));
}

static void results_are_of_their_scope_and_not_listed(void **state)
{
    struct store_bench *b = *state;
    struct store *other = opened_store(&b->config, "scope2");
    apply_one(b->store, NULL, "k", nothing, forwarded(1));
    struct store_op op = op_of("k", forwarded(1), completed(forwarded(1), true));
    assert_int_equal(complete(b, op, span_of("1")), STORE_APPLIED);
    assert_result(other, "k", (struct span){0});
    assert_int_equal(count_held(b->store), 1);
    store_free(other);

    store_close(b->store);
    struct buffer out = {0};
    assert_false(store_complete(b->store, &op, span_of("1")));
    assert_false(store_get_result(b->store, span_of("k"), &out));
    assert_int_equal(out.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(a_result_is_kept_beside_its_record),
        STORE_TEST(completing_needs_no_result),
        STORE_TEST(completing_what_is_not_there_writes_nothing),
        STORE_TEST(the_first_result_stays),
        STORE_TEST(results_expire_with_their_records),
        STORE_TEST(results_live_on_with_their_records),
        STORE_TEST(results_are_of_their_scope_and_not_listed),
    };
    return STORE_BENCH_RUN(tests);
}
