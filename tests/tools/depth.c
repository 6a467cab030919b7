/*
 * depth - how many messages a queue has ready, or how many consumers: one number on stdout.
 */
#include "client.h"

#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct options {
    const char *amqp;
    const char *queue;
    bool consumers;
};

static const struct argp_option option_table[] = {
    {"amqp", 'a', "URL", 0, "The broker", 0},
    {"consumers", 'c', NULL, 0, "Count consumers instead", 0},
    {0},
};

static error_t take_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 'a': o->amqp = arg; break;
    case 'c': o->consumers = true; break;
    case ARGP_KEY_ARG:
        if (o->queue != NULL)
            argp_error(state, "one queue only");
        o->queue = arg;
        break;
    case ARGP_KEY_END:
        if (o->amqp == NULL || o->queue == NULL)
            argp_error(state, "--amqp and a queue's name are needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int main(int argc, char **argv)
{
    const struct argp argp = {.options = option_table,
                              .parser = take_option,
                              .args_doc = "QUEUE",
                              .doc = "Prints how many messages QUEUE has ready."};
    struct options o = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &o);

    amqp_connection_state_t c = client_open(o.amqp);
    if (c == NULL)
        return EXIT_FAILURE;
    amqp_queue_declare_ok_t *found = amqp_queue_declare(
        c, CLIENT_CHANNEL, amqp_cstring_bytes(o.queue), 1, 0, 0, 0, amqp_empty_table);
    bool ok = client_succeeded(c, o.queue) && found != NULL;
    if (ok)
        printf("%" PRIu32 "\n", o.consumers ? found->consumer_count : found->message_count);
    client_close(c);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
