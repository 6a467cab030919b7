/*
 * relay_duplicate - what becomes of duplicates: counted in their records, published, answered.
 *
 * A duplicate of which something is to be published walks CLAIMED and SENT without a claim: once
 * for its copy, where the route publishes duplicates, and then, once that is confirmed, for its
 * reply, where its sender asked for one. The copy is as safe as any other: returned or refused, its
 * message is held and published again. The reply is the last thing that happens before the message
 * is acknowledged, and is tried once: whoever waits for it may be gone.
 */
#include "relay_inside.h"

#include "headers.h"
#include "log.h"

#include <stdlib.h>
#include <string.h>

/* ---- What is to be published of it ---- */

static void aim(struct message *m, enum target target)
{
    m->copy.target = target;
    m->copy.reason = PARK_NONE;
    m->copy.unchecked = false;
}

/* A queue of ours is no sender's: an answer there would be taken for work, or go round. */
static bool is_ours(struct relay *r, const struct message *m, struct span reply_to)
{
    const char *queue = config_queue(r->config, reply_to);
    if (!queue)
        return false;
    stats_add(r->stats, STAT_REPLIES_DROPPED, 1);
    LOG_WARNING("a duplicate is not answered: its reply_to is a queue of this configuration",
                "route", r->route->name, "key", m->key, "reply_to", queue, NULL);
    return true;
}

/* Whether its sender waits for a reply, and where; it is to be published next then. */
static bool aim_reply(struct relay *r, struct message *m)
{
    struct properties p;
    if (!r->route->reply || !properties_read(m->properties, &p) || !p.present[PROPERTY_REPLY_TO])
        return false;
    struct span to = p.value[PROPERTY_REPLY_TO];
    if (to.len == 0 || span_is(to, SINK_DIRECT_REPLY) || is_ours(r, m, to))
        return false;
    m->reply_to = to;
    aim(m, TARGET_REPLY);
    return true;
}

static bool aim_copy(const struct relay *r, struct message *m)
{
    if (r->route->on_duplicate != DUPLICATE_PUBLISH)
        return false;
    aim(m, TARGET_DUPLICATES);
    return true;
}

void relay_say_conflict(struct relay *r, const struct message *m)
{
    stats_add(r->stats, STAT_CONFLICTS, 1);
    LOG_WARNING("conflict: another content under a key on record", "route", r->route->name, "key",
                m->key, NULL);
}

void relay_duplicate(struct relay *r, struct message *m, const struct record *known, bool conflict)
{
    m->claim = *known;
    m->is_duplicate = true;
    m->counted =
        conflict; /* A conflict is no duplicate: it is counted apart, and moves no window. */
    m->facts.sends = false;
    if (conflict) {
        relay_say_conflict(r, m);
        stats_add(r->stats, STAT_CONFLICTS_DROPPED, 1);
        relay_not_forwarded(r, m, "conflict", NULL, known->now.first_seen);
    } else {
        stats_add(r->stats, STAT_DUPLICATES, 1);
        /* A first-seen may be whatever a stranger wrote into a message that was put back. */
        int64_t age = store_now(r->store) - known->now.first_seen;
        histogram_add(&r->stats->duplicate_age, histogram_long, age > 0 ? age * 1000 : 0);
        LOG_DEBUG("duplicate", "route", r->route->name, "key", m->key, "state",
                  record_state_name(known->now.state), NULL);
        relay_not_forwarded(r, m, "duplicate", NULL, known->now.first_seen);
        m->facts.sends = aim_copy(r, m) || aim_reply(r, m);
    }
    relay_move(r, m, EVENT_DUPLICATE);
}

void relay_duplicate_published(struct relay *r, struct message *m)
{
    stats_add(r->stats, STAT_DUPLICATES_PUBLISHED, 1);
    m->facts.sends = aim_reply(r, m);
}

/* ---- Its copy, and its reply ---- */

/* What the key's completion brought, if the store can tell: with a NUL behind it, else empty. */
static void read_result(struct relay *r, const struct message *m, struct buffer *out)
{
    if (!m->claim.now.has_result || !r->session->open || r->wishes.store_failed)
        return;
    if (!store_get_result(r->store, message_key(m), out)) {
        r->wishes.store_failed = true;
        buffer_clear(out);
    }
    if (out->len)
        buffer_add_u8(out, 0);
}

