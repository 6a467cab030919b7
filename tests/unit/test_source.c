/* source.h against a peer that breaks the rules. What a real broker delivers is in test_amqp.c. */
#include "clock.h"
#include "peer.h"
#include "source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static void add_deliver(struct buffer *b, uint64_t tag)
{
    amqp_basic_deliver_t deliver = {.consumer_tag = amqp_cstring_bytes("c"), .delivery_tag = tag};
    peer_add_method(b, 1, AMQP_BASIC_DELIVER_METHOD, &deliver);
}

static void add_message(struct buffer *b, uint64_t tag)
{
    add_deliver(b, tag);
    peer_add_content(b, "body");
}

static void add_topology(struct buffer *b)
{
    amqp_queue_declare_ok_t declared = {.queue = amqp_cstring_bytes("q")};
    amqp_basic_qos_ok_t qos = {0};
    peer_add_method(b, 1, AMQP_QUEUE_DECLARE_OK_METHOD, &declared); /* parking, */
    peer_add_method(b, 1, AMQP_QUEUE_DECLARE_OK_METHOD, &declared); /* inbound */
    peer_add_method(b, 1, AMQP_BASIC_QOS_OK_METHOD, &qos);
}

static void read_all(struct source *s)
{
    while (source_is_up(s)) {
        struct message *m;
        while ((m = source_pull(s)))
            message_free(m);
        if (!source_is_up(s))
            return;
        peer_await_readable(source_fd(s));
        source_read(s, true, clock_now());
    }
}

static void assert_goes_down(struct buffer *then, bool opens, bool permanently, const char *why)
{
    struct peer p;
    peer_open(&p);
    add_topology(&p.first);
    p.then = *then;
    *then = (struct buffer){0};
    struct source *s = source_new(&p.config, &p.route);
    peer_serve(&p);
    bool permanent = false;
    assert_true(source_open(s, &permanent) == opens);
    assert_true(permanent == permanently);
    read_all(s);
    peer_assert_says("source", source_error(s), why);
    peer_served(&p);
    source_free(s);
    peer_close(&p);
}

static void start(struct buffer *then)
{
    amqp_basic_consume_ok_t consuming = {amqp_cstring_bytes("c")};
    peer_add_method(then, 1, AMQP_BASIC_CONSUME_OK_METHOD, &consuming);
}

static void test_tags_that_do_not_rise(void **state)
{
    static const struct {
        uint64_t first, second;
        const char *want;
    } table[] = {
        {7, 7, "delivery tag 7 after 7"},
        {7, 6, "delivery tag 6 after 7"},
        {0, 1, "delivery tag 0 after 0"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct buffer then = {0};
        start(&then);
        add_message(&then, table[i].first);
        add_message(&then, table[i].second);
        assert_goes_down(&then, true, false, table[i].want);
    }
    (void)state;
}

static void test_methods_out_of_place(void **state)
{
    struct buffer then = {0};
    start(&then);
    add_deliver(&then, 1);
    add_message(&then, 2);
    assert_goes_down(&then, true, false, "in the middle of a message");

    amqp_basic_ack_t ack = {.delivery_tag = 1};
    start(&then);
    add_message(&then, 1);
    peer_add_method(&then, 1, AMQP_BASIC_ACK_METHOD, &ack);
    assert_goes_down(&then, true, false, "method 60.80 to a consumer");
    (void)state;
}

static void test_a_refused_consumer_is_not_open(void **state)
{
    struct buffer then = {0};
    amqp_channel_close_t no = {.reply_code = 403, .reply_text = amqp_cstring_bytes("NO")};
    amqp_channel_close_t later = {.reply_code = 404, .reply_text = amqp_cstring_bytes("x is down")};
    peer_add_method(&then, 1, AMQP_CHANNEL_CLOSE_METHOD, &no);
    assert_goes_down(&then, false, true, "consuming from queue 'q' as user 'guest': 403 NO");
    peer_add_method(&then, 1, AMQP_CHANNEL_CLOSE_METHOD, &later);
    assert_goes_down(&then, false, false,
                     "consuming from queue 'q' as user 'guest': 404 x is down");
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tags_that_do_not_rise),
        cmocka_unit_test(test_methods_out_of_place),
        cmocka_unit_test(test_a_refused_consumer_is_not_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
