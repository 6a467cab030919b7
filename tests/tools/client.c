#include "client.h"

#include <amqp_tcp_socket.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FRAME_MAX 131072
#define HEARTBEAT 0 /* a tool may stand still, and the broker shall wait for it */

/* ---- The connection ---- */

static const char *reply_text(amqp_rpc_reply_t reply, char text[256])
{
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION)
        return amqp_error_string2(reply.library_error);
    if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION && reply.reply.decoded != NULL) {
        amqp_bytes_t said = {0, NULL};
        if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD)
            said = ((amqp_channel_close_t *)reply.reply.decoded)->reply_text;
        else if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD)
            said = ((amqp_connection_close_t *)reply.reply.decoded)->reply_text;
        snprintf(text, 256, "%.*s", (int)said.len, said.len > 0 ? (const char *)said.bytes : "");
        return text;
    }
    return "no answer";
}

bool client_succeeded(amqp_connection_state_t c, const char *what)
{
    char text[256];
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(c);
    if (reply.reply_type == AMQP_RESPONSE_NORMAL)
        return true;
    fprintf(stderr, "%s: %s\n", what, reply_text(reply, text));
    return false;
}

static bool log_in(amqp_connection_state_t c, const struct amqp_connection_info *info)
{
    char text[256];
    struct timeval patience = {5, 0};
    amqp_socket_t *socket = amqp_tcp_socket_new(c);
    if (socket == NULL)
        return false;
    int status = amqp_socket_open_noblock(socket, info->host, info->port, &patience);
    if (status != AMQP_STATUS_OK) {
        fprintf(stderr, "connecting to %s:%d: %s\n", info->host, info->port,
                amqp_error_string2(status));
        return false;
    }
    amqp_rpc_reply_t reply = amqp_login(c, info->vhost, 0, FRAME_MAX, HEARTBEAT,
                                        AMQP_SASL_METHOD_PLAIN, info->user, info->password);
    if (reply.reply_type != AMQP_RESPONSE_NORMAL) {
        fprintf(stderr, "logging in as %s: %s\n", info->user, reply_text(reply, text));
        return false;
    }
    amqp_channel_open(c, CLIENT_CHANNEL);
    return client_succeeded(c, "opening a channel");
}

amqp_connection_state_t client_open(const char *url)
{
    char *copy = strdup(url); /* parsing cuts it up */
    struct amqp_connection_info info;
    amqp_connection_state_t c = amqp_new_connection();
    bool ok = copy != NULL && c != NULL;
    if (ok && amqp_parse_url(copy, &info) != AMQP_STATUS_OK) {
        fprintf(stderr, "not a broker's URL: %s\n", url);
        ok = false;
    }
    ok = ok && log_in(c, &info);
    free(copy);
    if (!ok && c != NULL) {
        amqp_destroy_connection(c);
        c = NULL;
    }
    return c;
}

