/*
 * reply_to - where an answer may be sent. Pure.
 *
 * An address is the name of a queue, or what RabbitMQ makes of direct reply-to: the prefix below
 * and a token, which names one of its own processes. The broker reads a token as soon as something
 * is published to it, and one that it did not write itself ends the connection, with all that is in
 * flight there. Anybody can write one into a message: so only what looks exactly like the broker's
 * own is answered.
 */
#ifndef ONLYONCE_REPLY_TO_H
#define ONLYONCE_REPLY_TO_H

#include "memory.h"

#include <stdbool.h>

#define REPLY_TO_DIRECT "amq.rabbitmq.reply-to"

/* It begins with the prefix and a dot. */
bool reply_to_is_direct(struct span address);

/* False: it is empty, or nothing that the broker takes. */
bool reply_to_is_usable(struct span address);

#endif
