/*
 * peer - the other end of an AMQP connection, played by a test: it says what the test tells it to,
 * sense or nonsense.
 */
#ifndef ONLYONCE_TESTS_PEER_H
#define ONLYONCE_TESTS_PEER_H

#include "config.h"
#include "memory.h"

#include <amqp.h>
#include <amqp_framing.h>
#include <pthread.h>
#include <stdint.h>

#define PEER_FRAME_MAX 4096 /* it agrees to no larger frames, and to a heartbeat of one second */

struct peer {
    struct config config; /* leads to it */
    struct broker_url url;
    struct route_config route;
    int listener;
    int fd;              /* from peer_serve() on */
    struct buffer first; /* said at once: the login, and what the test adds; nothing: it hangs up */
    bool hangs_up;       /* behind that */
    struct buffer then;  /* said when it was asked to consume */
    pthread_t thread;
};

void peer_open(struct peer *p);
/* What a broker says up to channel.open-ok; `heartbeat` in seconds. */
void peer_add_login(struct buffer *b, uint16_t heartbeat);
void peer_close(struct peer *p);

/* Takes one connection and says `first` and `then`, in a thread, until peer_served(). */
void peer_serve(struct peer *p);
void peer_served(struct peer *p);

void peer_say(struct peer *p, const void *data, size_t len);
void peer_say_all(struct peer *p, struct buffer *bytes); /* and empties it */

void peer_add_frame(struct buffer *b, uint8_t type, uint16_t channel, const void *payload,
                    size_t len);
void peer_add_method(struct buffer *b, uint16_t channel, amqp_method_number_t id, void *method);
/* Header and body frames without properties. */
void peer_add_content(struct buffer *b, const char *body);

/* Fails the test if nothing comes within some seconds. */
void peer_await_readable(int fd);
/* Fails the test, naming it, unless the error says what it should. */
void peer_assert_says(const char *label, const char *error, const char *want);

#endif
