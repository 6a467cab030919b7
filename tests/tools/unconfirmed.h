/*
 * unconfirmed - a connection that publishes, with the messages whose confirm is still due.
 *
 * Delivery tags count the messages of a connection from 1. What a tool keeps of the message of a
 * tag is at tag % UNCONFIRMED_MOST of an array of its own. After a connection is lost, the tags
 * that are still open tell what was not confirmed, until the next one is opened.
 */
#ifndef TOOLS_UNCONFIRMED_H
#define TOOLS_UNCONFIRMED_H

#include <amqp.h>
#include <stdbool.h>
#include <stdint.h>

#define UNCONFIRMED_MOST 2000

struct unconfirmed {
    amqp_connection_state_t c; /* NULL: none */
    uint64_t sent_tag;         /* the last one used on this connection */
    uint64_t done_tag;         /* all up to this one are settled */
    bool settled[UNCONFIRMED_MOST];
    uint64_t nacked, returned; /* of all connections */
    bool refused;              /* the broker closed the channel: trying again will not help */

    /* Unless NULL, called once for each tag that is confirmed. */
    void (*on_confirm)(void *context, uint64_t tag);
    void *context;
};

/* Opens a connection in confirm mode, in place of the one before. False: says why on stderr. */
bool unconfirmed_open(struct unconfirmed *u, const char *url) __attribute__((warn_unused_result));
/* The same again and again for so many seconds; 0: for as long as it takes. */
bool unconfirmed_reopen(struct unconfirmed *u, const char *url, int seconds);
/* In order, or only forgotten because it is broken. */
void unconfirmed_close(struct unconfirmed *u);
void unconfirmed_drop(struct unconfirmed *u);

/* How many tags may be open, and whether this one is. */
bool unconfirmed_is_full(const struct unconfirmed *u, uint64_t most);
bool unconfirmed_is_open(const struct unconfirmed *u, uint64_t tag);

/* Publishes as u->sent_tag + 1, mandatory. False, of this and the next: the connection is of no
 * more use. */
bool unconfirmed_publish(struct unconfirmed *u, const char *exchange, const char *routing_key,
                         const amqp_basic_properties_t *properties, amqp_bytes_t body);
/* Waits up to so many seconds for a frame, and takes all that are there. */
bool unconfirmed_take(struct unconfirmed *u, double seconds, bool *took);

/* Waits until no tag is open. False: says on stderr what was not confirmed within so many seconds,
 * or was refused or returned. */
bool unconfirmed_settle(struct unconfirmed *u, double seconds);

#endif
