/*
 * The judge: contents. Where a route takes fingerprints, messages of one key may have several; the
 * world knows which content every message and copy has, and so which message is a duplicate, which
 * is in conflict with what is on record, and whether each content is where it must be.
 */
#include "sim_store.h"
#include "world.h"

static bool takes_fingerprints(void)
{
    return sim->route.fingerprint != FINGERPRINT_NONE;
}

bool judge_forwards_conflicts(void)
{
    return takes_fingerprints() && sim->route.on_conflict == CONFLICT_FORWARD;
}

bool judge_is_content(const struct record_life *life, int content)
{
    return !takes_fingerprints() || life->fingerprint == sim->fingerprints[content];
}

static struct content_book *book_of(int key, int content)
{
    return &sim->book.keys[key].contents[content];
}

/* ---- Where contents are ---- */

/* Is it delivered to somebody (tag 0), or still by this delivery? */
static bool is_delivered(const struct sighting *s, uint64_t tag)
{
    const struct consumer *c;
    const struct handed *h;
    TAILQ_FOREACH(c, &sim->broker.consumers, link)
    {
        TAILQ_FOREACH(h, &c->handed, link)
        {
            if (h->parcel->serial == s->serial && (tag == 0 || (h->tag == tag && !c->cut)))
                return true;
        }
    }
    return false;
}

/* Does the broker have it still? */
static bool exists(const struct sighting *s)
{
    const struct parcel *p;
    TAILQ_FOREACH(p, &sim->broker.inbound, link)
    {
        if (p->serial == s->serial)
            return true;
    }
    return is_delivered(s, 0);
}

/* Copies of this content that somebody has got or can get, not counting the message itself. */
static int copies_of(int key, int content, const struct sighting *without)
{
    const struct content_book *c = book_of(key, content);
    int itself = without && without->kind == PARCEL_PUT_BACK && without->content == content &&
                 exists(without);
    return c->work + c->parking + c->put_back - itself;
}

/* ---- What a relay was told ---- */

static bool comes_back(const struct sighting *s)
{
    return s->kind == PARCEL_RETRY || s->kind == PARCEL_PUT_BACK;
}

/* By that record, is the message a duplicate, if its content is the same? */
static bool is_recorded(const struct sighting *s, const struct record *told)
{
    if (comes_back(s))
        return told->now.state == RECORD_COMPLETED || told->now.number > s->attempt;
    return s->kind == PARCEL_PLAIN || s->kind == PARCEL_TOO_LARGE || s->kind == PARCEL_OTHER_ROUTE;
}

static void tell(struct sighting *s, const struct record *told)
{
    if (judge_is_content(&told->now, s->content)) {
        /* Another route's retry is parked. */
        s->may_be_duplicate = s->may_be_duplicate || s->kind != PARCEL_OTHER_ROUTE;
        s->has_twin = s->has_twin || copies_of(s->key, s->content, s) > 0;
        return;
    }
    if (!s->may_conflict || told->now.number < s->conflict_number)
        s->conflict_number = told->now.number;
    s->may_conflict = true;
    s->conflict_of_several = s->conflict_of_several || told->now.fingerprint == FINGERPRINT_SEVERAL;
}

/* A relay was told of a record: which of its messages may it take for duplicates, or for conflicts,
 * from now on? */
void judge_told(const struct relay_process *r, int key, const struct record *told)
{
    if (takes_fingerprints() && told->now.fingerprint == 0)
        fail("the record of k%d has no fingerprint", key);
    for (size_t i = 0; i < sim->book.sighting_count; i++) {
        struct sighting *s = &sim->book.sightings[i];
        if (s->incarnation == r->incarnation && s->key == key && !s->acked && is_recorded(s, told))
            tell(s, told);
    }
}

/* ---- Where they come from and go to ---- */

void judge_put_back(const struct parcel *p)
{
    if (p->key == SIM_NO_KEY)
        return;
    book_of(p->key, p->content)->parking--;
    book_of(p->key, p->content)->put_back++;
}

void judge_forgotten(const struct parcel *p)
{
    if (p->kind == PARCEL_PUT_BACK && p->key != SIM_NO_KEY)
        book_of(p->key, p->content)->put_back--;
}

void judge_stored_parked(const struct publish *p)
{
    if (p->key != SIM_NO_KEY)
        book_of(p->key, p->parcel->content)->parking++;
}

static bool is_unmarked(const struct publish *p)
{
    return !p->copy.in_doubt && !p->copy.unchecked && !p->copy.no_key;
}

