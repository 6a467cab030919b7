#include "reply_to.h"

#include "../lib/amqp_build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <openssl/evp.h>

#define PID "g1h2AA9yZXBseUAxMDM2NzMzOTYAAALGAAAAAGsMbrE="
#define KEY "gsSWUC2k6qXZAM3kANvdeA=="
#define DIRECT(token) BYTES("amq.rabbitmq.reply-to." token)

static void addresses(void **state)
{
    (void)state;
    const struct {
        const char *label;
        struct span address;
        bool direct, usable;
    } cases[] = {
        {"a queue", BYTES("answers"), false, true},
        {"a name with a dot", BYTES("amq.gen-x.y"), false, true},
        {"any bytes", BYTES("\xff\0"), false, true},
        {"empty", BYTES(""), false, false},
        {"the bare literal", BYTES("amq.rabbitmq.reply-to"), false, false},
        {"nearly the literal", BYTES("amq.rabbitmq.reply-tox"), false, true},
        {"RabbitMQ's own", DIRECT(PID "." KEY), true, true},
        {"no token", DIRECT(""), true, false},
        {"no dot", DIRECT(PID), true, false},
        {"no key", DIRECT(PID "."), true, false},
        {"no process", DIRECT("." KEY), true, false},
        {"a dot too many", DIRECT(PID "." KEY "." KEY), true, false},
        {"words", DIRECT("x.y"), true, false},
        {"white space in it", DIRECT(" 1h2." KEY), true, false},
        {"not padded", DIRECT("g1h." KEY), true, false},
        {"padding within", DIRECT("g=h2." KEY), true, false},
        {"nothing but padding", DIRECT("====." KEY), true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (reply_to_is_direct(cases[i].address) != cases[i].direct)
            fail_msg("%s: direct", cases[i].label);
        if (reply_to_is_usable(cases[i].address) != cases[i].usable)
            fail_msg("%s: usable", cases[i].label);
    }
}

/* Terms of processes, and of what is nearly one. */
static void processes(void **state)
{
    (void)state;
    const struct {
        const char *label;
        struct span term;
        bool usable;
    } cases[] = {
        {"with a long name", BYTES("\203Xv\0\7reply@1............"), true},
        {"with a short name", BYTES("\203Xw\7reply@1............"), true},
        {"empty", BYTES(""), false},
        {"a prefix", BYTES("\203X"), false},
        {"no term", BYTES("\202Xw\7reply@1............"), false},
        {"another term", BYTES("\203hw\7reply@1............"), false},
        {"an old process", BYTES("\203gw\7reply@1........."), false},
        {"another kind of name", BYTES("\203Xd\0\7reply@1............"), false},
        {"a number too short", BYTES("\203Xw\7reply@1..........."), false},
        {"a number too long", BYTES("\203Xw\7reply@1............."), false},
        {"a name that is longer than all", BYTES("\203Xv\377\377reply@1............"), false},
        {"no number", BYTES("\203Xw\6reply@............"), false},
        {"no word", BYTES("\203Xw\2@1............"), false},
        {"no at", BYTES("\203Xw\6reply1............"), false},
        {"two of them", BYTES("\203Xw\10reply@@1............"), false},
        {"a host", BYTES("\203Xw\14rabbit@host1............"), false},
        {"no name", BYTES("\203Xw\0............"), false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t text[256];
        struct buffer address = {0};
        int len = EVP_EncodeBlock(text, cases[i].term.data, (int)cases[i].term.len);
        buffer_add_span(&address, BYTES("amq.rabbitmq.reply-to."));
        buffer_add(&address, text, (size_t)len);
        buffer_add_span(&address, BYTES("." KEY));
        if (reply_to_is_usable(buffer_span(&address)) != cases[i].usable)
            fail_msg("%s", cases[i].label);
        buffer_free(&address);
    }
}

/* Whatever it is, reading it stays within it; the sanitizers look. */
static void random_tokens(void **state)
{
    (void)state;
    static const char letters[] = "ABghwvX0129+/=.@";
    uint32_t seed = 7;
    for (int round = 0; round < 20000; round++) {
        struct buffer address = {0};
        buffer_add_span(&address, BYTES("amq.rabbitmq.reply-to.g1h2"));
        for (uint32_t left = build_random(&seed) % 229; left > 0; left--)
            buffer_add_u8(&address, (uint8_t)letters[build_random(&seed) % 16]);
        assert_false(reply_to_is_usable(buffer_span(&address)));
        buffer_free(&address);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses),
        cmocka_unit_test(processes),
        cmocka_unit_test(random_tokens),
    };
    return cmocka_run_group_tests_name("reply_to", tests, NULL, NULL);
}
