/*
 * The judge: what the broker and the relays do, against docs/protocol.md. It knows which copies
 * really exist and which answers were really given, and trusts nothing that a relay believes.
 */
#include "sink.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fail(const char *fmt, ...)
{
    if (sim->failed)
        return;
    va_list args;
    va_start(args, fmt);
    vsnprintf(sim->failure, sizeof sim->failure, fmt, args);
    va_end(args);
    sim->failed = true;
    trace("FAILED: %s", sim->failure);
}

void trace(const char *fmt, ...)
{
    if (!sim->tracing)
        return;
    printf("%9lld %*s", (long long)sim->now, 2 * sim->depth, "");
    va_list args;
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
}

int key_index(struct span key)
{
    if (key.len == 2 && key.data[0] == 'k' && key.data[1] >= '0' && key.data[1] < '0' + SIM_KEYS)
        return key.data[1] - '0';
    fail("an unknown key: %.*s", (int)key.len, (const char *)key.data);
    return 0;
}

const char *target_name(enum target target)
{
    static const char *const names[] = {[TARGET_WORK] = "work",
                                        [TARGET_PARKING] = "parking",
                                        [TARGET_DUPLICATES] = "duplicates",
                                        [TARGET_REPLY] = "reply"};
    return names[target];
}

void judge_free(struct world *w)
{
    for (int i = 0; i < SIM_KEYS; i++) {
        struct key_book *k = &w->book.keys[i];
        struct grant *g;
        while ((g = k->grants)) {
            k->grants = g->next;
            free(g);
        }
        struct tally *t;
        while ((t = k->tallies)) {
            k->tallies = t->next;
            free(t);
        }
        struct confirmation *c;
        while ((c = k->confirmations)) {
            k->confirmations = c->next;
            free(c);
        }
    }
    free(w->book.sightings);
}

struct sighting *judge_sighting(uint64_t tag)
{
    return &sim->book.sightings[tag - 1];
}

/* A relay gets a delivery. */
void judge_seen(struct relay_process *r, const struct parcel *p, uint64_t tag)
{
    struct book *b = &sim->book;
    while (b->sighting_count < tag) {
        if (b->sighting_count == b->sighting_size) {
            b->sighting_size = b->sighting_size ? 2 * b->sighting_size : 64;
            b->sightings = xrealloc(b->sightings, b->sighting_size * sizeof *b->sightings);
        }
        b->sightings[b->sighting_count++] = (struct sighting){0};
    }
    *judge_sighting(tag) = (struct sighting){.serial = p->serial,
                                             .kind = p->kind,
                                             .key = p->key,
                                             .content = p->content,
                                             .redelivered = p->redelivered,
                                             .attempt = p->attempt,
                                             .at = sim->now,
                                             .incarnation = r->incarnation};
    memcpy(judge_sighting(tag)->body, p->body.data, p->body.len);
    r->live++;
    trace("r%d: gets parcel %llu, k%d, kind %d, tag %llu%s", r->slot, (unsigned long long)p->serial,
          p->key, (int)p->kind, (unsigned long long)tag, p->redelivered ? ", redelivered" : "");
}

static bool comes_back(const struct sighting *s)
{
    return s->kind == PARCEL_RETRY || s->kind == PARCEL_PUT_BACK;
}

/* ---- Publishing ---- */

