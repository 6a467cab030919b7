/* The world's time: steps, faults, relays that are turned, crash and start again; then calm. */
#include "world.h"
#include "key.h"

#include <stdlib.h>
#include <string.h>

#define STEPS 300
#define START_MS 1000000
#define CALM_MS INT64_C(1800000)
#define CALM_STEPS 60000
#define DEEPEST 2

struct world *sim;

bool world_nack_is_certain(const struct world *w)
{
    return w->route.to.queue && w->route.to.queue_type == QUEUE_QUORUM;
}

bool world_clean(const struct world *w)
{
    return w->class <= CLASS_MANY;
}

/* ---- Relays ---- */

static void start(struct world *w, struct relay_process *r)
{
    int slot = r->slot;
    int64_t fault = r->last_store_fault;
    *r = (struct relay_process){.slot = slot, .incarnation = ++w->incarnations};
    r->wake_at = w->now;
    r->last_store_fault = fault;
    r->reads = true;
    struct relay_process *before = w->current;
    w->current = r;
    r->worker = worker_new(&w->config, &w->route, slot, &w->stats);
    w->current = before;
    trace("r%d: starts, incarnation %u", slot, r->incarnation);
}

static void end(struct world *w, struct relay_process *r)
{
    struct relay_process *before = w->current;
    w->current = r;
    worker_free(r->worker);
    w->current = before;
    r->worker = NULL;
    if (r->live > 0)
        fail("r%d ended and left %zu messages behind", r->slot, r->live);
    r->start_at = w->now + rng_between(&w->rng, 0, 4000);
}

/* Cuts what a dead process had open; the broker may notice at once or later. */
static void cut_links(struct world *w, const struct relay_process *r)
{
    struct consumer *c, *next;
    for (c = TAILQ_FIRST(&w->broker.consumers); c; c = next) {
        next = TAILQ_NEXT(c, link);
        if (c->owner == r && c->client)
            broker_cut_consumer(&w->broker, c, rng_chance(&w->rng, 500));
    }
    struct channel *ch;
    TAILQ_FOREACH(ch, &w->broker.channels, link)
    {
        if (ch->owner == r && ch->client)
            broker_cut_channel(&w->broker, ch);
    }
}

void world_crash(struct relay_process *r)
{
    if (!r->worker || r->dead)
        return;
    trace("r%d: crashes%s", r->slot, r->busy ? " inside its turn" : "");
    sim->book.crashes++;
    cut_links(sim, r);
    r->dead = true;
    if (!r->busy)
        end(sim, r);
}

static void turn(struct world *w, struct relay_process *r)
{
    struct relay_process *before = w->current;
    w->current = r;
    r->busy = true;
    r->turned_at = w->now;
    int64_t sleep = worker_turn(r->worker);
    r->busy = false;
    w->current = before;
    if (r->dead) {
        end(w, r);
        return;
    }
    r->wake_at = sleep < INT64_MAX - w->now ? w->now + sleep : INT64_MAX;
    judge_turn(r, sleep);
    if (worker_has_failed(r->worker))
        fail("r%d gave up", r->slot);
    if (worker_is_done(r->worker)) {
        trace("r%d: has stopped", r->slot);
        judge_stopped(r);
        end(w, r);
    }
}

static bool is_ready(const struct world *w, const struct relay_process *r)
{
    if (!r->worker || r->busy || w->now < r->frozen_until)
        return false;
    return w->now >= r->wake_at || source_has_input(r->source) || sink_has_input(r->sink) ||
           (r->replies && sink_has_input(r->replies));
}

static void start_due(struct world *w)
{
    for (int i = 0; i < w->relay_count; i++) {
        struct relay_process *r = &w->relays[i];
        if (!r->worker && w->now >= r->start_at)
            start(w, r);
    }
}

/* Turns one relay that has something to do. */
static bool turn_someone(struct world *w)
{
    int first = (int)rng_below(&w->rng, (uint32_t)w->relay_count);
    for (int i = 0; i < w->relay_count; i++) {
        struct relay_process *r = &w->relays[(first + i) % w->relay_count];
        if (is_ready(w, r)) {
            turn(w, r);
            return true;
        }
    }
    return false;
}

/* ---- Time ---- */

/* When the next relay wants to be woken; those that stand still or are inside a call do not count.
 */
static int64_t next_wake(const struct world *w)
{
    int64_t next = INT64_MAX;
    for (int i = 0; i < w->relay_count; i++) {
        const struct relay_process *r = &w->relays[i];
        int64_t at = !r->worker ? r->start_at : r->wake_at;
        if (r->worker && (r->busy || w->now < r->frozen_until))
            continue;
        if (at < next)
            next = at;
    }
    return next;
}

static void advance(struct world *w)
{
    uint32_t kind = rng_below(&w->rng, 100);
    int64_t by = kind < 50   ? 0
                 : kind < 75 ? rng_between(&w->rng, 1, 20)
                 : kind < 90 ? rng_between(&w->rng, 20, 200)
                             : 1000;
    if (w->depth > 0 && world_clean(w) && by > 2)
        by = 2;
    /* Nobody is woken late, but who stands still or is inside a call. */
    int64_t wait = next_wake(w) - w->now;
    int64_t most = (wait > 0 ? wait : 0) + (wait < INT64_MAX / 2 ? 20 : 0);
    w->now += by < most ? by : most;
}

