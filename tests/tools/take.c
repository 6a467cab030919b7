/*
 * take - takes messages out of a queue and prints each as one JSON object on a line: exchange,
 * routing_key, redelivered, the properties that are texts, headers and body.
 *
 * --settle reject dead-letters them, as a worker that fails does; --settle requeue puts them back;
 * --move-to publishes them to another queue first, as they are, as an operator does.
 */
#include "client.h"

#include <argp.h>
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum settle { ACK, REQUEUE, REJECT };

struct options {
    struct client_options client;
    const char *move_to;
    enum settle settle;
    long count; /* -1: until the queue is empty */
    long wait;  /* ms, for `count` messages to be there */
};

static const struct argp_option option_table[] = {
    {"count", 'n', "N", 0, "So many messages (all there are); fewer are a failure", 0},
    {"wait", 'w', "MS", 0, "Wait so long for them (30000)", 0},
    {"settle", 's', "HOW", 0, "ack, requeue or reject (ack)", 0},
    {"move-to", 'm', "QUEUE", 0, "Publish each to this queue before", 0},
    {0},
};

static enum settle read_settle(const char *text, struct argp_state *state)
{
    static const char *const names[] = {"ack", "requeue", "reject"};
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0)
            return (enum settle)i;
    argp_error(state, "--settle: \"%s\" is none of ack, requeue and reject", text);
    return ACK;
}

static error_t take_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 'n': o->count = client_number("count", arg, 1000000); break;
    case 'w': o->wait = client_number("wait", arg, 600000); break;
    case 's': o->settle = read_settle(arg, state); break;
    case 'm': o->move_to = arg; break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* ---- A message as JSON ---- */

static cJSON *json_text(amqp_bytes_t bytes)
{
    char *text = calloc(bytes.len + 1, 1);
    if (text == NULL)
        abort();
    if (bytes.len > 0)
        memcpy(text, bytes.bytes, bytes.len);
    cJSON *json = cJSON_CreateString(text);
    free(text);
    return json;
}

static void add_text(cJSON *to, const char *name, amqp_bytes_t bytes)
{
    cJSON_AddItemToObject(to, name, json_text(bytes));
}

static cJSON *json_table(const amqp_table_t *table);

/* Types that the tests do not look into are named by their letter. */
static cJSON *json_value(const amqp_field_value_t *v)
{
    switch (v->kind) {
    case AMQP_FIELD_KIND_BOOLEAN: return cJSON_CreateBool(v->value.boolean);
    case AMQP_FIELD_KIND_I32: return cJSON_CreateNumber(v->value.i32);
    case AMQP_FIELD_KIND_I64: return cJSON_CreateNumber((double)v->value.i64);
    case AMQP_FIELD_KIND_TIMESTAMP: return cJSON_CreateNumber((double)v->value.u64);
    case AMQP_FIELD_KIND_UTF8:
    case AMQP_FIELD_KIND_BYTES: return json_text(v->value.bytes);
    case AMQP_FIELD_KIND_TABLE: return json_table(&v->value.table);
    case AMQP_FIELD_KIND_ARRAY: {
        cJSON *array = cJSON_CreateArray();
        for (int i = 0; i < v->value.array.num_entries; i++)
            cJSON_AddItemToArray(array, json_value(&v->value.array.entries[i]));
        return array;
    }
    default: return json_text((amqp_bytes_t){1, (char[]){(char)v->kind}});
    }
}

static cJSON *json_table(const amqp_table_t *table)
{
    cJSON *object = cJSON_CreateObject();
    for (int i = 0; i < table->num_entries; i++) {
        char name[256] = "";
        amqp_bytes_t key = table->entries[i].key;
        memcpy(name, key.bytes, key.len < sizeof name ? key.len : sizeof name - 1);
        cJSON_AddItemToObject(object, name, json_value(&table->entries[i].value));
    }
    return object;
}

