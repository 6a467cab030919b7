#include "worker.h"

#include "clock.h"
#include "log.h"
#include "loop.h"
#include "outage.h"
#include "relay.h"
#include "store_watch.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STOP_PATIENCE_MS 8000 /* for confirms, once it is asked to stop */
#define CLOSE_PATIENCE_MS 500 /* for the broker's answer to a close */

struct worker {
    const struct route_config *route;
    int index;
    struct route_stats *stats;
    struct vitals *vitals; /* among its route's stats */

    struct source *source;
    struct sink *sink;
    struct sink *replies; /* NULL: the route sends none */
    struct store *store;
    struct session session;
    struct relay *relay;

    struct outage outages[LINK_COUNT];
    bool source_open; /* as far as relay was told */
    bool source_warned;
    bool sink_open;
    bool replies_open;
    bool renew_sink;   /* to be opened anew once no copy is in flight */
    bool blocked_said; /* and shown */
    uint64_t random;
    struct store_watch watch; /* the first worker's of its route */

    bool stopping;
    int64_t stop_by;
    bool done;
    bool failed;

    struct loop loop;
};

static loop_turn turn_loop;
static loop_watch watch_links;

struct worker *worker_new(const struct config *config, const struct route_config *route, int index,
                          struct route_stats *stats)
{
    struct worker *w = xcalloc(1, sizeof *w);
    w->route = route;
    w->index = index;
    w->stats = stats;
    w->vitals = &stats->workers[index];
    w->source = source_new(config, route);
    w->sink = sink_new(config, route, SINK_COPIES);
    w->replies = route->reply ? sink_new(config, route, SINK_OTHERS) : NULL;
    w->store = store_new(route->store_config, route->scope);
    w->session.life = route->store_config->session;
    w->watch = (struct store_watch){.route = route->name, .name = route->store};
    w->relay =
        relay_new(config, route, w->source, w->sink, w->replies, w->store, &w->session, stats);
    for (size_t i = 0; i < LINK_COUNT; i++)
        w->outages[i] =
            (struct outage){.route = route->name, .link = link_name_text((enum link_name)i)};
    w->random = (uint64_t)clock_now() * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)index + 1;
    loop_init(&w->loop, turn_loop, watch_links, w);
    return w;
}

void worker_free(struct worker *w)
{
    if (!w)
        return;
    relay_free(w->relay);
    source_free(w->source);
    sink_free(w->sink);
    sink_free(w->replies);
    store_free(w->store);
    store_watch_free(&w->watch);
    loop_free(&w->loop);
    free(w);
}

void worker_keep_trying(struct worker *w)
{
    for (size_t i = 0; i < LINK_COUNT; i++)
        w->outages[i].patient = true;
}

/* ---- Connections ---- */

static void link_is_up(struct worker *w, enum link_name name, const char *to)
{
    vitals_say(w->vitals, name, to);
    if (!outage_ends(&w->outages[name], to))
        return;
    stats_add(w->stats, STAT_RECONNECTS, 1);
    stats_count(&w->stats->reconnects[name]);
}

/* The one way out of a connection. */
static void link_is_down(struct worker *w, enum link_name name, const char *why, bool permanent)
{
    vitals_say(w->vitals, name, why);
    if (outage_begins(&w->outages[name], &w->random, why, permanent && !w->stopping))
        w->failed = true;
}

static bool is_due(const struct worker *w, enum link_name name, int64_t now)
{
    return outage_is_due(&w->outages[name], now);
}

/* ---- Store and session ---- */

static void lose_store(struct worker *w, bool permanent)
{
    link_is_down(w, LINK_STORE, store_error(w->store), permanent);
    store_close(w->store);
    session_close(&w->session);
}

static void watch_store(struct worker *w, int64_t now)
{
    if (w->index != 0 || !store_is_open(w->store))
        return;
    if (!store_watch_look(&w->watch, w->store, now))
        lose_store(w, false);
    atomic_store_explicit(&w->vitals->endangered, store_watch_finds(&w->watch),
                          memory_order_relaxed);
}

