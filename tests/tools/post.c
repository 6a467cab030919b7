/*
 * post - publishes one message as its options say, persistent, mandatory, and confirmed.
 *
 * It exits with 0 only if the broker took every copy and returned none.
 */
#include "client.h"
#include "unconfirmed.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADERS_MAX 16
#define PATIENCE 20 /* seconds for a confirm */

struct options {
    struct client_options client;
    const char *body;
    long count;
    amqp_basic_properties_t properties;
    amqp_table_entry_t headers[HEADERS_MAX];
    amqp_field_value_t lists[HEADERS_MAX]; /* the one value of each list */
};

static const struct argp_option option_table[] = {
    {"message-id", 'm', "ID", 0, "Its message_id", 0},
    {"correlation-id", 'c', "ID", 0, "Its correlation_id", 0},
    {"reply-to", 'R', "QUEUE", 0, "Its reply_to", 0},
    {"app-id", 'A', "ID", 0, "Its app_id", 0},
    {"type", 't', "TYPE", 0, "Its type", 0},
    {"header", 'h', "NAME=TEXT", 0, "A header of type text; may be repeated", 0},
    {"number", 'i', "NAME=NUMBER", 0, "A header of type number; may be repeated", 0},
    {"list", 'l', "NAME=TEXT", 0, "A header that is a list of one text; may be repeated", 0},
    {"body", 'b', "TEXT", 0, "Its body (empty)", 0},
    {"count", 'n', "N", 0, "So many copies (1)", 0},
    {0},
};

static void set_property(struct options *o, int key, char *arg)
{
    amqp_basic_properties_t *p = &o->properties;
    amqp_bytes_t text = amqp_cstring_bytes(arg);
    switch (key) {
    case 'm':
        p->_flags |= AMQP_BASIC_MESSAGE_ID_FLAG;
        p->message_id = text;
        break;
    case 'c':
        p->_flags |= AMQP_BASIC_CORRELATION_ID_FLAG;
        p->correlation_id = text;
        break;
    case 'R':
        p->_flags |= AMQP_BASIC_REPLY_TO_FLAG;
        p->reply_to = text;
        break;
    case 'A':
        p->_flags |= AMQP_BASIC_APP_ID_FLAG;
        p->app_id = text;
        break;
    case 't':
        p->_flags |= AMQP_BASIC_TYPE_FLAG;
        p->type = text;
        break;
    default: break;
    }
}

/* NAME=VALUE, which it cuts up. */
static void add_header(struct options *o, char *arg, int kind, struct argp_state *state)
{
    amqp_basic_properties_t *p = &o->properties;
    char *equals = strchr(arg, '=');
    if (equals == NULL || p->headers.num_entries == HEADERS_MAX) {
        argp_error(state, "\"%s\" is no NAME=VALUE, or there are too many headers", arg);
        return;
    }
    *equals = '\0';
    amqp_table_entry_t *entry = &o->headers[p->headers.num_entries++];
    entry->key = amqp_cstring_bytes(arg);
    if (kind == 'i') {
        entry->value.kind = AMQP_FIELD_KIND_I64;
        entry->value.value.i64 = strtoll(equals + 1, NULL, 10);
    } else {
        entry->value.kind = AMQP_FIELD_KIND_UTF8;
        entry->value.value.bytes = amqp_cstring_bytes(equals + 1);
    }
    if (kind == 'l') {
        o->lists[p->headers.num_entries - 1] = entry->value;
        entry->value.kind = AMQP_FIELD_KIND_ARRAY;
        entry->value.value.array = (amqp_array_t){1, &o->lists[p->headers.num_entries - 1]};
    }
    p->headers.entries = o->headers;
    p->_flags |= AMQP_BASIC_HEADERS_FLAG;
}

static error_t take_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 'm':
    case 'c':
    case 'R':
    case 'A':
    case 't': set_property(o, key, arg); break;
    case 'h':
    case 'i':
    case 'l': add_header(o, arg, key, state); break;
    case 'b': o->body = arg; break;
    case 'n': o->count = client_number("count", arg, 100000); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int main(int argc, char **argv)
{
    const struct argp argp = {
        .options = option_table, .parser = take_option, .doc = "Publishes one message."};
    struct options o = {.body = "", .count = 1};
    o.properties._flags = AMQP_BASIC_DELIVERY_MODE_FLAG;
    o.properties.delivery_mode = 2;
    client_parse(&argp, CLIENT_DESTINATION, argc, argv, &o.client);

    struct unconfirmed *u = client_allocate(1, sizeof *u);
    bool ok = unconfirmed_open(u, o.client.amqp);
    for (long i = 0; ok && i < o.count; i++)
        ok = unconfirmed_publish(u, o.client.exchange, o.client.routing_key, &o.properties,
                                 amqp_cstring_bytes(o.body)) &&
             unconfirmed_settle(u, PATIENCE);
    unconfirmed_close(u);
    free(u);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
