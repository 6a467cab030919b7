/*
 * client - what the test tools share: a connection with one channel, and where a message has its
 * id.
 *
 * The tools speak through rabbitmq-c's own calls, not through the program's link, so that a fault
 * in the one does not hide in the other. A message's body is always {"id":"ID","padding":"..."}.
 */
#ifndef TOOLS_CLIENT_H
#define TOOLS_CLIENT_H

#include <amqp.h>
#include <stdbool.h>
#include <stddef.h>

#define CLIENT_CHANNEL 1
#define CLIENT_ID_MAX 128 /* bytes of an id, with its NUL */

struct id_place {
    enum { ID_IN_MESSAGE_ID, ID_IN_HEADER, ID_IN_BODY } where;
    const char *header; /* of ID_IN_HEADER */
};

/* A connection with channel 1 open, or NULL, with the reason on stderr. */
amqp_connection_state_t client_open(const char *url) __attribute__((warn_unused_result));
void client_close(amqp_connection_state_t c);

/* True if the last RPC succeeded; else says what failed on stderr. */
bool client_succeeded(amqp_connection_state_t c, const char *what);

/* Reads "message-id", "header:NAME" or "body"; false if it is none of them. */
bool id_place_read(const char *text, struct id_place *place);

/* The id of a message, NUL-terminated, in `id`; false if it has none there. */
bool id_of_message(const struct id_place *place, const amqp_basic_properties_t *properties,
                   amqp_bytes_t body, char id[CLIENT_ID_MAX]);

/* That header of the message, or NULL. */
const amqp_field_value_t *client_header(const amqp_basic_properties_t *properties,
                                        const char *name);

/* Reads a whole number from 0 to `most`, or prints what is wrong with the option and exits with 2.
 */
long client_number(const char *option, const char *text, long most);

#endif
