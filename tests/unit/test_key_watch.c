#include "key_watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Minutes of one route, one after the other: the counters at each end. */
static void says_when_most_had_no_key(void **state)
{
    (void)state;
    static const struct {
        const char *label;
        uint64_t messages, without;
        bool want;
    } minutes[] = {
        {"nothing came", 0, 0, false},
        {"too few", 19, 19, false},
        {"just enough", 39, 39, true},
        {"half of them", 139, 89, false},
        {"one more than half", 239, 140, true},
        {"all had one", 1239, 140, false},
        {"none again", 1339, 240, true},
        {"silence", 1339, 240, false},
        {"of an odd number, most", 1360, 251, true},
        {"of an odd number, not most", 1381, 261, false},
    };
    struct key_watch w = {0};
    uint64_t before = 0, without_before = 0;
    for (size_t i = 0; i < sizeof minutes / sizeof *minutes; i++) {
        uint64_t of, lacked;
        bool got = key_watch_turn(&w, minutes[i].messages, minutes[i].without, &of, &lacked);
        if (got != minutes[i].want)
            fail_msg("%s: %d", minutes[i].label, got);
        assert_int_equal(of, minutes[i].messages - before);
        assert_int_equal(lacked, minutes[i].without - without_before);
        before = minutes[i].messages;
        without_before = minutes[i].without;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(says_when_most_had_no_key)};
    return cmocka_run_group_tests_name("key_watch", tests, NULL, NULL);
}
