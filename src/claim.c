#include "claim.h"

#include <assert.h>
#include <string.h>

#define DAY_MS (24 * INT64_C(3600000))

/* Is this a copy of ours on its way back? Only then do its attempt and first-seen mean anything. */
static bool comes_back(const struct delivery *d)
{
    return d->kind == DELIVERY_RETRY || d->kind == DELIVERY_PUT_BACK;
}

static uint32_t number_after(uint32_t number)
{
    return number == UINT32_MAX ? number : number + 1;
}

int64_t claim_pending_ttl(const struct claim_rules *rules)
{
    return rules->window > DAY_MS ? rules->window : DAY_MS;
}

int64_t claim_ttl(const struct record *r, int64_t now, const struct claim_rules *rules)
{
    if (r->now.state == RECORD_PENDING)
        return claim_pending_ttl(rules);
    return r->now.ends > now ? r->now.ends - now : 1;
}

static struct record pending(const char *session, uint64_t claim, uint32_t number,
                             int64_t first_seen, int64_t now)
{
    struct record r = {.claim = claim};
    r.now = (struct record_life){
        .state = RECORD_PENDING, .number = number, .first_seen = first_seen, .since = now};
    assert(strlen(session) == SESSION_ID_LEN);
    memcpy(r.session, session, SESSION_ID_LEN);
    return r;
}

struct record claim_new(const struct delivery *d, const char *session, uint64_t claim, int64_t now)
{
    struct record r = comes_back(d)
                          ? pending(session, claim, number_after(d->attempt), d->first_seen, now)
                          : pending(session, claim, 1, now, now);
    /* Its record is gone, but copies of other contents may be about that have its first-seen. */
    bool several = d->kind == DELIVERY_PUT_BACK && d->fingerprint;
    r.now.fingerprint = several ? FINGERPRINT_SEVERAL : d->fingerprint;
    return r;
}

static bool is_conflict(const struct delivery *d, const struct record_life *met)
{
    return d->fingerprint && met->fingerprint && d->fingerprint != met->fingerprint;
}

/* A claim over a record of the same life: what was counted of it goes on. */
static struct record pending_over(const struct delivery *d, const struct record_life *before,
                                  const char *session, uint64_t claim, uint32_t number, int64_t now)
{
    struct record r = pending(session, claim, number, before->first_seen, now);
    r.now.duplicates = before->duplicates;
    r.now.last_duplicate = before->last_duplicate;
    r.now.fingerprint = is_conflict(d, before) ? FINGERPRINT_SEVERAL : d->fingerprint;
    r.before = *before;
    return r;
}

/* ---- Meeting a record ---- */

static struct decision claim(struct record next)
{
    return (struct decision){.verdict = VERDICT_CLAIM, .next = next};
}

static struct decision park(enum park_reason reason)
{
    return (struct decision){.verdict = VERDICT_PARK, .reason = reason};
}

/* The same key with another content: the route says what becomes of it. */
static struct decision conflict(const struct delivery *d, const struct record *met,
                                const char *session, uint64_t number, int64_t now,
                                const struct claim_rules *rules)
{
    struct decision out = {.verdict = VERDICT_DUPLICATE};
    uint32_t attempt = met->now.number > d->attempt ? met->now.number : d->attempt;
    switch (rules->on_conflict) {
    case CONFLICT_DROP: break;
    case CONFLICT_PARK: out = park(PARK_CONFLICT); break;
    case CONFLICT_FORWARD:
        out = claim(pending_over(d, &met->now, session, number, number_after(attempt), now));
        /* What the broker delivers a second time may be what was forwarded before; and doubt
         * sticks. */
        out.next.now.in_doubt =
            d->redelivered ||
            (met->now.in_doubt && (comes_back(d) || met->now.state == RECORD_PARKED));
        break;
    }
    out.conflict = true;
    return out;
}

/* It met what was forwarded, completed or parked. A duplicate here that is another route's retry
 * belongs to that route: routes in a chain do not eat each other's retries. */