static void print(const amqp_basic_get_ok_t *got, const amqp_message_t *message)
{
    const amqp_basic_properties_t *p = &message->properties;
    const struct {
        const char *name;
        amqp_flags_t flag;
        amqp_bytes_t value;
    } texts[] = {
        {"message_id", AMQP_BASIC_MESSAGE_ID_FLAG, p->message_id},
        {"correlation_id", AMQP_BASIC_CORRELATION_ID_FLAG, p->correlation_id},
        {"reply_to", AMQP_BASIC_REPLY_TO_FLAG, p->reply_to},
        {"content_type", AMQP_BASIC_CONTENT_TYPE_FLAG, p->content_type},
        {"app_id", AMQP_BASIC_APP_ID_FLAG, p->app_id},
        {"type", AMQP_BASIC_TYPE_FLAG, p->type},
    };
    cJSON *json = cJSON_CreateObject();
    add_text(json, "exchange", got->exchange);
    add_text(json, "routing_key", got->routing_key);
    cJSON_AddBoolToObject(json, "redelivered", got->redelivered != 0);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if ((p->_flags & texts[i].flag) != 0)
            add_text(json, texts[i].name, texts[i].value);
    cJSON_AddItemToObject(json, "headers",
                          (p->_flags & AMQP_BASIC_HEADERS_FLAG) != 0 ? json_table(&p->headers)
                                                                     : cJSON_CreateObject());
    add_text(json, "body", message->body);
    char *text = cJSON_PrintUnformatted(json);
    puts(text != NULL ? text : "null");
    cJSON_free(text);
    cJSON_Delete(json);
}

/* ---- Taking ---- */

static bool settle(amqp_connection_state_t c, const struct options *o, uint64_t tag,
                   const amqp_message_t *message)
{
    int status = AMQP_STATUS_OK;
    if (o->move_to != NULL)
        status = amqp_basic_publish(c, CLIENT_CHANNEL, amqp_cstring_bytes(""),
                                    amqp_cstring_bytes(o->move_to), 0, 0, &message->properties,
                                    message->body);
    if (status == AMQP_STATUS_OK)
        status = o->settle == ACK ? amqp_basic_ack(c, CLIENT_CHANNEL, tag, 0)
                                  : amqp_basic_reject(c, CLIENT_CHANNEL, tag, o->settle == REQUEUE);
    if (status != AMQP_STATUS_OK)
        fprintf(stderr, "settling: %s\n", amqp_error_string2(status));
    return status == AMQP_STATUS_OK;
}

/* Takes one message; *empty: there was none. */
static bool take_one(amqp_connection_state_t c, const struct options *o, bool *empty)
{
    amqp_message_t message;
    amqp_maybe_release_buffers(c);
    amqp_rpc_reply_t reply =
        amqp_basic_get(c, CLIENT_CHANNEL, amqp_cstring_bytes(o->client.queue), 0);
    *empty =
        reply.reply_type == AMQP_RESPONSE_NORMAL && reply.reply.id == AMQP_BASIC_GET_EMPTY_METHOD;
    if (*empty)
        return true;
    if (!client_succeeded(c, o->client.queue))
        return false;
    const amqp_basic_get_ok_t *got = reply.reply.decoded;
    uint64_t tag = got->delivery_tag;
    amqp_basic_get_ok_t kept = *got;
    kept.exchange = amqp_bytes_malloc_dup(got->exchange);
    kept.routing_key = amqp_bytes_malloc_dup(got->routing_key);
    reply = amqp_read_message(c, CLIENT_CHANNEL, &message, 0);
    bool ok = reply.reply_type == AMQP_RESPONSE_NORMAL;
    if (ok) {
        print(&kept, &message);
        ok = settle(c, o, tag, &message);
        amqp_destroy_message(&message);
    }
    amqp_bytes_free(kept.exchange);
    amqp_bytes_free(kept.routing_key);
    return ok;
}

static bool take(amqp_connection_state_t c, const struct options *o)
{
    const long nap = 20;
    long waited = 0;
    long taken = 0;
    while (o->count < 0 || taken < o->count) {
        bool empty;
        if (!take_one(c, o, &empty))
            return false;
        taken += !empty;
        if (!empty)
            continue;
        if (o->count < 0)
            return true;
        if (waited >= o->wait) {
            fprintf(stderr, "%s: %ld messages, not %ld, within %ld ms\n", o->client.queue, taken,
                    o->count, o->wait);
            return false;
        }
        client_nap(nap);
        waited += nap;
    }
    return true;
}

int main(int argc, char **argv)
{
    const struct argp argp = {.options = option_table,
                              .parser = take_option,
                              .doc = "Takes messages out of QUEUE and prints them as JSON."};
    struct options o = {.count = -1, .wait = 30000};
    client_parse(&argp, CLIENT_QUEUE, argc, argv, &o.client);

    amqp_connection_state_t c = client_open(o.client.amqp);
    if (c == NULL)
        return EXIT_FAILURE;
    bool ok = take(c, &o);
    client_close(c);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