/* Only what rests on a claim that is still this relay's may be published without a mark. */
static void judge_claimed_copy(struct relay_process *r, const struct message *m,
                               const struct publish *p)
{
    struct grant *g = p->grant;
    const struct sighting *s = judge_sighting(p->tag);
    if (!g) {
        fail("r%d publishes k%d without a claim that was granted", r->slot, p->key);
        return;
    }
    struct record there;
    bool readable = server_read(&sim->store, p->key, &there);
    bool owns = readable && there.now.state == RECORD_PENDING && there.claim == g->claim &&
                there.session[0] && server_incarnation(there.session) == r->incarnation;
    /* Even a live claim is abandoned at that age; who took it over has marked his copy. */
    bool old = server_wall(&sim->store) - m->claim.now.since > 2 * sim->route.hold_limit;
    if (!owns && !old && sim->class != CLASS_FORGETFUL)
        fail("r%d publishes k%d, whose claim is no longer its own", r->slot, p->key);
    if (owns && !server_lives(&sim->store, there.session) && sim->class != CLASS_FORGETFUL)
        fail("r%d publishes k%d, and its session has lapsed", r->slot, p->key);
    if (owns && there.now.in_doubt && !p->copy.in_doubt)
        fail("r%d publishes k%d unmarked, and its record is in doubt", r->slot, p->key);
    if (g->unresolved > 0 && !p->copy.in_doubt)
        fail("r%d publishes k%d again, unmarked, after an unknown confirm", r->slot, p->key);
    judge_claimed_content(r, p);
    if (p->copy.attempt != m->claim.now.number || p->copy.first_seen != m->claim.now.first_seen)
        fail("r%d: the copy of k%d says other than its record", r->slot, p->key);
    if (p->copy.attempt > 1 && !p->copy.in_doubt && !g->new_life &&
        !(comes_back(s) && s->attempt == p->copy.attempt - 1) && !judge_is_forwarded_conflict(s, p))
        fail("r%d publishes attempt %u of k%d, which nobody asked for", r->slot, p->copy.attempt,
             p->key);
}

static void judge_work_copy(struct relay_process *r, const struct message *m, struct publish *p)
{
    struct sighting *s = judge_sighting(p->tag);
    if (s->unresolved > 0 && !p->copy.in_doubt)
        fail("r%d publishes parcel %llu again, unmarked, after an unknown confirm", r->slot,
             (unsigned long long)s->serial);
    s->unresolved++;
    if (s->kind == PARCEL_LOOP || s->kind == PARCEL_BAD_HEADER || s->kind == PARCEL_UNREADABLE)
        fail("r%d forwards parcel %llu, of kind %d", r->slot, (unsigned long long)s->serial,
             (int)s->kind);
    /* What is delivered again after a completion may be the very message that was completed, and
     * what is in conflict may have been forwarded before another one was. */
    bool doubtful = sim->route.window_completed >= 0 || judge_forwards_conflicts();
    if (world_clean(sim) && ((p->copy.in_doubt && !doubtful) || p->copy.unchecked))
        fail("r%d marks k%d, and nothing was in doubt", r->slot, p->key);
    sim->book.in_doubt += p->copy.in_doubt;
    if (p->copy.no_key) {
        if (s->key != SIM_NO_KEY || sim->route.on_missing_key != MISSING_KEY_FORWARD)
            fail("r%d forwards k%d as having no key", r->slot, s->key);
    } else if (p->copy.unchecked) {
        if (sim->route.on_store_failure != STORE_FAILURE_FORWARD)
            fail("r%d forwards k%d unchecked against its route's policy", r->slot, p->key);
    } else {
        judge_claimed_copy(r, m, p);
    }
    judge_once(p, false);
    if (p->grant)
        p->grant->unresolved++;
}

/* It may be called a duplicate only by a record that the relay was told of since it arrived. */
static void judge_is_duplicate(struct relay_process *r, const struct sighting *s)
{
    if (s->key == SIM_NO_KEY) {
        fail("r%d takes parcel %llu for a duplicate, which has no key", r->slot,
             (unsigned long long)s->serial);
        return;
    }
    if (!s->may_be_duplicate)
        fail("r%d takes parcel %llu of k%d, of kind %d, for a duplicate without a confirmed copy "
             "or a record that says so",
             r->slot, (unsigned long long)s->serial, s->key, (int)s->kind);
    judge_same_content(r, s);
}

/* A duplicate goes out as the route says: at most once at a time, its reply last. */
static void judge_duplicate_copy(struct relay_process *r, const struct message *m,
                                 const struct publish *p)
{
    const struct sighting *s = judge_sighting(p->tag);
    bool publishes = sim->route.on_duplicate == DUPLICATE_PUBLISH;
    judge_is_duplicate(r, s);
    if (m->facts.claim || p->copy.in_doubt || p->copy.unchecked)
        fail("r%d publishes k%d as a duplicate, with a claim or a mark", r->slot, p->key);
    if (p->copy.target == TARGET_DUPLICATES && !publishes)
        fail("r%d publishes the duplicate k%d, unasked", r->slot, p->key);
    if (p->copy.target == TARGET_REPLY && !sim->route.reply)
        fail("r%d answers the duplicate k%d, unasked", r->slot, p->key);
    if (p->copy.target == TARGET_REPLY && publishes && !s->published)
        fail("r%d answers the duplicate k%d before it is published", r->slot, p->key);
    if (s->published && p->copy.target == TARGET_DUPLICATES)
        fail("r%d publishes the duplicate k%d twice", r->slot, p->key);
}

