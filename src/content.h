/*
 * content - one message being put together from its frames: a basic.deliver or basic.return, then
 * its header frame, then body frames up to the announced size.
 */
#ifndef ONLYONCE_CONTENT_H
#define ONLYONCE_CONTENT_H

#include "amqp.h"
#include "message.h"

struct content {
    bool begun; /* the method was there, the message is not complete */
    uint8_t exchange[255];
    uint8_t routing_key[255];
    size_t exchange_len;
    size_t routing_key_len;
    struct message *message; /* from the header frame on */
    size_t filled;           /* bytes of its body that are there */
};

void content_reset(struct content *c);
void content_begin(struct content *c, amqp_bytes_t exchange, amqp_bytes_t routing_key);

/*
 * Takes a header or body frame. The message, if it is complete with it, for the caller to own; else
 * NULL. A frame that does not fit here takes the link down.
 */
struct message *content_add(struct content *c, struct link *l, const struct link_frame *frame)
    __attribute__((warn_unused_result));

#endif
