/*
 * relay_look - duplicates while the broker takes no copies.
 *
 * A worker claims no more than it can publish (docs/protocol.md, rule 1), so an alarm of the broker
 * ends its claiming. But a duplicate needs no copy: it is found by reading its record, and goes.
 * Each message is looked up once; what is no duplicate then waits for the end of the alarm.
 */
#include "relay_inside.h"

#define LOOKS_MOST 1000 /* in a tick */

static bool is_of_interest(const struct message *m)
{
    return !m->looked && !m->facts.claim && !m->facts.unwritable && m->key_len > 0 &&
           !m->is_duplicate && m->copy.reason == PARK_NONE;
}

/* To write nothing where nothing is: that changes nothing, and tells what is there. */
static size_t gather(struct relay *r)
{
    size_t count = 0;
    size_t most = r->counts[PLACE_FRESH] < LOOKS_MOST ? r->counts[PLACE_FRESH] : LOOKS_MOST;
    struct message *m;
    relay_want_batch(r, most);
    TAILQ_FOREACH(m, &r->places[PLACE_FRESH], link)
    {
        if (count == most)
            break;
        if (!is_of_interest(m))
            continue;
        r->batch[count] = m;
        r->ops[count] = (struct store_op){.key = message_key(m)};
        count++;
    }
    return count;
}

static void take_answer(struct relay *r, struct message *m, const struct store_op *op)
{
    if (op->answer == STORE_FENCED) {
        r->wishes.session_lost = true;
        return;
    }
    m->looked = true;
    if (op->answer != STORE_MET)
        return;
    struct claim_rules rules = relay_rules(r, m);
    struct decision d =
        claim_decide(&m->delivery, &op->met, true, r->session->id, 0, store_now(r->store), &rules);
    if (d.verdict == VERDICT_DUPLICATE)
        relay_duplicate(r, m, &op->met, d.conflict);
}

void relay_look(struct relay *r)
{
    if (r->counts[PLACE_FRESH] == 0 || !r->session->open || r->wishes.store_failed ||
        r->wishes.session_lost || !sink_blocked(r->sink, NULL))
        return;
    size_t count = gather(r);
    if (count == 0)
        return;
    if (!store_apply(r->store, r->session->id, r->ops, count)) {
        r->wishes.store_failed = true;
        return;
    }
    for (size_t i = 0; i < count; i++)
        take_answer(r, r->batch[i], &r->ops[i]);
}
