/*
 * key_case - key rules and messages for tests of keys.
 */
#ifndef ONLYONCE_TESTS_KEY_CASE_H
#define ONLYONCE_TESTS_KEY_CASE_H

#include "key.h"
#include "message.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* A rule of some lines: the list ends with NULL. */
struct key_rule *compile(const char *const *lines);
struct key_rule *compile_one(const char *line);

/* "-": it must have no key. */
void assert_key(const struct key_rule *rule, struct message *m, const char *want, int alternative);

struct message *message_with_header(const char *name, char type, struct span value);

#endif
