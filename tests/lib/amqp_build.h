/*
 * amqp_build - encoded properties, header tables and messages, for tests.
 *
 * Written from the protocol's grammar and on purpose not with the functions under test.
 */
#ifndef ONLYONCE_TEST_AMQP_BUILD_H
#define ONLYONCE_TEST_AMQP_BUILD_H

#include "headers.h"
#include "memory.h"
#include "message.h"

#include <string.h>

/* A string literal with all its bytes, NUL ones included. */
#define BYTES(literal) ((struct span){(const uint8_t *)(literal), sizeof(literal) - 1})

static inline void build_value(struct buffer *out, char type, struct span value)
{
    buffer_add_u8(out, (uint8_t)type);
    if (strchr("SxAF", type))
        buffer_add_u32(out, (uint32_t)value.len);
    buffer_add_span(out, value);
}

/* One field of a table; `value` is its content, without the length of texts, arrays and tables. */
static inline void build_field(struct buffer *table, const char *name, char type, struct span value)
{
    buffer_add_u8(table, (uint8_t)strlen(name));
    buffer_add(table, name, strlen(name));
    build_value(table, type, value);
}

static inline void build_text(struct buffer *table, const char *name, const char *text)
{
    build_field(table, name, 'S', span_of(text));
}

static inline void build_number(struct buffer *table, const char *name, char type, int width,
                                uint64_t number)
{
    uint8_t bytes[8];
    for (int i = 0; i < width; i++)
        bytes[i] = (uint8_t)(number >> (8 * (width - 1 - i)));
    build_field(table, name, type, (struct span){bytes, (size_t)width});
}

/* An x-death header with one entry. A NULL text is left out of it. */
static inline void build_death(struct buffer *table, const char *exchange, const char *queue)
{
    struct buffer entry = {0};
    struct buffer array = {0};
    build_number(&entry, "count", 'l', 8, 1);
    build_text(&entry, "reason", "rejected");
    if (queue)
        build_text(&entry, "queue", queue);
    if (exchange)
        build_text(&entry, "exchange", exchange);
    build_value(&array, 'F', buffer_span(&entry));
    build_field(table, "x-death", 'A', buffer_span(&array));
    buffer_free(&entry);
    buffer_free(&array);
}

/* Flags and list. */
static inline void build_properties(const struct properties *p, struct buffer *out)
{
    unsigned flags = 0;
    for (int i = 0; i < PROPERTY_COUNT; i++)
        flags |= p->present[i] ? 1u << (15 - i) : 0;
    buffer_add_u16(out, (uint16_t)flags);
    for (int i = 0; i < PROPERTY_COUNT; i++) {
        if (!p->present[i])
            continue;
        if (i == PROPERTY_HEADERS)
            buffer_add_u32(out, (uint32_t)p->value[i].len);
        else if (i != PROPERTY_DELIVERY_MODE && i != PROPERTY_PRIORITY && i != PROPERTY_TIMESTAMP)
            buffer_add_u8(out, (uint8_t)p->value[i].len);
        buffer_add_span(out, p->value[i]);
    }
}

static inline void build_set(struct properties *p, enum property property, struct span value)
{
    p->present[property] = true;
    p->value[property] = value;
}

/* A message of these bytes, as the source makes them. */
static inline struct message *build_message_parts(struct span exchange, struct span routing_key,
                                                  struct span properties, struct span body)
{
    const struct span parts[] = {exchange, routing_key, properties, body};
    struct message *m = message_new(exchange.len, routing_key.len, properties.len, body.len);
    uint8_t *at = (uint8_t *)(m + 1);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i].len)
            memcpy(at, parts[i].data, parts[i].len);
        at += parts[i].len;
    }
    return m;
}

static inline struct message *build_message(const char *exchange, const char *routing_key,
                                            struct span properties, struct span body)
{
    return build_message_parts(span_of(exchange), span_of(routing_key), properties, body);
}

/* A message of these properties, without a body. */
static inline struct message *build_message_of(const struct properties *p)
{
    struct buffer encoded = {0};
    build_properties(p, &encoded);
    struct message *m = build_message("orders", "orders.new", buffer_span(&encoded), BYTES(""));
    buffer_free(&encoded);
    return m;
}

/* The same numbers for the same seed, which must not be 0. */
static inline uint32_t build_random(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

#endif