static void keep_store(struct worker *w, int64_t now)
{
    /* A call that failed has closed it. A session never goes on over another connection. */
    if (w->session.open && !store_is_open(w->store))
        lose_store(w, false);
    if (!store_is_open(w->store)) {
        bool permanent = false;
        if (!is_due(w, LINK_STORE, now))
            return;
        if (!store_open(w->store, &permanent)) {
            lose_store(w, permanent);
            return;
        }
    }
    if (!w->session.open) {
        if (!relay_open_session(w->relay)) {
            lose_store(w, false);
            return;
        }
        if (!w->outages[LINK_STORE].up_since)
            link_is_up(w, LINK_STORE, store_describe(w->store));
    }
    if (!session_renew(&w->session, w->store))
        lose_store(w, false);
}

/* ---- Sink and source ---- */

static void lose_sink(struct worker *w, bool permanent)
{
    link_is_down(w, LINK_SINK, sink_error(w->sink), permanent);
    sink_close(w->sink, 0);
    w->sink_open = false;
    w->renew_sink = false;
    relay_sink_lost(w->relay);
}

static void renew_sink(struct worker *w)
{
    sink_close(w->sink, CLOSE_PATIENCE_MS);
    w->sink_open = false;
    w->renew_sink = false;
    relay_sink_lost(w->relay);
}

static void keep_sink(struct worker *w, int64_t now)
{
    if (w->sink_open && !sink_is_up(w->sink))
        lose_sink(w, false);
    if (w->sink_open && w->renew_sink && relay_count(w->relay, PLACE_SENT) == 0)
        renew_sink(w);
    if (w->sink_open || w->stopping || !is_due(w, LINK_SINK, now))
        return;
    bool permanent = false;
    w->sink_open = sink_open(w->sink, &permanent);
    if (w->sink_open)
        link_is_up(w, LINK_SINK, sink_describe(w->sink));
    else
        lose_sink(w, permanent);
}

static void lose_replies(struct worker *w)
{
    link_is_down(w, LINK_REPLIES, sink_error(w->replies), false);
    sink_close(w->replies, 0);
    w->replies_open = false;
    relay_replies_lost(w->relay);
}

/* Replies have a connection of their own: an address that the broker chokes on ends that one, and
 * no copy is in doubt. Nothing waits for it. */
static void keep_replies(struct worker *w, int64_t now)
{
    bool permanent;
    if (w->replies_open && !sink_is_up(w->replies))
        lose_replies(w);
    if (!w->replies || w->replies_open || w->stopping || !is_due(w, LINK_REPLIES, now))
        return;
    w->replies_open = sink_open(w->replies, &permanent);
    if (w->replies_open)
        link_is_up(w, LINK_REPLIES, sink_describe(w->replies));
    else
        lose_replies(w);
}

static void say_blocked(struct worker *w)
{
    const char *reason = NULL;
    bool blocked = w->sink_open && sink_blocked(w->sink, &reason);
    if (blocked == w->blocked_said)
        return;
    w->blocked_said = blocked;
    if (blocked)
        LOG_WARNING("the broker blocks publishing, waiting for it", "route", w->route->name, "why",
                    reason, NULL);
    else
        LOG_INFO("the broker takes messages again", "route", w->route->name, NULL);
}

static void lose_source(struct worker *w, bool permanent)
{
    link_is_down(w, LINK_SOURCE, source_error(w->source), permanent);
    source_close(w->source, 0);
    w->source_open = false;
    relay_source_lost(w->relay);
}

/* A route consumes only once it can hand on what it takes: else a queue's delivery limit would be
 * used up by an outage. */
static bool may_consume(const struct worker *w)
{
    bool store_goes = w->session.open || w->route->on_store_failure != STORE_FAILURE_HOLD;
    return !w->stopping && store_goes && w->sink_open && !sink_blocked(w->sink, NULL);
}

