/*
 * relay_store - relay's talks with the store: the batch, recording, releasing, the next session.
 *
 * Each goes in rounds. A round is one call for the whole batch; what met something else than it
 * expected is decided anew by claim.h and goes into the next round. Two rounds are the usual most;
 * whoever is still not done after RELAY_ROUNDS tries again in a later tick.
 */
#include "relay_inside.h"

#include "log.h"

#include <stdlib.h>
#include <string.h>

void relay_want_batch(struct relay *r, size_t size)
{
    if (size <= r->batch_size)
        return;
    r->batch = xrealloc(r->batch, size * sizeof(struct message *));
    r->ops = xrealloc(r->ops, size * sizeof *r->ops);
    r->batch_size = size;
}

void relay_set_op(struct relay *r, size_t i, const struct record *expect,
                  const struct record *write)
{
    struct store_op *op = &r->ops[i];
    op->key = message_key(r->batch[i]);
    op->expect = *expect;
    op->write = *write;
    struct claim_rules rules = relay_rules(r, r->batch[i]);
    op->ttl = write->now.state == RECORD_NONE ? 0 : claim_ttl(write, store_now(r->store), &rules);
}

bool relay_apply(struct relay *r, size_t count)
{
    if (store_apply(r->store, r->session->id, r->ops, count))
        return true;
    r->wishes.store_failed = true;
    return false;
}

void relay_keep_op(struct relay *r, size_t to, size_t from)
{
    r->batch[to] = r->batch[from];
    r->ops[to] = r->ops[from];
}

void relay_say_foreign(struct relay *r, const struct message *m)
{
    stats_add(r->stats, STAT_FOREIGN, 1);
    if (m->tries == 0)
        LOG_WARNING("what is stored under a key is not onlyonce's, holding its messages", "route",
                    r->route->name, "key", m->key, NULL);
}

/* ---- Recording and releasing ---- */

static enum record_state recorded_as(const struct message *m)
{
    return m->copy.target == TARGET_WORK ? RECORD_FORWARDED : RECORD_PARKED;
}

static void set_record_op(struct relay *r, size_t i, const struct record *expect)
{
    struct claim_rules rules = relay_rules(r, r->batch[i]);
    struct record mine = r->batch[i]->claim;
    mine.now.completed = expect->now.completed;
    mine.now.has_result = expect->now.has_result;
    mine.now.in_doubt = r->batch[i]->copy.in_doubt || expect->now.in_doubt;
    if (recorded_as(r->batch[i]) == RECORD_FORWARDED) /* This very content is there. */
        mine.now.fingerprint = r->batch[i]->delivery.fingerprint;
    struct record write =
        claim_recorded(&mine, recorded_as(r->batch[i]), store_now(r->store), &rules);
    relay_set_op(r, i, expect, &write);
}

static void set_release_op(struct relay *r, size_t i, const struct record *expect)
{
    struct record mine = *expect;
    mine.now.in_doubt = mine.now.in_doubt || r->batch[i]->in_doubt;
    struct record left = claim_released(&mine, store_now(r->store));
    relay_set_op(r, i, expect, &left);
}

static size_t gather_place(struct relay *r, enum place place,
                           void (*set)(struct relay *, size_t, const struct record *))
{
    size_t count = 0;
    struct message *m;
    relay_want_batch(r, r->counts[place] < RELAY_BATCH_MOST ? r->counts[place] : RELAY_BATCH_MOST);
    TAILQ_FOREACH(m, &r->places[place], link)
    {
        if (count == RELAY_BATCH_MOST)
            break;
        r->batch[count] = m;
        set(r, count, &m->claim);
        count++;
    }
    return count;
}

/* Recording and releasing end alike: what was written is known, what was met likewise. */
static void finish(struct relay *r, struct message *m, const struct record *known, enum event event)
{
    relay_unclaim(r, m, known);
    relay_move(r, m, event);
}

