/*
 * command_run - the daemon: one thread for each worker of each route, and this one for signals.
 */
#include "command.h"

#include "admin.h"
#include "clock.h"
#include "completions.h"
#include "key_watch.h"
#include "log.h"
#include "memory.h"
#include "record.h"
#include "stats.h"
#include "worker.h"

#include <argp.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct daemon {
    const struct config *config;
    struct worker **workers;
    size_t worker_count;
    struct completions *completions;
    struct report_stats report_stats;
    struct admin *admin;       /* NULL: HTTP is off */
    struct route_stats *stats; /* of each route */
    struct key_watch *watches; /* likewise */
    int64_t next_watch;        /* clock_now() */
    int ended_fd;              /* counts workers that have ended */
};

static void worker_ended(void *context)
{
    const struct daemon *d = context;
    uint64_t one = 1;
    ssize_t written = write(d->ended_fd, &one, sizeof one);
    (void)written;
}

static void say_start(const struct config *config)
{
    LOG_INFO("onlyonce starts", "version", ONLYONCE_VERSION, "config", config->file, NULL);
    for (size_t i = 0; i < config->route_count; i++) {
        const struct route_config *route = &config->routes[i];
        char workers[24];
        snprintf(workers, sizeof workers, "%lld", (long long)route->workers);
        LOG_INFO("route", "route", route->name, "from", route->from.queue, "to",
                 route->to.queue ? route->to.queue : route->to.exchange, "parking",
                 route->park.queue, "store", route->store, "scope", route->scope, "workers",
                 workers, NULL);
    }
    for (size_t i = 0; i < config->warnings.count; i++)
        LOG_WARNING("configuration", "what", config->warnings.items[i], NULL);
}

static bool start_completions(struct daemon *d)
{
    if (!d->config->completions.queue)
        return true;
    struct completions *c = completions_new(d->config, &d->report_stats);
    if (!completions_start(c, worker_ended, d)) {
        LOG_ERROR("cannot start a thread", "why", strerror(errno), NULL);
        completions_free(c);
        return false;
    }
    d->completions = c;
    return true;
}

/* HTTP comes before the workers, so that an address that cannot be had ends the program at once. */
static bool start_admin(struct daemon *d)
{
    const struct admin_config *config = &d->config->admin;
    char error[ADMIN_ERROR_MAX];
    if (!config->listen)
        return true;
    d->admin = admin_start(d->config, d->stats,
                           d->config->completions.queue ? &d->report_stats : NULL, error);
    if (d->admin)
        LOG_INFO("HTTP is served", "listen", config->listen, "token", config->token ? "yes" : "no",
                 NULL);
    else
        LOG_ERROR("cannot serve HTTP at admin.listen", "listen", config->listen, "why", error,
                  NULL);
    return d->admin;
}

static bool start_workers(struct daemon *d)
{
    for (size_t i = 0; i < d->config->route_count; i++) {
        const struct route_config *route = &d->config->routes[i];
        for (int64_t k = 0; k < route->workers; k++) {
            struct worker *w = worker_new(d->config, route, (int)k, &d->stats[i]);
            if (!worker_start(w, worker_ended, d)) {
                LOG_ERROR("cannot start a thread", "why", strerror(errno), NULL);
                worker_free(w);
                return false;
            }
            d->workers[d->worker_count++] = w;
        }
    }
    return start_completions(d);
}

static void stop_workers(struct daemon *d)
{
    admin_stopping(d->admin);
    for (size_t i = 0; i < d->worker_count; i++)
        worker_ask_to_stop(d->workers[i]);
    if (d->completions)
        completions_ask_to_stop(d->completions);
}

/* ---- What people ask, and should know ---- */

/* They were asked for, so they show whatever the level. */
static enum log_level level_of_answers(void)
{
    if (log_wants(LOG_LEVEL_INFO))
        return LOG_LEVEL_INFO;
    return log_wants(LOG_LEVEL_WARNING) ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR;
}