void client_close(amqp_connection_state_t c)
{
    if (c == NULL)
        return;
    amqp_connection_close(c, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(c);
}

int client_broker_major(amqp_connection_state_t c)
{
    const amqp_table_t *about = amqp_get_server_properties(c);
    for (int i = 0; i < about->num_entries; i++) {
        amqp_bytes_t key = about->entries[i].key;
        if (key.len == strlen("version") && memcmp(key.bytes, "version", key.len) == 0)
            return (int)strtol(about->entries[i].value.value.bytes.bytes, NULL, 10);
    }
    return 0;
}

bool client_consume(amqp_connection_state_t c, const char *queue, const char *tag,
                    uint16_t prefetch)
{
    if (prefetch > 0) {
        amqp_basic_qos(c, CLIENT_CHANNEL, 0, prefetch, 0);
        if (!client_succeeded(c, "prefetch"))
            return false;
    }
    amqp_basic_consume(c, CLIENT_CHANNEL, amqp_cstring_bytes(queue), amqp_cstring_bytes(tag), 0,
                       prefetch == 0, 0, amqp_empty_table);
    return client_succeeded(c, queue);
}

bool client_take(amqp_connection_state_t c, long ms, amqp_envelope_t *envelope, bool *took)
{
    struct timeval wait = {ms / 1000, ms % 1000 * 1000};
    amqp_maybe_release_buffers(c);
    amqp_rpc_reply_t reply = amqp_consume_message(c, envelope, &wait, 0);
    *took = reply.reply_type == AMQP_RESPONSE_NORMAL;
    return *took || (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION &&
                     reply.library_error == AMQP_STATUS_TIMEOUT);
}

/* ---- Messages ---- */

bool id_place_read(const char *text, struct id_place *place)
{
    place->header = NULL;
    if (strcmp(text, "message-id") == 0) {
        place->where = ID_IN_MESSAGE_ID;
    } else if (strcmp(text, "body") == 0) {
        place->where = ID_IN_BODY;
    } else if (strncmp(text, "header:", 7) == 0 && text[7] != '\0') {
        place->where = ID_IN_HEADER;
        place->header = text + 7;
    } else {
        return false;
    }
    return true;
}

const amqp_field_value_t *client_header(const amqp_basic_properties_t *properties, const char *name)
{
    if ((properties->_flags & AMQP_BASIC_HEADERS_FLAG) == 0)
        return NULL;
    for (int i = 0; i < properties->headers.num_entries; i++) {
        const amqp_table_entry_t *entry = &properties->headers.entries[i];
        if (entry->key.len == strlen(name) && memcmp(entry->key.bytes, name, entry->key.len) == 0)
            return &entry->value;
    }
    return NULL;
}

static bool take_text(amqp_bytes_t from, char id[CLIENT_ID_MAX])
{
    if (from.len == 0 || from.len >= CLIENT_ID_MAX)
        return false;
    memcpy(id, from.bytes, from.len);
    id[from.len] = '\0';
    return true;
}

static bool id_of_body(amqp_bytes_t body, char id[CLIENT_ID_MAX])
{
    static const char opening[] = "{\"id\":\"";
    const size_t start = sizeof opening - 1;
    if (body.len <= start || memcmp(body.bytes, opening, start) != 0)
        return false;
    amqp_bytes_t rest = {body.len - start, (char *)body.bytes + start};
    const char *end = memchr(rest.bytes, '"', rest.len);
    if (end == NULL)
        return false;
    rest.len = (size_t)(end - (const char *)rest.bytes);
    return take_text(rest, id);
}

bool id_of_message(const struct id_place *place, const amqp_basic_properties_t *properties,
                   amqp_bytes_t body, char id[CLIENT_ID_MAX])
{
    const amqp_field_value_t *value;
    switch (place->where) {
    case ID_IN_MESSAGE_ID:
        return (properties->_flags & AMQP_BASIC_MESSAGE_ID_FLAG) != 0 &&
               take_text(properties->message_id, id);
    case ID_IN_HEADER:
        value = client_header(properties, place->header);
        return value != NULL && value->kind == AMQP_FIELD_KIND_UTF8 &&
               take_text(value->value.bytes, id);
    case ID_IN_BODY: return id_of_body(body, id);
    }
    return false;
}

/* ---- The command line ---- */

static const struct argp_option broker_rows[] = {
    {"amqp", 'a', "URL", 0, "The broker", 0},
    {0},
};

static const struct argp_option destination_rows[] = {
    {"amqp", 'a', "URL", 0, "The broker", 0},
    {"exchange", 'e', "NAME", 0, "Publish to this exchange (the default one)", 0},
    {"routing-key", 'r', "KEY", 0, "With this routing key", 0},
    {"queue", 'q', "NAME", 0, "Publish to this queue, instead of the two above", 0},
    {0},
};

static error_t take_broker(int key, char *arg, struct argp_state *state)
{
    struct client_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = o; break;
    case 'a': o->amqp = arg; break;
    case ARGP_KEY_END:
        if (o->amqp == NULL)
            argp_error(state, "--amqp is needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static error_t take_queue(int key, char *arg, struct argp_state *state)
{
    struct client_options *o = state->input;
    if (key == ARGP_KEY_ARG) {
        if (o->queue != NULL)
            argp_error(state, "one queue only");
        o->queue = arg;
        return 0;
    }
    if (key == ARGP_KEY_END && o->queue == NULL)
        argp_error(state, "a queue's name is needed");
    return take_broker(key, arg, state);
}

static error_t take_destination(int key, char *arg, struct argp_state *state)
{
    struct client_options *o = state->input;
    switch (key) {
    case 'e': o->exchange = arg; return 0;
    case 'r': o->routing_key = arg; return 0;
    case 'q':
        o->exchange = "";
        o->routing_key = arg;
        return 0;
    case ARGP_KEY_INIT: o->exchange = o->routing_key = ""; break;
    case ARGP_KEY_END:
        if (o->exchange[0] == '\0' && o->routing_key[0] == '\0')
            argp_error(state, "one of --exchange and --queue is needed");
        break;
    default: break;
    }
    return take_broker(key, arg, state);
}

void client_parse(const struct argp *own, enum client_takes takes, int argc, char **argv,
                  struct client_options *o)
{
    static const argp_parser_t parsers[] = {take_broker, take_queue, take_destination};
    const struct argp_child children[] = {{own, 0, NULL, 0}, {0}};
    const struct argp argp = {.options =
                                  takes == CLIENT_DESTINATION ? destination_rows : broker_rows,
                              .parser = parsers[takes],
                              .args_doc = takes == CLIENT_QUEUE ? "QUEUE" : NULL,
                              .doc = own->doc,
                              .children = children};
    argp_parse(&argp, argc, argv, 0, NULL, o);
}

long client_number(const char *option, const char *text, long most)
{
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || n < 0 || n > most) {
        fprintf(stderr, "--%s: \"%s\" is not a whole number from 0 to %ld\n", option, text, most);
        exit(2);
    }
    return n;
}

/* ---- Time and chance ---- */

static volatile sig_atomic_t stopping;

static void stop(int number)
{
    (void)number;
    stopping = 1;
}

void client_stop_on_sigterm(void)
{
    const struct sigaction on_stop = {.sa_handler = stop};
    sigaction(SIGTERM, &on_stop, NULL);
}

bool client_stopping(void)
{
    return stopping != 0;
}

double client_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void client_nap(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

uint64_t client_seed(long seed)
{
    return (uint64_t)seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
}

uint32_t client_random_below(uint64_t *state, uint32_t bound)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (uint32_t)((*state * UINT64_C(2685821657736338717) >> 32) % bound);
}

void *client_allocate(size_t count, size_t size)
{
    void *p = calloc(count > 0 ? count : 1, size);
    if (p == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(EXIT_FAILURE);
    }
    return p;
}
