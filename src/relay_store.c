/*
 * relay_store - relay's talks with the store: claiming, recording, releasing, the next session.
 *
 * Each goes in rounds. A round is one call for the whole batch; what met something else than it
 * expected is decided anew by claim.h and goes into the next round. Two rounds are the usual most;
 * whoever is still not done after ROUNDS tries again in a later tick.
 */
#include "relay_inside.h"

#include "clock.h"
#include "log.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 4
#define BATCH_MOST 1000
#define WAIT_LOOK_MS 500
#define FOREIGN_FIRST_MS 1000
#define FOREIGN_MOST_MS 30000

static const char *const waits_for_store = "the store is away";

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

/* Keeps message and op `from` for the next round, at index `to`. */
static void keep(struct relay *r, size_t to, size_t from)
{
    r->batch[to] = r->batch[from];
    r->ops[to] = r->ops[from];
}

static void foreign(struct relay *r, const struct message *m)
{
    stats_add(r->stats, STAT_FOREIGN, 1);
    if (m->tries == 0)
        LOG_WARNING("what is stored under a key is not onlyonce's, holding its messages", "route",
                    r->route->name, "key", m->key, NULL);
}

/* ---- Claiming ---- */

/* Reasons that the message itself is, whatever its record says. */
static bool parks_as_it_is(const struct message *m)
{
    switch (m->copy.reason) {
    case PARK_LOOP:
    case PARK_BAD_HEADER:
    case PARK_NO_KEY:
    case PARK_UNROUTABLE: return true;
    case PARK_NONE:
    case PARK_STALE:
    case PARK_DEAD_LETTERED:
    case PARK_OTHER_ROUTE:
    case PARK_STORE_FAILURE:
    case PARK_CONFLICT:
    case PARK_IN_DOUBT:
    case PARK_UNKNOWN_ROUTE:
    case PARK_NOT_FOUND:
    case PARK_PENDING:
    case PARK_FOREIGN:
    case PARK_BAD_ACTION:
    case PARK_BAD_RESULT:
    case PARK_REASON_COUNT: break;
    }
    return false;
}

/* What an earlier try left in the copy is forgotten: the answer of this one counts. */
static void begin_copy(struct message *m)
{
    m->copy.target = TARGET_WORK;
    m->copy.reason = PARK_NONE;
    m->copy.unchecked = false;
}

static void park_in_doubt(struct message *m)
{
    m->copy.target = TARGET_PARKING;
    m->copy.reason = PARK_IN_DOUBT;
}

/* Messages that need no claim. False: it needs one. */
static bool goes_unclaimed(struct relay *r, struct message *m)
{
    if (m->facts.unwritable) {
        relay_cannot_write(r, m, "its properties or headers cannot be read");
        return true;
    }
    if (parks_as_it_is(m)) {
        relay_park(r, m, m->copy.reason);
        return true;
    }
    if (m->is_duplicate) { /* Its copy was refused, and is published again. */
        relay_move(r, m, EVENT_UNCLAIMED);
        return true;
    }
    if (m->key_len > 0)
        return false;
    begin_copy(m);
    if (m->in_doubt && r->route->on_in_doubt == IN_DOUBT_PARK)
        park_in_doubt(m);
    relay_move(r, m, EVENT_UNCLAIMED);
    return true;
}

/* Its claim stands, as m->claim: where does its copy go? */
static void aim(const struct relay *r, struct message *m)
{
    begin_copy(m);
    m->tries = 0;
    bool doubt = m->in_doubt || m->claim.now.in_doubt;
    /* A record that was parked in doubt and put back is forwarded, marked: not parked again. */
    bool put_back = m->claim.before.state == RECORD_PARKED;
    if (doubt && !put_back && r->route->on_in_doubt == IN_DOUBT_PARK)
        park_in_doubt(m);
}

/* on_in_doubt: wait: it keeps its claim, and asks from time to time whether the completion of the
 * earlier copy was noted on it. */
static bool waits(const struct relay *r, struct message *m)
{
    if (r->route->on_in_doubt != IN_DOUBT_WAIT || !m->claim.now.in_doubt)
        return false;
    if (m->waits_since == 0)
        m->waits_since = r->now;
    return r->now - m->waits_since < r->route->in_doubt_wait;
}

static void claimed(struct relay *r, struct message *m, const struct record *claim)
{
    m->claim = *claim;
    aim(r, m);
    if (waits(r, m))
        relay_hold(r, m, EVENT_BUSY, "in doubt: waits for a completion of the earlier copy",
                   WAIT_LOOK_MS);
    else
        relay_move(r, m, EVENT_MINE);
}

