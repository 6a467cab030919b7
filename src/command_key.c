/*
 * command_key - the key that a message would get; made of a message as the broker would deliver it,
 * so that it is key.c's own answer.
 */
#include "command.h"

#include "headers.h"
#include "key.h"
#include "memory.h"
#include "message.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHORT_TEXT_MAX 255 /* of a property, by AMQP */

struct arguments {
    const char *file;
    const char *route;
    const char *exchange;
    const char *routing_key;
    const char *properties[PROPERTY_COUNT]; /* the short strings among them */
    struct buffer headers;
};

enum {
    OPTION_MESSAGE_ID = 256,
    OPTION_CORRELATION_ID,
    OPTION_APP_ID,
    OPTION_TYPE,
    OPTION_EXCHANGE,
    OPTION_ROUTING_KEY,
    OPTION_HEADER
};

static const struct argp_option options[] = {
    {"message-id", OPTION_MESSAGE_ID, "ID", 0, "The message's message_id", 0},
    {"correlation-id", OPTION_CORRELATION_ID, "ID", 0, "Its correlation_id", 0},
    {"app-id", OPTION_APP_ID, "ID", 0, "Its app_id", 0},
    {"type", OPTION_TYPE, "TYPE", 0, "Its type", 0},
    {"exchange", OPTION_EXCHANGE, "NAME", 0, "The exchange it was published to", 0},
    {"routing-key", OPTION_ROUTING_KEY, "KEY", 0, "Its routing key", 0},
    {"header", OPTION_HEADER, "NAME=VALUE", 0, "A header, as text; may be repeated", 0},
    {0}};

static void add_header(struct argp_state *state, struct arguments *a, const char *arg)
{
    const char *equals = strchr(arg, '=');
    if (!equals || equals == arg || equals - arg > SHORT_TEXT_MAX) {
        argp_error(state, "--header %s: write NAME=VALUE, with a name of 1 to 255 bytes", arg);
        return;
    }
    char name[SHORT_TEXT_MAX + 1];
    memcpy(name, arg, (size_t)(equals - arg));
    name[equals - arg] = '\0';
    header_add_text(&a->headers, name, span_of(equals + 1));
}

static const char *short_text(struct argp_state *state, const char *arg)
{
    if (strlen(arg) > SHORT_TEXT_MAX)
        argp_error(state, "\"%.20s...\" is longer than the 255 bytes that AMQP allows", arg);
    return arg;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &a->file; return 0;
    case OPTION_MESSAGE_ID: a->properties[PROPERTY_MESSAGE_ID] = short_text(state, arg); return 0;
    case OPTION_CORRELATION_ID:
        a->properties[PROPERTY_CORRELATION_ID] = short_text(state, arg);
        return 0;
    case OPTION_APP_ID: a->properties[PROPERTY_APP_ID] = short_text(state, arg); return 0;
    case OPTION_TYPE: a->properties[PROPERTY_TYPE] = short_text(state, arg); return 0;
    case OPTION_EXCHANGE: a->exchange = short_text(state, arg); return 0;
    case OPTION_ROUTING_KEY: a->routing_key = short_text(state, arg); return 0;
    case OPTION_HEADER: add_header(state, a, arg); return 0;
    case ARGP_KEY_ARG:
        if (a->route)
            argp_error(state, "\"%s\" is too much", arg);
        a->route = arg;
        return 0;
    case ARGP_KEY_END:
        if (!a->route)
            argp_error(state, "the route's name is missing");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* Property flags and list, as in a content header frame (AMQP 0-9-1, 4.2.6.1). */
static void encode_properties(const struct arguments *a, struct buffer *out)
{
    unsigned flags = 0;
    for (unsigned i = 0; i < PROPERTY_COUNT; i++)
        if (a->properties[i] || (i == PROPERTY_HEADERS && a->headers.len > 0))
            flags |= 0x8000U >> i;
    buffer_add_u16(out, (uint16_t)flags);
    for (unsigned i = 0; i < PROPERTY_COUNT; i++) {
        if (!(flags & (0x8000U >> i)))
            continue;
        if (i == PROPERTY_HEADERS) {
            buffer_add_u32(out, (uint32_t)a->headers.len);
            buffer_add_span(out, buffer_span(&a->headers));
            continue;
        }
        buffer_add_u8(out, (uint8_t)strlen(a->properties[i]));
        buffer_add_span(out, span_of(a->properties[i]));
    }
}

static bool read_body(struct buffer *body)
{
    if (isatty(STDIN_FILENO))
        return true;
    for (;;) {
        uint8_t *to = buffer_reserve(body, 65536);
        ssize_t got = read(STDIN_FILENO, to, 65536);
        if (got == 0)
            return true;
        if (got < 0 && errno != EINTR)
            return false;
        body->len += got > 0 ? (size_t)got : 0;
    }
}

static struct message *make_message(const struct arguments *a, struct span body)
{
    struct buffer properties = {0};
    encode_properties(a, &properties);
    struct span parts[] = {span_of(a->exchange ? a->exchange : ""),
                           span_of(a->routing_key ? a->routing_key : ""), buffer_span(&properties),
                           body};
    struct message *m = message_new(parts[0].len, parts[1].len, parts[2].len, parts[3].len);
    /* The spans lie one behind the other, in this order: see message.h. */
    uint8_t *at = (uint8_t *)(m + 1);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i].len > 0)
            memcpy(at, parts[i].data, parts[i].len);
        at += parts[i].len;
    }
    buffer_free(&properties);
    return m;
}

static void explain_no_key(const struct route_config *route)
{
    struct buffer rule = {0};
    for (size_t i = 0; i < route->key.count; i++)
        buffer_printf(&rule, "%s\"%s\"", i ? ", " : "", route->key.items[i]);
    command_error("the message has no key: it carries none of the route's alternatives, %.*s",
                  (int)rule.len, (const char *)rule.data);
    buffer_free(&rule);
}

static int print_key(const struct config *config, const struct arguments *a)
{
    const struct route_config *route = command_route(config, a->route);
    if (!route)
        return EXIT_USAGE;
    struct buffer body = {0};
    int code = EXIT_NOT;
    if (!read_body(&body)) {
        command_error("cannot read the body from stdin: %s", strerror(errno));
        buffer_free(&body);
        return EXIT_NOT;
    }
    struct message *m = make_message(a, buffer_span(&body));
    if (key_find(route->key_rule, m)) {
        printf("%s\t%s\n", m->key, key_alternative_name(route->key_rule, m->alternative));
        code = EXIT_OK;
    } else {
        explain_no_key(route);
    }
    message_free(m);
    buffer_free(&body);
    return code;
}

int command_key(int argc, char **argv)
{
    static const struct argp_child children[] = {{&command_config_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "ROUTE",
        .doc = "Prints the key that a message with these properties, and stdin as its body, would "
               "get: key, tab, alternative. Needs no server."
               "\v"
               "Exits with 0 if it has a key, 1 if it has none.",
        .children = children};
    struct arguments a = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    struct config *config = command_config(a.file);
    int code = config ? print_key(config, &a) : EXIT_USAGE;
    config_free(config);
    buffer_free(&a.headers);
    return code;
}
