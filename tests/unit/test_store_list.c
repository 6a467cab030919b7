/*
 * The contract of store.h, for every kind of store: a scope is listed, and scopes keep apart.
 */
#include "store_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct listing {
    struct store *store;
    size_t stop_after;
    size_t calls;
    size_t foreign;
    bool seen[3000];
};

static bool take_listed(void *context, struct span key, const struct record *r, int64_t ttl)
{
    struct listing *l = context;
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)key.len, (const char *)key.data);
    assert_in_range(ttl, 1, MINUTE);
    l->calls++;
    if (r) {
        size_t i = strtoul(text + strlen("?*:"), NULL, 10);
        assert_true(i < 3000);
        assert_record(*r, forwarded((uint32_t)i + 1));
        l->seen[i] = true;
    } else {
        assert_string_equal(text, "odd");
        l->foreign++;
    }
    /* The store may be used while it lists. */
    assert_true(held(l->store, "nowhere", &ttl).now.state == RECORD_NONE);
    return l->calls != l->stop_after;
}

static void fill(struct store *s, size_t count)
{
    char key[32];
    for (size_t i = 0; i < count; i++) {
        snprintf(key, sizeof key, "?*:%zu", i);
        struct store_op op = op_of(key, nothing, forwarded((uint32_t)i + 1));
        apply(s, NULL, &op, 1);
    }
}

static void a_scope_is_listed(void **state)
{
    struct store_bench *b = *state;
    struct listing all = {.store = b->store};
    assert_true(store_list(b->store, take_listed, &all));
    assert_int_equal(all.calls, 0);

    struct store *near = opened_store(&b->config, "scope2");
    struct store_op op = op_of("of another scope", nothing, forwarded(1));
    apply(near, NULL, &op, 1);
    open_session(b->store, SESSION_A, MINUTE);
    fill(b->store, 3000);
    put_raw(b, "odd", "x");
    assert_true(store_list(b->store, take_listed, &all));
    for (size_t i = 0; i < 3000; i++)
        assert_true(all.seen[i]);
    assert_true(all.foreign >= 1);

    struct listing some = {.store = b->store, .stop_after = 7};
    assert_true(store_list(b->store, take_listed, &some));
    assert_int_equal(some.calls, 7);
    store_free(near);
}

static void scopes_never_meet(void **state)
{
    struct store_bench *b = *state;
    struct store *other = opened_store(&b->config, "scope2");
    struct store *same = opened_store(&b->config, "scope");
    apply_one(b->store, NULL, "k", nothing, forwarded(1));
    assert_held(other, "k", nothing);
    assert_held(same, "k", forwarded(1));
    open_session(other, SESSION_A, MINUTE);
    assert_true(lives(b->store, SESSION_A)); /* sessions are the store's, not the scope's */
    store_free(other);
    store_free(same);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(a_scope_is_listed),
        STORE_TEST(scopes_never_meet),
    };
    return STORE_BENCH_RUN(tests);
}
