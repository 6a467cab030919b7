#include "fleet.h"

#include "clock.h"
#include "completions.h"
#include "key_watch.h"
#include "memory.h"
#include "worker.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Who has threads that end. `ended` is theirs to count; all else is the fleet's thread's. */
struct crew {
    int ended_fd; /* the fleet's */
    size_t threads;
    atomic_size_t ended;
    bool leaving;
};

struct lane {
    struct crew crew;
    struct config *config; /* that it runs by; held */
    const struct route_config *route;
    struct route_stats *stats;
    struct key_watch watch;
    struct worker **workers;
};

struct fleet {
    struct config *config;
    struct config *next; /* NULL: no change is going on */
    struct lane **lanes; /* in the order of config's routes */
    struct route_stats **stats;

    struct crew reporters; /* of the thread that takes reports, if there is one */
    struct config *reports_config;
    struct completions *completions;
    struct report_stats report_stats;

    int ended_fd; /* readable when a thread has ended */
    bool started; /* from here on, what is refused is tried again */
    bool stopping;
    bool failed; /* a thread could not be started */
};

/* ---- Crews ---- */

/* From a thread that ends. */
static void thread_ended(void *context)
{
    struct crew *c = context;
    uint64_t one = 1;
    int fd = c->ended_fd;
    atomic_fetch_add(&c->ended, 1);
    ssize_t written = write(fd, &one, sizeof one);
    (void)written;
}

static bool crew_has_ended(const struct crew *c)
{
    return atomic_load(&c->ended) == c->threads;
}

/* Some of it ended, and nobody asked for that. */
static bool crew_has_failed(const struct crew *c)
{
    return !c->leaving && atomic_load(&c->ended) > 0;
}

/* ---- Lanes ---- */

static struct lane *lane_new(struct fleet *f, struct config *config,
                             const struct route_config *route, struct route_stats *stats)
{
    struct lane *l = xcalloc(1, sizeof *l);
    l->crew.ended_fd = f->ended_fd;
    l->config = config_hold(config);
    l->route = route;
    l->stats = stats;
    l->workers = xcalloc((size_t)route->workers, sizeof(struct worker *));
    return l;
}

static void say_counts(const struct lane *l, enum log_level level, const char *event)
{
    const char *pairs[2 * STAT_COUNT] = {NULL};
    char numbers[STAT_COUNT][24];
    size_t n = 0;
    for (size_t k = 0; k < STAT_COUNT; k++) {
        unsigned long long count = stats_get(l->stats, (enum stat)k);
        snprintf(numbers[k], sizeof numbers[k], "%llu", count);
        bool always = k == STAT_DELIVERIES || k == STAT_FORWARDED || k == STAT_DUPLICATES ||
                      k == STAT_PARKED || k == STAT_MARKED_IN_DOUBT;
        if (!always && count == 0)
            continue;
        pairs[n++] = stats_name((enum stat)k);
        pairs[n++] = numbers[k];
    }
    log_pairs(level, event, l->route->name, pairs, n);
}

/* Frees a lane whose workers have ended, but for its counters. */
static void lane_free(struct lane *l)
{
    for (size_t i = 0; i < l->crew.threads; i++) {
        worker_join(l->workers[i]);
        worker_free(l->workers[i]);
    }
    free(l->workers);
    config_free(l->config);
    free(l);
}

static void say_route(const struct route_config *route)
{
    char workers[24];
    snprintf(workers, sizeof workers, "%lld", (long long)route->workers);
    LOG_INFO("route", "route", route->name, "from", route->from.queue, "to",
             route->to.queue ? route->to.queue : route->to.exchange, "parking", route->park.queue,
             "store", route->store, "scope", route->scope, "workers", workers, NULL);
}

static bool lane_start(struct fleet *f, struct lane *l)
{
    say_route(l->route);
    for (int64_t i = 0; i < l->route->workers; i++) {
        struct worker *w = worker_new(l->config, l->route, (int)i, l->stats);
        if (f->started)
            worker_keep_trying(w);
        if (!worker_start(w, thread_ended, &l->crew)) {
            LOG_ERROR("cannot start a thread", "why", strerror(errno), NULL);
            worker_free(w);
            return false;
        }
        l->workers[l->crew.threads++] = w;
    }
    return true;
}

static void lane_stop(struct lane *l)
{
    l->crew.leaving = true;
    for (size_t i = 0; i < l->crew.threads; i++)
        worker_ask_to_stop(l->workers[i]);
}

/* ---- Reports ---- */

static bool start_reports(struct fleet *f)
{
    if (!f->config->completions.queue)
        return true;
    f->reporters = (struct crew){.ended_fd = f->ended_fd};
    struct completions *c = completions_new(f->config, &f->report_stats);
    if (f->started)
        completions_keep_trying(c);
    if (!completions_start(c, thread_ended, &f->reporters)) {
        LOG_ERROR("cannot start a thread", "why", strerror(errno), NULL);
        completions_free(c);
        return false;
    }
    f->reporters.threads = 1;
    f->reports_config = config_hold(f->config);
    f->completions = c;
    return true;
}

