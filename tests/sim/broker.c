/*
 * The broker: queues, and its ends of the relays' connections. Each pump moves every connection
 * on by a random amount, in the order that AMQP promises and no other: acknowledgements, then
 * deliveries, then publishes in the order they were sent; confirms in any order.
 */
#include "sink.h"
#include "world.h"

#include <stdlib.h>

void broker_init(struct broker *b)
{
    TAILQ_INIT(&b->inbound);
    for (int i = 0; i < SIM_WORK_QUEUES; i++)
        TAILQ_INIT(&b->work[i]);
    TAILQ_INIT(&b->parking);
    TAILQ_INIT(&b->duplicates);
    TAILQ_INIT(&b->consumers);
    TAILQ_INIT(&b->channels);
}

static void free_parcels(struct parcels *list)
{
    struct parcel *p;
    while ((p = TAILQ_FIRST(list))) {
        TAILQ_REMOVE(list, p, link);
        parcel_free(p);
    }
}

static void remove_consumer(struct broker *b, struct consumer *c)
{
    TAILQ_REMOVE(&b->consumers, c, link);
    free(c->acks.items);
    free(c->acks.reject);
    free(c);
}

void broker_drop_publish(struct publish *p)
{
    parcel_free(p->parcel);
    free(p);
}

static void drop_publishes(struct publishes *list)
{
    struct publish *p;
    while ((p = TAILQ_FIRST(list))) {
        TAILQ_REMOVE(list, p, link);
        broker_drop_publish(p);
    }
}

static void remove_channel(struct broker *b, struct channel *c)
{
    TAILQ_REMOVE(&b->channels, c, link);
    drop_publishes(&c->wire);
    drop_publishes(&c->answers);
    drop_publishes(&c->arrived);
    free(c);
}

void broker_free(struct broker *b)
{
    struct consumer *c, *next;
    for (c = TAILQ_FIRST(&b->consumers); c; c = next) {
        next = TAILQ_NEXT(c, link);
        broker_requeue(b, c);
    }
    struct channel *ch, *next_channel;
    for (ch = TAILQ_FIRST(&b->channels); ch; ch = next_channel) {
        next_channel = TAILQ_NEXT(ch, link);
        remove_channel(b, ch);
    }
    free_parcels(&b->inbound);
    for (int i = 0; i < SIM_WORK_QUEUES; i++)
        free_parcels(&b->work[i]);
    free_parcels(&b->parking);
    free_parcels(&b->duplicates);
}

bool broker_is_down(const struct broker *b)
{
    return sim->now < b->down_until;
}

/* ---- Consuming connections ---- */

/* Everything unacknowledged goes back to the front, in its order; the connection is gone. */
void broker_requeue(struct broker *b, struct consumer *c)
{
    struct handed *h;
    while ((h = TAILQ_LAST(&c->handed, handed_list))) {
        TAILQ_REMOVE(&c->handed, h, link);
        h->parcel->redelivered = true;
        TAILQ_INSERT_HEAD(&b->inbound, h->parcel, link);
        free(h);
    }
    if (c->client)
        source_lose(c->client);
    remove_consumer(b, c);
}

static void acknowledge(struct broker *b, struct consumer *c, uint64_t tag, bool reject)
{
    struct handed *h;
    TAILQ_FOREACH(h, &c->handed, link)
    {
        if (h->tag != tag)
            continue;
        TAILQ_REMOVE(&c->handed, h, link);
        c->unacked--;
        trace("broker: %s parcel %llu", reject ? "dead-letters" : "forgets",
              (unsigned long long)h->parcel->serial);
        judge_forgotten(h->parcel);
        if (reject && b->dead_letters) {
            h->parcel->finished = true;
            TAILQ_INSERT_TAIL(&b->parking, h->parcel, link);
        } else {
            parcel_free(h->parcel);
        }
        free(h);
        return;
    }
    fail("delivery tag %llu acknowledged, which this connection does not know: 406",
         (unsigned long long)tag);
}

/* Handles the first `count` acknowledgements that are on their way. */
void broker_acks(struct broker *b, struct consumer *c, size_t count)
{
    struct tags *t = &c->acks;
    if (count > t->count)
        count = t->count;
    for (size_t i = 0; i < count; i++)
        acknowledge(b, c, t->items[i], t->reject[i]);
    for (size_t i = count; i < t->count; i++) {
        t->items[i - count] = t->items[i];
        t->reject[i - count] = t->reject[i];
    }
    t->count -= count;
}

void broker_cut_consumer(struct broker *b, struct consumer *c, bool now)
{
    if (!c->cut) {
        c->cut = true;
        broker_acks(b, c, rng_below(&sim->rng, (uint32_t)c->acks.count + 1));
        c->acks.count = 0;
        c->requeue_at = sim->now + (now ? 0 : rng_between(&sim->rng, 0, 4000));
    }
    if (now)
        broker_requeue(b, c);
}

static void hand_out(struct broker *b, struct consumer *c)
{
    struct parcel *p = TAILQ_FIRST(&b->inbound);
    struct handed *h = xcalloc(1, sizeof *h);
    TAILQ_REMOVE(&b->inbound, p, link);
    h->parcel = p;
    h->tag = ++b->next_tag;
    TAILQ_INSERT_TAIL(&c->handed, h, link);
    c->unacked++;
}

static void pump_consumer(struct broker *b, struct consumer *c)
{
    if (c->cut) {
        if (sim->now >= c->requeue_at)
            broker_requeue(b, c);
        return;
    }
    size_t count = c->acks.count;
    broker_acks(b, c, sim->calm ? count : rng_below(&sim->rng, (uint32_t)count + 1));
    size_t prefetch = (size_t)sim->route.from.prefetch;
    while (!c->cancelled && !c->stopped && c->unacked < prefetch && !TAILQ_EMPTY(&b->inbound)) {
        hand_out(b, c);
        if (rng_chance(&sim->rng, 400))
            break; /* another consumer gets the next one */
    }
}

