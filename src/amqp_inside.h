/*
 * amqp_inside - what the files of a link share: amqp.c moves frames, amqp_ask.c opens and asks.
 */
#ifndef ONLYONCE_AMQP_INSIDE_H
#define ONLYONCE_AMQP_INSIDE_H

#include "amqp.h"
#include "frames.h"
#include "refusal.h"
#include "wire.h"

#define LINK_CHANNEL 1 /* the only one that we open */

struct link {
    const struct broker_config *broker;
    char *purpose;
    size_t next_url; /* goes on counting: another address of each comes first in each round */
    struct wire wire;
    bool met; /* what it says looks like frames */
    bool up;
    enum link_failure failure;
    const char *doing; /* what is being asked, to begin an error with; NULL: nothing */
    char error[640];
    char refusal[256]; /* the text of the last one that was spared: a short string */

    char *describe;
    const char *user;
    char *whom;
    int version;
    bool blocked;
    char blocked_reason[256];

    int64_t heartbeat; /* ms */
    int64_t ask_until; /* when all that is asked must have been answered: clock_now() */
    int64_t last_sent;
    int64_t last_received;
    struct frames frames;
};

/* Marks the link down, as link_fail() does. */
void link_fail_as(struct link *l, enum link_failure failure, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void link_fail_unexpected(struct link *l, const struct link_frame *frame, unsigned channel);

/* Answers a close of the broker's and marks the link down. */
void link_take_close(struct link *l, const struct refusal *r);

/*
 * The next frame of that channel that is not about the connection itself; all others must not come.
 * On channel 0, which speaks only during the login, methods need not be ones that we can decode.
 */
bool link_next_of(struct link *l, unsigned channel, struct link_frame *frame);

/* Sends, waits for what comes, at most until then, and reads it. */
void link_turn(struct link *l, int64_t until);

#endif
