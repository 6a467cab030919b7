#include "content.h"

#include <assert.h>
#include <string.h>

#define CLASS_BASIC 60
#define HEADER_FIXED 12              /* class, weight, body size; properties follow */
#define BODY_MAX (UINT64_C(1) << 30) /* RabbitMQ itself allows half of it at most */

void content_reset(struct content *c)
{
    message_free(c->message);
    *c = (struct content){0};
}

static size_t keep(uint8_t out[255], amqp_bytes_t text)
{
    assert(text.len <= 255);
    if (text.len)
        memcpy(out, text.bytes, text.len);
    return text.len;
}

void content_begin(struct content *c, amqp_bytes_t exchange, amqp_bytes_t routing_key)
{
    assert(!c->begun);
    c->begun = true;
    c->exchange_len = keep(c->exchange, exchange);
    c->routing_key_len = keep(c->routing_key, routing_key);
}

static uint8_t *append(uint8_t *to, const void *from, size_t len)
{
    if (len)
        memcpy(to, from, len);
    return to + len;
}

/* The message's own bytes follow it in this order; see message.h. */
static struct message *new_message(const struct content *c, struct span properties, size_t body)
{
    struct message *m = message_new(c->exchange_len, c->routing_key_len, properties.len, body);
    uint8_t *to = (uint8_t *)(m + 1);
    to = append(to, c->exchange, c->exchange_len);
    to = append(to, c->routing_key, c->routing_key_len);
    append(to, properties.data, properties.len);
    return m;
}

static uint64_t read_number(const uint8_t *at, size_t len)
{
    uint64_t n = 0;
    for (size_t i = 0; i < len; i++)
        n = n << 8 | at[i];
    return n;
}

static void add_header(struct content *c, struct link *l, struct span payload)
{
    if (payload.len < HEADER_FIXED + 2 || read_number(payload.data, 2) != CLASS_BASIC) {
        link_fail(l, "broker sent a broken content header");
        return;
    }
    uint64_t body = read_number(payload.data + 4, 8);
    if (body > BODY_MAX) {
        link_fail(l, "broker announced a body of %llu bytes, more than 1 GiB",
                  (unsigned long long)body);
        return;
    }
    struct span properties = {payload.data + HEADER_FIXED, payload.len - HEADER_FIXED};
    c->message = new_message(c, properties, (size_t)body);
}

static void add_body(struct content *c, struct link *l, struct span payload)
{
    struct message *m = c->message;
    if (payload.len > m->body.len - c->filled) {
        link_fail(l, "broker sent a longer body than it announced");
        return;
    }
    uint8_t *body = (uint8_t *)(m + 1) + (m->body.data - (const uint8_t *)(m + 1));
    append(body + c->filled, payload.data, payload.len);
    c->filled += payload.len;
}

struct message *content_add(struct content *c, struct link *l, const struct link_frame *frame)
{
    bool header = frame->type == AMQP_FRAME_HEADER;
    if (!c->begun || header != !c->message) {
        link_fail(l, "broker sent a %s frame out of turn", header ? "header" : "body");
        return NULL;
    }
    if (header)
        add_header(c, l, frame->payload);
    else
        add_body(c, l, frame->payload);
    struct message *m = c->message;
    if (!m || !link_is_up(l) || c->filled < m->body.len)
        return NULL;
    c->message = NULL;
    c->begun = false;
    c->filled = 0;
    return m;
}
