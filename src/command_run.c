/*
 * command_run - the daemon: the fleet's threads, those of HTTP, and this one for signals.
 */
#include "command.h"

#include "admin.h"
#include "clock.h"
#include "fleet.h"
#include "key_watch.h"
#include "log.h"
#include "memory.h"
#include "notify.h"
#include "record.h"

#include <argp.h>
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define ADMIN_RETRY_MS 10000
#define READY_PATIENCE_MS 5000 /* for servers, at start; long enough to hear that one says no */
#define STARTING_LOOK_MS 100   /* how often is looked, while the service manager waits to hear */
#define STATUS_LOOK_MS 1000

static_assert(HISTORY_STEP_MS <= ADMIN_WATCH_MS, "who waits for the next sample watches HTTP, too");

struct daemon {
    char *file; /* of the configuration */
    struct fleet *fleet;
    struct admin *admin; /* NULL: HTTP is off */
    int64_t next_admin;  /* when to try again to serve it (clock_now()); 0: not at all */
    int64_t next_watch;  /* clock_now() */
    int64_t next_sample; /* likewise; of what HTTP shows */
    bool stopping;

    struct notify notify;
    bool owes_ready;  /* the service manager was not told yet that it runs, or runs again */
    int64_t ready_by; /* clock_now(): then it is told, whoever is not reached */
    bool changing;    /* to another configuration */
    bool refused;     /* the last reload was */
};

static void say_configuration(const struct config *config, const char *event)
{
    LOG_INFO(event, "version", ONLYONCE_VERSION, "config", config->file, NULL);
    for (size_t i = 0; i < config->warnings.count; i++)
        LOG_WARNING("configuration", "what", config->warnings.items[i], NULL);
}

/* At first HTTP comes before the workers, so that an address that cannot be had ends the program at
 * once. */
static bool start_admin(struct daemon *d)
{
    const struct config *config = fleet_config(d->fleet);
    char error[ADMIN_ERROR_MAX];
    if (!config->admin.listen)
        return true;
    d->admin = admin_start(config, fleet_stats(d->fleet), fleet_report_stats(d->fleet), error);
    if (d->admin)
        LOG_INFO("HTTP is served", "listen", config->admin.listen, "token",
                 config->admin.token ? "yes" : "no", NULL);
    else
        LOG_ERROR("cannot serve HTTP at admin.listen", "listen", config->admin.listen, "why", error,
                  NULL);
    return d->admin;
}

/* ---- The service manager ---- */

static void say_status(struct daemon *d, size_t waiting, const char *first)
{
    size_t routes = fleet_config(d->fleet)->route_count;
    const char *refused = d->refused ? "; the last reload was refused: see the log" : "";
    if (d->changing)
        notify_status(&d->notify, "changes to another configuration");
    else if (waiting)
        notify_status(&d->notify, "%zu of %zu routes wait for their servers, the first is %s%s",
                      waiting, routes, first, refused);
    else if (fleet_reports_wait(d->fleet))
        notify_status(&d->notify, "relays, routes: %zu; completions.queue is waited for%s", routes,
                      refused);
    else
        notify_status(&d->notify, "relays, routes: %zu%s", routes, refused);
}

static void say_notify_error(struct daemon *d)
{
    if (*d->notify.error)
        LOG_WARNING("the service manager cannot be told how the program is", "why", d->notify.error,
                    NULL);
    *d->notify.error = '\0';
}

/* When it is to be called again (clock_now()). */
static int64_t tell_manager(struct daemon *d)
{
    if (!notify_is_on(&d->notify))
        return INT64_MAX;
    int64_t now = clock_now();
    const char *first = NULL;
    size_t waiting = fleet_waiting(d->fleet, &first);
    if (d->owes_ready && !d->changing && !d->stopping && (waiting == 0 || now >= d->ready_by))
        d->owes_ready = !notify_ready(&d->notify);
    if (!d->stopping)
        say_status(d, waiting, first);
    int64_t watchdog = notify_turn(&d->notify, now, fleet_hangs(d->fleet));
    say_notify_error(d);
    int64_t look = now + (d->owes_ready ? STARTING_LOOK_MS : STATUS_LOOK_MS);
    return look < watchdog ? look : watchdog;
}

/* ---- Signals ---- */

/* What was asked for shows whatever the level. */
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

static void say_all(const struct daemon *d)
{
    const struct config *config = fleet_config(d->fleet);
    for (size_t i = 0; i < config->route_count; i++)
        say_recent(config->routes[i].name, &fleet_stats(d->fleet)[i]->recent);
    fleet_say_counts(d->fleet, level_of_answers(), "so far");
}

/* While the start is not over, the manager waits for that. */
static void tell_reload(struct daemon *d)
{
    if (d->owes_ready && d->ready_by)
        return;
    notify_reloading(&d->notify);
    d->owes_ready = true;
    d->ready_by = 0;
}

/* A configuration with a fault changes nothing. */
static void reload(struct daemon *d)
{
    struct buffer errors = {0};
    tell_reload(d);
    struct config *next = config_load(d->file, &errors);
    d->refused = !next;
    if (next && fleet_change(d->fleet, next)) {
        d->changing = true;
        LOG_INFO("the configuration has changed, what differs is drained and started again",
                 "config", d->file, NULL);
    } else if (next) {
        LOG_INFO("the configuration has not changed", "config", d->file, NULL);
    } else {
        buffer_add_u8(&errors, '\0');
        char *rest = (char *)errors.data;
        for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n"))
            if (*line)
                LOG_ERROR("the configuration has a fault", "what", line, NULL);
        LOG_ERROR("nothing is changed: the former configuration goes on", "config", d->file, NULL);
    }
    buffer_free(&errors);
}

