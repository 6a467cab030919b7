/*
 * copy_case - messages, and what their copies look like, for tests of copies.
 */
#ifndef ONLYONCE_TESTS_COPY_CASE_H
#define ONLYONCE_TESTS_COPY_CASE_H

#include "copy.h"
#include "headers.h"
#include "message.h"

#define FIRST_SEEN 1782640800123
#define NO_LIMIT SIZE_MAX

extern const struct copy plain_copy;

/* The properties of a written copy, whose fixed part is checked on the way. */
struct properties read_copy(const struct buffer *written, const struct message *m);

/* The header table that a copy of a message with these headers has. */
struct buffer copied_headers(struct message *m, const struct copy *copy);

struct message *message_with_headers(struct span table);
void assert_buffer(const struct buffer *got, const struct buffer *want);
void set_key(struct message *m, const char *key);

/* The two headers that every copy has, and the key's. */
void build_own(struct buffer *table, const char *key);

#endif
