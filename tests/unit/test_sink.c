/*
 * sink.h against a peer: which copy an answer is for. What a real broker answers is in test_amqp.c.
 */
#include "amqp_build.h"
#include "clock.h"
#include "peer.h"
#include "sink.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>
#include <sys/socket.h>

static struct message *new_message(const char *body)
{
    struct message *m = message_new(0, 0, 2, strlen(body));
    memcpy(m + 1, "\0\0", 2);
    memcpy((uint8_t *)(m + 1) + 2, body, strlen(body));
    m->copy = (struct copy){.first_seen = 1, .attempt = 1};
    return m;
}

static struct sink *open_sink(struct peer *p)
{
    amqp_queue_declare_ok_t declared = {.queue = amqp_cstring_bytes("q")};
    amqp_confirm_select_ok_t selected = {0};
    peer_add_method(&p->first, 1, AMQP_QUEUE_DECLARE_OK_METHOD, &declared);
    peer_add_method(&p->first, 1, AMQP_QUEUE_DECLARE_OK_METHOD, &declared);
    peer_add_method(&p->first, 1, AMQP_CONFIRM_SELECT_OK_METHOD, &selected);
    struct sink *s = sink_new(&p->config, &p->route, SINK_COPIES);
    peer_serve(p);
    bool permanent;
    if (!sink_open(s, &permanent))
        fail_msg("%s", sink_error(s));
    peer_served(p);
    return s;
}

static void add_confirm(struct buffer *b, char what, uint64_t tag)
{
    amqp_basic_ack_t ack = {tag, what == 'A'};
    amqp_basic_nack_t nack = {tag, what == 'N', 0};
    if (what == 'a' || what == 'A')
        peer_add_method(b, 1, AMQP_BASIC_ACK_METHOD, &ack);
    else
        peer_add_method(b, 1, AMQP_BASIC_NACK_METHOD, &nack);
}

static void add_return(struct buffer *b, const void *properties, size_t len, const char *body)
{
    amqp_basic_return_t back = {.reply_code = 312,
                                .reply_text = amqp_cstring_bytes("NO_ROUTE"),
                                .routing_key = amqp_cstring_bytes("q")};
    struct buffer header = {0};
    peer_add_method(b, 1, AMQP_BASIC_RETURN_METHOD, &back);
    buffer_add_u32(&header, 60 << 16);
    buffer_add_u64(&header, strlen(body));
    buffer_add(&header, properties, len);
    peer_add_frame(b, AMQP_FRAME_HEADER, 1, header.data, header.len);
    peer_add_frame(b, AMQP_FRAME_BODY, 1, body, strlen(body));
    buffer_free(&header);
}

/* The copy as it was published, but for its body. */
static void add_true_return(struct buffer *b, const struct message *m, const char *body)
{
    struct buffer header = {0};
    assert_int_equal(copy_write(m, &m->copy, "r", "guest", PEER_FRAME_MAX - 8, &header), COPY_OK);
    add_return(b, header.data + 12, header.len - 12, body);
    buffer_free(&header);
}

static void say_script(struct peer *p, const char *script, const struct message *m)
{
    struct buffer bytes = {0};
    for (const char *step = script; *step; step += step[2] ? 3 : 2) {
        char body[2] = {step[1], 0};
        if (*step == 'r')
            add_true_return(&bytes, m, body);
        else if (*step == 'R')
            add_return(&bytes, "\0\0", 2, body);
        else
            add_confirm(&bytes, *step, (uint64_t)(step[1] - '0'));
    }
    peer_say_all(p, &bytes);
    buffer_free(&bytes);
}

/* What the sink makes of what the peer says: a letter for each of the four copies. */
static void hear(struct sink *s, char answers[5])
{
    static const char letters[] = {
        [SINK_CONFIRMED] = 'c', [SINK_RETURNED] = 'r', [SINK_NACKED] = 'n'};
    struct message *m;
    enum sink_answer answer;
    memcpy(answers, "....", 5);
    peer_await_readable(sink_fd(s));
    sink_read(s, clock_now());
    while ((m = sink_next(s, &answer)))
        answers[m->sequence - 1] = letters[answer];
}