static void warn_of_source(struct worker *w)
{
    const char *warning = source_warning(w->source);
    if (warning && !w->source_warned)
        LOG_WARNING(warning, "route", w->route->name, "queue", w->route->from.queue, NULL);
    w->source_warned = warning != NULL;
}

static void keep_source(struct worker *w, int64_t now)
{
    if (w->source_open && !source_is_up(w->source))
        lose_source(w, false);
    if (w->source_open || !may_consume(w) || !is_due(w, LINK_SOURCE, now))
        return;
    bool permanent = false;
    w->source_open = source_open(w->source, &permanent);
    if (!w->source_open) {
        lose_source(w, permanent);
        return;
    }
    link_is_up(w, LINK_SOURCE, source_describe(w->source));
    warn_of_source(w);
}

/* hold_limit is over: everything goes back to the broker, once, and the route waits without a
 * consumer. The sink is opened again, too, which looks for its queue: once no copy is in flight. */
static void give_back(struct worker *w)
{
    LOG_WARNING("held for longer than hold_limit, giving everything back to the broker", "route",
                w->route->name, NULL);
    stats_add(w->stats, STAT_GIVEN_BACK, 1);
    source_close(w->source, CLOSE_PATIENCE_MS);
    w->source_open = false;
    outage_put_off(&w->outages[LINK_SOURCE], &w->random);
    relay_source_lost(w->relay);
    w->renew_sink = w->sink_open;
}

/* ---- Stopping ---- */

void worker_stop(struct worker *w)
{
    if (w->stopping)
        return;
    w->stopping = true;
    int64_t asked = loop_asked(&w->loop);
    w->stop_by = (asked ? asked : clock_now()) + STOP_PATIENCE_MS;
    if (w->source_open)
        source_cancel(w->source);
    relay_stop(w->relay);
}

static void finish(struct worker *w)
{
    source_close(w->source, w->source_open ? CLOSE_PATIENCE_MS : 0);
    sink_close(w->sink, w->sink_open ? CLOSE_PATIENCE_MS : 0);
    if (w->replies)
        sink_close(w->replies, w->replies_open ? CLOSE_PATIENCE_MS : 0);
    session_end(&w->session, w->store);
    store_close(w->store);
    w->source_open = w->sink_open = w->replies_open = false;
    w->done = true;
}

bool worker_is_done(const struct worker *w)
{
    return w->done;
}

bool worker_has_failed(const struct worker *w)
{
    return w->failed;
}

/* ---- The turn ---- */

static int64_t until_next_try(const struct worker *w, int64_t now)
{
    bool down[LINK_COUNT] = {
        [LINK_STORE] = !store_is_open(w->store),
        [LINK_SINK] = !w->sink_open && !w->stopping,
        [LINK_REPLIES] = w->replies && !w->replies_open && !w->stopping,
        [LINK_SOURCE] = !w->source_open && may_consume(w),
    };
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < LINK_COUNT; i++)
        if (down[i] && w->outages[i].next_try < next)
            next = w->outages[i].next_try;
    return next == INT64_MAX ? next : next - now;
}

static int64_t sleep_ms(const struct worker *w, int64_t wait)
{
    int64_t now = clock_now();
    int64_t limits[] = {
        until_next_try(w, now),
        session_deadline(&w->session) - now,
        w->source_open ? source_deadline(w->source) - now : INT64_MAX,
        w->sink_open ? sink_deadline(w->sink) - now : INT64_MAX,
        w->replies_open ? sink_deadline(w->replies) - now : INT64_MAX,
        w->stopping ? w->stop_by - now : INT64_MAX,
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i] < wait)
            wait = limits[i];
    return wait > 0 ? wait : 0;
}

/* Shows where it stands. Connections are shown as they are, not as they come and go, so that what
 * is shown cannot drift from them. */
