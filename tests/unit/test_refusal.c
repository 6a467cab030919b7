/* refusal.h: which noes are the last word. The texts are RabbitMQ's. */
#include "refusal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_last_words(void **state)
{
    static const struct {
        const char *text;
        unsigned code;
        bool final;
    } table[] = {
        {"ACCESS_REFUSED - access to queue 'q' in vhost '/' refused for user 'u'", 403, true},
        {"NOT_FOUND - no queue 'q' in vhost '/'", 404, true},
        {"NOT_FOUND - home node 'rabbit@b' of durable queue 'q' in vhost '/' is down or "
         "inaccessible",
         404, false},
        {"NOT_FOUND - queue 'q' in vhost '/' process is stopped by supervisor", 404, false},
        {"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q'", 405, true},
        {"PRECONDITION_FAILED - invalid arg 'x-delivery-limit' for queue 'q'", 406, true},
        {"NOT_ALLOWED - vhost v not found", 530, true},
        {"NOT_ALLOWED - access to vhost '/' refused for user 'u': connection limit (1) is "
         "reached",
         530, false},
        {"CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'", 320, false},
        {"INTERNAL_ERROR", 541, false},
        {"", 403, true},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct refusal r = {.code = table[i].code, .text = span_of(table[i].text)};
        if (refusal_is_final(&r) != table[i].final)
            fail_msg("%u %s", table[i].code, table[i].text);
    }
    (void)state;
}

static void test_what_is_no_refusal(void **state)
{
    struct refusal r;
    amqp_basic_ack_t ack = {0};
    assert_false(refusal_of_method(AMQP_BASIC_ACK_METHOD, &ack, &r));
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_last_words),
        cmocka_unit_test(test_what_is_no_refusal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