static void stop_reports(struct fleet *f)
{
    f->reporters.leaving = true;
    if (f->completions)
        completions_ask_to_stop(f->completions);
}

static void free_reports(struct fleet *f)
{
    if (!f->completions)
        return;
    completions_join(f->completions);
    completions_free(f->completions);
    config_free(f->reports_config);
    f->completions = NULL;
    f->reporters = (struct crew){0};
}

/* ---- Start and end ---- */

static void make_lists(struct fleet *f)
{
    f->lanes = xcalloc(f->config->route_count, sizeof(struct lane *));
    f->stats = xcalloc(f->config->route_count, sizeof(struct route_stats *));
}

static struct route_stats *new_stats(const struct route_config *route)
{
    struct route_stats *s = xcalloc(1, sizeof *s);
    stats_init(s, (size_t)route->workers);
    return s;
}

static void free_stats(struct route_stats *s)
{
    stats_free(s);
    free(s);
}

struct fleet *fleet_new(struct config *config)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return NULL;
    struct fleet *f = xcalloc(1, sizeof *f);
    f->ended_fd = fd;
    f->config = config;
    vitals_init(&f->report_stats.vitals);
    make_lists(f);
    for (size_t i = 0; i < config->route_count; i++) {
        f->stats[i] = new_stats(&config->routes[i]);
        f->lanes[i] = lane_new(f, config, &config->routes[i], f->stats[i]);
    }
    return f;
}

void fleet_free(struct fleet *f)
{
    for (size_t i = 0; i < f->config->route_count; i++) {
        lane_free(f->lanes[i]);
        free_stats(f->stats[i]);
    }
    free_reports(f);
    vitals_free(&f->report_stats.vitals);
    config_free(f->next);
    config_free(f->config);
    free(f->lanes);
    free(f->stats);
    close(f->ended_fd);
    free(f);
}

bool fleet_start(struct fleet *f)
{
    bool ok = true;
    for (size_t i = 0; ok && i < f->config->route_count; i++)
        ok = lane_start(f, f->lanes[i]);
    ok = ok && start_reports(f);
    f->started = true;
    f->failed = !ok;
    return ok;
}

void fleet_stop(struct fleet *f)
{
    f->stopping = true;
    for (size_t i = 0; i < f->config->route_count; i++)
        lane_stop(f->lanes[i]);
    stop_reports(f);
}

/* ---- Change ---- */

/* The route of that configuration by which the lane can go on as it is, or NULL. */
static const struct route_config *same_route(const struct lane *l, const struct config *next)
{
    const struct route_config *r = config_route(next, l->route->name);
    return r && config_same_route(l->config, l->route, next, r) ? r : NULL;
}

bool fleet_change(struct fleet *f, struct config *next)
{
    const struct config *current = f->next ? f->next : f->config;
    if (config_same(current, next)) {
        config_free(next);
        return false;
    }
    config_free(f->next);
    f->next = next;
    for (size_t i = 0; i < f->config->route_count; i++)
        if (!same_route(f->lanes[i], next))
            lane_stop(f->lanes[i]);
    if (f->completions && !config_same_reports(f->reports_config, next))
        stop_reports(f);
    return true;
}

static struct lane *lane_of(struct lane **lanes, size_t count, const char *route)
{
    for (size_t i = 0; i < count; i++)
        if (lanes[i] && strcmp(lanes[i]->route->name, route) == 0)
            return lanes[i];
    return NULL;
}

/* The counters of a lane that has ended, for the lane that follows it. They begin anew if what they
 * count by is another key. */
static struct route_stats *inherit_stats(struct lane *former, const struct route_config *route)
{
    struct route_stats *s = former ? former->stats : NULL;
    if (!s || !config_same_key(former->route, route))
        return new_stats(route);
    former->stats = NULL;
    stats_set_workers(s, (size_t)route->workers);
    return s;
}

/* The lane of route i of the new configuration: the one that went on, or one to be started. */
static void fill_lane(struct fleet *f, size_t i, struct lane **former, size_t former_count)
{
    const struct route_config *route = &f->config->routes[i];
    struct lane *l = lane_of(former, former_count, route->name);
    bool goes_on = l && !l->crew.leaving;
    f->stats[i] = goes_on ? l->stats : inherit_stats(l, route);
    f->lanes[i] = goes_on ? l : lane_new(f, f->config, route, f->stats[i]);
    if (l && !goes_on && !l->stats) /* It goes on counting from where it stood. */
        f->lanes[i]->watch = l->watch;
    for (size_t k = 0; goes_on && k < former_count; k++)
        if (former[k] == l)
            former[k] = NULL;
}

/* What was left behind: the lanes that have ended, and the counters that nobody goes on with. */
static void drop_lanes(struct lane **former, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct lane *l = former[i];
        if (!l)
            continue;
        if (l->stats) {
            say_counts(l, LOG_LEVEL_INFO, "route ends");
            free_stats(l->stats);
        }
        lane_free(l);
    }
    free(former);
}

