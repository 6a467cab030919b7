#include "key_watch.h"

bool key_watch_turn(struct key_watch *w, uint64_t messages, uint64_t without, uint64_t *of,
                    uint64_t *lacked)
{
    *of = messages - w->messages;
    *lacked = without - w->without;
    w->messages = messages;
    w->without = without;
    return *of >= KEY_WATCH_LEAST && *lacked > *of / 2;
}