/* ---- Publishing connections ---- */

static void queue_copy(struct broker *b, struct parcels *queue, const struct publish *p)
{
    struct parcel *copy = parcel_copy(b, p->parcel);
    TAILQ_INSERT_TAIL(queue, copy, link);
}

static int store_in_work(struct broker *b, const struct publish *p)
{
    if (sim->now < b->unroutable_until)
        return SINK_RETURNED;
    int answer = SINK_CONFIRMED;
    bool stored = false;
    bool classic = b->work_queues == 1 && !world_nack_is_certain(sim);
    for (int i = 0; i < b->work_queues; i++) {
        if (sim->now < b->refuse_until[i]) {
            answer = SINK_NACKED;
            /* What a classic queue had not confirmed when its node died is refused, stored or not.
             */
            if (!classic || rng_chance(&sim->rng, 500))
                continue;
        }
        struct parcel *copy = parcel_copy(b, p->parcel);
        TAILQ_INSERT_TAIL(&b->work[i], copy, link);
        stored = true;
    }
    if (stored)
        judge_stored(p);
    return answer;
}

/* Duplicates are refused and returned when copies for work are. */
static int store_duplicate(struct broker *b, const struct publish *p)
{
    if (sim->now < b->unroutable_until)
        return SINK_RETURNED;
    if (sim->now < b->refuse_until[0])
        return SINK_NACKED;
    queue_copy(b, &b->duplicates, p);
    return SINK_CONFIRMED;
}

static int handle(struct broker *b, const struct publish *p)
{
    switch (p->copy.target) {
    case TARGET_WORK: return store_in_work(b, p);
    case TARGET_PARKING:
        queue_copy(b, &b->parking, p);
        judge_stored_parked(p);
        return SINK_CONFIRMED;
    case TARGET_DUPLICATES: return store_duplicate(b, p);
    case TARGET_REPLY: break;
    }
    static const int answers[] = {SINK_CONFIRMED, SINK_RETURNED, SINK_NACKED};
    return answers[rng_below(&sim->rng, 3)];
}

/* The broker gets the next copy of this connection. */
void broker_handle(struct broker *b, struct channel *c)
{
    struct publish *p = TAILQ_FIRST(&c->wire);
    TAILQ_REMOVE(&c->wire, p, link);
    p->answer = handle(b, p);
    static const char *const said[] = {"stores", "returns", "refuses"};
    trace("broker: %s copy of k%d for %s, sequence %llu", said[p->answer], p->key,
          target_name(p->copy.target), (unsigned long long)p->sequence);
    if (c->cut)
        broker_drop_publish(p);
    else
        TAILQ_INSERT_TAIL(&c->answers, p, link);
}

/* What was sent before the cut may still be stored, in order, up to some point. */
void broker_cut_channel(struct broker *b, struct channel *c)
{
    if (c->cut)
        return;
    (void)b;
    c->cut = true;
    drop_publishes(&c->answers);
    drop_publishes(&c->arrived);
    c->gone_at = sim->now + (rng_chance(&sim->rng, 500) ? 0 : rng_between(&sim->rng, 0, 3000));
    if (c->client)
        sink_lose(c->client);
}

static void pump_channel(struct broker *b, struct channel *c)
{
    bool gone = c->cut && (sim->now >= c->gone_at || rng_chance(&sim->rng, 200));
    bool blocked = sim->now < b->alarm_until || broker_is_down(b);
    while (!TAILQ_EMPTY(&c->wire) && !blocked && (sim->calm || rng_chance(&sim->rng, 650)))
        broker_handle(b, c);
    if (gone) {
        remove_channel(b, c);
        return;
    }
    struct publish *p, *next;
    uint32_t progress = sim->calm ? 1000 : rng_below(&sim->rng, 1001);
    for (p = TAILQ_FIRST(&c->answers); p; p = next) {
        next = TAILQ_NEXT(p, link);
        if (!rng_chance(&sim->rng, progress))
            continue;
        TAILQ_REMOVE(&c->answers, p, link);
        TAILQ_INSERT_TAIL(&c->arrived, p, link);
    }
}

void broker_pump(struct broker *b)
{
    struct consumer *c, *next;
    bool backwards = rng_chance(&sim->rng, 500);
    for (c = TAILQ_FIRST(&b->consumers); c; c = next) {
        next = TAILQ_NEXT(c, link);
        if (!backwards || !next)
            pump_consumer(b, c);
    }
    for (c = TAILQ_FIRST(&b->consumers); backwards && c; c = next) {
        next = TAILQ_NEXT(c, link);
        pump_consumer(b, c);
    }
    struct channel *ch, *next_channel;
    for (ch = TAILQ_FIRST(&b->channels); ch; ch = next_channel) {
        next_channel = TAILQ_NEXT(ch, link);
        pump_channel(b, ch);
    }
}

bool broker_is_empty(const struct broker *b)
{
    const struct consumer *c;
    const struct channel *ch;
    if (!TAILQ_EMPTY(&b->inbound))
        return false;
    TAILQ_FOREACH(c, &b->consumers, link)
    {
        if (!TAILQ_EMPTY(&c->handed))
            return false;
    }
    TAILQ_FOREACH(ch, &b->channels, link)
    {
        if (!TAILQ_EMPTY(&ch->wire) || !TAILQ_EMPTY(&ch->answers) || !TAILQ_EMPTY(&ch->arrived))
            return false;
    }
    return true;
}