void fleet_switch(struct fleet *f)
{
    struct config *old = f->config;
    struct lane **former = f->lanes;
    free(f->stats);
    f->config = f->next;
    f->next = NULL;
    make_lists(f);
    for (size_t i = 0; i < f->config->route_count; i++)
        fill_lane(f, i, former, old->route_count);
    drop_lanes(former, old->route_count);
    config_free(old);

    bool ok = true;
    for (size_t i = 0; i < f->config->route_count; i++)
        ok = (f->lanes[i]->crew.threads > 0 || lane_start(f, f->lanes[i])) && ok;
    if (f->reporters.leaving)
        free_reports(f);
    ok = (f->completions || start_reports(f)) && ok;
    f->failed = !ok;
}

/* ---- Turning ---- */

int fleet_fd(const struct fleet *f)
{
    return f->ended_fd;
}

enum fleet_state fleet_turn(struct fleet *f)
{
    uint64_t ignored;
    ssize_t taken = read(f->ended_fd, &ignored, sizeof ignored); /* Else it would stay readable. */
    (void)taken;
    bool all_ended = crew_has_ended(&f->reporters);
    bool leavers_ended = !f->reporters.leaving || all_ended;
    bool failed = f->failed || crew_has_failed(&f->reporters);
    for (size_t i = 0; i < f->config->route_count; i++) {
        const struct crew *c = &f->lanes[i]->crew;
        all_ended = all_ended && crew_has_ended(c);
        leavers_ended = leavers_ended && (!c->leaving || crew_has_ended(c));
        failed = failed || crew_has_failed(c);
    }
    if (f->stopping)
        return all_ended ? FLEET_ENDED : FLEET_RUNS;
    if (failed)
        return FLEET_FAILED;
    return f->next && leavers_ended ? FLEET_READY : FLEET_RUNS;
}

bool fleet_has_failed(const struct fleet *f)
{
    bool failed = f->failed || (f->completions && completions_have_failed(f->completions));
    for (size_t i = 0; i < f->config->route_count; i++)
        for (size_t k = 0; k < f->lanes[i]->crew.threads; k++)
            failed = failed || worker_has_failed(f->lanes[i]->workers[k]);
    return failed;
}

const struct config *fleet_config(const struct fleet *f)
{
    return f->config;
}

struct route_stats *const *fleet_stats(const struct fleet *f)
{
    return f->stats;
}

struct report_stats *fleet_report_stats(struct fleet *f)
{
    return f->config->completions.queue ? &f->report_stats : NULL;
}

/* ---- Telling ---- */

void fleet_say_counts(const struct fleet *f, enum log_level level, const char *event)
{
    for (size_t i = 0; i < f->config->route_count; i++)
        say_counts(f->lanes[i], level, event);
}

bool fleet_hangs(const struct fleet *f)
{
    int64_t now = clock_now();
    bool hangs = f->config->completions.queue && vitals_hangs(&f->report_stats.vitals, now);
    for (size_t i = 0; i < f->config->route_count; i++)
        for (size_t k = 0; k < f->stats[i]->worker_count; k++)
            hangs = hangs || vitals_hangs(&f->stats[i]->workers[k], now);
    return hangs;
}

size_t fleet_waiting(const struct fleet *f, const char **first)
{
    size_t waiting = 0;
    for (size_t i = 0; i < f->config->route_count; i++) {
        bool reaches = true;
        for (size_t k = 0; k < f->stats[i]->worker_count; k++)
            reaches = reaches && vitals_reaches_all(&f->stats[i]->workers[k]);
        if (!reaches && waiting++ == 0)
            *first = f->config->routes[i].name;
    }
    return waiting;
}

bool fleet_reports_wait(const struct fleet *f)
{
    const struct vitals *v = &f->report_stats.vitals;
    return f->config->completions.queue &&
           !(vitals_is_up(v, LINK_SINK) && vitals_is_up(v, LINK_SOURCE));
}

void fleet_sample(struct fleet *f)
{
    int64_t now = clock_now();
    for (size_t i = 0; i < f->config->route_count; i++)
        stats_sample(f->stats[i], now);
}

void fleet_watch_keys(struct fleet *f)
{
    for (size_t i = 0; i < f->config->route_count; i++) {
        struct lane *l = f->lanes[i];
        uint64_t messages, lacked;
        if (!key_watch_turn(&l->watch, stats_get(l->stats, STAT_DELIVERIES),
                            stats_without_key(l->stats), &messages, &lacked))
            continue;
        char of[24];
        char without[24];
        snprintf(of, sizeof of, "%llu", (unsigned long long)messages);
        snprintf(without, sizeof without, "%llu", (unsigned long long)lacked);
        LOG_WARNING("most messages of the last minute had no key", "route", l->route->name,
                    "without", without, "of", of, "look_at",
                    "the route's key: a header's exact name and case, a JSON pointer", NULL);
    }
}