static void test_confirms_and_returns(void **state)
{
    /* Four copies, with the bodies a a b c, are in flight. Steps: a tag with a, A, n, N (capital:
     * multiple); a body with r, returned as it was sent, or R, with other properties. */
    static const struct {
        const char *label;
        const char *script;
        const char *want; /* for each copy: confirmed, nacked, returned, nothing */
        const char *error;
    } table[] = {
        {"one by one, in any order", "a3 a1 n2", "cnc.", ""},
        {"several at once", "A3", "ccc.", ""},
        {"what is behind was answered before", "n1 A4", "nccc", ""},
        {"nacks several at once", "a2 N4", "ncnn", ""},
        {"returned, then confirmed", "Rb A4", "ccrc", ""},
        {"returned, not confirmed yet", "Rb a1", "c...", ""},
        {"each before its own", "Rb a3 Rc a4", "..rr", ""},
        {"of two that are the same, the first", "ra A2", "rc..", ""},
        {"both of them", "ra ra A4", "rrcc", ""},
        {"more often than they were sent", "rb rb A4", "....", "no copy in flight"},
        {"returned is returned, whatever comes then", "Rb n3", "..r.", ""},
        {"a tag never given", "a1 a5", "c...", "confirmed publish 5"},
        {"tag 0", "A0", "....", "confirmed publish 0"},
        {"twice, at once", "a1 a1", "c...", ""},
        {"several, of which some are unknown", "A9", "....", "confirmed publish 9"},
        {"a return of something else", "a1 Rx", "c...", "no copy in flight"},
        {"a return that may be of either", "Ra", "....", "no copy in flight"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct peer p;
        peer_open(&p);
        struct sink *s = open_sink(&p);
        struct message *m[4];
        for (size_t n = 0; n < 4; n++) {
            m[n] = new_message((const char *[]){"a", "a", "b", "c"}[n]);
            assert_int_equal(sink_publish(s, m[n]), SINK_PUBLISHED);
        }
        assert_int_equal(sink_room(s), 0);
        say_script(&p, table[i].script, m[0]);
        char answers[5];
        hear(s, answers);
        if (strcmp(answers, table[i].want) != 0)
            fail_msg("%s: %s, not %s", table[i].label, answers, table[i].want);
        peer_assert_says(table[i].label, sink_error(s), table[i].error);
        assert_true(sink_is_up(s) == !*table[i].error);
        for (size_t n = 0; n < 4; n++)
            message_free(m[n]);
        sink_free(s);
        peer_close(&p);
    }
    (void)state;
}

/* ---- Where it goes ---- */

/* Encodes the publish as it must stand on the wire, up to its bits. */
static void build_publish(struct buffer *out, const char *exchange, const char *key, bool mandatory)
{
    buffer_add(out, "\0\x3c\0\x28\0\0", 6);
    buffer_add_u8(out, (uint8_t)strlen(exchange));
    buffer_add(out, exchange, strlen(exchange));
    buffer_add_u8(out, (uint8_t)strlen(key));
    buffer_add(out, key, strlen(key));
    buffer_add_u8(out, mandatory);
}

static bool peer_hears(const struct peer *p, const struct buffer *want)
{
    uint8_t heard[16384];
    size_t len = 0;
    struct timeval patience = {.tv_sec = 2};
    setsockopt(p->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    while (len < sizeof heard && !memmem(heard, len, want->data, want->len)) {
        ssize_t n = recv(p->fd, heard + len, sizeof heard - len, 0);
        if (n <= 0)
            return false;
        len += (size_t)n;
    }
    return true;
}

static void test_targets(void **state)
{
    static char exchange[] = "x", other_key[] = "other", duplicates[] = "dups";
    static const struct {
        const char *label;
        enum target target;
        bool to_exchange;
        bool mandatory;
        char *routing_key; /* of the exchange, or of the duplicates */
        const char *reply_to;
        const char *want_exchange, *want_key;
    } table[] = {
        {"the work queue", TARGET_WORK, false, true, NULL, NULL, "", "q"},
        {"an exchange, own key", TARGET_WORK, true, true, NULL, NULL, "x", "own"},
        {"an exchange", TARGET_WORK, true, true, other_key, NULL, "x", "other"},
        {"the parking queue", TARGET_PARKING, true, true, NULL, NULL, "", "q"},
        {"duplicates, own key", TARGET_DUPLICATES, false, true, NULL, NULL, "dups", "own"},
        {"duplicates", TARGET_DUPLICATES, true, true, other_key, NULL, "dups", "other"},
        {"a reply", TARGET_REPLY, true, true, other_key, "answers", "", "answers"},
        {"a direct reply", TARGET_REPLY, true, false, NULL, "amq.rabbitmq.reply-to.g1h", "",
         "amq.rabbitmq.reply-to.g1h"},
        {"nearly a direct reply", TARGET_REPLY, true, true, NULL, "amq.rabbitmq.reply-to", "",
         "amq.rabbitmq.reply-to"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct peer p;
        struct buffer want = {0};
        peer_open(&p);
        struct sink *s = open_sink(&p);
        struct message *m = build_message("in", "own", BYTES("\0\0"), BYTES("body"));
        m->copy = (struct copy){
            .target = table[i].target, .reason = PARK_LOOP, .first_seen = 1, .state = "forwarded"};
        m->reply = xstrdup("{}");
        if (table[i].reply_to)
            m->reply_to = span_of(table[i].reply_to);
        p.route.to.queue = table[i].to_exchange ? NULL : p.route.to.queue;
        p.route.to.exchange = table[i].to_exchange ? exchange : NULL;
        p.route.to.routing_key = table[i].routing_key;
        p.route.duplicates.exchange = duplicates;
        p.route.duplicates.routing_key = table[i].routing_key;
        assert_int_equal(sink_publish(s, m), SINK_PUBLISHED);
        sink_flush(s, clock_now());
        build_publish(&want, table[i].want_exchange, table[i].want_key, table[i].mandatory);
        if (!peer_hears(&p, &want))
            fail_msg("%s: not published as it should be", table[i].label);
        buffer_free(&want);
        message_free(m);
        sink_free(s);
        peer_close(&p);
    }
    (void)state;
}

/* A reply that is returned is known by what was published of it: not the message's own body. */
static void test_returned_reply(void **state)
{
    struct peer p;
    struct buffer bytes = {0};
    char answers[5];
    peer_open(&p);
    struct sink *s = open_sink(&p);
    struct message *m = new_message("the question");
    m->copy.target = TARGET_REPLY;
    m->reply = xstrdup("{}");
    m->reply_to = span_of("q");
    assert_int_equal(sink_publish(s, m), SINK_PUBLISHED);
    add_true_return(&bytes, m, "{}");
    add_confirm(&bytes, 'a', 1);
    peer_say_all(&p, &bytes);
    hear(s, answers);
    assert_string_equal(answers, "r...");
    assert_true(sink_is_up(s));
    buffer_free(&bytes);
    message_free(m);
    sink_free(s);
    peer_close(&p);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_confirms_and_returns),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_returned_reply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