static void stop(struct daemon *d)
{
    d->stopping = true;
    notify_stopping(&d->notify);
    notify_status(&d->notify, "stops: waits for what is on its way");
    admin_stopping(d->admin);
    fleet_stop(d->fleet);
}

static void take_signal(struct daemon *d, int number)
{
    switch (number) {
    case SIGUSR1: say_all(d); return;
    case SIGHUP:
        if (!d->stopping)
            reload(d);
        return;
    default:
        LOG_INFO("stopping", "signal", strsignal(number), NULL);
        if (!d->stopping)
            stop(d);
    }
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

/* ---- The loop ---- */

/* Without HTTP the routes go on: it was logged, and is tried again until the address can be had. */
static void try_admin(struct daemon *d)
{
    d->next_admin = start_admin(d) ? 0 : clock_now() + ADMIN_RETRY_MS;
}

/* HTTP shows what the fleet has, so it is away while that is exchanged. */
static void switch_over(struct daemon *d)
{
    admin_stop(d->admin);
    d->admin = NULL;
    fleet_switch(d->fleet);
    d->changing = false;
    const struct config *config = fleet_config(d->fleet);
    log_setup(config->log.level, config->log.format);
    say_configuration(config, "the changed configuration is in force");
    try_admin(d);
}

static bool serves_http(const struct daemon *d)
{
    return d->admin || d->next_admin;
}

/* How many ms nothing is to be done by itself, the manager's next time being `manager`. */
static int until_next(const struct daemon *d, int64_t manager)
{
    int64_t next = d->next_watch < manager ? d->next_watch : manager;
    if (serves_http(d) && d->next_sample < next)
        next = d->next_sample;
    int64_t wait = next - clock_now();
    return wait > 0 ? (int)wait : 0;
}

static void sample(struct daemon *d)
{
    int64_t now = clock_now();
    if (!serves_http(d) || now < d->next_sample)
        return;
    fleet_sample(d->fleet);
    d->next_sample += HISTORY_STEP_MS;
    if (d->next_sample <= now) /* The first one, or this thread was kept from it. */
        d->next_sample = now + HISTORY_STEP_MS;
}

static void wait_for_news(struct daemon *d, int signal_fd)
{
    struct pollfd fds[2] = {{.fd = signal_fd, .events = POLLIN},
                            {.fd = fleet_fd(d->fleet), .events = POLLIN}};
    int64_t manager = tell_manager(d);
    (void)poll(fds, 2, until_next(d, manager));
    admin_watch(d->admin);
    sample(d);
    if (d->next_admin && !d->stopping && clock_now() >= d->next_admin)
        try_admin(d);
    if (clock_now() < d->next_watch)
        return;
    d->next_watch = clock_now() + KEY_WATCH_MS;
    fleet_watch_keys(d->fleet);
}

/* Until everything has ended, because of a signal or by itself. */
static void turn(struct daemon *d, int signal_fd)
{
    for (;;) {
        enum fleet_state state = fleet_turn(d->fleet);
        if (state == FLEET_ENDED)
            return;
        if (state == FLEET_READY)
            switch_over(d);
        else if (state == FLEET_FAILED)
            stop(d);
        if (state != FLEET_RUNS)
            continue;
        wait_for_news(d, signal_fd);
        struct signalfd_siginfo info;
        if (read(signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
            take_signal(d, (int)info.ssi_signo);
    }
}

static bool run(struct daemon *d, int signal_fd)
{
    say_configuration(fleet_config(d->fleet), "onlyonce starts");
    say_notify_error(d);
    d->owes_ready = true;
    d->ready_by = clock_now() + READY_PATIENCE_MS;
    bool ok = start_admin(d);
    if (!ok || !fleet_start(d->fleet)) {
        ok = false;
        stop(d);
    }
    turn(d, signal_fd);
    admin_stop(d->admin); /* It looks at what the workers show. */
    fleet_say_counts(d->fleet, LOG_LEVEL_INFO, "route ends");
    return ok && !fleet_has_failed(d->fleet);
}

/* A configuration may take secrets from the environment. What tools list as a process's, or a
 * crashed one's, environment is the memory that it began with, so that is emptied; getenv() finds
 * copies. */
static void hide_environment(void)
{
    for (char **e = environ; *e; e++) {
        char *copy = xstrdup(*e);
        explicit_bzero(*e, strlen(*e));
        *e = copy;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    if (key == ARGP_KEY_INIT)
        state->child_inputs[0] = state->input;
    if (key == ARGP_KEY_ARG)
        argp_error(state, "\"%s\" is too much: run takes no arguments; a file is named by -c", arg);
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
    int signal_fd = open_signals(); /* First: a SIGHUP that comes early must not be the end. */
    hide_environment();
    struct config *config = command_config(file);
    if (!config)
        return EXIT_USAGE;
    log_setup(config->log.level, config->log.format);
    struct daemon d = {.file = xstrdup(config->file), .next_watch = clock_now() + KEY_WATCH_MS};
    notify_init(&d.notify);
    bool ok = false;
    d.fleet = signal_fd >= 0 ? fleet_new(config) : NULL;
    if (d.fleet) {
        ok = run(&d, signal_fd);
        fleet_free(d.fleet);
    } else {
        LOG_ERROR("cannot open a descriptor", "why", strerror(errno), NULL);
        config_free(config);
    }
    notify_free(&d.notify);
    free(d.file);
    if (signal_fd >= 0)
        close(signal_fd);
    return ok ? EXIT_OK : EXIT_NOT;
}
