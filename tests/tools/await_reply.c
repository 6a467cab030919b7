/*
 * await_reply - publishes a message whose answer comes by direct reply-to, and prints the answer's
 * correlation_id, content_type and body, each on a line.
 *
 *   await_reply --amqp URL --queue NAME --message-id ID --correlation-id ID [--wait MS]
 *
 * It exits with 0 if an answer came in time, with 3 if none did.
 */
#include "client.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>

#define ADDRESS "amq.rabbitmq.reply-to"
#define NO_ANSWER 3

struct options {
    struct client_options client;
    const char *queue;
    const char *message_id;
    const char *correlation_id;
    long wait;
};

static const struct argp_option option_table[] = {
    {"queue", 'q', "NAME", 0, "Publish to this queue", 0},
    {"message-id", 'm', "ID", 0, "Its message_id", 0},
    {"correlation-id", 'c', "ID", 0, "Its correlation_id", 0},
    {"wait", 'w', "MS", 0, "Wait so long for the answer (30000)", 0},
    {0},
};

static error_t take_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 'q': o->queue = arg; break;
    case 'm': o->message_id = arg; break;
    case 'c': o->correlation_id = arg; break;
    case 'w': o->wait = client_number("wait", arg, 600000); break;
    case ARGP_KEY_END:
        if (!o->queue || !o->message_id || !o->correlation_id)
            argp_error(state, "--queue, --message-id and --correlation-id are needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static bool ask(amqp_connection_state_t c, const struct options *o)
{
    amqp_basic_properties_t p = {
        ._flags =
            AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_CORRELATION_ID_FLAG | AMQP_BASIC_REPLY_TO_FLAG,
        .message_id = amqp_cstring_bytes(o->message_id),
        .correlation_id = amqp_cstring_bytes(o->correlation_id),
        .reply_to = amqp_cstring_bytes(ADDRESS),
    };
    if (!client_consume(c, ADDRESS, "", 0))
        return false;
    int status = amqp_basic_publish(c, CLIENT_CHANNEL, amqp_empty_bytes,
                                    amqp_cstring_bytes(o->queue), 0, 0, &p, amqp_empty_bytes);
    return status == AMQP_STATUS_OK;
}

static void print_line(amqp_bytes_t text)
{
    printf("%.*s\n", (int)text.len, (const char *)text.bytes);
}

static int wait_for_answer(amqp_connection_state_t c, long ms)
{
    struct timeval patience = {ms / 1000, ms % 1000 * 1000};
    amqp_envelope_t envelope;
    amqp_rpc_reply_t reply = amqp_consume_message(c, &envelope, &patience, 0);
    if (reply.reply_type != AMQP_RESPONSE_NORMAL)
        return NO_ANSWER;
    const amqp_basic_properties_t *p = &envelope.message.properties;
    bool has_id = p->_flags & AMQP_BASIC_CORRELATION_ID_FLAG;
    bool has_type = p->_flags & AMQP_BASIC_CONTENT_TYPE_FLAG;
    print_line(has_id ? p->correlation_id : amqp_empty_bytes);
    print_line(has_type ? p->content_type : amqp_empty_bytes);
    print_line(envelope.message.body);
    amqp_destroy_envelope(&envelope);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    const struct argp argp = {.options = option_table,
                              .parser = take_option,
                              .doc = "Publishes one message and prints its answer."};
    struct options o = {.wait = 30000};
    client_parse(&argp, CLIENT_BROKER, argc, argv, &o.client);
    amqp_connection_state_t c = client_open(o.client.amqp);
    if (c == NULL)
        return EXIT_FAILURE;
    int code = ask(c, &o) ? wait_for_answer(c, o.wait) : EXIT_FAILURE;
    client_close(c);
    return code;
}
