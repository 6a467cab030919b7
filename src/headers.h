/*
 * headers - AMQP properties and header tables, read in place from their encoded bytes.
 *
 * Nothing is decoded into a tree and nothing recurses: a nested table or array carries its length,
 * so it is passed over in one step. That is why no table can crash or stop the relay, however deep
 * it nests or whatever types it holds inside; only an unknown type at the top level, whose length
 * nobody can tell, makes a table unreadable.
 *
 * Encoding: AMQP 0-9-1, 4.2.5.5 and 4.2.6.1, with the field types that RabbitMQ uses
 * (t b B s u I i l L f d D S x A T F V). All spans point into the bytes that were read.
 */
#ifndef ONLYONCE_HEADERS_H
#define ONLYONCE_HEADERS_H

#include "memory.h"

#include <stdbool.h>
#include <stdint.h>

/* The fourteen properties of class basic, in wire order. */
enum property {
    PROPERTY_CONTENT_TYPE,
    PROPERTY_CONTENT_ENCODING,
    PROPERTY_HEADERS,
    PROPERTY_DELIVERY_MODE,
    PROPERTY_PRIORITY,
    PROPERTY_CORRELATION_ID,
    PROPERTY_REPLY_TO,
    PROPERTY_EXPIRATION,
    PROPERTY_MESSAGE_ID,
    PROPERTY_TIMESTAMP,
    PROPERTY_TYPE,
    PROPERTY_USER_ID,
    PROPERTY_APP_ID,
    PROPERTY_CLUSTER_ID,
    PROPERTY_COUNT
};

/* The property's bit in the flags before the list. */
#define PROPERTY_FLAG(property) (0x8000u >> (property))

struct properties {
    bool present[PROPERTY_COUNT];
    /* The value of each one present: a short string's content, the fields of the header table
     * without its length, or the bytes of a number. */
    struct span value[PROPERTY_COUNT];
};

/* False: the bytes are not a property list (truncated, a length beyond the end, a flag nobody
 * knows). The header table's fields are not looked into. */
bool properties_read(struct span encoded, struct properties *out)
    __attribute__((warn_unused_result));

struct header {
    struct span name;
    uint8_t type;      /* the field type's letter */
    struct span value; /* its content: of texts, arrays and tables without their length */
    struct span whole; /* name, type and value as encoded */
};

/*
 * Walks a table:   struct span rest = table; struct header h;
 *                  while (header_next(&rest, &h)) ...
 *                  if (rest.len) -> the table is broken from here on, or of an unknown type
 */
bool header_next(struct span *rest, struct header *out);

/* One value of an array, likewise; name is empty. */
bool array_next(struct span *rest, struct header *out);

/* The first header of exactly that name. */
bool header_find(struct span table, struct span name, struct header *out);

/*
 * Whether two property lists are those of one message, before and after a broker that writes them
 * anew. RabbitMQ does so with what it delivers or returns from 4.0 on (older ones keep the bytes):
 * headers are sorted by their names, and of each name only the first is left. Inside of nested
 * tables and arrays nothing is sorted, and here bytes are compared.
 */
bool properties_same(struct span a, struct span b);

/* At most 8 bytes, in network order, as a number. */
uint64_t bytes_number(struct span bytes);

/* An integer of any width or sign, or a text or bytes of decimal digits: false if it is neither or
 * does not fit. */
bool header_integer(const struct header *h, int64_t *out);

/* Appends one field to an encoded table. Names are at most 255 bytes. */
void header_add_text(struct buffer *table, const char *name, struct span text);
void header_add_integer(struct buffer *table, const char *name, int64_t value); /* type l */
void header_add_true(struct buffer *table, const char *name);                   /* type t */

#endif
