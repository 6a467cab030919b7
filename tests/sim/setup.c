/* What a seed says of the configuration, of what may go wrong, and of what people do. */
#include "key.h"
#include "world.h"

#include <string.h>

static uint32_t below(uint32_t n)
{
    return rng_below(&sim->rng, n);
}

static bool half(void)
{
    return rng_chance(&sim->rng, 500);
}

static enum fault_class choose_class(void)
{
    uint32_t n = below(100);
    return n < 5    ? CLASS_QUIET
           : n < 20 ? CLASS_ONE
           : n < 35 ? CLASS_MANY
           : n < 80 ? CLASS_FAULTY
                    : CLASS_FORGETFUL;
}

static void choose_policies(struct world *w)
{
    struct route_config *r = &w->route;
    bool clean = world_clean(w);
    r->on_missing_key = half() ? MISSING_KEY_FORWARD : MISSING_KEY_PARK;
    r->on_unroutable = half() ? UNROUTABLE_HOLD : UNROUTABLE_PARK;
    r->on_in_doubt = (enum on_in_doubt)below(3);
    r->on_dead_lettered = rng_chance(&w->rng, 800) ? DEAD_LETTERED_FORWARD : DEAD_LETTERED_CHECK;
    r->on_store_failure = STORE_FAILURE_HOLD;
    if (!clean && rng_chance(&w->rng, 350))
        r->on_store_failure = half() ? STORE_FAILURE_FORWARD : STORE_FAILURE_PARK;
}

static void choose_route(struct world *w)
{
    struct route_config *r = &w->route;
    char error[256];
    size_t bad;
    static char rule[] = "message_id";
    static char *rules[] = {rule};
    r->name = xstrdup("payments");
    r->scope = xstrdup("payments");
    r->store = xstrdup("store");
    r->store_config = &w->store_config;
    r->workers = 1;
    r->from.queue = xstrdup("in");
    r->from.prefetch = 1 + below(8);
    r->from.buffer = half() ? 65536 : 2048 + below(8192);
    w->broker.work_queues = 1;
    if (rng_chance(&w->rng, 650)) {
        r->to.queue = xstrdup("work");
        r->to.queue_type = rng_chance(&w->rng, 300) ? QUEUE_CLASSIC : QUEUE_QUORUM;
    } else {
        r->to.exchange = xstrdup("jobs");
        w->broker.work_queues = 1 + (int)below(SIM_WORK_QUEUES);
    }
    r->to.unconfirmed = 1 + below(8);
    r->park.queue = xstrdup("in.parked");
    r->key_rule = key_compile(rules, 1, &bad, error);
    r->window = half() ? 24 * INT64_C(3600000) : rng_between(&w->rng, 20000, 60000);
    r->hold_limit = rng_between(&w->rng, 8000, 20000);
    r->in_doubt_wait = rng_between(&w->rng, 1000, r->hold_limit / 2);
    r->max_window = r->window;
    r->sliding = rng_chance(&w->rng, 300);
    r->window_completed = rng_chance(&w->rng, 300) ? rng_between(&w->rng, 0, 8000) : -1;
    /* What followed another message of its key, and then was new, was held, and so may be
     * overtaken. */
    if (w->class == CLASS_QUIET)
        r->window_completed = -1;
    w->store_config.name = r->store;
    w->store_config.session = rng_between(&w->rng, 6000, 12000);
    w->store_config.timeout = 1000;
    w->rules =
        (struct claim_rules){.window = r->window,
                             .window_completed = r->window_completed,
                             .sliding = r->sliding,
                             .hold_limit = r->hold_limit,
                             .check_dead_lettered = r->on_dead_lettered == DEAD_LETTERED_CHECK};
}

/* Each kind of fault is on in some seeds and off in others, so that every mixture comes. */
static uint32_t rate(uint32_t per_mille)
{
    return half() ? per_mille * (1 + below(3)) / 2 : 0;
}

static void choose_clean_faults(struct world *w)
{
    struct faults *f = &w->faults;
    f->pause = 60;
    f->cut_source = rate(15);
    f->cancel = rate(5);
    f->alarm = rate(10);
    f->unroutable = rate(8);
    f->refuse = world_nack_is_certain(w) ? rate(10) : 0;
    f->store_cut = rate(8);
    f->lost_request = rate(25);
    f->lost_reply = rate(25);
    f->late_call = rate(15);
    f->foreign = rate(6);
    if (w->class == CLASS_ONE) {
        f->store_outage = rate(6);
        f->freeze = rate(5);
    }
}

static void choose_faults(struct world *w)
{
    struct faults *f = &w->faults;
    if (w->class == CLASS_QUIET)
        return;
    choose_clean_faults(w);
    if (world_clean(w))
        return;
    f->refuse = rate(10);
    f->cut_sink = rate(15);
    f->broker_down = rate(4);
    f->store_outage = rate(6);
    f->freeze = rate(10);
    f->crash = rate(10);
    f->crash_in_call = rate(6);
    f->stop = rate(5);
    f->wall_step = rate(5);
    if (rng_chance(&w->rng, 40))
        f->lost_reply = 400;
    if (w->class == CLASS_FORGETFUL) {
        f->failover = rate(12);
        f->flush = rate(4);
    }
}

static void choose_duplicates(struct world *w)
{
    if (rng_chance(&w->rng, 300)) {
        w->route.on_duplicate = DUPLICATE_PUBLISH;
        w->route.duplicates.exchange = xstrdup("duplicates");
    }
    w->route.reply = rng_chance(&w->rng, 300);
}

/* The world takes fingerprints by itself, of each content as it is in its canonical form. */
static void choose_conflicts(struct world *w)
{
    struct route_config *r = &w->route;
    if (half())
        return;
    r->fingerprint = half() ? FINGERPRINT_BODY : FINGERPRINT_BODY_JSON;
    /* What is forwarded as a conflict was held before, and so may be overtaken. */
    r->on_conflict = (enum on_conflict)below(w->class == CLASS_QUIET ? 2 : 3);
    w->rules.on_conflict = r->on_conflict;
    for (int i = 0; i < SIM_CONTENTS; i++) {
        char body[SIM_BODY_MAX];
        content_write(i, body);
        w->fingerprints[i] = key_fingerprint(r->key_rule, false, span_of(body));
        for (int k = 0; k < i; k++) {
            if (w->fingerprints[i] == w->fingerprints[k])
                fail("contents %d and %d have one fingerprint", k, i);
        }
    }
}

void setup_world(struct world *w)
{
    w->class = choose_class();
    choose_route(w);
    choose_policies(w);
    w->rules.check_dead_lettered = w->route.on_dead_lettered == DEAD_LETTERED_CHECK;
    choose_faults(w);
    choose_duplicates(w);
    choose_conflicts(w);
    bool one = w->class == CLASS_QUIET || w->class == CLASS_ONE;
    w->relay_count = one ? 1 : 1 + (int)below(SIM_RELAYS);
    w->broker.dead_letters = half();
    w->to_produce = 6 + (int)below(40);
    w->retries_left = (int)below(14);
    w->people_retry = half();
    w->people_complete = half();
    w->people_release = half();
    w->people_put_back = half();
    w->people_err = w->class != CLASS_QUIET && rng_chance(&w->rng, 250);
    w->wall_offset = rng_between(&w->rng, -5000, 5000);
    w->store.wall_offset = rng_between(&w->rng, -5000, 5000);
}
