#include "message.h"

#include <stdlib.h>

struct message *message_new(size_t exchange_len, size_t routing_key_len, size_t properties_len,
                            size_t body_len)
{
    size_t total = exchange_len + routing_key_len + properties_len + body_len;
    struct message *m = xmalloc(sizeof *m + total);
    *m = (struct message){.alternative = -1};
    const uint8_t *at = (const uint8_t *)(m + 1);
    m->exchange = (struct span){at, exchange_len};
    at += exchange_len;
    m->routing_key = (struct span){at, routing_key_len};
    at += routing_key_len;
    m->properties = (struct span){at, properties_len};
    at += properties_len;
    m->body = (struct span){at, body_len};
    TAILQ_INIT(&m->followers);
    return m;
}

void message_free(struct message *m)
{
    if (m)
        free(m->reply);
    free(m);
}

size_t message_size(const struct message *m)
{
    return sizeof *m + m->exchange.len + m->routing_key.len + m->properties.len + m->body.len;
}
