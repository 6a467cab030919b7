#include "recent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void add(struct recent *r, int n)
{
    struct recent_message m = {.at = 1000 + n, .first_seen = n, .what = "parked", .why = "loop"};
    snprintf(m.key, sizeof m.key, "k%d", n);
    recent_add(r, &m);
}

/* However many were added, the last hundred are there, the oldest first. */
static void keeps_the_last_hundred_in_order(void **state)
{
    (void)state;
    static const struct {
        int added, first, count;
    } cases[] = {{0, 0, 0},     {1, 0, 1},      {99, 0, 99},      {100, 0, 100},
                 {101, 1, 100}, {150, 50, 100}, {1234, 1134, 100}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct recent r;
        struct recent_message out[RECENT_MAX];
        recent_init(&r);
        for (int n = 0; n < cases[i].added; n++)
            add(&r, n);
        assert_int_equal(recent_copy(&r, out), cases[i].count);
        for (int k = 0; k < cases[i].count; k++) {
            char key[16];
            snprintf(key, sizeof key, "k%d", cases[i].first + k);
            assert_string_equal(out[k].key, key);
            assert_int_equal(out[k].at, 1000 + cases[i].first + k);
            assert_int_equal(out[k].first_seen, cases[i].first + k);
            assert_string_equal(out[k].what, "parked");
            assert_string_equal(out[k].why, "loop");
        }
        recent_free(&r);
    }
}

#define THREADS 4
#define EACH 20000

static void *add_many(void *context)
{
    for (int n = 0; n < EACH; n++)
        add(context, n);
    return NULL;
}

/* No entry is ever seen half written: its fields belong together. */
static void workers_write_while_it_is_read(void **state)
{
    (void)state;
    struct recent r;
    struct recent_message out[RECENT_MAX];
    pthread_t threads[THREADS];
    recent_init(&r);
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, add_many, &r), 0);
    for (int round = 0; round < 200; round++) {
        size_t count = recent_copy(&r, out);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(out[i].at, 1000 + out[i].first_seen);
            assert_int_equal(atoi(out[i].key + 1), out[i].first_seen);
        }
    }
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    assert_int_equal(r.added, THREADS * EACH);
    recent_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_the_last_hundred_in_order),
        cmocka_unit_test(workers_write_while_it_is_read),
    };
    return cmocka_run_group_tests_name("recent", tests, NULL, NULL);
}
