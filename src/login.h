/*
 * login - the first words with a broker: what we tell it about ourselves, what it tells us, and
 * what is agreed upon. Only amqp.c uses this, which also knows how to wait for the answers.
 *
 *   frames_put_greeting(&frames);
 *   while (!login.done) { await a method on channel 0; login_take(&login, &frames, method); }
 *
 * connection.start is read with headers.h, not decoded by the library, whose 0.11 would follow the
 * nested tables of a broken broker until the stack ends.
 */
#ifndef ONLYONCE_LOGIN_H
#define ONLYONCE_LOGIN_H

#include "frames.h"
#include "memory.h"

#include <stdbool.h>
#include <stdint.h>

#define LOGIN_FRAME_MAX 131072 /* the most that we offer; RabbitMQ from 4.1 on wants 8192 */
#define LOGIN_ERROR_MAX 256

struct login {
    const char *vhost;
    const char *username; /* NULL: the client certificate says who it is (SASL EXTERNAL) */
    const char *password;
    const char *purpose; /* shown as the connection's name */
    int64_t heartbeat;   /* ms; once it is done, as agreed upon */

    bool tuned;
    bool done;
    bool refused;      /* why we cannot is the broker's last word */
    char product[160]; /* the broker's name and version, such as "RabbitMQ 3.10.8" */
    int version;       /* 31008; 0 if it is not RabbitMQ or does not say */
};

/* Takes the payload of the next method frame on channel 0, and appends what we say to it. NULL, or
 * why we cannot log in, in `error`. */
const char *login_take(struct login *login, struct frames *out, struct span method,
                       char error[LOGIN_ERROR_MAX]);

/* What the first bytes of the peer are, if they are no AMQP frame, in `error`; else NULL. */
const char *login_foreign(struct span first, char error[LOGIN_ERROR_MAX]);

#endif