static bool has_its_body(const struct sighting *s, const struct parcel *copy)
{
    return copy->body.len == strlen(s->body) &&
           memcmp(copy->body.data, s->body, copy->body.len) == 0;
}

void judge_publish(struct relay_process *r, const struct message *m, struct publish *p)
{
    const struct sighting *s = judge_sighting(p->tag);
    trace("r%d: publishes k%d, tag %llu, to %s, attempt %u%s%s, reason %d, sequence %llu", r->slot,
          p->key, (unsigned long long)p->tag, target_name(p->copy.target), p->copy.attempt,
          p->copy.in_doubt ? ", in doubt" : "", p->copy.unchecked ? ", unchecked" : "",
          (int)p->copy.reason, (unsigned long long)p->sequence);
    if (!source_has(r->source, m))
        fail("r%d publishes k%d, whose delivery is lost", r->slot, p->key);
    if (p->copy.target != TARGET_REPLY && !has_its_body(s, p->parcel))
        fail("r%d publishes k%d with another body than it came with", r->slot, p->key);
    p->parcel->content = s->content;
    if (p->key != s->key && s->kind != PARCEL_UNREADABLE)
        fail("r%d took k%d for k%d", r->slot, s->key, p->key);
    if (m->facts.claim && p->key != SIM_NO_KEY) {
        p->claim = m->claim.claim;
        p->grant = judge_grant(r->incarnation, p->key, m->claim.claim);
        p->unaware = judge_is_unaware(m);
        if (p->grant)
            p->grant->published = true;
    }
    switch (p->copy.target) {
    case TARGET_WORK: judge_work_copy(r, m, p); break;
    case TARGET_PARKING: judge_parked(r, p); break;
    case TARGET_DUPLICATES:
    case TARGET_REPLY: judge_duplicate_copy(r, m, p); break;
    }
    if (world_clean(sim) && judge_doubtful(r) > sim->route.to.unconfirmed)
        fail("r%d has %lld copies out that no record knows of, and unconfirmed is %lld", r->slot,
             (long long)judge_doubtful(r), (long long)sim->route.to.unconfirmed);
}

/* ---- What the broker did ---- */

static struct tally *find_tally(struct key_book *k, uint32_t generation, uint32_t attempt)
{
    struct tally *t = k->tallies;
    while (t && (t->generation != generation || t->attempt != attempt))
        t = t->next;
    if (t)
        return t;
    t = xcalloc(1, sizeof *t);
    t->generation = generation;
    t->attempt = attempt;
    t->next = k->tallies;
    k->tallies = t;
    return t;
}

static void judge_order(const struct publish *p)
{
    uint64_t serial = judge_sighting(p->tag)->serial;
    if (serial < sim->book.last_work_serial)
        fail("parcel %llu was overtaken by %llu", (unsigned long long)serial,
             (unsigned long long)sim->book.last_work_serial);
    sim->book.last_work_serial = serial;
}

/* A copy lies in a work queue. */
void judge_stored(const struct publish *p)
{
    const struct copy *c = &p->copy;
    if (p->key != SIM_NO_KEY)
        sim->book.keys[p->key].stored++;
    judge_stored_content(p);
    if (sim->class == CLASS_QUIET && judge_sighting(p->tag)->kind == PARCEL_PLAIN)
        judge_order(p);
    if (!p->grant || c->in_doubt || c->unchecked || c->no_key)
        return;
    struct tally *t =
        find_tally(&sim->book.keys[p->key], p->grant->generation, c->attempt > 1 ? c->attempt : 1);
    if (++t->unmarked > 1)
        fail("two unmarked copies of k%d, attempt %u, in one window", p->key, t->attempt);
}