/* Nobody knows whether the claim was made. Held, or sent on without it, as the route says. */
static void claim_unknown(struct relay *r, struct message *m)
{
    if (r->route->on_store_failure == STORE_FAILURE_FORWARD)
        m->copy.unchecked = true;
    if (r->route->on_store_failure == STORE_FAILURE_PARK) {
        m->copy.target = TARGET_PARKING;
        m->copy.reason = PARK_STORE_FAILURE;
    }
    relay_hold(r, m, EVENT_STORE_UNKNOWN, waits_for_store, 0);
}

/* Is anybody of this worker at the key already? Then it follows him. */
static bool follows(struct relay *r, struct message *m)
{
    struct message *leader = flight_find(&r->flight, message_key(m));
    if (!leader)
        return false;
    relay_hold(r, m, EVENT_BUSY, "another message of its key is on its way", INT64_MAX);
    m->leader = leader;
    TAILQ_INSERT_TAIL(&leader->followers, m, follow);
    return true;
}

/* Takes from FRESH what may be published in this tick (rule 1); those that must ask fill the batch.
 */
static size_t gather(struct relay *r, size_t room)
{
    const struct record none = {0};
    size_t count = 0;
    int64_t now = store_now(r->store);
    struct message *m, *next;
    relay_want_batch(r, room);
    for (m = TAILQ_FIRST(&r->places[PLACE_FRESH]); m && room > 0; m = next) {
        next = TAILQ_NEXT(m, link);
        if (goes_unclaimed(r, m)) {
            room--;
            continue;
        }
        room--;
        r->batch[count] = m;
        if (m->facts.claim) { /* It waited with its claim: is it still there, and unchanged? */
            struct record claim = m->claim;
            claim.now.since = now;
            relay_set_op(r, count++, &m->claim, &claim);
            continue;
        }
        if (follows(r, m)) {
            room++;
            continue;
        }
        begin_copy(m);
        m->claim = claim_new(&m->delivery, r->session->id, ++r->session->claims, now);
        m->facts.claim = true;
        flight_add(&r->flight, m);
        relay_set_op(r, count++, &none, &m->claim);
    }
    return count;
}

/* The answers of one round; how many met a record and are now at the beginning of the batch. */
static size_t claim_answers(struct relay *r, size_t count)
{
    size_t met = 0;
    for (size_t i = 0; i < count; i++) {
        struct message *m = r->batch[i];
        const struct store_op *op = &r->ops[i];
        switch (op->answer) {
        case STORE_APPLIED:
            if (op->write.now.state == RECORD_PENDING) {
                if (op->expect.now.state == RECORD_PENDING && m->waits_since == 0)
                    stats_add(r->stats, STAT_TAKEN_OVER, 1);
                claimed(r, m, &op->write);
            } else { /* A noted completion took effect: now this is what was met. */
                r->ops[i].met = op->write;
                keep(r, met++, i);
            }
            break;
        case STORE_MET: keep(r, met++, i); break;
        case STORE_FENCED: /* It stays FRESH, and asks in the next session. */
            r->wishes.session_lost = true;
            relay_unclaim(r, m, NULL);
            break;
        case STORE_FOREIGN:
            foreign(r, m);
            relay_unclaim(r, m, NULL);
            relay_hold(r, m, EVENT_BUSY, "what is stored under its key is not onlyonce's",
                       relay_backoff(m->tries, FOREIGN_FIRST_MS, FOREIGN_MOST_MS));
            break;
        }
    }
    return met;
}

/* The owners of the pending records that were met: do their sessions live? In lives[i] for op i. */
static bool ask_for_owners(struct relay *r, size_t count, bool *lives)
{
    const char **ids = xmalloc(count * sizeof *ids);
    bool *answers = xcalloc(count, sizeof *answers);
    size_t *which = xmalloc(count * sizeof *which);
    size_t distinct = 0;
    for (size_t i = 0; i < count; i++) {
        const struct record *met = &r->ops[i].met;
        which[i] = SIZE_MAX;
        if (met->now.state != RECORD_PENDING || !met->session[0])
            continue;
        size_t k = 0;
        while (k < distinct && strcmp(ids[k], met->session) != 0)
            k++;
        if (k == distinct)
            ids[distinct++] = met->session;
        which[i] = k;
    }
    bool ok = distinct == 0 || store_sessions_live(r->store, ids, distinct, answers);
    for (size_t i = 0; i < count; i++)
        lives[i] = which[i] != SIZE_MAX && answers[which[i]];
    free(ids);
    free(answers);
    free(which);
    return ok;
}

