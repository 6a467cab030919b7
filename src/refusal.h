/*
 * refusal - a broker's no: why it closed the channel or the connection, and whether that is its
 * last word or may be another one soon.
 */
#ifndef ONLYONCE_REFUSAL_H
#define ONLYONCE_REFUSAL_H

#include "memory.h"

#include <amqp.h>
#include <amqp_framing.h>
#include <stdbool.h>

struct refusal {
    bool channel; /* it closed the channel only */
    unsigned code;
    struct span text;
};

/* What a channel.close or connection.close says. Another method: false. */
bool refusal_of_method(amqp_method_number_t id, const void *decoded, struct refusal *out);

/* Trying again will hardly help. */
bool refusal_is_final(const struct refusal *r);

#endif
