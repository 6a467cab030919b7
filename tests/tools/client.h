/*
 * client - what the test tools share: a connection with one channel, where a message has its id,
 * the usual options, and stopping by SIGTERM.
 *
 * The tools speak through rabbitmq-c's own calls, not through the program's link, so that a fault
 * in the one does not hide in the other. A message's body is always {"id":"ID","padding":"..."}.
 */
#ifndef TOOLS_CLIENT_H
#define TOOLS_CLIENT_H

#include <amqp.h>
#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLIENT_CHANNEL 1
#define CLIENT_ID_MAX 128 /* bytes of an id, with its NUL */

struct id_place {
    enum { ID_IN_MESSAGE_ID, ID_IN_HEADER, ID_IN_BODY } where;
    const char *header; /* of ID_IN_HEADER */
};

/* ---- The connection ---- */

/* A connection with channel 1 open, or NULL, with the reason on stderr. */
amqp_connection_state_t client_open(const char *url) __attribute__((warn_unused_result));
void client_close(amqp_connection_state_t c);
int client_broker_major(amqp_connection_state_t c); /* its version, before the first dot */

/* True if the last RPC succeeded; else says what failed on stderr. */
bool client_succeeded(amqp_connection_state_t c, const char *what);

/* Consumes from a queue, with at most so many unacknowledged messages; 0: they need not be
 * acknowledged. False: says why on stderr. */
bool client_consume(amqp_connection_state_t c, const char *queue, const char *tag,
                    uint16_t prefetch);

/* Takes one delivery, if there is one within `ms`. False: the connection is of no more use. */
bool client_take(amqp_connection_state_t c, long ms, amqp_envelope_t *envelope, bool *took);

/* ---- Messages ---- */

/* Reads "message-id", "header:NAME" or "body"; false if it is none of them. */
bool id_place_read(const char *text, struct id_place *place);

/* The id of a message, NUL-terminated, in `id`; false if it has none there. */
bool id_of_message(const struct id_place *place, const amqp_basic_properties_t *properties,
                   amqp_bytes_t body, char id[CLIENT_ID_MAX]);

/* That header of the message, or NULL. */
const amqp_field_value_t *client_header(const amqp_basic_properties_t *properties,
                                        const char *name);

/* ---- The command line ---- */

/* What a tool takes besides its own options: --amqp, which is needed; and a queue's name as its
 * only argument, or --exchange, --routing-key and --queue, of which one is needed. */
enum client_takes { CLIENT_BROKER, CLIENT_QUEUE, CLIENT_DESTINATION };

struct client_options {
    const char *amqp;
    const char *queue;
    const char *exchange; /* "" is the default one */
    const char *routing_key;
};

/* Parses the command line: `own` are the tool's own options, and their parser's input is `o`, the
 * first member of the tool's own struct. */
void client_parse(const struct argp *own, enum client_takes takes, int argc, char **argv,
                  struct client_options *o);

/* Reads a whole number from 0 to `most`, or prints what is wrong with the option and exits with 2.
 */
long client_number(const char *option, const char *text, long most);

/* ---- Time and chance ---- */

/* From now on SIGTERM makes client_stopping() true. */
void client_stop_on_sigterm(void);
bool client_stopping(void);

double client_now(void); /* seconds, of a clock that only goes on */
void client_nap(long ms);

/* xorshift64*: the same numbers on every machine. The state of a seed is never 0. */
uint64_t client_seed(long seed);
uint32_t client_random_below(uint64_t *state, uint32_t bound);

/* Zeroed memory, or the end of the program. */
void *client_allocate(size_t count, size_t size);

#endif
