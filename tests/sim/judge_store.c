/*
 * The judge: what relays write into the store, against docs/protocol.md. Records are never
 * downgraded, nobody writes over another's live claim, doubt and notes stick, and only a confirm
 * makes a record.
 */
#include "sim_store.h"
#include "world.h"

#include <string.h>

#define DAY_MS (24 * INT64_C(3600000))

/* A write, for all that looks at it. */
struct write {
    uint32_t incarnation;
    const char *session;
    int key;
    const struct record *old;
    const struct record *new;
    int64_t ttl;
    bool owner_lived;
};

static void wrong(const struct write *w, const char *why)
{
    char old[RECORD_TEXT_MAX] = "nothing", new[RECORD_TEXT_MAX] = "nothing";
    if (w->old->now.state != RECORD_NONE)
        record_write(w->old, old);
    if (w->new->now.state != RECORD_NONE)
        record_write(w->new, new);
    fail("%s: k%d, session %.6s, from %s to %s", why, w->key, w->session, old, new);
}

uint32_t server_incarnation(const char *session)
{
    return server_owner(&sim->store, session);
}

struct grant *judge_grant(uint32_t incarnation, int key, uint64_t claim)
{
    struct grant *g = sim->book.keys[key].grants;
    while (g && (g->incarnation != incarnation || g->claim != claim))
        g = g->next;
    return g;
}

static bool same_life(const struct record_life *a, const struct record_life *b)
{
    return a->state == b->state && a->number == b->number && a->first_seen == b->first_seen &&
           a->since == b->since && a->ends == b->ends && a->completed == b->completed &&
           a->in_doubt == b->in_doubt && a->fingerprint == b->fingerprint;
}

/* Clocks of one server agree, but for what a failover changes. */
static int64_t slack(void)
{
    return sim->class == CLASS_FORGETFUL ? 500 : 0;
}

/* Owned by this session. */
static bool is_own(const struct write *w)
{
    return w->old->session[0] && strcmp(w->old->session, w->session) == 0;
}

/* Or by a former session of the same worker, which a note on the record kept from being moved. */
static bool was_own(const struct write *w)
{
    return w->old->session[0] && server_incarnation(w->old->session) == w->incarnation;
}

static bool is_abandoned(const struct write *w)
{
    int64_t age = server_wall(&sim->store) - w->old->now.since;
    return !w->old->session[0] || !w->owner_lived || age > 2 * sim->route.hold_limit - slack() ||
           sim->class == CLASS_FORGETFUL;
}

/* ---- Pending ---- */

static void note_grant(const struct write *w)
{
    struct key_book *k = &sim->book.keys[w->key];
    if (is_own(w) && w->old->claim == w->new->claim)
        return;
    struct grant *g = xcalloc(1, sizeof *g);
    g->incarnation = w->incarnation;
    g->claim = w->new->claim;
    g->generation = k->generation;
    g->number = w->new->now.number;
    g->fingerprint = w->new->now.fingerprint;
    g->over = w->new->before.state ? w->new->before.fingerprint : w->old->now.fingerprint;
    g->before = w->new->before;
    g->proven = w->old->now.state == RECORD_PENDING && g->before.state != RECORD_NONE;
    g->new_life =
        g->before.state == RECORD_COMPLETED && g->before.first_seen != w->new->now.first_seen;
    g->next = k->grants;
    k->grants = g;
}

/* Releasing a claim in doubt: it stays pending, without an owner. */
static void judge_left(const struct write *w)
{
    const struct record_life *old = &w->old->now, *new = &w->new->now;
    if (old->state != RECORD_PENDING || !was_own(w))
        wrong(w, "leaves a claim that is not its own");
    else if (!new->in_doubt || new->number != old->number || new->first_seen != old->first_seen ||
             new->completed != old->completed)
        wrong(w, "leaves another claim than it had");
}

