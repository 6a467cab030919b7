/*
 * ask - asks a question by direct reply-to, answers it as a worker would, and waits for the answer.
 *
 * The question goes into the inbound queue, its copy comes out of the work queue, and the answer
 * goes to the address that the copy bears. It exits with 0 only if the answer arrives.
 */
#include "client.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE 30 /* seconds for the copy, and for the answer */

struct options {
    struct client_options client;
    const char *in;
    const char *work;
};

static const struct argp_option option_table[] = {
    {"in", 'q', "QUEUE", 0, "The inbound queue", 0},
    {"work", 'w', "QUEUE", 0, "The work queue", 0},
    {0},
};

static error_t take_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 'q': o->in = arg; break;
    case 'w': o->work = arg; break;
    case ARGP_KEY_END:
        if (o->in == NULL || o->work == NULL)
            argp_error(state, "--in and --work are needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static bool publish(amqp_connection_state_t c, amqp_bytes_t queue, const char *reply_to,
                    const char *body)
{
    amqp_basic_properties_t p = {._flags = AMQP_BASIC_MESSAGE_ID_FLAG,
                                 .message_id = amqp_cstring_bytes("question")};
    if (reply_to != NULL) {
        p._flags |= AMQP_BASIC_REPLY_TO_FLAG;
        p.reply_to = amqp_cstring_bytes(reply_to);
    }
    int status = amqp_basic_publish(c, CLIENT_CHANNEL, amqp_cstring_bytes(""), queue, 0, 0, &p,
                                    amqp_cstring_bytes(body));
    if (status != AMQP_STATUS_OK)
        fprintf(stderr, "publishing: %s\n", amqp_error_string2(status));
    return status == AMQP_STATUS_OK;
}

/* The asker's address lives as long as this consumer. */
static bool ask(amqp_connection_state_t c, const struct options *o)
{
    static const char pseudo_queue[] = "amq.rabbitmq.reply-to";
    return client_consume(c, pseudo_queue, "", 0) &&
           publish(c, amqp_cstring_bytes(o->in), pseudo_queue, "question");
}

/* Takes the copy out of the work queue, and answers it. */
static bool answer(amqp_connection_state_t c, const struct options *o)
{
    amqp_rpc_reply_t reply;
    for (int i = 0; i < PATIENCE * 50; i++) {
        amqp_maybe_release_buffers(c);
        reply = amqp_basic_get(c, CLIENT_CHANNEL, amqp_cstring_bytes(o->work), 1);
        if (reply.reply_type != AMQP_RESPONSE_NORMAL || reply.reply.id == AMQP_BASIC_GET_OK_METHOD)
            break;
        client_nap(20);
    }
    amqp_message_t copy;
    if (!client_succeeded(c, o->work) || reply.reply.id != AMQP_BASIC_GET_OK_METHOD ||
        amqp_read_message(c, CLIENT_CHANNEL, &copy, 0).reply_type != AMQP_RESPONSE_NORMAL) {
        fprintf(stderr, "%s: no copy came\n", o->work);
        return false;
    }
    bool ok = (copy.properties._flags & AMQP_BASIC_REPLY_TO_FLAG) != 0;
    if (ok)
        ok = publish(c, copy.properties.reply_to, NULL, "answer");
    else
        fprintf(stderr, "the copy has no reply_to\n");
    amqp_destroy_message(&copy);
    return ok;
}

static bool is_answered(amqp_connection_state_t c)
{
    struct timeval patience = {PATIENCE, 0};
    amqp_envelope_t envelope;
    amqp_maybe_release_buffers(c);
    if (amqp_consume_message(c, &envelope, &patience, 0).reply_type != AMQP_RESPONSE_NORMAL) {
        fprintf(stderr, "no answer came\n");
        return false;
    }
    amqp_bytes_t body = envelope.message.body;
    bool ok = body.len == strlen("answer") && memcmp(body.bytes, "answer", body.len) == 0;
    amqp_destroy_envelope(&envelope);
    return ok;
}

int main(int argc, char **argv)
{
    const struct argp argp = {.options = option_table,
                              .parser = take_option,
                              .doc = "Asks by direct reply-to, and answers as a worker would."};
    struct options o = {0};
    client_parse(&argp, CLIENT_BROKER, argc, argv, &o.client);

    amqp_connection_state_t asker = client_open(o.client.amqp);
    amqp_connection_state_t worker = client_open(o.client.amqp);
    bool ok = asker != NULL && worker != NULL && ask(asker, &o) && answer(worker, &o) &&
              is_answered(asker);
    client_close(worker);
    client_close(asker);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