static void note_confirmation(uint32_t incarnation, const struct publish *p)
{
    struct key_book *k = &sim->book.keys[p->key];
    struct confirmation *c = xcalloc(1, sizeof *c);
    c->incarnation = incarnation;
    c->claim = p->claim;
    c->target = p->copy.target;
    c->number = p->parcel->attempt;
    c->first_seen = p->copy.first_seen;
    c->in_doubt = p->copy.in_doubt;
    c->content = p->parcel->content;
    c->next = k->confirmations;
    k->confirmations = c;
    k->confirmed_parking += p->copy.target == TARGET_PARKING;
}

static void judge_confirmed(struct relay_process *r, struct publish *p)
{
    struct sighting *s = judge_sighting(p->tag);
    struct grant *g = p->grant;
    bool work = p->copy.target == TARGET_WORK;
    if (p->copy.target == TARGET_DUPLICATES || p->copy.target == TARGET_REPLY) {
        s->published = s->published || p->copy.target == TARGET_DUPLICATES;
        sim->book.published += p->copy.target == TARGET_DUPLICATES;
        sim->book.replies += p->copy.target == TARGET_REPLY;
        return;
    }
    s->confirmed = true;
    bool unchecked = p->copy.unchecked || p->copy.reason == PARK_STORE_FAILURE;
    s->grant = unchecked ? NULL : g;
    sim->book.forwarded += work;
    sim->book.parked += !work;
    sim->book.conflicts_parked += p->copy.reason == PARK_CONFLICT;
    sim->book.conflicts_forwarded +=
        g && work && !p->copy.in_doubt && p->copy.attempt > 1 && judge_is_forwarded_conflict(s, p);
    if (g && work)
        g->confirmed_work = true;
    else if (g)
        g->confirmed_parking = true;
    if (g)
        g->confirmed_at = server_wall(&sim->store);
    if (p->key != SIM_NO_KEY)
        note_confirmation(r->incarnation, p);
}

/* The relay reads the broker's answer. */
void judge_answer(struct relay_process *r, struct publish *p)
{
    switch ((enum sink_answer)p->answer) {
    case SINK_CONFIRMED: judge_confirmed(r, p); return;
    case SINK_RETURNED: break;
    case SINK_NACKED:
        if (!world_nack_is_certain(sim))
            return;
        break;
    }
    if (p->copy.target != TARGET_WORK)
        return;
    judge_sighting(p->tag)->unresolved--;
    if (p->grant)
        p->grant->unresolved--;
}

/* ---- Acknowledging: nothing is lost ---- */

static void judge_duplicate(struct relay_process *r, const struct sighting *s)
{
    if (judge_dropped_conflict(r, s))
        return;
    judge_is_duplicate(r, s);
    if (sim->route.on_duplicate == DUPLICATE_PUBLISH && !s->published)
        fail("r%d acknowledges the duplicate k%d, which is not published", r->slot, s->key);
    sim->book.duplicates++;
}

void judge_ack(struct relay_process *r, uint64_t tag, bool reject)
{
    struct sighting *s = judge_sighting(tag);
    trace("r%d: %s tag %llu, parcel %llu", r->slot, reject ? "rejects" : "acknowledges",
          (unsigned long long)tag, (unsigned long long)s->serial);
    if (s->acked)
        fail("r%d acknowledges tag %llu twice", r->slot, (unsigned long long)tag);
    s->acked = true;
    if (reject) {
        bool hopeless = s->kind == PARCEL_UNREADABLE || s->kind == PARCEL_TOO_LARGE;
        if (!hopeless || !sim->broker.dead_letters)
            fail("r%d rejects parcel %llu, which would be lost or could be relayed", r->slot,
                 (unsigned long long)s->serial);
    } else if (!s->confirmed) {
        judge_duplicate(r, s);
    } else if (s->grant && !s->grant->answered) {
        fail("r%d acknowledges parcel %llu before the store answered its recording", r->slot,
             (unsigned long long)s->serial);
    }
}

/* ---- After a turn, and at the end ---- */

