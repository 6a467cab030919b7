#include "unconfirmed.h"

#include "client.h"

#include <stdio.h>
#include <time.h>

bool unconfirmed_open(struct unconfirmed *u, const char *url)
{
    unconfirmed_drop(u);
    u->sent_tag = u->done_tag = 0;
    u->c = client_open(url);
    if (u->c == NULL)
        return false;
    amqp_confirm_select(u->c, CLIENT_CHANNEL);
    return client_succeeded(u->c, "confirm.select");
}

bool unconfirmed_reopen(struct unconfirmed *u, const char *url, int seconds)
{
    double until = client_now() + seconds;
    do {
        if (unconfirmed_open(u, url))
            return true;
        client_nap(300);
    } while (seconds == 0 || client_now() < until);
    fprintf(stderr, "the broker did not come back within %d s\n", seconds);
    return false;
}

void unconfirmed_close(struct unconfirmed *u)
{
    client_close(u->c);
    u->c = NULL;
}

void unconfirmed_drop(struct unconfirmed *u)
{
    if (u->c != NULL)
        amqp_destroy_connection(u->c);
    u->c = NULL;
}

bool unconfirmed_is_full(const struct unconfirmed *u, uint64_t most)
{
    return u->sent_tag - u->done_tag >= most;
}

bool unconfirmed_is_open(const struct unconfirmed *u, uint64_t tag)
{
    return tag > u->done_tag && tag <= u->sent_tag && !u->settled[tag % UNCONFIRMED_MOST];
}

bool unconfirmed_publish(struct unconfirmed *u, const char *exchange, const char *routing_key,
                         const amqp_basic_properties_t *properties, amqp_bytes_t body)
{
    u->sent_tag++;
    u->settled[u->sent_tag % UNCONFIRMED_MOST] = false;
    return amqp_basic_publish(u->c, CLIENT_CHANNEL, amqp_cstring_bytes(exchange),
                              amqp_cstring_bytes(routing_key), 1, 0, properties,
                              body) == AMQP_STATUS_OK;
}

static void settle(struct unconfirmed *u, uint64_t tag, bool multiple, bool confirmed)
{
    for (uint64_t t = multiple ? u->done_tag + 1 : tag; t <= tag; t++) {
        if (!unconfirmed_is_open(u, t))
            continue;
        u->settled[t % UNCONFIRMED_MOST] = true;
        u->nacked += !confirmed;
        if (confirmed && u->on_confirm != NULL)
            u->on_confirm(u->context, t);
    }
    while (u->done_tag < u->sent_tag && u->settled[(u->done_tag + 1) % UNCONFIRMED_MOST])
        u->done_tag++;
}

static bool take_method(struct unconfirmed *u, const amqp_method_t *method)
{
    if (method->id == AMQP_BASIC_ACK_METHOD) {
        const amqp_basic_ack_t *ack = method->decoded;
        settle(u, ack->delivery_tag, ack->multiple, true);
    } else if (method->id == AMQP_BASIC_NACK_METHOD) {
        const amqp_basic_nack_t *nack = method->decoded;
        settle(u, nack->delivery_tag, nack->multiple, false);
    } else if (method->id == AMQP_BASIC_RETURN_METHOD) {
        u->returned++;
    } else if (method->id == AMQP_CHANNEL_CLOSE_METHOD) {
        const amqp_channel_close_t *close = method->decoded;
        fprintf(stderr, "refused: %.*s\n", (int)close->reply_text.len,
                (const char *)close->reply_text.bytes);
        u->refused = true;
        return false;
    } else {
        return false; /* the connection was closed */
    }
    return true;
}

bool unconfirmed_take(struct unconfirmed *u, double seconds, bool *took)
{
    long us = (long)(seconds * 1e6);
    struct timeval wait = {us / 1000000, us % 1000000};
    *took = false;
    for (;;) {
        amqp_frame_t frame;
        amqp_maybe_release_buffers(u->c);
        int status = amqp_simple_wait_frame_noblock(u->c, &frame, &wait);
        if (status == AMQP_STATUS_TIMEOUT)
            return true;
        if (status != AMQP_STATUS_OK)
            return false;
        /* Other frames are the content of a return. */
        if (frame.frame_type == AMQP_FRAME_METHOD && !take_method(u, &frame.payload.method))
            return false;
        *took = true;
        wait = (struct timeval){0, 0};
    }
}

bool unconfirmed_settle(struct unconfirmed *u, double seconds)
{
    const uint64_t nacked = u->nacked, returned = u->returned;
    while (u->done_tag < u->sent_tag) {
        bool took;
        if (!unconfirmed_take(u, seconds, &took) || !took) {
            fprintf(stderr, "a message was not confirmed\n");
            return false;
        }
    }
    if (u->nacked > nacked)
        fprintf(stderr, "the broker refused it\n");
    if (u->returned > returned)
        fprintf(stderr, "the broker returned it: no queue takes it\n");
    return u->nacked == nacked && u->returned == returned;
}