/* Its delivery was lost and given to somebody else, and its relay cannot know: the broker says
 * nothing, and its session is the one that it had when it got it. */
bool judge_is_unaware(const struct message *m)
{
    const struct sighting *s = judge_sighting(m->tag);
    return !s->redelivered && !is_delivered(s, m->tag) &&
           server_opened(&sim->store, m->claim.session) < s->at;
}

/* Whatever its key's record becomes meanwhile: in one window no message is forwarded twice without
 * a mark. It may have been delivered several times. */
void judge_once(const struct publish *p, bool stored)
{
    struct sighting *s = judge_sighting(p->tag);
    if (!p->grant || !is_unmarked(p) || p->unaware)
        return;
    for (size_t i = 0; i < sim->book.sighting_count; i++) {
        const struct sighting *other = &sim->book.sightings[i];
        int before = stored ? other->unmarked : other->stored;
        if (other->serial == s->serial && other->generation == p->grant->generation && before > 0)
            fail("parcel %llu of k%d is forwarded twice, unmarked", (unsigned long long)s->serial,
                 p->key);
    }
}

void judge_stored_content(const struct publish *p)
{
    struct sighting *s = judge_sighting(p->tag);
    if (p->key != SIM_NO_KEY)
        book_of(p->key, p->parcel->content)->work++;
    if (!p->grant)
        return;
    judge_once(p, true);
    if (s->generation != p->grant->generation)
        s->stored = s->unmarked = 0;
    s->generation = p->grant->generation;
    s->stored++;
    s->unmarked += is_unmarked(p);
}

/* A duplicate is one of something: a copy of the same content is there, or was when that was found.
 * Unless nobody knows what the record is about: the store went back to one that a later one had
 * replaced, or a worker reported a content complete whose record is of another one. */
void judge_same_content(const struct relay_process *r, const struct sighting *s)
{
    if (sim->book.keys[s->key].blurred)
        return;
    if (takes_fingerprints() && !s->has_twin && copies_of(s->key, s->content, s) <= 0)
        fail("r%d takes parcel %llu of k%d for a duplicate, and its content %d is nowhere", r->slot,
             (unsigned long long)s->serial, s->key, s->content);
}

/* A claim is for the content that is published under it; but where copies of another content with
 * the same first-seen may be about, a completion may be about these. */
void judge_claimed_content(const struct relay_process *r, const struct publish *p)
{
    const struct sighting *s = judge_sighting(p->tag);
    uint64_t mine = sim->fingerprints[s->content];
    bool several =
        p->grant->over ? p->grant->over != mine && !p->grant->new_life : s->kind == PARCEL_PUT_BACK;
    if (takes_fingerprints() && p->grant->fingerprint != (several ? FINGERPRINT_SEVERAL : mine))
        fail("r%d publishes k%d under a claim that is for another content", r->slot, p->key);
    if (takes_fingerprints() && p->grant->proven && p->grant->before.fingerprint != mine)
        fail("r%d takes the return of k%d for that of another content", r->slot, p->key);
}

/* So many duplicates are counted in the record: has the relay got so many? */
void judge_counted(uint32_t incarnation, int key, uint32_t count)
{
    uint32_t duplicates = 0;
    for (size_t i = 0; i < sim->book.sighting_count; i++) {
        const struct sighting *s = &sim->book.sightings[i];
        duplicates += s->incarnation == incarnation && s->key == key && s->may_be_duplicate;
    }
    if (count > duplicates)
        fail("%u duplicates of k%d are counted, and %u have come", count, key, duplicates);
}

/* ---- Conflicts ---- */