/* Lets time pass with everybody at work who can be. */
static void pass_time(struct world *w, int64_t ms)
{
    int64_t until = w->now + ms;
    for (int i = 0; i < 400 && w->now < until && !w->failed; i++) {
        broker_pump(&w->broker);
        server_apply_late(&w->store, false);
        start_due(w);
        if (turn_someone(w))
            continue;
        int64_t wake = next_wake(w);
        w->now = wake > w->now && wake < until ? wake : w->now + 50;
    }
    if (w->now < until && !world_clean(w)) /* They got nowhere; now they stand still. */
        w->now = until;
}

/* ---- Faults ---- */

static struct relay_process *any_relay(struct world *w)
{
    return &w->relays[rng_below(&w->rng, (uint32_t)w->relay_count)];
}

static void cut_source(struct world *w, bool cancel)
{
    struct relay_process *r = any_relay(w);
    struct consumer *c, *next;
    for (c = TAILQ_FIRST(&w->broker.consumers); c; c = next) {
        next = TAILQ_NEXT(c, link);
        if (c->owner != r || !c->client || c->cut)
            continue;
        trace("fault: source of r%d is %s", r->slot, cancel ? "cancelled" : "cut");
        if (cancel)
            c->cancelled = true;
        else
            broker_cut_consumer(&w->broker, c, rng_chance(&w->rng, 500));
    }
}

static void cut_sink(struct world *w)
{
    struct relay_process *r = any_relay(w);
    struct channel *c;
    TAILQ_FOREACH(c, &w->broker.channels, link)
    {
        if (c->owner == r && c->client) {
            trace("fault: sink of r%d is cut", r->slot);
            broker_cut_channel(&w->broker, c);
        }
    }
}

static void broker_restarts(struct world *w)
{
    trace("fault: the broker restarts");
    w->broker.down_until = w->now + rng_between(&w->rng, 10, 6000);
    struct consumer *c;
    while ((c = TAILQ_FIRST(&w->broker.consumers)))
        broker_cut_consumer(&w->broker, c, true);
    struct channel *ch;
    TAILQ_FOREACH(ch, &w->broker.channels, link)
    broker_cut_channel(&w->broker, ch);
}

static void stop(struct world *w)
{
    struct relay_process *r = any_relay(w);
    if (!r->worker || r->busy || r->stopping)
        return;
    trace("r%d: is told to stop", r->slot);
    r->stopping = true;
    r->wake_at = w->now;
    struct relay_process *before = w->current;
    w->current = r;
    worker_stop(r->worker);
    w->current = before;
}

static void freeze(struct world *w)
{
    struct relay_process *r = any_relay(w);
    int64_t session = w->store_config.session;
    r->frozen_until = w->now + rng_between(&w->rng, session / 2, 3 * session);
    trace("fault: r%d stands still until %lld", r->slot, (long long)r->frozen_until);
}

static void put_foreign(struct world *w)
{
    struct entry *e = &w->store.entries[rng_below(&w->rng, SIM_KEYS)];
    struct record there;
    if (!server_read(&w->store, (int)(e - w->store.entries), &there) ||
        there.now.state != RECORD_NONE)
        return;
    trace("fault: a foreign value under k%d", (int)(e - w->store.entries));
    *e = (struct entry){
        .exists = true, .foreign = true, .expires = w->now + rng_between(&w->rng, 100, 5000)};
}

static int64_t outage(struct world *w)
{
    bool brief = w->class == CLASS_MANY;
    return w->now + rng_between(&w->rng, 10, brief ? 2000 : 15000);
}

static void store_faults(struct world *w)
{
    const struct faults *f = &w->faults;
    if (rng_chance(&w->rng, f->store_outage)) {
        w->store.down_until = outage(w);
        trace("fault: the store is away until %lld", (long long)w->store.down_until);
    }
    bool recently = w->class == CLASS_MANY && w->store.epoch > 0;
    if (!recently && rng_chance(&w->rng, f->store_cut)) {
        w->store.epoch++;
        trace("fault: the store's connections are cut");
    }
    if (rng_chance(&w->rng, f->foreign))
        put_foreign(w);
    if (rng_chance(&w->rng, f->failover))
        server_failover(&w->store);
    if (rng_chance(&w->rng, f->flush))
        server_flush(&w->store);
}

