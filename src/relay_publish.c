/*
 * relay_publish - relay's talks with the sinks: copies and replies out, and what becomes of them.
 */
#include "relay_inside.h"

#include "clock.h"
#include "log.h"

#define REPLIES_PATIENCE_MS 500 /* of a tick */
#define RETURNS_BEFORE_PARKING 3
#define REFUSAL_LINE_EVERY_MS 60000

/* ---- Publishing ---- */

static bool comes_back(const struct message *m)
{
    return m->delivery.attempt > 0;
}

/* What the copy says: of its claim if it has one, else of what the delivery brought along. */
static void fill_copy(struct relay *r, struct message *m)
{
    struct copy *c = &m->copy;
    if (m->is_duplicate) {
        relay_fill_duplicate(r, m);
        return;
    }
    c->first_seen = m->first_seen;
    c->attempt = m->attempt;
    if (m->facts.claim) {
        c->first_seen = m->claim.now.first_seen;
        c->attempt = m->claim.now.number;
    } else if (comes_back(m)) {
        bool again = c->target == TARGET_WORK && m->delivery.attempt < UINT32_MAX;
        c->first_seen = m->delivery.first_seen;
        c->attempt = m->delivery.attempt + (again ? 1 : 0);
        if (c->target == TARGET_PARKING && c->reason == PARK_CONFLICT)
            c->attempt = m->attempt;
    }
    c->in_doubt = m->in_doubt || (m->facts.claim && m->claim.now.in_doubt);
}

/* What rests on a claim may be published only while there is room for it (docs/protocol.md, rule 1)
 * and the session is sure (rule 3); the clock is read anew, because the process may have stood
 * still. */
static bool may_publish(const struct relay *r, const struct message *m)
{
    return !m->facts.claim || m->copy.unchecked ||
           (relay_room(r) > 0 && session_is_sure(r->session, clock_now()));
}

void relay_cannot_write(struct relay *r, struct message *m, const char *why)
{
    m->facts.unwritable = true;
    LOG_WARNING("message cannot be relayed", "route", r->route->name, "key", m->key, "why", why,
                "now", m->facts.rejectable ? "rejected to the dead-letter queue" : "held", NULL);
    if (m->facts.rejectable) {
        stats_add(r->stats, STAT_REJECTED, 1);
        relay_not_forwarded(r, m, "rejected", why, m->first_seen);
    }
    relay_hold(r, m, EVENT_UNWRITABLE, why, INT64_MAX);
}

static void cannot_publish(struct relay *r, struct message *m, const char *why)
{
    if (m->copy.target == TARGET_REPLY)
        relay_replied(r, m, false);
    else
        relay_cannot_write(r, m, why);
}

/* A reply may ask the store for a result: many of them, at a slow store, must not keep the relay
 * from its heartbeats and its session. The rest goes on in the next tick. */
static bool is_reply_for_later(struct relay *r, const struct message *m, size_t replied)
{
    bool later =
        m->copy.target == TARGET_REPLY && replied > 0 && clock_now() - r->now > REPLIES_PATIENCE_MS;
    r->replies_wait = r->replies_wait || later;
    return later;
}

static void publish_those(struct relay *r, bool duplicates)
{
    size_t replied = 0;
    int64_t now = clock_now();
    struct message *m, *next;
    for (m = TAILQ_FIRST(&r->places[PLACE_CLAIMED]); m; m = next) {
        next = TAILQ_NEXT(m, link);
        if (m->is_duplicate != duplicates)
            continue;
        struct sink *sink = m->copy.target == TARGET_REPLY ? r->replies : r->sink;
        if (m->copy.target == TARGET_REPLY && !sink_is_up(sink)) {
            relay_replied(r, m, false);
            continue;
        }
        if (sink_room(sink) == 0 || !may_publish(r, m) || is_reply_for_later(r, m, replied))
            continue;
        replied += m->copy.target == TARGET_REPLY;
        fill_copy(r, m);
        switch (sink_publish(sink, m)) {
        case SINK_PUBLISHED:
            m->sent = now;
            relay_move(r, m, EVENT_PUBLISHED);
            break;
        case SINK_UNREADABLE:
            cannot_publish(r, m, "its properties or headers cannot be read");
            break;
        case SINK_TOO_LARGE:
            cannot_publish(r, m, "its copy is larger than the broker takes");
            break;
        }
    }
}