static struct decision duplicate(const struct delivery *d, const struct record *met,
                                 const char *session, uint64_t number, int64_t now,
                                 const struct claim_rules *rules)
{
    bool others_retry = d->kind == DELIVERY_PLAIN && d->other_route;
    bool drops = rules->on_conflict == CONFLICT_DROP;
    if (is_conflict(d, &met->now) && !(others_retry && drops))
        return conflict(d, met, session, number, now, rules);
    if (others_retry)
        return park(PARK_OTHER_ROUTE);
    return (struct decision){.verdict = VERDICT_DUPLICATE};
}

/* A copy that was dead-lettered, or put back, comes round: a claim over the record of its forward.
 */
static struct decision come_back_over(const struct delivery *d, const struct record_life *before,
                                      const char *session, uint64_t number, int64_t now,
                                      const struct claim_rules *rules)
{
    if (rules->check_dead_lettered && d->kind == DELIVERY_RETRY &&
        before->state == RECORD_FORWARDED)
        return park(PARK_DEAD_LETTERED);
    struct record next = pending_over(d, before, session, number, number_after(d->attempt), now);
    /* Whether the parked one's earlier copy arrived is still not known. */
    next.now.in_doubt = before->state == RECORD_PARKED && before->in_doubt;
    return claim(next);
}

/* Rule 8: a noted completion takes effect. */
static struct decision complete_noted(const struct record *met, int64_t now,
                                      const struct claim_rules *rules)
{
    struct decision out = {.verdict = VERDICT_COMPLETE, .next = {.now = met->now}};
    out.next.now.state = RECORD_COMPLETED;
    out.next.now.ends = now + rules->window;
    return out;
}

/* Rule 5, and the last row of the table of retries and put-backs. */
static struct decision meet_abandoned(const struct delivery *d, const struct record *met,
                                      const char *session, uint64_t number, int64_t now,
                                      const struct claim_rules *rules)
{
    struct decision out = claim(*met);
    struct record *next = &out.next;
    if (met->now.completed)
        return complete_noted(met, now, rules);
    if (comes_back(d) && met->now.number <= d->attempt) {
        /* The delivery itself proves that the copy arrived, with this content. */
        struct record_life arrived = met->now;
        arrived.state = RECORD_FORWARDED;
        arrived.fingerprint = d->fingerprint;
        arrived.ends = now + rules->window;
        return come_back_over(d, &arrived, session, number, now, rules);
    }
    *next = pending_over(d, &met->now, session, number, met->now.number, now);
    next->before = (struct record_life){0}; /* A claim in doubt is never put back: rule 6. */
    next->now.in_doubt = true;
    return out;
}

static struct decision meet_pending(const struct delivery *d, const struct record *met,
                                    bool owner_lives, const char *session, uint64_t number,
                                    int64_t now, const struct claim_rules *rules)
{
    if (strcmp(met->session, session) == 0) {
        struct decision mine = {.verdict = VERDICT_MINE, .next = *met};
        /* The earlier copy did arrive: this one need not be published. */
        if (met->now.in_doubt && met->now.completed)
            return complete_noted(met, now, rules);
        if (d->redelivered && met->before.state == RECORD_COMPLETED && !met->now.in_doubt) {
            mine.verdict = VERDICT_CLAIM;
            mine.next.now.in_doubt = true;
        }
        return mine;
    }
    bool old = now - met->now.since > 2 * rules->hold_limit;
    if (met->session[0] && owner_lives && !old)
        return (struct decision){.verdict = VERDICT_WAIT};
    return meet_abandoned(d, met, session, number, now, rules);
}

static struct decision meet_completed(const struct delivery *d, const struct record *met,
                                      const char *session, uint64_t number, int64_t now,
                                      const struct claim_rules *rules)
{
    bool free = rules->window_completed >= 0 && now - met->now.completed >= rules->window_completed;
    if (!free || comes_back(d))
        return duplicate(d, met, session, number, now, rules);
    struct record next = pending(session, number, number_after(met->now.number), now, now);
    next.now.fingerprint = d->fingerprint;
    next.before = met->now;
    /* What the broker delivers a second time may be the very message that was completed. */
    next.now.in_doubt = d->redelivered;
    return claim(next);
}

