/*
 * login - what we tell the broker about ourselves, and what it tells us. Only amqp.c uses this.
 */
#ifndef ONLYONCE_LOGIN_H
#define ONLYONCE_LOGIN_H

#include <amqp.h>
#include <stdint.h>

#define LOGIN_CHANNEL 1        /* the only one that we open */
#define LOGIN_FRAME_MAX 131072 /* the most that we offer */

struct login {
    const char *vhost;
    const char *username;
    const char *password;
    const char *purpose; /* shown as the connection's name */
    int64_t heartbeat;   /* ms */
};

amqp_rpc_reply_t login_send(amqp_connection_state_t c, const struct login *login);

/* The broker's name and version, such as "RabbitMQ 3.10.8", to be freed. *number is 31008, or 0 if
 * it is not RabbitMQ or does not say. */
char *login_product(amqp_connection_state_t c, int *number)
    __attribute__((returns_nonnull, warn_unused_result));

#endif
