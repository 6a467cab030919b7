/*
 * relay_look - duplicates while the broker takes no copies.
 *
 * A worker claims no more than it can publish (docs/protocol.md, rule 1), so an alarm of the broker
 * ends its claiming. But a duplicate needs no copy: it is found by reading its record, and goes.
 * Each message is looked up once; what is no duplicate then waits for the end of the alarm.
 */
#include "relay_inside.h"

#define LOOKS_MOST 50 /* in a tick: each is a round trip */

static bool is_of_interest(const struct message *m)
{
    return !m->looked && !m->facts.claim && !m->facts.unwritable && m->key_len > 0 &&
           !m->is_duplicate && m->copy.reason == PARK_NONE;
}

/* False: the store failed. */
static bool look(struct relay *r, struct message *m)
{
    struct record known;
    int64_t ttl = 0;
    bool foreign = false;
    m->looked = true;
    if (!store_get(r->store, message_key(m), &known, &ttl, &foreign))
        return false;
    if (foreign || known.now.state == RECORD_NONE)
        return true;
    struct claim_rules rules = relay_rules(r, m);
    struct decision d =
        claim_decide(&m->delivery, &known, true, r->session->id, 0, store_now(r->store), &rules);
    if (d.verdict == VERDICT_DUPLICATE)
        relay_duplicate(r, m, &known, d.conflict);
    return true;
}

void relay_look(struct relay *r)
{
    r->look_again = false;
    if (!r->session->open || r->wishes.store_failed || r->wishes.session_lost ||
        !sink_blocked(r->sink, NULL))
        return;
    int looks = 0;
    struct message *m, *next;
    for (m = TAILQ_FIRST(&r->places[PLACE_FRESH]); m; m = next) {
        next = TAILQ_NEXT(m, link);
        if (!is_of_interest(m))
            continue;
        if (looks++ == LOOKS_MOST) {
            r->look_again = true;
            return;
        }
        if (!look(r, m)) {
            r->wishes.store_failed = true;
            return;
        }
    }
}
