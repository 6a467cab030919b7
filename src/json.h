/*
 * json - JSON read in one pass, without a tree and without recursion: is it valid, what is at a
 * pointer, and its canonical form.
 *
 * Valid is what RFC 8259 allows, and stricter where two readers could disagree: UTF-8 without a
 * byte order mark, no lone surrogates, no member name twice in an object, nothing behind the value,
 * at most JSON_DEPTH_MAX levels and JSON_SIZE_MAX bytes. No number ever becomes a double: numbers
 * are compared by exact decimal value. An exponent beyond 15 digits is not valid here; nobody's
 * amount or id has one.
 *
 * The canonical form has no white space; members sorted by their names' UTF-8 bytes; every string
 * with the shortest escapes and raw UTF-8; every number in one spelling, chosen by its value
 * (1, 1.0, 1e0 and 10e-1 are "1"; -0 is "0"). Arrays keep their order; NFC and NFD differ.
 */
#ifndef ONLYONCE_JSON_H
#define ONLYONCE_JSON_H

#include "memory.h"

#include <stdbool.h>
#include <stddef.h>

#define JSON_DEPTH_MAX 512
#define JSON_SIZE_MAX (512U << 20) /* bytes, as much as RabbitMQ carries */

enum json_type {
    JSON_NULL,
    JSON_FALSE,
    JSON_TRUE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
};

/* A JSON Pointer (RFC 6901), compiled. */
struct json_pointer;

/* NULL: `text` is none, and *wrong is a sentence fragment (static) that says why. */
struct json_pointer *json_pointer_compile(struct span text, const char **wrong)
    __attribute__((warn_unused_result));
void json_pointer_free(struct json_pointer *p); /* NULL is fine */

enum json_result {
    JSON_FOUND,   /* the document is valid, and the pointer leads to a value */
    JSON_MISSING, /* the document is valid, and it does not */
    JSON_INVALID  /* the document is not valid JSON */
};

struct json_value {
    enum json_type type;
    struct span text; /* as it stands in the document: a string with its quotes and escapes */
};

/* Reads the whole document and looks up the value at `pointer` (NULL: the document's). */
enum json_result json_find(struct span document, const struct json_pointer *pointer,
                           struct json_value *out) __attribute__((warn_unused_result));

/* Appends the content of a string value (JSON_STRING, from json_find()), its escapes undone. */
void json_add_content(struct buffer *out, struct span string);

/*
 * Appends the canonical form of a document. False: it is not valid JSON, and *out is as it was.
 *
 * It takes O(n log n) time, whatever the document is like, and memory of at most 12 times its
 * length, *out included: 2 to 3 times, unless most members have but a few bytes or most numbers are
 * such as 1e20, which is written with all its digits.
 */
bool json_add_canonical(struct buffer *out, struct span document)
    __attribute__((warn_unused_result));

#endif
