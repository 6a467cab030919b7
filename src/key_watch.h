/*
 * key_watch - notices that a route's key rule does not fit its messages.
 *
 * A header's name in the wrong case, or a JSON pointer beside the value, is no fault that anything
 * else shows: every message is forwarded, unchecked for ever. So over each minute the messages
 * without a key are compared with all.
 */
#ifndef ONLYONCE_KEY_WATCH_H
#define ONLYONCE_KEY_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#define KEY_WATCH_MS 60000
#define KEY_WATCH_LEAST 20 /* messages: of fewer nothing is said */

/* Where the route's counters stood when the minute began. { 0 } is the beginning. */
struct key_watch {
    uint64_t messages;
    uint64_t without;
};

/*
 * At a minute's end, with the counters as they are then: begins the next minute, and answers
 * whether most of this one's messages had no key, and how many these were, in *of and *lacked.
 */
bool key_watch_turn(struct key_watch *w, uint64_t messages, uint64_t without, uint64_t *of,
                    uint64_t *lacked);

#endif