static void judge_takeover(const struct write *w)
{
    const struct record_life *old = &w->old->now, *new = &w->new->now;
    if (is_own(w)) {
        if (new->number < old->number || (old->in_doubt && !new->in_doubt))
            wrong(w, "loses what its own claim said");
        return;
    }
    if (!is_abandoned(w))
        wrong(w, "takes over a live claim");
    if (!new->in_doubt &&new->number <= old->number)
        wrong(w, "takes over without doubt");
    if (new->number < old->number || new->first_seen != old->first_seen)
        wrong(w, "takes over and changes number or first-seen");
    if (old->completed)
        wrong(w, "takes over and drops a completion");
}

/* A conflict that is forwarded goes on with the life of what it is in conflict with. */
static void judge_over_record(const struct write *w)
{
    const struct record_life *old = &w->old->now, *new = &w->new->now;
    if (!same_life(&w->new->before, old) || new->number <= old->number ||
        new->first_seen != old->first_seen)
        wrong(w, "claims over a record and does not keep it");
    if (old->state == RECORD_PARKED && old->in_doubt && !new->in_doubt)
        wrong(w, "claims over a record parked in doubt, without doubt");
}

/* Once window_completed is over, a message is a new one, whose claim keeps the completed record. */
static void judge_new_life(const struct write *w)
{
    const struct record_life *old = &w->old->now, *new = &w->new->now;
    int64_t age = server_wall(&sim->store) - old->completed;
    if (sim->route.window_completed < 0 || age < sim->route.window_completed - slack())
        wrong(w, "claims over a completed record");
    if (!same_life(&w->new->before, old) || new->number <= old->number)
        wrong(w, "claims over a completed record and does not keep it");
}

static void judge_claim(const struct write *w)
{
    const struct record_life *old = &w->old->now, *new = &w->new->now;
    if (w->ttl < (sim->route.window > DAY_MS ? sim->route.window : DAY_MS))
        wrong(w, "lets a pending record live too short");
    if (!w->new->session[0]) {
        judge_left(w);
        return;
    }
    if (strcmp(w->new->session, w->session) != 0 || w->new->claim == 0)
        wrong(w, "claims for somebody else");
    switch (old->state) {
    case RECORD_NONE:
        if (w->new->before.state != RECORD_NONE)
            wrong(w, "claims over nothing and remembers something");
        break;
    case RECORD_PENDING: judge_takeover(w); break;
    case RECORD_FORWARDED:
    case RECORD_PARKED: judge_over_record(w); break;
    case RECORD_COMPLETED:
        if (judge_forwards_conflicts() && new->first_seen == old->first_seen)
            judge_over_record(w);
        else
            judge_new_life(w);
        break;
    }
    note_grant(w);
}

/* ---- Recorded ---- */

static void judge_times(const struct write *w, const struct grant *g)
{
    const struct record_life *new = &w->new->now;
    int64_t now = server_wall(&sim->store);
    if (new->ends != new->since + sim->route.window)
        wrong(w, "records another window than the route's");
    if (new->since > now + slack() || (g && new->since < g->confirmed_at - slack()))
        wrong(w, "records another time than that of the confirm");
    if (now + w->ttl < new->ends - slack())
        wrong(w, "records for less than the window");
}

/* Did this relay read a confirm of a copy under that claim, and where does the copy lie? */
static const struct confirmation *find_confirmation(const struct write *w, enum record_state as)
{
    const struct confirmation *c = sim->book.keys[w->key].confirmations;
    for (; c; c = c->next) {
        bool there = as == RECORD_COMPLETED ||
                     c->target == (as == RECORD_PARKED ? TARGET_PARKING : TARGET_WORK);
        if (c->incarnation == w->incarnation && c->claim == w->old->claim && there)
            return c;
    }
    return NULL;
}

static void judge_recording(const struct write *w, const struct grant *g)
{
    const struct record_life *old = &w->old->now, *new = &w->new->now;
    const struct confirmation *c = find_confirmation(w, new->state);
    if (c && c->in_doubt && !new->in_doubt)
        wrong(w, "records a copy in doubt, without its doubt");
    if (!c)
        wrong(w, "records what was not confirmed");
    if (c && !judge_is_content(new, c->content) &&
        (c->target == TARGET_WORK || new->fingerprint != FINGERPRINT_SEVERAL))
        wrong(w, "records another content than that of its copy");
    if (old->completed != new->completed ||
        (old->completed != 0) != (new->state == RECORD_COMPLETED))
        wrong(w, "records and drops a completion, or makes one up");
    if (new->first_seen != old->first_seen || (old->in_doubt && !new->in_doubt))
        wrong(w, "records and loses first-seen or doubt");
    judge_times(w, g);
}

