/* What only the memory store can do wrong. The contract of store.h is tested in test_store. */
#include "store_backend.h"
#include "store_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>

static struct store *memory_store(void)
{
    static char prefix[] = "oo";
    static const struct store_config config = {
        .name = text_name, .prefix = prefix, .timeout = 2000, .parsed.kind = STORE_MEMORY};
    store_memory_reset();
    return opened_store(&config, "scope");
}

static void the_dead_do_not_pile_up(void **state)
{
    (void)state;
    struct store *s = memory_store();
    char key[32];
    for (int i = 0; i < 20000; i++) {
        snprintf(key, sizeof key, "key%d", i);
        struct store_op op = op_of(key, nothing, forwarded(1));
        op.ttl = 1;
        apply(s, NULL, &op, 1);
        if (i % 100 == 0)
            pause_ms(2);
    }
    assert_in_range(store_memory_size(), 1, 600);
    store_free(s);
}

static void memory_says_what_it_cannot(void **state)
{
    (void)state;
    struct store *s = memory_store();
    assert_danger(s, "this process alone");
    store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_dead_do_not_pile_up),
        cmocka_unit_test(memory_says_what_it_cannot),
    };
    return cmocka_run_group_tests_name("store: memory alone", tests, NULL, NULL);
}