static void show(struct worker *w)
{
    struct vitals *v = w->vitals;
    const bool up[LINK_COUNT] = {
        [LINK_STORE] = w->session.open && store_is_open(w->store),
        [LINK_SINK] = w->sink_open,
        [LINK_REPLIES] = w->replies_open,
        [LINK_SOURCE] = w->source_open,
    };
    size_t all = 0;
    for (size_t i = 0; i < LINK_COUNT; i++)
        atomic_store_explicit(&v->up[i], up[i], memory_order_relaxed);
    for (size_t p = 0; p < PLACE_GONE; p++) {
        size_t count = relay_count(w->relay, (enum place)p);
        all += count;
        atomic_store_explicit(&v->messages[p], (uint_fast32_t)count, memory_order_relaxed);
    }
    atomic_store_explicit(&v->oldest, all ? relay_oldest(w->relay) : 0, memory_order_relaxed);
    atomic_store_explicit(&v->holding, relay_holding(w->relay), memory_order_relaxed);
    atomic_store_explicit(&v->blocked, w->blocked_said, memory_order_relaxed);
    vitals_turn(v, w->done ? 0 : clock_now());
}

static void grant_wishes(struct worker *w)
{
    struct relay_wishes wishes = relay_wishes(w->relay);
    if (wishes.store_failed)
        lose_store(w, false);
    else if (wishes.session_lost)
        session_close(&w->session);
    if (wishes.give_back && w->source_open)
        give_back(w);
}

/* Each of these may wait for its timeouts, which together may be long for one turn: the loop goes
 * on all the same. */
static void keep_links(struct worker *w, int64_t now)
{
    keep_store(w, now);
    vitals_turn(w->vitals, clock_now());
    keep_sink(w, now);
    vitals_turn(w->vitals, clock_now());
    keep_replies(w, now);
    vitals_turn(w->vitals, clock_now());
    keep_source(w, now);
    vitals_turn(w->vitals, clock_now());
}

static int64_t turn(struct worker *w)
{
    assert(!w->done);
    int64_t now = clock_now();
    if (loop_asked(&w->loop))
        worker_stop(w);
    if (w->source_open)
        source_read(w->source, relay_reads(w->relay), now);
    if (w->sink_open)
        sink_read(w->sink, now);
    if (w->replies_open)
        sink_read(w->replies, now);
    keep_links(w, now);
    say_blocked(w);
    watch_store(w, now);
    if (w->failed) {
        finish(w);
        return 0;
    }
    int64_t wait = relay_tick(w->relay, clock_now());
    grant_wishes(w);
    if (w->stopping && (relay_is_drained(w->relay) || clock_now() >= w->stop_by)) {
        finish(w);
        return 0;
    }
    bool session_wanted = store_is_open(w->store) && !w->session.open;
    return session_wanted ? 0 : sleep_ms(w, wait);
}

int64_t worker_turn(struct worker *w)
{
    int64_t wait = turn(w);
    show(w);
    return wait;
}

/* ---- The thread ---- */

static bool turn_loop(void *context, int64_t *sleep)
{
    struct worker *w = context;
    *sleep = worker_turn(w);
    return !w->done;
}

static size_t watch_links(void *context, struct pollfd *fds)
{
    struct worker *w = context;
    size_t count = 0;
    if (w->source_open)
        fds[count++] = (struct pollfd){.fd = source_fd(w->source),
                                       .events = source_events(w->source, relay_reads(w->relay))};
    if (w->sink_open)
        fds[count++] = (struct pollfd){.fd = sink_fd(w->sink), .events = sink_events(w->sink)};
    if (w->replies_open)
        fds[count++] =
            (struct pollfd){.fd = sink_fd(w->replies), .events = sink_events(w->replies)};
    return count;
}

bool worker_start(struct worker *w, void (*on_exit)(void *), void *context)
{
    char name[16];
    snprintf(name, sizeof name, "%d %s", w->index, w->route->name);
    vitals_turn(w->vitals, clock_now());
    return loop_start(&w->loop, name, on_exit, context);
}

void worker_ask_to_stop(struct worker *w)
{
    loop_ask_to_stop(&w->loop);
}

void worker_join(struct worker *w)
{
    loop_join(&w->loop);
}
