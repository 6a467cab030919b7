/*
 * frames - AMQP frames on a wire, without ever waiting: what is to be sent, what has been read,
 * and where one frame ends.
 *
 * Only amqp.c and login.c use this; they add what the frames mean for the connection.
 */
#ifndef ONLYONCE_FRAMES_H
#define ONLYONCE_FRAMES_H

#include "memory.h"
#include "wire.h"

#include <amqp.h>
#include <amqp_framing.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define FRAMES_READ_AT_ONCE ((size_t)256 * 1024)

struct frames {
    size_t max; /* bytes in a whole frame, as agreed upon with the broker; may change any time. What
                 * comes may have more headers than that: up to 4 MiB are taken */
    struct buffer in;
    size_t in_done; /* of in: handed out already */
    struct buffer out;
    size_t out_done;  /* of out: sent already */
    amqp_pool_t pool; /* of the method that was decoded last */
};

struct raw_frame {
    uint8_t type;
    uint16_t channel;
    struct span payload; /* valid until frames_receive() */
};

void frames_init(struct frames *f);
void frames_free(struct frames *f);
/* Empties both buffers, for a new connection. */
void frames_reset(struct frames *f, size_t max);

/* The most that one frame's payload may have. */
size_t frames_room(const struct frames *f);
void frames_put_greeting(struct frames *f); /* the protocol header, which is no frame */
void frames_put(struct frames *f, uint8_t type, uint16_t channel, struct span payload);
void frames_put_method(struct frames *f, uint16_t channel, amqp_method_number_t id, void *method);
size_t frames_unsent(const struct frames *f);
/* As wire_send() and wire_receive(). */
ssize_t frames_send(struct frames *f, struct wire *w);

/* Is more to be read? Not while what was read waits to be taken. */
bool frames_hungry(const struct frames *f);
ssize_t frames_receive(struct frames *f, struct wire *w);
/* What was read and not yet taken, frame or not. */
struct span frames_unread(const struct frames *f);

enum frames_found { FRAMES_ONE, FRAMES_NONE, FRAMES_TOO_LARGE, FRAMES_BROKEN };
/* The next frame that is there whole. After _TOO_LARGE and _BROKEN the rest makes no sense. */
enum frames_found frames_next(struct frames *f, struct raw_frame *out);

/* The number of the method in a method frame's payload; 0: there is none. */
amqp_method_number_t frames_method(struct span payload);
/* Decodes a method that we expect of a broker; valid until the next one. NULL: another, or broken.
 */
void *frames_decode(struct frames *f, struct span payload);

#endif
