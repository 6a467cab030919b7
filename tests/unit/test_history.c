#include "history.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void add(struct history *h, int n)
{
    const struct history_sample s = {
        .at = (int64_t)5000 * n, .forwarded = (uint64_t)n, .duplicates = (uint64_t)n * 2};
    history_add(h, &s);
}

/* However many were added, those of ten minutes are there, the oldest first. */
static void keeps_ten_minutes_in_order(void **state)
{
    (void)state;
    static const struct {
        int added, first, count;
    } cases[] = {{0, 0, 0},     {1, 0, 1},      {120, 0, 120},    {121, 0, 121},
                 {122, 1, 121}, {200, 79, 121}, {1234, 1113, 121}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct history h;
        struct history_sample out[HISTORY_MAX];
        history_init(&h);
        for (int n = 0; n < cases[i].added; n++)
            add(&h, n);
        assert_int_equal(history_copy(&h, out), cases[i].count);
        for (int k = 0; k < cases[i].count; k++) {
            assert_int_equal(out[k].at, 5000 * (cases[i].first + k));
            assert_int_equal(out[k].forwarded, cases[i].first + k);
            assert_int_equal(out[k].duplicates, 2 * (cases[i].first + k));
        }
        history_free(&h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(keeps_ten_minutes_in_order)};
    return cmocka_run_group_tests_name("history", tests, NULL, NULL);
}
