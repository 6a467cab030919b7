/*
 * key - a route's key rule, and the key text that it gives a message.
 *
 * A rule is a list of alternatives, tried in order; the first whose parts are all present is used.
 * An alternative is one or more parts joined by " + ", and has a name ("txn = header:x-id") where
 * the list has several. Parts: message_id, correlation_id, type, app_id, routing_key, exchange,
 * header:NAME, json:/POINTER, body, body:json, body:json:/POINTER; key_value.c has their table.
 *
 * The key's text is its parts' values, bytes outside A-Z a-z 0-9 . _ - @ : + written ~XX (upper
 * case), joined by ','; if that is longer than 200 bytes it is "sha256:" and the hex digest of it.
 * Where the rule has several alternatives it is preceded by the alternative's name and ':'.
 */
#ifndef ONLYONCE_KEY_H
#define ONLYONCE_KEY_H

#include "memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct message;
struct key_rule;

#define KEY_MAX_ALTERNATIVES 16
#define KEY_NAME_MAX 40 /* an alternative's name: [a-z0-9_-] */

/*
 * Compiles a rule of `count` lines. NULL on bad input: then *bad is the index of the line and
 * `error` a sentence fragment that says what is wrong with it and what would be right.
 */
struct key_rule *key_compile(char *const *lines, size_t count, size_t *bad, char error[256])
    __attribute__((warn_unused_result));
void key_rule_free(struct key_rule *rule); /* NULL is fine */

/*
 * The key of a message: writes m->key, m->key_len, m->alternative and m->key_name. False: it has
 * none (m->key_len is 0). The message's properties must be readable, else it has none, too.
 */
bool key_find(const struct key_rule *rule, struct message *m);

/* Could it be a key's text? 1 to 255 bytes of those that are written as they are, and of ',' and
 * '~'. */
bool key_is_text(struct span text);

/* 64 bits of the digest of a body, never 0; with `json`, of its canonical form if it is JSON. */
uint64_t key_fingerprint(const struct key_rule *rule, bool json, struct span body);

/* An alternative's name; "key" if the rule has but one. */
const char *key_alternative_name(const struct key_rule *rule, int alternative);
size_t key_alternative_count(const struct key_rule *rule);

#endif