static void say_recent(const char *route, struct recent *recent)
{
    struct recent_message *messages = xcalloc(RECENT_MAX, sizeof *messages);
    size_t count = recent_copy(recent, messages);
    for (size_t i = 0; i < count; i++) {
        const struct recent_message *m = &messages[i];
        char at[RECORD_TIME_MAX];
        char first_seen[RECORD_TIME_MAX];
        bool has_at = record_time(m->at, at);
        bool has_first_seen = record_time(m->first_seen, first_seen);
        log_line(level_of_answers(), "not forwarded", "route", route, "key",
                 *m->key ? m->key : NULL, "what", m->what, "why", m->why, "at", has_at ? at : NULL,
                 "first_seen", has_first_seen ? first_seen : NULL, NULL);
    }
    free(messages);
}

/* All that was counted, but for what never happened. */
static void say_counts(const struct daemon *d, enum log_level level, const char *event)
{
    for (size_t i = 0; i < d->config->route_count; i++) {
        const char *pairs[2 * STAT_COUNT] = {NULL};
        char numbers[STAT_COUNT][24];
        size_t n = 0;
        for (size_t k = 0; k < STAT_COUNT; k++) {
            unsigned long long count = stats_get(&d->stats[i], (enum stat)k);
            snprintf(numbers[k], sizeof numbers[k], "%llu", count);
            bool always = k == STAT_DELIVERIES || k == STAT_FORWARDED || k == STAT_DUPLICATES ||
                          k == STAT_PARKED || k == STAT_MARKED_IN_DOUBT;
            if (!always && count == 0)
                continue;
            pairs[n++] = stats_name((enum stat)k);
            pairs[n++] = numbers[k];
        }
        log_pairs(level, event, d->config->routes[i].name, pairs, n);
    }
}

static void watch_keys(struct daemon *d)
{
    int64_t now = clock_now();
    if (now < d->next_watch)
        return;
    d->next_watch = now + KEY_WATCH_MS;
    for (size_t i = 0; i < d->config->route_count; i++) {
        const struct route_stats *s = &d->stats[i];
        uint64_t messages, lacked;
        if (!key_watch_turn(&d->watches[i], stats_get(s, STAT_DELIVERIES), stats_without_key(s),
                            &messages, &lacked))
            continue;
        char of[24];
        char without[24];
        snprintf(of, sizeof of, "%llu", (unsigned long long)messages);
        snprintf(without, sizeof without, "%llu", (unsigned long long)lacked);
        LOG_WARNING("most messages of the last minute had no key", "route",
                    d->config->routes[i].name, "without", without, "of", of, "look_at",
                    "the route's key: a header's exact name and case, a JSON pointer", NULL);
    }
}

/* ---- The end ---- */

/* True: it is one that ends the program. */
static bool take_signal(struct daemon *d, int number)
{
    switch (number) {
    case SIGUSR1:
        for (size_t i = 0; i < d->config->route_count; i++)
            say_recent(d->config->routes[i].name, &d->stats[i].recent);
        say_counts(d, level_of_answers(), "so far");
        return false;
    case SIGHUP:
        LOG_WARNING("this version cannot read its configuration again, restart it", "signal",
                    strsignal(number), NULL);
        return false;
    default: LOG_INFO("stopping", "signal", strsignal(number), NULL); return true;
    }
}