static void faults(struct world *w)
{
    const struct faults *f = &w->faults;
    struct rng *r = &w->rng;
    if (rng_chance(r, f->cut_source))
        cut_source(w, false);
    if (rng_chance(r, f->cancel))
        cut_source(w, true);
    if (rng_chance(r, f->cut_sink))
        cut_sink(w);
    if (rng_chance(r, f->broker_down))
        broker_restarts(w);
    if (rng_chance(r, f->alarm))
        w->broker.alarm_until = outage(w);
    if (rng_chance(r, f->unroutable))
        w->broker.unroutable_until = outage(w);
    if (rng_chance(r, f->refuse))
        w->broker.refuse_until[rng_below(r, SIM_WORK_QUEUES)] = outage(w);
    store_faults(w);
    if (rng_chance(r, f->crash))
        world_crash(any_relay(w));
    if (rng_chance(r, f->stop))
        stop(w);
    if (rng_chance(r, f->freeze))
        freeze(w);
    if (rng_chance(r, f->wall_step))
        w->wall_offset += rng_between(r, -3000, 3000);
}

/* ---- Steps ---- */

static void step(struct world *w)
{
    if (!w->calm)
        faults(w);
    people_step(w);
    if (rng_chance(&w->rng, 700))
        broker_pump(&w->broker);
    server_apply_late(&w->store, false);
    start_due(w);
    turn_someone(w);
    advance(w);
}

bool world_pause(struct relay_process *r)
{
    struct world *w = sim;
    if (r->dead || w->calm || w->failed)
        return !r->dead;
    if (rng_chance(&w->rng, w->faults.crash_in_call)) {
        world_crash(r);
        return false;
    }
    bool stands_still = rng_chance(&w->rng, w->faults.freeze / 2);
    if (w->depth >= DEEPEST || (!stands_still && !rng_chance(&w->rng, w->faults.pause)))
        return true;
    struct relay_process *current = w->current;
    w->depth++;
    for (uint32_t n = 1 + rng_below(&w->rng, 5); n > 0; n--)
        step(w);
    if (stands_still) {
        trace("fault: r%d stands still inside a call", r->slot);
        pass_time(w, rng_between(&w->rng, 0, 2 * w->store_config.session));
    }
    w->depth--;
    w->current = current;
    return !r->dead;
}

/* ---- The calm ---- */

static void become_calm(struct world *w)
{
    trace("---- calm ----");
    w->calm = true;
    w->broker.down_until = w->broker.alarm_until = w->broker.unroutable_until = 0;
    for (int i = 0; i < SIM_WORK_QUEUES; i++)
        w->broker.refuse_until[i] = 0;
    w->store.down_until = 0;
    for (int key = 0; key < SIM_KEYS; key++) {
        if (w->store.entries[key].foreign)
            w->store.entries[key].exists = w->store.entries[key].foreign = false;
    }
    for (int i = 0; i < w->relay_count; i++)
        w->relays[i].frozen_until = 0;
}

static bool is_drained(const struct world *w)
{
    if (!broker_is_empty(&w->broker) || !TAILQ_EMPTY(&w->store.late))
        return false;
    for (int i = 0; i < w->relay_count; i++) {
        if (!w->relays[i].worker || w->relays[i].live > 0)
            return false;
    }
    return true;
}

static void drain(struct world *w)
{
    int64_t until = w->now + CALM_MS;
    for (int i = 0; !is_drained(w) && !w->failed; i++) {
        if (i == CALM_STEPS || w->now > until) {
            fail("does not drain: %d turns, %lld s", i,
                 (long long)(w->now + CALM_MS - until) / 1000);
            return;
        }
        broker_pump(&w->broker);
        server_apply_late(&w->store, false);
        start_due(w);
        if (turn_someone(w))
            continue;
        int64_t wake = next_wake(w);
        w->now = wake > w->now && wake < w->now + 100 ? wake : w->now + 100;
    }
}

bool world_run(struct world *w)
{
    for (int i = 0; i < STEPS && !w->failed; i++) {
        step(w);
        if (rng_chance(&w->rng, 4))
            pass_time(w, rng_between(&w->rng, 1000, 40000));
    }
    become_calm(w);
    drain(w);
    if (!w->failed)
        judge_end(w);
    return !w->failed;
}

/* ---- Life of a world ---- */

void world_init(struct world *w, uint64_t seed, bool tracing)
{
    *w = (struct world){.seed = seed, .tracing = tracing, .now = START_MS};
    sim = w;
    rng_seed(&w->rng, seed);
    rng_seed(&w->ids, ~seed);
    stats_init(&w->stats, SIM_RELAYS);
    broker_init(&w->broker);
    server_init(&w->store);
    setup_world(w);
    for (int i = 0; i < w->relay_count; i++) {
        w->relays[i].slot = i;
        w->relays[i].last_store_fault = -START_MS;
        start(w, &w->relays[i]);
    }
}

static void free_route(struct route_config *r)
{
    free(r->name);
    free(r->scope);
    free(r->store);
    free(r->from.queue);
    free(r->to.queue);
    free(r->to.exchange);
    free(r->park.queue);
    free(r->duplicates.exchange);
    key_rule_free(r->key_rule);
}

void world_free(struct world *w)
{
    for (int i = 0; i < w->relay_count; i++) {
        w->current = &w->relays[i];
        worker_free(w->relays[i].worker);
    }
    broker_free(&w->broker);
    server_free(&w->store);
    judge_free(w);
    free_route(&w->route);
    stats_free(&w->stats);
    sim = NULL;
}
