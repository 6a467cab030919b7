/*
 * shape - a message as bytes: which of the fourteen properties it has, and their exact content.
 *
 * It is written to the socket and read from the broker's frames as it is, without rabbitmq-c's or
 * the program's encoder and decoder, so that presence, order, types and bytes can be compared.
 */
#ifndef TOOLS_SHAPE_H
#define TOOLS_SHAPE_H

#include "client.h"

#include <stdint.h>

#define PROPERTIES 14
enum property {
    CONTENT_TYPE,
    CONTENT_ENCODING,
    HEADERS,
    DELIVERY_MODE,
    PRIORITY,
    CORRELATION_ID,
    REPLY_TO,
    EXPIRATION,
    MESSAGE_ID,
    TIMESTAMP,
    TYPE,
    USER_ID,
    APP_ID,
    CLUSTER_ID
};
extern const char *const property_names[PROPERTIES];

struct bytes {
    uint8_t *data;
    size_t len;
    size_t room;
};

void bytes_add(struct bytes *b, const void *data, size_t len);
void bytes_add_number(struct bytes *b, uint64_t number, size_t width); /* big-endian */
bool bytes_equal(const struct bytes *a, const struct bytes *b);
void bytes_free(struct bytes *b);

/* A property's content comes without its length; of HEADERS, the fields of the table. */
struct shape {
    bool present[PROPERTIES];
    struct bytes value[PROPERTIES];
    struct bytes body;
};

void shape_free(struct shape *s);
void shape_set(struct shape *s, enum property property, const void *data, size_t len);

/* Adds a field to the headers; `value` is encoded as the type wants it, with a length if it has
 * one. */
void shape_add_field(struct shape *s, const char *name, size_t name_len, char type,
                     const void *value, size_t len);

/* Does what RabbitMQ does from 4.0 on, when it delivers a message: sorts the headers by their
 * names, leaves only the first of each name, and writes expiration as a number. */
void shape_write_anew(struct shape *s);

/* Publishes it to a queue. False: the socket took it not. */
bool shape_publish(amqp_connection_state_t c, const char *queue, const struct shape *s)
    __attribute__((warn_unused_result));

/* The next delivery on the connection, within `ms`; false: none came, or the broker closed, and
 * stderr says which. */
bool shape_receive(amqp_connection_state_t c, long ms, struct shape *s)
    __attribute__((warn_unused_result));

/* One field of a table. */
struct field {
    const uint8_t *whole;
    size_t whole_len;
    const uint8_t *name;
    size_t name_len;
};

/* Takes the first field from *at; false: there is none, or *broken. */
bool field_next(const uint8_t **at, const uint8_t *end, struct field *field, bool *broken);

#endif