/* One message that met a record. True: its next op is set at index `to`. */
static bool decide(struct relay *r, size_t to, size_t from, bool owner_lives)
{
    struct message *m = r->batch[from];
    struct record met = r->ops[from].met;
    struct claim_rules rules = relay_rules(r, m);
    struct decision d = claim_decide(&m->delivery, &met, owner_lives, r->session->id,
                                     ++r->session->claims, store_now(r->store), &rules);
    if (d.conflict && d.verdict != VERDICT_DUPLICATE)
        relay_say_conflict(r, m);
    switch (d.verdict) {
    case VERDICT_CLAIM:
    case VERDICT_COMPLETE:
        keep(r, to, from);
        m->claim = d.next;
        relay_set_op(r, to, &met, &d.next);
        return true;
    case VERDICT_MINE: claimed(r, m, &d.next); return false;
    case VERDICT_DUPLICATE:
        relay_unclaim(r, m, &met);
        relay_duplicate(r, m, &met, d.conflict);
        return false;
    case VERDICT_WAIT:
        relay_unclaim(r, m, &met);
        relay_hold(r, m, EVENT_BUSY, "its key is claimed by another worker",
                   relay_backoff(m->tries, RELAY_BUSY_FIRST_MS, RELAY_BUSY_MOST_MS));
        return false;
    case VERDICT_PARK:
        if (m->delivery.attempt == 0) { /* So that it can be put back, over this record. */
            m->first_seen = met.now.first_seen;
            m->attempt = met.now.number;
        }
        relay_unclaim(r, m, &met);
        relay_park(r, m, d.reason);
        return false;
    }
    return false;
}

/* Those at the beginning of the batch met a record; how many have another op to try. */
static size_t decide_all(struct relay *r, size_t count)
{
    bool *lives = xcalloc(count, sizeof *lives);
    size_t again = 0;
    if (ask_for_owners(r, count, lives)) {
        for (size_t i = 0; i < count; i++)
            if (decide(r, again, i, lives[i]))
                again++;
    } else {
        r->wishes.store_failed = true;
        for (size_t i = 0; i < count; i++) {
            relay_unclaim(r, r->batch[i], NULL); /* It met a record: nothing of ours is there. */
            claim_unknown(r, r->batch[i]);
        }
    }
    free(lives);
    return again;
}

/* relay_apply(), and how long it took. */
static bool ask(struct relay *r, size_t count)
{
    int64_t begun = clock_micros();
    if (!relay_apply(r, count))
        return false;
    histogram_add(&r->stats->claims, histogram_short, clock_micros() - begun);
    return true;
}

static void claim_batch(struct relay *r, size_t count)
{
    for (int round = 0; count > 0 && round < ROUNDS; round++) {
        if (!ask(r, count)) {
            for (size_t i = 0; i < count; i++) {
                if (r->ops[i].write.now.state != RECORD_PENDING)
                    relay_unclaim(r, r->batch[i], NULL); /* A completion: it claims nothing. */
                claim_unknown(r, r->batch[i]);
            }
            return;
        }
        count = claim_answers(r, count);
        if (count > 0)
            count = decide_all(r, count);
    }
    for (size_t i = 0; i < count; i++) {
        relay_unclaim(r, r->batch[i], NULL);
        relay_hold(r, r->batch[i], EVENT_BUSY, "its key changes too fast", RELAY_BUSY_FIRST_MS);
    }
}

/* The store is away, and the route does not wait for it. */
static void go_on_without_store(struct relay *r, size_t room)
{
    struct message *m, *next;
    for (m = TAILQ_FIRST(&r->places[PLACE_FRESH]); m && room > 0; m = next) {
        next = TAILQ_NEXT(m, link);
        room--;
        if (goes_unclaimed(r, m))
            continue;
        begin_copy(m);
        claim_unknown(r, m);
    }
}

void relay_claim(struct relay *r)
{
    size_t room = sink_room(r->sink);
    if (r->counts[PLACE_FRESH] == 0 || room <= r->counts[PLACE_CLAIMED])
        return;
    room -= r->counts[PLACE_CLAIMED];
    if (room > BATCH_MOST)
        room = BATCH_MOST;
    if (r->session->open && !r->wishes.store_failed && !r->wishes.session_lost)
        claim_batch(r, gather(r, room));
    else if (!r->policy.store_failure_holds)
        go_on_without_store(r, room);
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
    relay_want_batch(r, r->counts[place] < BATCH_MOST ? r->counts[place] : BATCH_MOST);
    TAILQ_FOREACH(m, &r->places[place], link)
    {
        if (count == BATCH_MOST)
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
                keep(r, again, i);
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
            foreign(r, m);
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
    for (int round = 0; count > 0 && round < ROUNDS; round++) {
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
            aim(r, m);
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

bool relay_open_session(struct relay *r)
{
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
