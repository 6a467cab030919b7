/*
 * textbook - deduplication as tutorials show it, for comparison: consume one message, SETNX its id,
 * publish, wait for the confirm, acknowledge, and again. A crash between SETNX and publish loses
 * the message.
 *
 *   textbook --amqp URL --redis HOST:PORT --from QUEUE --to QUEUE
 *
 * It runs until it is killed.
 */
#include "client.h"

#include <argp.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    struct client_options client;
    char *redis;
    const char *from;
    const char *to;
};

static const struct argp_option option_table[] = {
    {"redis", 'r', "HOST:PORT", 0, "The Redis server", 0},
    {"from", 'f', "QUEUE", 0, "Consume from this queue", 0},
    {"to", 't', "QUEUE", 0, "Publish to this one", 0},
    {0},
};

static error_t take_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 'r': o->redis = arg; break;
    case 'f': o->from = arg; break;
    case 't': o->to = arg; break;
    case ARGP_KEY_END:
        if (!o->redis || !strchr(o->redis, ':') || !o->from || !o->to)
            argp_error(state, "--redis HOST:PORT, --from and --to are needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static bool is_new(redisContext *redis, amqp_bytes_t id)
{
    redisReply *reply = redisCommand(redis, "SET textbook:%b 1 NX EX 86400", id.bytes, id.len);
    if (!reply) {
        fprintf(stderr, "textbook: Redis: %s\n", redis->errstr);
        exit(EXIT_FAILURE);
    }
    bool set = reply->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
    return set;
}

/* Publishes on a connection of its own, so that the confirm is the next frame. */
static bool forward(amqp_connection_state_t out, const char *to, const amqp_message_t *m)
{
    amqp_frame_t frame;
    if (amqp_basic_publish(out, CLIENT_CHANNEL, amqp_cstring_bytes(""), amqp_cstring_bytes(to), 0,
                           0, &m->properties, m->body) != AMQP_STATUS_OK)
        return false;
    amqp_maybe_release_buffers(out);
    return amqp_simple_wait_frame(out, &frame) == AMQP_STATUS_OK &&
           frame.frame_type == AMQP_FRAME_METHOD &&
           frame.payload.method.id == AMQP_BASIC_ACK_METHOD;
}

static bool handle_one(amqp_connection_state_t in, amqp_connection_state_t out, redisContext *redis,
                       const struct options *o)
{
    amqp_envelope_t e;
    amqp_maybe_release_buffers(in);
    if (amqp_consume_message(in, &e, NULL, 0).reply_type != AMQP_RESPONSE_NORMAL)
        return false;
    bool ok = !is_new(redis, e.message.properties.message_id) || forward(out, o->to, &e.message);
    ok = ok && amqp_basic_ack(in, CLIENT_CHANNEL, e.delivery_tag, 0) == AMQP_STATUS_OK;
    amqp_destroy_envelope(&e);
    return ok;
}

int main(int argc, char **argv)
{
    const struct argp argp = {
        .options = option_table, .parser = take_option, .doc = "Deduplicates as tutorials do."};
    struct options o = {0};
    client_parse(&argp, CLIENT_BROKER, argc, argv, &o.client);
    char *colon = strrchr(o.redis, ':');
    *colon = '\0';
    redisContext *redis = redisConnect(o.redis, atoi(colon + 1));
    amqp_connection_state_t in = client_open(o.client.amqp);
    amqp_connection_state_t out = client_open(o.client.amqp);
    if (!redis || redis->err || !in || !out)
        return EXIT_FAILURE;
    amqp_confirm_select(out, CLIENT_CHANNEL);
    if (!client_consume(in, o.from, "textbook", 2000))
        return EXIT_FAILURE;
    while (handle_one(in, out, redis, &o))
        continue;
    return EXIT_FAILURE;
}
