/*
 * json_text - JSON's strings and numbers: is it one, what it says, its canonical spelling.
 *
 * Only json.c uses this.
 */
#ifndef ONLYONCE_JSON_TEXT_H
#define ONLYONCE_JSON_TEXT_H

#include "memory.h"

#include <stdint.h>

/* Where the string ends that begins (with its quote) at `at`; NULL: it is not a valid one. */
const uint8_t *json_text_string(const uint8_t *at, const uint8_t *end);

/* Where the number ends that begins at `at`; NULL: it is not a valid one. */
const uint8_t *json_text_number(const uint8_t *at, const uint8_t *end);

/* Appends a string's content, its escapes undone; `string` is a valid one with its quotes. */
void json_text_content(struct buffer *out, struct span string);

/* Appends a content as a string in canonical form. */
void json_text_quote(struct buffer *out, struct span content);

/* Appends a valid number in its canonical spelling: that of ECMAScript for doubles, made of the
 * exact decimal value (RFC 8785, 3.2.2.3, but for the rounding). */
void json_text_spell(struct buffer *out, struct span number);

#endif
