/*
 * relay_claim - relay's claiming: which of the messages in FRESH are new, and whose keys they are.
 *
 * It goes in rounds, as relay_store.c says.
 */
#include "relay_inside.h"

#include "clock.h"
#include "log.h"

#include <stdlib.h>
#include <string.h>

#define WAIT_LOOK_MS 500
#define FOREIGN_FIRST_MS 1000
#define FOREIGN_MOST_MS 30000

static const char *const waits_for_store = "the store is away";

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

void relay_aim(const struct relay *r, struct message *m)
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
    relay_aim(r, m);
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
                relay_keep_op(r, met++, i);
            }
            break;
        case STORE_MET: relay_keep_op(r, met++, i); break;
        case STORE_FENCED: /* It stays FRESH, and asks in the next session. */
            r->wishes.session_lost = true;
            relay_unclaim(r, m, NULL);
            break;
        case STORE_FOREIGN:
            relay_say_foreign(r, m);
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
        relay_keep_op(r, to, from);
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
        if (m->delivery.attempt == 0 || d.conflict) { /* To be put back, over this record. */
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
    for (int round = 0; count > 0 && round < RELAY_ROUNDS; round++) {
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
    size_t room = relay_room(r);
    if (r->counts[PLACE_FRESH] == 0 || room <= r->counts[PLACE_CLAIMED])
        return;
    room -= r->counts[PLACE_CLAIMED];
    if (room > RELAY_BATCH_MOST)
        room = RELAY_BATCH_MOST;
    if (r->session->open && !r->wishes.store_failed && !r->wishes.session_lost)
        claim_batch(r, gather(r, room));
    else if (!r->policy.store_failure_holds)
        go_on_without_store(r, room);
}
