/*
 * collect - takes every message out of some queues and writes down what it was, until SIGTERM.
 *
 *   collect --amqp URL --out FILE QUEUE...
 *
 * One line for each delivery, appended to FILE before the delivery is acknowledged:
 *
 *   QUEUE ID FLAGS     d in doubt, u unchecked, n no key, a attempt 2 or later, r redelivered; or -
 *
 * On SIGTERM it cancels its consumers, takes what was already on its way, acknowledges it, and
 * closes the channel in order, so that nothing it wrote down is left in a queue: a delivery is
 * never written down twice unless the connection was lost in between, which it says on stderr, and
 * then the second one has an r. It waits for queues and a broker that are not there.
 */
#include "client.h"

#include <argp.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QUEUES_MAX 8
#define PREFETCH 200
#define CANCELLED_MS 200 /* without a delivery after cancelling: there is none on its way */

struct options {
    struct client_options client;
    const char *out;
    const char *queues[QUEUES_MAX];
    int count;
};

struct collect {
    const struct options *o;
    amqp_connection_state_t c;
    int file;
};

static const struct argp_option option_table[] = {
    {"out", 'o', "FILE", 0, "Append to this file", 0},
    {0},
};

static error_t take_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 'o': o->out = arg; break;
    case ARGP_KEY_ARG:
        if (o->count == QUEUES_MAX)
            argp_error(state, "at most %d queues", QUEUES_MAX);
        o->queues[o->count++] = arg;
        break;
    case ARGP_KEY_END:
        if (o->out == NULL || o->count == 0)
            argp_error(state, "--out and a queue's name are needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* A consumer's tag is its queue's number, a digit. */
static bool consume(const struct collect *k)
{
    for (int i = 0; i < k->o->count; i++) {
        char tag[2] = {(char)('0' + i), '\0'};
        if (!client_consume(k->c, k->o->queues[i], tag, PREFETCH))
            return false;
    }
    return true;
}

static size_t write_flags(const amqp_envelope_t *e, char flags[8])
{
    static const struct {
        const char *header;
        char flag;
    } marks[] = {{"x-onlyonce-in-doubt", 'd'},
                 {"x-onlyonce-unchecked", 'u'},
                 {"x-onlyonce-no-key", 'n'},
                 {"x-onlyonce-attempt", 'a'}};
    size_t n = 0;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (client_header(&e->message.properties, marks[i].header) != NULL)
            flags[n++] = marks[i].flag;
    if (e->redelivered)
        flags[n++] = 'r';
    if (n == 0)
        flags[n++] = '-';
    flags[n] = '\0';
    return n;
}

/* Ends the program if the line cannot be written: going on would lose what is being counted. */
static void write_down(const struct collect *k, const amqp_envelope_t *e)
{
    const struct id_place place = {.where = ID_IN_BODY};
    char id[CLIENT_ID_MAX] = "?", flags[8], line[512];
    id_of_message(&place, &e->message.properties, e->message.body, id);
    write_flags(e, flags);
    int queue = e->consumer_tag.len == 1 ? *(const char *)e->consumer_tag.bytes - '0' : 0;
    int n = snprintf(line, sizeof line, "%s %s %s\n", k->o->queues[queue], id, flags);
    if (write(k->file, line, (size_t)n) != n) {
        perror(k->o->out);
        exit(EXIT_FAILURE);
    }
}

/* Takes one delivery, if there is one within `ms`. False: the connection is of no more use. */
static bool take(const struct collect *k, long ms, bool *took)
{
    amqp_envelope_t envelope;
    if (!client_take(k->c, ms, &envelope, took))
        return false;
    if (!*took)
        return true;
    write_down(k, &envelope);
    int status = amqp_basic_ack(k->c, CLIENT_CHANNEL, envelope.delivery_tag, 0);
    amqp_destroy_envelope(&envelope);
    return status == AMQP_STATUS_OK;
}

/* Stops in order; false if the connection broke meanwhile. */
static bool end_session(const struct collect *k)
{
    for (int i = 0; i < k->o->count; i++) {
        char tag[2] = {(char)('0' + i), '\0'};
        amqp_basic_cancel(k->c, CLIENT_CHANNEL, amqp_cstring_bytes(tag));
        if (!client_succeeded(k->c, "cancelling"))
            return false;
    }
    for (bool took = true; took;)
        if (!take(k, CANCELLED_MS, &took))
            return false;
    amqp_rpc_reply_t reply = amqp_channel_close(k->c, CLIENT_CHANNEL, AMQP_REPLY_SUCCESS);
    return reply.reply_type == AMQP_RESPONSE_NORMAL;
}

/* One connection, until SIGTERM or its loss. True: it stopped in order. */
static bool session(const struct collect *k)
{
    bool took;
    while (!client_stopping()) {
        if (!take(k, 100, &took))
            return false;
    }
    return end_session(k);
}

int main(int argc, char **argv)
{
    const struct argp argp = {.options = option_table,
                              .parser = take_option,
                              .args_doc = "QUEUE...",
                              .doc = "Takes all messages out of queues and writes them down."};
    struct options o = {0};
    client_parse(&argp, CLIENT_BROKER, argc, argv, &o.client);
    client_stop_on_sigterm();

    struct collect k = {.o = &o, .file = open(o.out, O_WRONLY | O_CREAT | O_APPEND, 0644)};
    if (k.file < 0) {
        perror(o.out);
        return EXIT_FAILURE;
    }
    while (!client_stopping()) {
        k.c = client_open(o.client.amqp);
        bool ready = k.c != NULL && consume(&k);
        bool ordered = ready && session(&k);
        if (ready && !ordered)
            fprintf(stderr, "lost the connection\n");
        if (ordered)
            client_close(k.c);
        else if (k.c != NULL)
            amqp_destroy_connection(k.c); /* a broken one: nothing else may be called on it */
        if (!ordered)
            client_nap(200);
    }
    return close(k.file) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