/* Where nothing goes wrong, what was claimed in a turn was published in it. */
static void judge_claims(const struct relay_process *r)
{
    for (int key = 0; key < SIM_KEYS; key++) {
        const struct grant *g = sim->book.keys[key].grants;
        struct record there;
        if (!g || g->published || !server_read(&sim->store, key, &there))
            continue;
        if (there.now.state == RECORD_PENDING && there.claim == g->claim)
            fail("r%d claims k%d and does not publish it in the same turn", r->slot, key);
    }
}

/* A broker closes the channel of who holds a message for too long: give it back before that. */
static void judge_age(const struct relay_process *r)
{
    const struct consumer *c;
    const struct handed *h;
    TAILQ_FOREACH(c, &sim->broker.consumers, link)
    {
        if (c->owner != r || !c->client || c->cut)
            continue;
        TAILQ_FOREACH(h, &c->handed, link)
        {
            if (h->pulled && !judge_sighting(h->tag)->acked &&
                r->turned_at - judge_sighting(h->tag)->at > sim->route.hold_limit + 1000)
                fail("r%d holds tag %llu for longer than hold_limit", r->slot,
                     (unsigned long long)h->tag);
        }
    }
}

/* Who stopped in peace leaves no session behind, so that its claims can be taken over at once. */
void judge_stopped(const struct relay_process *r)
{
    bool trouble = sim->class == CLASS_FORGETFUL || sim->now < sim->store.down_until ||
                   sim->now - r->last_store_fault < 60000;
    for (size_t i = 0; i < sim->store.session_count && !trouble; i++) {
        const struct session_entry *e = &sim->store.sessions[i];
        if (e->incarnation == r->incarnation && server_lives(&sim->store, e->id))
            fail("r%d stopped and left session %.6s behind", r->slot, e->id);
    }
}

void judge_turn(struct relay_process *r, int64_t sleep)
{
    if (!r->stopping)
        judge_age(r);
    if (sim->class == CLASS_QUIET)
        judge_claims(r);
    /* Copies in flight outlive their deliveries, so those of a lost connection come on top. */
    int64_t in_flight = sim->route.to.unconfirmed * (sim->route.reply ? 2 : 1);
    size_t most = (size_t)(2 * sim->route.from.prefetch + in_flight);
    if (r->live > most)
        fail("r%d holds %zu messages with a prefetch of %lld", r->slot, r->live,
             (long long)sim->route.from.prefetch);
    bool same_moment = sleep <= 0 && r->stalled_at == sim->now;
    r->stalled = same_moment ? r->stalled + 1 : 0;
    r->stalled_at = sim->now;
    if (r->stalled > SIM_STALL_TURNS)
        fail("r%d turns without sleeping and without getting on", r->slot);
}

/* In the end nobody is at any key, so a pending record is one that somebody forgot; but for these,
 * which the next message of the key deals with: left in doubt by a message that was parked as
 * unroutable or is a duplicate elsewhere; left by a process that is gone. */
static bool may_stay_pending(const struct world *w, const struct record *r)
{
    bool lives = false;
    for (int i = 0; r->session[0] && i < w->relay_count; i++)
        lives = lives || w->relays[i].incarnation == server_incarnation(r->session);
    bool left = !r->session[0] && r->now.in_doubt;
    bool gone = r->session[0] && !lives;
    return left || gone;
}

static void judge_key_end(struct world *w, int key)
{
    const struct key_book *k = &w->book.keys[key];
    int copies = k->stored + k->confirmed_parking;
    if (k->produced > 0 && copies == 0)
        fail("k%d was produced and has no copy", key);
    struct record there;
    if (!server_read(&w->store, key, &there))
        fail("k%d still has a foreign value", key);
    bool strict = w->class != CLASS_FORGETFUL && w->route.on_store_failure == STORE_FAILURE_HOLD;
    if (strict && there.now.state == RECORD_PENDING && !may_stay_pending(w, &there))
        fail("k%d is left pending", key);
}

void judge_end(struct world *w)
{
    judge_contents_end(w);
    for (int key = 0; key < SIM_KEYS && !w->failed; key++)
        judge_key_end(w, key);
    for (int i = 0; i < w->relay_count; i++) {
        if (w->relays[i].live > 0)
            fail("r%d still holds %zu messages", i, w->relays[i].live);
    }
}