static bool is_certain(const struct grant *g)
{
    return g && g->unresolved == 0 && !g->confirmed_work;
}

/* Releasing a claim that was made over a record puts this back; a noted completion takes effect. */
static void judge_restoring(const struct write *w, const struct grant *g)
{
    struct record_life want = w->old->before;
    if (w->old->now.completed && want.state != RECORD_COMPLETED) {
        want.state = RECORD_COMPLETED;
        want.completed = w->old->now.completed;
    }
    if (!is_certain(g) || w->old->now.in_doubt)
        wrong(w, "releases a claim whose copy may exist");
    if (!same_life(&want, &w->new->now))
        wrong(w, "releases and puts back something else");
    if (server_wall(&sim->store) + w->ttl < w->new->now.ends - slack())
        wrong(w, "puts back a record for less than its window");
}

/* Several copies of that number may have been confirmed, of several contents: while the store was
 * away they went out unchecked. It is one of them that is recorded. */
static void judge_over_parked(const struct write *w)
{
    const struct record_life *old = &w->old->now, *new = &w->new->now;
    const struct confirmation *c = sim->book.keys[w->key].confirmations;
    bool confirmed = false, content = false;
    for (; c; c = c->next) {
        if (c->incarnation != w->incarnation || c->target != TARGET_WORK ||
            c->number != new->number || c->first_seen != new->first_seen)
            continue;
        confirmed = true;
        content = content || judge_is_content(new, c->content);
    }
    if (!confirmed || new->state != RECORD_FORWARDED || new->number != old->number ||
        new->first_seen != old->first_seen)
        wrong(w, "writes over a parked record");
    if (confirmed && !content)
        wrong(w, "records another content than that of its copy");
    judge_times(w, NULL);
}

/* Only the count of its duplicates changes, upward, and with a sliding window its end, likewise. */
static bool counts_duplicates(const struct write *w)
{
    struct record_life counted = w->old->now;
    counted.duplicates = w->new->now.duplicates;
    counted.last_duplicate = w->new->now.last_duplicate;
    if (sim->route.sliding && counted.state != RECORD_PARKED && w->new->now.ends > counted.ends)
        counted.ends = w->new->now.ends;
    return w->old->now.state != RECORD_PENDING && same_life(&counted, &w->new->now) &&
           w->new->now.duplicates > w->old->now.duplicates &&
           w->new->now.last_duplicate >= w->old->now.last_duplicate;
}

static void judge_record(const struct write *w)
{
    const struct record_life *old = &w->old->now, *new = &w->new->now;
    if (w->new->session[0] || w->new->before.state != RECORD_NONE)
        wrong(w, "records and keeps a claim");
    if (counts_duplicates(w)) {
        judge_counted(w->incarnation, w->key, new->duplicates - old->duplicates);
        return;
    }
    if (old->state == RECORD_PARKED) {
        judge_over_parked(w);
        return;
    }
    if (old->state != RECORD_PENDING) {
        wrong(w, "makes or changes a record without a claim");
        return;
    }
    bool completes = old->completed &&
                     new->state == RECORD_COMPLETED &&new->number ==
                         old->number &&new->first_seen == old->first_seen &&new->fingerprint ==
                         old->fingerprint &&
                     (is_abandoned(w) || (is_own(w) && old->in_doubt));
    if (completes && (!is_own(w) || old->in_doubt))
        return;
    if (!was_own(w)) {
        wrong(w, "writes over somebody else's claim");
        return;
    }
    const struct grant *g = judge_grant(w->incarnation, w->key, w->old->claim);
    if (new->number == old->number)
        judge_recording(w, g);
    else
        judge_restoring(w, g);
}