/* What was claimed for this room comes first (rule 1): duplicates, which need no claim, may have
 * become more than there is room for. */
void relay_publish(struct relay *r)
{
    r->replies_wait = false;
    publish_those(r, false);
    publish_those(r, true);
}

/* ---- The answers ---- */

static void count_copy(struct relay *r, const struct message *m)
{
    const struct copy *c = &m->copy;
    stats_add(r->stats, STAT_KEY_LEFT_OUT, c->key_left_out);
    if (c->target == TARGET_PARKING) {
        stats_add(r->stats, STAT_PARKED, 1);
        stats_count(&r->stats->parked[c->reason]);
        LOG_INFO("parked", "route", r->route->name, "key", m->key, "reason",
                 park_reason_text(c->reason), NULL);
        relay_not_forwarded(r, m, "parked", park_reason_text(c->reason), c->first_seen);
        return;
    }
    stats_add(r->stats, STAT_FORWARDED, 1);
    stats_add(r->stats, STAT_MARKED_IN_DOUBT, c->in_doubt);
    stats_add(r->stats, STAT_MARKED_UNCHECKED, c->unchecked);
    stats_add(r->stats, STAT_MARKED_NO_KEY, c->no_key);
    stats_add(r->stats, STAT_RETRIES, c->attempt > 1);
}

static const char *destination_of(const struct relay *r, const struct message *m)
{
    switch (m->copy.target) {
    case TARGET_WORK: return r->route->to.queue ? r->route->to.queue : r->route->to.exchange;
    case TARGET_PARKING: return r->route->park.queue;
    case TARGET_DUPLICATES: return r->route->duplicates.exchange;
    case TARGET_REPLY: break;
    }
    return "";
}

/* Says that copies are refused, once in a while: one line for an outage, not one for a message. */
static void say_refused(struct relay *r, const struct message *m, const char *why)
{
    if (r->now < r->next_refusal_line)
        return;
    r->next_refusal_line = r->now + REFUSAL_LINE_EVERY_MS;
    LOG_WARNING("copies are refused, holding their messages", "route", r->route->name, "to",
                destination_of(r, m), "key", m->key, "why", why, NULL);
}

static void returned(struct relay *r, struct message *m)
{
    stats_add(r->stats, STAT_RETURNED, 1);
    say_refused(r, m, "returned as unroutable: no queue takes them");
    m->returns++;
    bool parks = m->copy.target == TARGET_WORK && r->route->on_unroutable == UNROUTABLE_PARK &&
                 m->returns >= RETURNS_BEFORE_PARKING;
    if (parks)
        m->copy.reason = PARK_UNROUTABLE;
    relay_hold(r, m, EVENT_RETURNED, "no queue takes it: returned as unroutable",
               parks ? 0 : relay_backoff(m->refusals++, 500, 30000));
}

static void nacked(struct relay *r, struct message *m)
{
    stats_add(r->stats, STAT_NACKED, 1);
    say_refused(r, m, "nacked: the queue is full or failing");
    /* Of several queues behind an exchange another one may have stored it; and a classic queue's
     * node may have, and died before it said so. */
    if (m->copy.target == TARGET_WORK && !sink_nack_is_certain(r->sink))
        m->in_doubt = true;
    relay_hold(r, m, EVENT_NACKED, "its queue is full or failing: refused by the broker",
               relay_backoff(m->refusals++, 100, 5000));
}

static void confirmed(struct relay *r, struct message *m)
{
    histogram_add(&r->stats->confirms, histogram_short, (r->now - m->sent) * 1000);
    if (m->copy.target == TARGET_DUPLICATES)
        relay_duplicate_published(r, m);
    else
        count_copy(r, m);
    relay_move(r, m, EVENT_CONFIRMED);
}

void relay_confirm(struct relay *r)
{
    enum sink_answer answer;
    struct message *m;
    while (r->replies && (m = sink_next(r->replies, &answer)))
        relay_replied(r, m, answer == SINK_CONFIRMED);
    while ((m = sink_next(r->sink, &answer))) {
        switch (answer) {
        case SINK_CONFIRMED: confirmed(r, m); break;
        case SINK_RETURNED: returned(r, m); break;
        case SINK_NACKED: nacked(r, m); break;
        }
    }
}