struct decision claim_decide(const struct delivery *d, const struct record *met, bool owner_lives,
                             const char *session, uint64_t number, int64_t now,
                             const struct claim_rules *rules)
{
    if (met->now.state == RECORD_NONE)
        return claim(claim_new(d, session, number, now));
    if (comes_back(d) && met->now.first_seen != d->first_seen)
        return park(PARK_STALE);
    switch (met->now.state) {
    case RECORD_NONE: break;
    case RECORD_PENDING: return meet_pending(d, met, owner_lives, session, number, now, rules);
    case RECORD_COMPLETED: return meet_completed(d, met, session, number, now, rules);
    case RECORD_FORWARDED:
    case RECORD_PARKED:
        if (comes_back(d) && met->now.number <= d->attempt)
            return come_back_over(d, &met->now, session, number, now, rules);
        break;
    }
    return duplicate(d, met, session, number, now, rules);
}

/* ---- Recording and releasing ---- */

struct record claim_recorded(const struct record *mine, enum record_state as, int64_t now,
                             const struct claim_rules *rules)
{
    assert(as == RECORD_FORWARDED || as == RECORD_PARKED);
    struct record r = {.now = mine->now};
    r.now.state = mine->now.completed ? RECORD_COMPLETED : as;
    r.now.since = now;
    r.now.ends = now + rules->window;
    return r;
}

bool claim_still_mine(const struct record *mine, const struct record *met)
{
    return met->now.state == RECORD_PENDING && met->session[0] &&
           strcmp(met->session, mine->session) == 0 && met->claim == mine->claim;
}

bool claim_may_record(const struct record *mine, const struct record *met, enum record_state as)
{
    if (claim_still_mine(mine, met))
        return true;
    return as == RECORD_FORWARDED && met->now.state == RECORD_PARKED &&
           met->now.number == mine->now.number && met->now.first_seen == mine->now.first_seen;
}

struct record claim_released(const struct record *mine, int64_t now)
{
    struct record left = {0};
    if (mine->now.in_doubt) { /* Rule 6: doubt sticks. */
        left.now = mine->now;
        return left;
    }
    left.now = mine->before;
    bool was_forwarded =
        mine->before.state == RECORD_FORWARDED || mine->before.state == RECORD_PARKED;
    if (mine->now.completed && was_forwarded) { /* Rule 8: a noted completion takes effect. */
        left.now.state = RECORD_COMPLETED;
        left.now.completed = mine->now.completed;
        left.now.has_result = mine->now.has_result;
    }
    if (left.now.ends <= now)
        left.now = (struct record_life){0};
    return left;
}

bool claim_count_duplicates(const struct record *met, uint32_t count, int64_t now,
                            const struct claim_rules *rules, struct record *next)
{
    if (met->now.state == RECORD_NONE || met->now.state == RECORD_PENDING)
        return false;
    *next = *met;
    struct record_life *life = &next->now;
    life->duplicates =
        life->duplicates > UINT32_MAX - count ? UINT32_MAX : life->duplicates + count;
    if (life->last_duplicate < now) /* Another worker's clock may be ahead. */
        life->last_duplicate = now;
    bool slides = rules->sliding && life->state != RECORD_PARKED; /* Rule 10 */
    if (slides && life->ends < now + rules->window)
        life->ends = now + rules->window;
    return true;
}

enum completion claim_complete(const struct record *met, int64_t first_seen, int64_t now,
                               struct record *next)
{
    if (met->now.state == RECORD_NONE || (first_seen && first_seen != met->now.first_seen))
        return COMPLETION_NOT_FOUND;
    if (met->now.completed)
        return COMPLETION_ALREADY;
    *next = *met;
    next->now.completed = now;
    if (met->now.state != RECORD_PENDING)
        next->now.state = RECORD_COMPLETED;
    return COMPLETION_WRITE;
}
