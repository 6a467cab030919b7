/*
 * key_value - what the parts of a key rule are, and their values in a message.
 *
 * Only key.c uses this. A part's kind is a row of a table: a new kind of part is a row and its
 * function.
 */
#ifndef ONLYONCE_KEY_VALUE_H
#define ONLYONCE_KEY_VALUE_H

#include "headers.h"
#include "json.h"
#include "memory.h"

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEY_SCRATCH_SIZE 320 /* the longest number is a decimal with 255 places */

struct message;
struct key_part_kind;

struct key_part {
    const struct key_part_kind *kind;
    char *name;                   /* header:NAME */
    struct json_pointer *pointer; /* json:/POINTER, body:json:/POINTER */
};

/* A message that is looked at, and room for values that are not in it as bytes. */
struct key_subject {
    const struct message *message;
    struct properties properties;
    const EVP_MD *sha256;
    char scratch[KEY_SCRATCH_SIZE];
    struct buffer text;
};

/* The part's value; empty: the message has none. It holds until the next value of this subject. */
struct span key_value(struct key_subject *s, const struct key_part *part);

/* "sha256:" and the hex digest, in `out`. */
struct span key_digest(const EVP_MD *sha256, struct span bytes, char out[KEY_SCRATCH_SIZE]);

/* The first 64 bits of the digest. */
uint64_t key_digest_bits(const EVP_MD *sha256, struct span bytes);

/*
 * Reads a part's text, such as "header:x-id". False: `error` is a sentence fragment that says what
 * is wrong, or is empty if there is no such kind of part.
 */
bool key_part_read(struct span text, struct key_part *out, char error[256]);
void key_part_free(struct key_part *part);

#endif