/* May a message be parked for this reason at all? */
static bool may_be_parked(const struct sighting *s, enum park_reason reason)
{
    const struct route_config *r = &sim->route;
    switch (reason) {
    case PARK_LOOP: return s->kind == PARCEL_LOOP;
    case PARK_STALE: return comes_back(s);
    case PARK_BAD_HEADER: return s->kind == PARCEL_BAD_HEADER;
    case PARK_DEAD_LETTERED:
        return s->kind == PARCEL_RETRY && r->on_dead_lettered == DEAD_LETTERED_CHECK;
    case PARK_OTHER_ROUTE: return s->kind == PARCEL_OTHER_ROUTE;
    case PARK_NO_KEY: return s->key == SIM_NO_KEY && r->on_missing_key == MISSING_KEY_PARK;
    case PARK_STORE_FAILURE: return r->on_store_failure == STORE_FAILURE_PARK;
    case PARK_UNROUTABLE: return r->on_unroutable == UNROUTABLE_PARK;
    case PARK_CONFLICT: return s->may_conflict && r->on_conflict == CONFLICT_PARK;
    case PARK_IN_DOUBT: return r->on_in_doubt == IN_DOUBT_PARK;
    case PARK_NONE:
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

/* What is parked as a conflict is so that it can be put back, over the record of the other content.
 */
void judge_parked(const struct relay_process *r, const struct publish *p)
{
    const struct sighting *s = judge_sighting(p->tag);
    if (!may_be_parked(s, p->copy.reason))
        fail("r%d parks parcel %llu of k%d, of kind %d, for reason %d", r->slot,
             (unsigned long long)s->serial, s->key, (int)s->kind, (int)p->copy.reason);
    if (p->copy.reason == PARK_CONFLICT && p->copy.attempt < s->conflict_number)
        fail("r%d parks k%d as a conflict with number %u, and it can never be put back", r->slot,
             s->key, s->conflict_number);
}

/* It is acknowledged, and no copy of its own was confirmed: is it as a conflict? */
bool judge_dropped_conflict(const struct relay_process *r, const struct sighting *s)
{
    bool may_be_dropped = s->may_conflict && sim->route.on_conflict == CONFLICT_DROP;
    bool unpublished = sim->route.on_duplicate == DUPLICATE_PUBLISH && !s->published;
    int others = 0;
    if (!may_be_dropped || s->kind == PARCEL_OTHER_ROUTE)
        return false;
    if (s->may_be_duplicate && !unpublished) {
        sim->book.unclear++;
        return false;
    }
    for (int i = 0; i < SIM_CONTENTS; i++)
        others += i == s->content && !s->conflict_of_several ? 0 : copies_of(s->key, i, s);
    if (others <= 0 && !sim->book.keys[s->key].blurred)
        fail("r%d drops parcel %llu of k%d as a conflict, and there is no other content", r->slot,
             (unsigned long long)s->serial, s->key);
    sim->book.conflicts_dropped++;
    return true;
}

/* Without a mark, a conflict is forwarded over a record of another content; and only what cannot
 * have been forwarded before without anybody's wish. */
bool judge_is_forwarded_conflict(const struct sighting *s, const struct publish *p)
{
    const struct record_life *before = &p->grant->before;
    uint32_t number = before->number > s->attempt ? before->number : s->attempt;
    bool doubtful = s->redelivered || (comes_back(s) && before->in_doubt);
    bool asked_for = p->grant->new_life || (comes_back(s) && before->number <= s->attempt);
    return judge_forwards_conflicts() && s->may_conflict && !doubtful && !asked_for &&
           before->state != RECORD_NONE && !judge_is_content(before, s->content) &&
           p->copy.attempt == number + 1;
}

/* ---- The end ---- */

/* The relays' counters, against what they did. Who crashes may have counted what he did not do. */
static void judge_counters(const struct world *w)
{
    const struct book *b = &w->book;
    uint64_t counted = stats_get(&w->stats, STAT_CONFLICTS);
    uint64_t parked = atomic_load(&w->stats.parked[PARK_CONFLICT]);
    bool exact = b->crashes == 0;
    if (counted < b->conflicts_parked + b->conflicts_dropped + b->conflicts_forwarded ||
        (exact && w->route.on_conflict == CONFLICT_DROP &&
         counted > b->conflicts_dropped + b->unclear))
        fail("%llu conflicts are counted: %llu parked, %llu dropped (and %llu perhaps), "
             "%llu forwarded",
             (unsigned long long)counted, (unsigned long long)b->conflicts_parked,
             (unsigned long long)b->conflicts_dropped, (unsigned long long)b->unclear,
             (unsigned long long)b->conflicts_forwarded);
    if (parked < b->conflicts_parked || (exact && parked > b->conflicts_parked))
        fail("%llu conflicts are counted as parked, and %llu are", (unsigned long long)parked,
             (unsigned long long)b->conflicts_parked);
    if (counted > 0 && !takes_fingerprints())
        fail("conflicts are counted, and the route takes no fingerprints");
}

/* Where conflicts are not dropped, each content that was produced is somewhere. */
void judge_contents_end(const struct world *w)
{
    judge_counters(w);
    if (!takes_fingerprints() || w->route.on_conflict == CONFLICT_DROP)
        return;
    for (int key = 0; key < SIM_KEYS; key++) {
        for (int i = 0; i < SIM_CONTENTS && !w->book.keys[key].blurred; i++) {
            if (book_of(key, i)->produced && copies_of(key, i, NULL) <= 0)
                fail("k%d was produced with content %d, of which there is no copy", key, i);
        }
    }
}