/* Waits for signals and for workers that end; both lead to the end of all. */
static void wait_for_end(struct daemon *d, int signal_fd)
{
    size_t ended = 0;
    size_t threads = d->worker_count + (d->completions ? 1 : 0);
    bool stopping = false;
    while (ended < threads) {
        struct pollfd fds[2] = {{.fd = signal_fd, .events = POLLIN},
                                {.fd = d->ended_fd, .events = POLLIN}};
        int64_t wait = d->next_watch - clock_now();
        if (d->admin && wait > ADMIN_WATCH_MS)
            wait = ADMIN_WATCH_MS;
        (void)poll(fds, 2, wait > 0 ? (int)wait : 0);
        watch_keys(d);
        admin_watch(d->admin);
        struct signalfd_siginfo signal_info;
        if (read(signal_fd, &signal_info, sizeof signal_info) == (ssize_t)sizeof signal_info &&
            take_signal(d, (int)signal_info.ssi_signo)) {
            stopping = true;
            stop_workers(d);
        }
        uint64_t count;
        if (read(d->ended_fd, &count, sizeof count) == (ssize_t)sizeof count) {
            ended += count;
            if (!stopping)
                stop_workers(d);
            stopping = true;
        }
    }
}

/* True if every worker ended well. */
static bool end_workers(struct daemon *d)
{
    bool ok = true;
    for (size_t i = 0; i < d->worker_count; i++) {
        worker_join(d->workers[i]);
        ok = ok && !worker_has_failed(d->workers[i]);
        worker_free(d->workers[i]);
    }
    if (d->completions) {
        completions_join(d->completions);
        ok = ok && !completions_have_failed(d->completions);
        completions_free(d->completions);
    }
    return ok;
}

/* Threads inherit the mask: signals reach the program through this descriptor alone. */
static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int run(const struct config *config)
{
    size_t most = 0;
    for (size_t i = 0; i < config->route_count; i++)
        most += (size_t)config->routes[i].workers;
    struct daemon d = {.config = config,
                       .workers = xcalloc(most, sizeof(struct worker *)),
                       .stats = xcalloc(config->route_count, sizeof(struct route_stats)),
                       .watches = xcalloc(config->route_count, sizeof(struct key_watch)),
                       .next_watch = clock_now() + KEY_WATCH_MS,
                       .ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    vitals_init(&d.report_stats.vitals);
    for (size_t i = 0; i < config->route_count; i++)
        stats_init(&d.stats[i], (size_t)config->routes[i].workers);
    int signal_fd = open_signals();
    bool ok = signal_fd >= 0 && d.ended_fd >= 0;
    if (!ok)
        LOG_ERROR("cannot open a descriptor", "why", strerror(errno), NULL);
    say_start(config);
    ok = ok && start_admin(&d);
    if (ok && !start_workers(&d)) {
        ok = false;
        stop_workers(&d);
    }
    wait_for_end(&d, signal_fd);
    admin_stop(d.admin); /* It looks at what the workers show. */
    ok = end_workers(&d) && ok;
    say_counts(&d, LOG_LEVEL_INFO, "route ends");
    for (size_t i = 0; i < config->route_count; i++)
        stats_free(&d.stats[i]);
    vitals_free(&d.report_stats.vitals);
    free(d.workers);
    free(d.stats);
    free(d.watches);
    if (d.ended_fd >= 0)
        close(d.ended_fd);
    if (signal_fd >= 0)
        close(signal_fd);
    return ok ? EXIT_OK : EXIT_NOT;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    if (key == ARGP_KEY_INIT)
        state->child_inputs[0] = state->input;
    if (key == ARGP_KEY_ARG)
        argp_error(state, "\"%s\" is too much: run takes no arguments", arg);
    return key == ARGP_KEY_INIT || key == ARGP_KEY_ARG ? 0 : ARGP_ERR_UNKNOWN;
}

int command_run(int argc, char **argv)
{
    static const struct argp_child children[] = {{&command_config_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {.parser = parse,
                                     .doc = "Relays in the foreground, until SIGTERM or SIGINT.",
                                     .children = children};
    const char *file = NULL;
    argp_parse(&argp, argc, argv, 0, NULL, &file);
    struct config *config = command_config(file);
    if (!config)
        return EXIT_USAGE;
    log_setup(config->log.level, config->log.format);
    int code = run(config);
    config_free(config);
    return code;
}