static void write_reply(struct relay *r, struct message *m)
{
    struct claim_rules rules = relay_rules(r, m);
    struct buffer result = {0};
    read_result(r, m, &result);
    free(m->reply);
    m->reply = record_json(&m->claim, r->route->name, m->key,
                           claim_ttl(&m->claim, store_now(r->store), &rules),
                           result.len ? (const char *)result.data : NULL);
    buffer_free(&result);
}

void relay_fill_duplicate(struct relay *r, struct message *m)
{
    struct copy *c = &m->copy;
    const struct record_life *life = &m->claim.now;
    c->first_seen = life->first_seen;
    c->attempt = life->number;
    c->in_doubt = false;
    c->state = record_state_name(life->state);
    c->duplicates = life->duplicates;
    if (c->target == TARGET_REPLY)
        write_reply(r, m);
}

void relay_replied(struct relay *r, struct message *m, bool arrived)
{
    stats_add(r->stats, arrived ? STAT_REPLIES : STAT_REPLIES_DROPPED, 1);
    if (!arrived)
        LOG_DEBUG("an answer to a duplicate is dropped", "route", r->route->name, "key", m->key,
                  NULL);
    m->facts.sends = false;
    relay_move(r, m, EVENT_REPLIED);
}

/* ---- Counting them in their records ---- */

static int by_key(const void *a, const void *b)
{
    const struct message *x = *(struct message *const *)a;
    const struct message *y = *(struct message *const *)b;
    int order = strcmp(x->key, y->key);
    return order ? order : (x->tag > y->tag) - (x->tag < y->tag);
}

static size_t gather_place(struct relay *r, enum place place, size_t count)
{
    struct message *m;
    TAILQ_FOREACH(m, &r->places[place], link)
    {
        if (m->is_duplicate && !m->counted)
            r->batch[count++] = m;
    }
    return count;
}

/*
 * One op for each record, whose message is the last that it counts; what each message knows of the
 * record then counts up to itself.
 */
static size_t gather_ops(struct relay *r, size_t duplicates)
{
    size_t count = 0;
    int64_t now = store_now(r->store);
    for (size_t i = 0; i < duplicates; i++) {
        struct message *m = r->batch[i];
        bool same = count > 0 && strcmp(r->batch[count - 1]->key, m->key) == 0;
        struct record expect = same ? r->ops[count - 1].expect : m->claim;
        struct record so_far = same ? r->ops[count - 1].write : m->claim;
        struct claim_rules rules = relay_rules(r, m);
        struct record next;
        m->counted = true;
        if (!claim_count_duplicates(&so_far, 1, now, &rules, &next))
            continue;
        m->claim = next;
        count += !same;
        r->batch[count - 1] = m;
        relay_set_op(r, count - 1, &expect, &next);
    }
    return count;
}

static size_t gather_duplicates(struct relay *r)
{
    relay_want_batch(r, r->counts[PLACE_CLAIMED] + r->counts[PLACE_SETTLE]);
    size_t count = gather_place(r, PLACE_SETTLE, gather_place(r, PLACE_CLAIMED, 0));
    if (count > 1)
        qsort(r->batch, count, sizeof(struct message *), by_key);
    return gather_ops(r, count);
}

/* One try again for records that changed meanwhile; what is missed is only a count. */
static size_t count_again(struct relay *r, size_t count)
{
    size_t again = 0;
    for (size_t i = 0; i < count; i++) {
        struct message *m = r->batch[i];
        struct claim_rules rules = relay_rules(r, m);
        struct record met = r->ops[i].met;
        struct record next;
        uint32_t n = r->ops[i].write.now.duplicates - r->ops[i].expect.now.duplicates;
        if (r->ops[i].answer != STORE_MET ||
            !claim_count_duplicates(&met, n, store_now(r->store), &rules, &next))
            continue;
        m->claim = next;
        r->batch[again] = m;
        relay_set_op(r, again++, &met, &next);
    }
    return again;
}

void relay_count_duplicates(struct relay *r)
{
    if (!r->session->open || r->wishes.store_failed || r->wishes.session_lost)
        return;
    size_t count = gather_duplicates(r);
    for (int round = 0; count > 0 && round < 2 && relay_apply(r, count); round++)
        count = count_again(r, count);
}
