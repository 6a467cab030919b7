/* source.h against the simulated broker. */
#include "source.h"
#include "world.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

struct source {
    struct relay_process *owner;
    struct consumer *consumer; /* NULL: closed, or the broker gave it up */
    bool up;                   /* as far as the client knows */
    bool lost;                 /* cut, and to be noticed */
    uint32_t epoch;
    struct tags acks; /* not yet sent */
};

static void add_tag(struct tags *t, uint64_t tag, bool reject)
{
    if (t->count == t->size) {
        t->size = t->size ? 2 * t->size : 8;
        t->items = xrealloc(t->items, t->size * sizeof *t->items);
        t->reject = xrealloc(t->reject, t->size * sizeof *t->reject);
    }
    t->items[t->count] = tag;
    t->reject[t->count++] = reject;
}

struct source *source_new(const struct config *config, const struct route_config *route)
{
    (void)config;
    (void)route;
    struct source *s = xcalloc(1, sizeof *s);
    s->owner = sim->current;
    s->owner->source = s;
    return s;
}

void source_free(struct source *s)
{
    if (!s)
        return;
    source_close(s, 0);
    free(s->acks.items);
    free(s->acks.reject);
    free(s);
}

bool source_open(struct source *s, bool *permanent)
{
    *permanent = false;
    source_close(s, 0);
    if (s->owner->dead || !world_pause(s->owner) || broker_is_down(&sim->broker))
        return false;
    s->consumer = xcalloc(1, sizeof *s->consumer);
    s->consumer->client = s;
    s->consumer->owner = s->owner;
    TAILQ_INIT(&s->consumer->handed);
    TAILQ_INSERT_TAIL(&sim->broker.consumers, s->consumer, link);
    s->epoch++;
    s->up = true;
    s->lost = false;
    trace("r%d: source open, epoch %u", s->owner->slot, s->epoch);
    return true;
}

void source_close(struct source *s, int patience)
{
    struct consumer *c = s->consumer;
    if (s->up)
        trace("r%d: source closed", s->owner->slot);
    s->up = false;
    s->consumer = NULL;
    if (!c) {
        s->acks.count = 0;
        return;
    }
    c->client = NULL;
    if (patience > 0 && !c->cut && !s->owner->dead) {
        s->consumer = c;
        s->up = true;
        source_flush(s, sim->now, 0);
        s->up = false;
        s->consumer = NULL;
        broker_acks(&sim->broker, c, c->acks.count);
        broker_requeue(&sim->broker, c);
    } else if (!c->cut) {
        broker_cut_consumer(&sim->broker, c, rng_chance(&sim->rng, 500));
    }
    s->acks.count = 0;
}

/* The broker's end goes away. */
void source_lose(struct source *s)
{
    s->lost = true;
    s->consumer = NULL;
}

bool source_is_up(const struct source *s)
{
    return s->up;
}

const char *source_error(const struct source *s)
{
    return s->up ? "" : "simulated loss of the source";
}

const char *source_describe(const struct source *s)
{
    (void)s;
    return "simulated broker";
}

int source_fd(const struct source *s)
{
    (void)s;
    return -1;
}

short source_events(const struct source *s, bool read)
{
    s->owner->reads = read;
    return read ? POLLIN : 0;
}

void source_read(struct source *s, bool read, int64_t now)
{
    (void)now;
    s->owner->reads = read;
    if (!s->up || s->owner->dead)
        return;
    bool broken = s->lost || !s->consumer || s->consumer->cut;
    bool cancelled = s->consumer && s->consumer->cancelled;
    if (broken || cancelled) {
        if (sim->calm || rng_chance(&sim->rng, 500)) {
            s->up = false;
            trace("r%d: source found %s", s->owner->slot, broken ? "lost" : "cancelled");
        }
        return;
    }
    struct handed *h;
    TAILQ_FOREACH(h, &s->consumer->handed, link)
    {
        if (read && !h->read && (sim->calm || rng_chance(&sim->rng, 700)))
            h->read = true;
        else if (!h->read)
            break;
    }
}

static struct span fill(struct span room, const struct buffer *from)
{
    /* The message was made by this call's caller, so its bytes may still be written. */
    if (from->len)
        memcpy((void *)(uintptr_t)room.data, from->data, from->len);
    return room;
}

struct message *source_pull(struct source *s)
{
    if (!s->up || s->owner->dead || !s->consumer || s->consumer->cut)
        return NULL;
    struct handed *h;
    TAILQ_FOREACH(h, &s->consumer->handed, link)
    {
        if (h->read && !h->pulled)
            break;
    }
    if (!h)
        return NULL;
    h->pulled = true;
    const struct parcel *p = h->parcel;
    struct message *m = message_new(0, 2, p->properties.len, p->body.len);
    fill(m->properties, &p->properties);
    fill(m->body, &p->body);
    memcpy((void *)(uintptr_t)m->routing_key.data, "in", 2);
    m->tag = h->tag;
    m->epoch = s->epoch;
    m->redelivered = p->redelivered;
    judge_seen(s->owner, p, h->tag);
    return m;
}

static void settle(struct source *s, const struct message *m, bool reject)
{
    if (s->owner->dead || !s->up || m->epoch != s->epoch)
        return;
    judge_ack(s->owner, m->tag, reject);
    add_tag(&s->acks, m->tag, reject);
}

void source_ack(struct source *s, const struct message *m)
{
    settle(s, m, false);
}

void source_reject(struct source *s, const struct message *m)
{
    settle(s, m, true);
}

bool source_dead_letters(const struct source *s)
{
    (void)s;
    return sim->broker.dead_letters;
}

const char *source_warning(const struct source *s)
{
    (void)s;
    return NULL;
}

void source_cancel(struct source *s)
{
    if (s->up && s->consumer && !s->consumer->cut && !s->owner->dead)
        s->consumer->stopped = true;
}

void source_flush(struct source *s, int64_t now, int64_t patience)
{
    (void)patience;
    (void)now;
    if (!s->up || s->owner->dead)
        return;
    for (size_t i = 0; i < s->acks.count; i++) {
        if (s->consumer && !s->consumer->cut)
            add_tag(&s->consumer->acks, s->acks.items[i], s->acks.reject[i]);
    }
    s->acks.count = 0;
}

int64_t source_deadline(const struct source *s)
{
    (void)s;
    return INT64_MAX;
}

bool source_has(const struct source *s, const struct message *m)
{
    return s->up && m->epoch == s->epoch;
}

bool source_has_input(const struct source *s)
{
    if (!s->up)
        return false;
    const struct consumer *c = s->consumer;
    if (s->lost || !c || c->cut || c->cancelled)
        return true;
    const struct handed *last = TAILQ_LAST(&c->handed, handed_list);
    return s->owner->reads && last && !last->read;
}