static void judge_removal(const struct write *w)
{
    const struct record *old = w->old;
    if (old->now.state != RECORD_PENDING || !was_own(w)) {
        wrong(w, "removes what is not its own");
        return;
    }
    if (old->now.in_doubt || !is_certain(judge_grant(w->incarnation, w->key, old->claim)))
        wrong(w, "releases a claim whose copy may exist");
    if (old->before.state == RECORD_NONE)
        return;
    if (old->before.ends > server_wall(&sim->store) + slack())
        wrong(w, "releases and puts nothing back");
    sim->book.keys[w->key].generation++; /* its window was over meanwhile */
}

void judge_write(uint32_t incarnation, const char *session, int key, const struct record *old,
                 const struct record *new, int64_t ttl, bool owner_lived)
{
    struct write w = {incarnation, session, key, old, new, ttl, owner_lived};
    if (sim->tracing) {
        char text[RECORD_TEXT_MAX] = "nothing";
        if (new->now.state != RECORD_NONE)
            record_write(new, text);
        trace("store: k%d = %s", key, text);
    }
    switch (new->now.state) {
    case RECORD_NONE: judge_removal(&w); break;
    case RECORD_PENDING: judge_claim(&w); break;
    case RECORD_FORWARDED:
    case RECORD_COMPLETED:
    case RECORD_PARKED: judge_record(&w); break;
    }
}

void judge_moved(uint32_t incarnation, int key, const struct record *moved, int64_t ttl)
{
    trace("store: k%d moves to session %.6s", key, moved->session);
    if (!judge_grant(incarnation, key, moved->claim))
        fail("a claim on k%d moves that was never granted to this relay", key);
    if (ttl < DAY_MS)
        fail("a moved claim on k%d lives too short", key);
}

/* What a crash would leave in doubt now: copies that are published, and not recorded. */
int64_t judge_doubtful(const struct relay_process *r)
{
    int64_t count = 0;
    for (int key = 0; key < SIM_KEYS; key++) {
        struct record there;
        if (!server_read(&sim->store, key, &there) || there.now.state != RECORD_PENDING ||
            !there.session[0] || server_incarnation(there.session) != r->incarnation)
            continue;
        const struct grant *g = judge_grant(r->incarnation, key, there.claim);
        count += g && (g->unresolved > 0 || g->confirmed_work || g->confirmed_parking);
    }
    return count;
}

/* ---- What a relay was told ---- */

static bool is_recorded(const struct record *r)
{
    return r->now.state >= RECORD_FORWARDED;
}

/* The recording of g met something: is that final? */
static bool is_final(const struct relay_process *r, const struct grant *g, const struct record *met)
{
    bool mine = met->now.state == RECORD_PENDING && met->session[0] && met->claim == g->claim &&
                server_incarnation(met->session) == r->incarnation;
    bool parked =
        met->now.state == RECORD_PARKED && met->now.number == g->number && g->confirmed_work;
    return !mine && !parked;
}

void judge_answered(struct relay_process *r, int key, const struct store_op *op)
{
    const struct record *told = op->answer == STORE_MET ? &op->met : &op->write;
    if (op->answer == STORE_FENCED)
        return;
    if (op->answer != STORE_FOREIGN && is_recorded(told))
        judge_told(r, key, told);
    if (!is_recorded(&op->write))
        return;
    for (struct grant *g = sim->book.keys[key].grants; g; g = g->next) {
        bool this_one =
            g->incarnation == r->incarnation &&
            (op->expect.now.state == RECORD_PENDING ? g->claim == op->expect.claim
                                                    : g->number == op->expect.now.number);
        if (this_one && (g->confirmed_work || g->confirmed_parking) &&
            (op->answer != STORE_MET || is_final(r, g, &op->met)))
            g->answered = true;
    }
}

/* The next session does not have this claim: it is somebody else's, or gone. */
void judge_not_moved(struct relay_process *r, int key, const struct record *mine)
{
    struct grant *g = judge_grant(r->incarnation, key, mine->claim);
    if (g)
        g->answered = true;
}
