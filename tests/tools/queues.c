/*
 * queues - makes, binds, empties and deletes queues and exchanges, all durable.
 */
#include "client.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 12

struct options {
    struct client_options client;
    char *words[WORDS_MAX];
    int count;
};

static const struct argp_option option_table[] = {
    {0},
};

static error_t take_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (o->count == WORDS_MAX)
            argp_error(state, "\"%s\" is too much", arg);
        o->words[o->count++] = arg;
        break;
    case ARGP_KEY_END:
        if (o->count < 2)
            argp_error(state, "a verb and a name are needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* NAME=VALUE: a whole number if it looks like one, else text. Cuts the word up. */
static bool read_argument(char *word, amqp_table_entry_t *entry)
{
    char *equals = strchr(word, '=');
    if (equals == NULL)
        return false;
    *equals = '\0';
    char *value = equals + 1;
    char *end;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    entry->key = amqp_cstring_bytes(word);
    if (*value != '\0' && *end == '\0' && errno == 0) {
        entry->value.kind = AMQP_FIELD_KIND_I64;
        entry->value.value.i64 = number;
    } else {
        entry->value.kind = AMQP_FIELD_KIND_UTF8;
        entry->value.value.bytes = amqp_cstring_bytes(value);
    }
    return true;
}

static bool declare(amqp_connection_state_t c, struct options *o)
{
    amqp_table_entry_t entries[WORDS_MAX];
    amqp_table_t arguments = {0, entries};
    for (int i = 2; i < o->count; i++) {
        if (!read_argument(o->words[i], &entries[arguments.num_entries++])) {
            fprintf(stderr, "\"%s\" is no NAME=VALUE\n", o->words[i]);
            return false;
        }
    }
    amqp_queue_declare(c, CLIENT_CHANNEL, amqp_cstring_bytes(o->words[1]), 0, 1, 0, 0, arguments);
    return true;
}

/* False: there is no such verb, or it has too few words. */
static bool run(amqp_connection_state_t c, struct options *o)
{
    const char *verb = o->words[0];
    amqp_bytes_t name = amqp_cstring_bytes(o->words[1]);
    if (strcmp(verb, "declare") == 0)
        return declare(c, o);
    if (strcmp(verb, "delete") == 0) {
        amqp_queue_delete(c, CLIENT_CHANNEL, name, 0, 0);
    } else if (strcmp(verb, "purge") == 0) {
        amqp_queue_purge(c, CLIENT_CHANNEL, name);
    } else if (strcmp(verb, "exchange") == 0 && o->count == 3) {
        amqp_exchange_declare(c, CLIENT_CHANNEL, name, amqp_cstring_bytes(o->words[2]), 0, 1, 0, 0,
                              amqp_empty_table);
    } else if (strcmp(verb, "exchange-delete") == 0) {
        amqp_exchange_delete(c, CLIENT_CHANNEL, name, 0);
    } else if (strcmp(verb, "bind") == 0 && o->count == 4) {
        amqp_queue_bind(c, CLIENT_CHANNEL, name, amqp_cstring_bytes(o->words[2]),
                        amqp_cstring_bytes(o->words[3]), amqp_empty_table);
    } else if (strcmp(verb, "unbind") == 0 && o->count == 4) {
        amqp_queue_unbind(c, CLIENT_CHANNEL, name, amqp_cstring_bytes(o->words[2]),
                          amqp_cstring_bytes(o->words[3]), amqp_empty_table);
    } else {
        fprintf(stderr,
                "\"%s\" is none of declare, delete, purge, exchange, exchange-delete, bind and "
                "unbind, or lacks something\n",
                verb);
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    const struct argp argp = {.options = option_table,
                              .parser = take_option,
                              .args_doc = "declare QUEUE [ARGUMENT=VALUE...]\n"
                                          "delete QUEUE\npurge QUEUE\nexchange-delete NAME\n"
                                          "exchange NAME TYPE\nbind QUEUE EXCHANGE KEY\n"
                                          "unbind QUEUE EXCHANGE KEY",
                              .doc = "Makes, binds, empties and deletes queues and exchanges."};
    struct options o = {0};
    client_parse(&argp, CLIENT_BROKER, argc, argv, &o.client);

    amqp_connection_state_t c = client_open(o.client.amqp);
    if (c == NULL)
        return EXIT_FAILURE;
    bool ok = run(c, &o) && client_succeeded(c, o.words[1]);
    client_close(c);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
