/*
 * People, and the programs that are not ours: producers, which send keys again and again; workers,
 * which finish their jobs, report them, or dead-letter them round into the inbound queue;
 * operators, who release keys, put parked messages back, and err.
 */
#include "claim.h"
#include "world.h"

#include <stdio.h>

static bool chance(uint32_t per_mille)
{
    return rng_chance(&sim->rng, per_mille);
}

static void send(struct world *w, struct parcel *p)
{
    trace("people: parcel %llu of k%d, kind %d, goes to the inbound queue",
          (unsigned long long)p->serial, p->key, (int)p->kind);
    TAILQ_INSERT_TAIL(&w->broker.inbound, p, link);
}

static void produce(struct world *w)
{
    if (w->to_produce == 0)
        return;
    w->to_produce--;
    enum parcel_kind kind = PARCEL_PLAIN;
    if (w->broker.dead_letters && w->people_err && chance(80))
        kind = chance(500) ? PARCEL_UNREADABLE : PARCEL_TOO_LARGE;
    else if (w->people_err && chance(60))
        kind = PARCEL_OTHER_ROUTE;
    /* Some keys are much more popular than others. */
    uint32_t most = chance(500) ? 2 : SIM_KEYS;
    int key = chance(60) ? SIM_NO_KEY : (int)rng_below(&w->rng, most);
    int content = 0;
    if (w->route.fingerprint != FINGERPRINT_NONE && chance(350))
        content = (int)rng_below(&w->rng, SIM_CONTENTS);
    struct parcel *p = parcel_new(&w->broker, kind);
    parcel_write_plain(p, key, content);
    if (kind == PARCEL_OTHER_ROUTE)
        parcel_bear_other_route(p);
    if (key != SIM_NO_KEY && kind != PARCEL_UNREADABLE && kind != PARCEL_TOO_LARGE) {
        w->book.keys[key].produced++;
        w->book.keys[key].contents[content].produced = true;
    }
    send(w, p);
}

/* A copy that nobody has dealt with yet. */
static struct parcel *pick(struct parcels *queue)
{
    size_t count = 0;
    struct parcel *p, *picked = NULL;
    TAILQ_FOREACH(p, queue, link)
    {
        if (!p->finished && rng_below(&sim->rng, (uint32_t)++count) == 0)
            picked = p;
    }
    return picked;
}

/* ---- Workers ---- */

static void report(struct world *w, const struct parcel *job)
{
    struct record met, next;
    if (job->key == SIM_NO_KEY || !server_read(&w->store, job->key, &met))
        return;
    int64_t now = server_wall(&w->store);
    switch (claim_complete(&met, job->first_seen, now, &next)) {
    case COMPLETION_NOT_FOUND:
    case COMPLETION_ALREADY: return;
    case COMPLETION_WRITE: break;
    }
    next.now.has_result = chance(500);
    trace("people: k%d is reported complete", job->key);
    if (!judge_is_content(&met.now, job->content))
        sim->book.keys[job->key].blurred = true;
    server_write(&w->store, job->key, &next, claim_ttl(&next, now, &w->rules));
}

static void dead_letter(struct world *w, struct parcel *job)
{
    if (w->retries_left == 0)
        return;
    w->retries_left--;
    struct parcel *p = parcel_copy(&w->broker, job);
    p->kind = PARCEL_RETRY;
    const struct route_config *r = &w->route;
    parcel_add_death(p, r->to.queue ? r->to.queue : "jobs.a", r->to.queue ? "" : r->to.exchange,
                     chance(300));
    job->finished = true;
    send(w, p);
}

static void work(struct world *w)
{
    struct parcel *job = pick(&w->broker.work[rng_below(&w->rng, (uint32_t)w->broker.work_queues)]);
    if (!job)
        return;
    if (w->people_retry && chance(300)) {
        dead_letter(w, job);
        return;
    }
    if (w->people_complete && chance(400))
        report(w, job);
    job->finished = true;
}

/* ---- Operators ---- */

static void release(struct world *w)
{
    int key = (int)rng_below(&w->rng, SIM_KEYS);
    struct record met;
    const struct record none = {0};
    if (!server_read(&w->store, key, &met) || met.now.state <= RECORD_PENDING)
        return;
    trace("people: k%d is released", key);
    server_write(&w->store, key, &none, 0);
    w->book.keys[key].generation++;
}

static void put_back(struct world *w)
{
    struct parcel *parked = pick(&w->broker.parking);
    if (!parked || w->retries_left == 0)
        return;
    w->retries_left--;
    struct parcel *p = parcel_copy(&w->broker, parked);
    judge_put_back(parked);
    p->kind = PARCEL_PUT_BACK;
    parked->finished = true;
    send(w, p);
}

/* A copy is moved back without anything that says why, or with a header that makes no sense. */
static void err(struct world *w)
{
    struct parcel *job = pick(&w->broker.work[0]);
    if (!job || w->retries_left == 0)
        return;
    w->retries_left--;
    struct parcel *p = parcel_copy(&w->broker, job);
    p->kind = PARCEL_LOOP;
    if (chance(300)) {
        p->kind = PARCEL_BAD_HEADER;
        parcel_spoil_attempt(p);
    }
    job->finished = true;
    send(w, p);
}

void people_step(struct world *w)
{
    if (chance(200))
        produce(w);
    if (chance(100))
        work(w);
    if (w->people_release && chance(15))
        release(w);
    if (w->people_put_back && chance(40))
        put_back(w);
    if (w->people_err && chance(10))
        err(w);
}
