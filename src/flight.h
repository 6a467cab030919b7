/*
 * flight - which message of this worker is at which key: at most one each (docs/protocol.md,
 * rule 4), so that "the claim is mine" can only mean "carry on". A hash table by key text; it owns
 * nothing. Chained through the messages themselves.
 */
#ifndef ONLYONCE_FLIGHT_H
#define ONLYONCE_FLIGHT_H

#include "memory.h"

#include <stddef.h>

struct message;

struct flight {
    struct message **buckets;
    size_t mask; /* bucket count less one; a power of two less one */
};

void flight_init(struct flight *f, size_t messages); /* sized for about that many */
void flight_free(struct flight *f);
struct message *flight_find(const struct flight *f, struct span key); /* or NULL */
void flight_add(struct flight *f, struct message *m); /* its key must not be in it */
void flight_remove(struct flight *f, struct message *m);

#endif
