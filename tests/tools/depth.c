/*
 * depth - how many messages a queue has ready, or how many consumers: one number on stdout.
 */
#include "client.h"

#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct options {
    struct client_options client;
    bool consumers;
};

static const struct argp_option option_table[] = {
    {"consumers", 'c', NULL, 0, "Count consumers instead", 0},
    {0},
};

static error_t take_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    (void)arg;
    if (key != 'c')
        return ARGP_ERR_UNKNOWN;
    o->consumers = true;
    return 0;
}

int main(int argc, char **argv)
{
    const struct argp argp = {.options = option_table,
                              .parser = take_option,
                              .doc = "Prints how many messages QUEUE has ready."};
    struct options o = {0};
    client_parse(&argp, CLIENT_QUEUE, argc, argv, &o.client);

    amqp_connection_state_t c = client_open(o.client.amqp);
    if (c == NULL)
        return EXIT_FAILURE;
    amqp_queue_declare_ok_t *found = amqp_queue_declare(
        c, CLIENT_CHANNEL, amqp_cstring_bytes(o.client.queue), 1, 0, 0, 0, amqp_empty_table);
    bool ok = client_succeeded(c, o.client.queue) && found != NULL;
    if (ok)
        printf("%" PRIu32 "\n", o.consumers ? found->consumer_count : found->message_count);
    client_close(c);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