/* One round of answers; how many are to be tried again, at the beginning of the batch. */
static size_t end_answers(struct relay *r, size_t count, enum event event,
                          void (*set)(struct relay *, size_t, const struct record *))
{
    size_t again = 0;
    for (size_t i = 0; i < count; i++) {
        struct message *m = r->batch[i];
        const struct store_op *op = &r->ops[i];
        bool recording = event == EVENT_RECORDED;
        switch (op->answer) {
        case STORE_APPLIED: finish(r, m, &op->write, event); break;
        case STORE_MET: {
            struct record met = op->met;
            if (recording ? claim_may_record(&m->claim, &met, recorded_as(m))
                          : claim_still_mine(&m->claim, &met)) {
                relay_keep_op(r, again, i);
                set(r, again, &met);
                again++;
                break;
            }
            if (recording)
                stats_add(r->stats, STAT_NOT_RECORDED, 1);
            /* What stands there need not be final: followers ask for themselves. */
            finish(r, m, NULL, event);
            break;
        }
        case STORE_FENCED: r->wishes.session_lost = true; break;
        case STORE_FOREIGN:
            relay_say_foreign(r, m);
            if (recording)
                stats_add(r->stats, STAT_NOT_RECORDED, 1);
            finish(r, m, NULL, event);
            break;
        }
    }
    return again;
}

static void end_claims(struct relay *r, enum place place, enum event event,
                       void (*set)(struct relay *, size_t, const struct record *))
{
    if (r->counts[place] == 0 || !r->session->open || r->wishes.store_failed ||
        r->wishes.session_lost)
        return;
    size_t count = gather_place(r, place, set);
    for (int round = 0; count > 0 && round < RELAY_ROUNDS; round++) {
        if (!relay_apply(r, count))
            return; /* They stay, and are moved to the next session. */
        count = end_answers(r, count, event, set);
    }
}

void relay_record(struct relay *r)
{
    end_claims(r, PLACE_CONFIRMED, EVENT_RECORDED, set_record_op);
}

void relay_release(struct relay *r)
{
    end_claims(r, PLACE_UNWIND, EVENT_RELEASED, set_release_op);
}

/* ---- The next session ---- */

static size_t gather_claims(struct relay *r)
{
    size_t count = 0;
    size_t all = 0;
    for (size_t p = 0; p < PLACE_COUNT; p++)
        all += r->counts[p];
    relay_want_batch(r, all);
    for (size_t p = 0; p < PLACE_COUNT; p++) {
        struct message *m;
        TAILQ_FOREACH(m, &r->places[p], link)
        {
            if (m->facts.claim)
                r->batch[count++] = m;
        }
    }
    return count;
}

/* Is this the message's claim, in one of the sessions before? A completion that was noted on it
 * keeps it from being moved, but it is ours to record or release all the same. */
static bool is_former_claim(const struct session *before, const struct message *m,
                            const struct record *met)
{
    bool former = false;
    for (size_t i = 0; i < before->former_count; i++)
        former = former || strcmp(before->former[i], met->session) == 0;
    return former && met->now.state == RECORD_PENDING && met->claim == m->claim.claim;
}

static void told_of_move(struct relay *r, struct message *m, const struct store_move *move,
                         const struct session *before)
{
    bool published =
        m->place == PLACE_SENT || m->place == PLACE_CONFIRMED || m->place == PLACE_UNWIND;
    if (move->moved) {
        memcpy(m->claim.session, r->session->id, sizeof m->claim.session);
        if (m->place == PLACE_HELD && m->waits_since)
            return; /* It goes on waiting. */
        if (!published)
            relay_aim(r, m);
        relay_move(r, m, EVENT_MOVED);
        return;
    }
    /* Rule 3: not published, it starts afresh. Published, it goes on to its end, and its recording
     * or release will find what it finds. */
    if (!published)
        relay_unclaim(r, m, NULL);
    else if (is_former_claim(before, m, &move->met))
        m->claim = move->met;
    relay_move(r, m, EVENT_NOT_MOVED);
}

/* Who lost its session may have lost its deliveries with it, and not know yet: the broker may have
 * given them to somebody else. */
static void doubt_deliveries(struct relay *r)
{
    struct message *m;
    for (size_t p = 0; p < PLACE_COUNT; p++)
        TAILQ_FOREACH(m, &r->places[p], link)
    m->delivery.redelivered = true;
}

bool relay_open_session(struct relay *r)
{
    doubt_deliveries(r);
    size_t count = gather_claims(r);
    struct store_move *moves = xcalloc(count, sizeof *moves);
    for (size_t i = 0; i < count; i++) {
        moves[i].key = message_key(r->batch[i]);
        moves[i].claim = r->batch[i]->claim;
        struct claim_rules rules = relay_rules(r, r->batch[i]);
        moves[i].ttl = claim_pending_ttl(&rules);
    }
    struct session before = *r->session;
    bool ok = session_open(r->session, r->store, moves, count);
    for (size_t i = 0; ok && i < count; i++)
        told_of_move(r, r->batch[i], &moves[i], &before);
    free(moves);
    return ok;
}
