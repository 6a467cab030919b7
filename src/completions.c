#include "completions.h"

#include "clock.h"
#include "log.h"
#include "loop.h"
#include "message.h"
#include "outage.h"
#include "report_store.h"
#include "sink.h"
#include "source.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define PREFETCH 1000
#define UNCONFIRMED 100
#define BUFFER ((size_t)16 * 1024 * 1024) /* bytes of reports held; above it none are read */
#define APPLY_MS 100          /* then the connections have their turn: heartbeats are due */
#define RETRY_MS 1000         /* before a report that was refused is tried again */
#define HOLD_LIMIT_MS 600000  /* then all that is held goes back to the broker, once */
#define TURN_EVERY_MS 10000   /* at least, so that it shows that it turns */
#define STOP_PATIENCE_MS 8000 /* for confirms, once it is asked to stop */
#define CLOSE_PATIENCE_MS 500 /* for the broker's answer to a close */

struct completions {
    struct route_config queues; /* ours, as source and sink want them */
    struct source *source;
    struct sink *sink;
    struct outage source_outage;
    struct outage sink_outage;
    bool source_open;
    bool sink_open;
    struct report_stores *stores;
    uint64_t random;

    /* A report is in exactly one of these. */
    struct message_list held;    /* to be applied to its store */
    struct message_list parking; /* to be published to the parking queue, */
    struct message_list sent;    /* published, not confirmed */
    size_t bytes;                /* of all of them */

    struct report_stats *stats;

    bool stopping;
    int64_t stop_by;
    bool done;
    bool failed;

    struct loop loop;
};

static loop_turn turn_loop;
static loop_watch watch_links;

static void describe_queues(struct completions *c, const struct completions_config *config)
{
    static char name[] = "completions";
    c->queues.name = name;
    c->queues.from.queue = config->queue;
    c->queues.from.declare = true;
    c->queues.from.prefetch = PREFETCH;
    c->queues.park.queue = config->park;
    c->queues.to.queue = config->park;
    c->queues.to.declare = true;
    c->queues.to.unconfirmed = UNCONFIRMED;
}

struct completions *completions_new(const struct config *config, struct report_stats *stats)
{
    struct completions *c = xcalloc(1, sizeof *c);
    c->stats = stats;
    describe_queues(c, &config->completions);
    c->source = source_new(config, &c->queues);
    c->sink = sink_new(config, &c->queues, SINK_OTHERS);
    c->source_outage = (struct outage){.link = "completions source"};
    c->sink_outage = (struct outage){.link = "completions sink"};
    c->stores = report_stores_new(config);
    c->random = (uint64_t)clock_now() * UINT64_C(0x9e3779b97f4a7c15) + 1;
    TAILQ_INIT(&c->held);
    TAILQ_INIT(&c->parking);
    TAILQ_INIT(&c->sent);
    loop_init(&c->loop, turn_loop, watch_links, c);
    return c;
}

/* ---- Reports come and go ---- */

static void forget(struct completions *c, struct message_list *list, struct message *m)
{
    TAILQ_REMOVE(list, m, link);
    c->bytes -= message_size(m);
    message_free(m);
}

static void forget_all(struct completions *c, struct message_list *list)
{
    while (!TAILQ_EMPTY(list))
        forget(c, list, TAILQ_FIRST(list));
}

static void settle(struct completions *c, struct message_list *list, struct message *m)
{
    source_ack(c->source, m);
    forget(c, list, m);
}

static void pull(struct completions *c, int64_t now)
{
    struct message *m;
    while (c->source_open && (m = source_pull(c->source))) {
        m->arrived = now;
        c->bytes += message_size(m);
        TAILQ_INSERT_TAIL(&c->held, m, link);
    }
}

void completions_keep_trying(struct completions *c)
{
    c->source_outage.patient = true;
    c->sink_outage.patient = true;
}

void completions_free(struct completions *c)
{
    if (!c)
        return;
    source_free(c->source);
    sink_free(c->sink);
    forget_all(c, &c->held);
    forget_all(c, &c->parking);
    forget_all(c, &c->sent);
    report_stores_free(c->stores);
    loop_free(&c->loop);
    free(c);
}

/* ---- Connections ---- */

/* What was delivered comes again; of what is being parked, the copy goes on to its end alone. */
static void lose_source(struct completions *c)
{
    struct message *m;
    c->source_open = false;
    forget_all(c, &c->held);
    forget_all(c, &c->parking);
    TAILQ_FOREACH(m, &c->sent, link)
    m->facts.orphan = true;
}

/* To be shown and logged. */
static void link_came_up(struct completions *c, enum link_name name, struct outage *outage,
                         const char *to)
{
    vitals_say(&c->stats->vitals, name, to);
    outage_ends(outage, to);
}

static void source_went_down(struct completions *c, bool permanent)
{
    const char *why = source_error(c->source);
    vitals_say(&c->stats->vitals, LINK_SOURCE, why);
    if (outage_begins(&c->source_outage, &c->random, why, permanent && !c->stopping))
        c->failed = true;
    source_close(c->source, 0);
    lose_source(c);
}

/* What has no confirm is parked again: twice in the parking queue is better than not at all. */
static void sink_went_down(struct completions *c, const char *why, bool permanent)
{
    vitals_say(&c->stats->vitals, LINK_SINK, why);
    if (outage_begins(&c->sink_outage, &c->random, why, permanent && !c->stopping))
        c->failed = true;
    sink_close(c->sink, 0);
    c->sink_open = false;
    while (!TAILQ_EMPTY(&c->sent)) {
        struct message *m = TAILQ_FIRST(&c->sent);
        if (m->facts.orphan) {
            forget(c, &c->sent, m);
            continue;
        }
        TAILQ_REMOVE(&c->sent, m, link);
        TAILQ_INSERT_TAIL(&c->parking, m, link);
    }
}

static void keep_sink(struct completions *c, int64_t now)
{
    bool permanent = false;
    if (c->sink_open && !sink_is_up(c->sink))
        sink_went_down(c, sink_error(c->sink), false);
    if (c->sink_open || c->stopping || !outage_is_due(&c->sink_outage, now))
        return;
    c->sink_open = sink_open(c->sink, &permanent);
    vitals_turn(&c->stats->vitals, clock_now());
    if (c->sink_open)
        link_came_up(c, LINK_SINK, &c->sink_outage, sink_describe(c->sink));
    else
        sink_went_down(c, sink_error(c->sink), permanent);
}

/* It consumes only once it can park. */
static bool may_consume(const struct completions *c)
{
    return !c->stopping && c->sink_open;
}

static void keep_source(struct completions *c, int64_t now)
{
    bool permanent = false;
    if (c->source_open && !source_is_up(c->source))
        source_went_down(c, false);
    if (c->source_open || !may_consume(c) || !outage_is_due(&c->source_outage, now))
        return;
    c->source_open = source_open(c->source, &permanent);
    vitals_turn(&c->stats->vitals, clock_now());
    if (c->source_open)
        link_came_up(c, LINK_SOURCE, &c->source_outage, source_describe(c->source));
    else
        source_went_down(c, permanent);
}

/* Held for too long: the broker would close the channel of a consumer that never acknowledges. */
static void give_back(struct completions *c)
{
    LOG_WARNING("reports were held for too long, giving them back to the broker", "queue",
                c->queues.from.queue, NULL);
    source_close(c->source, CLOSE_PATIENCE_MS);
    outage_put_off(&c->source_outage, &c->random);
    lose_source(c);
}

/* ---- Applying ---- */

static void park(struct completions *c, struct message *m, enum park_reason reason)
{
    m->copy = (struct copy){.target = TARGET_PARKING, .reason = reason, .report = true};
    m->due = 0;
    TAILQ_REMOVE(&c->held, m, link);
    TAILQ_INSERT_TAIL(&c->parking, m, link);
}

static void apply(struct completions *c, struct message *m)
{
    struct report report;
    enum park_reason bad = report_read(m, &report);
    if (bad == PARK_NONE && !report_stores_have(c->stores, report.route))
        bad = PARK_UNKNOWN_ROUTE;
    if (bad != PARK_NONE) {
        park(c, m, bad);
        return;
    }
    int64_t next_try;
    switch (report_stores_apply(c->stores, &report, &next_try)) {
    case REPORT_DONE:
        stats_count(report.release ? &c->stats->released : &c->stats->completed);
        settle(c, &c->held, m);
        break;
    case REPORT_ALREADY: settle(c, &c->held, m); break;
    case REPORT_NOT_FOUND: park(c, m, PARK_NOT_FOUND); break;
    case REPORT_PENDING: park(c, m, PARK_PENDING); break;
    case REPORT_FOREIGN: park(c, m, PARK_FOREIGN); break;
    case REPORT_BUSY: m->due = clock_now() + RETRY_MS; break;
    case REPORT_UNREACHABLE: m->due = next_try; break;
    }
}

/* True: there is more to do at once. */
static bool apply_all(struct completions *c, int64_t now)
{
    struct message *m = TAILQ_FIRST(&c->held);
    while (m) {
        struct message *next = TAILQ_NEXT(m, link);
        if (clock_now() - now > APPLY_MS)
            return true;
        if (m->due <= now) {
            apply(c, m);
            vitals_turn(&c->stats->vitals, clock_now());
        }
        m = next;
    }
    return false;
}

/* ---- Parking ---- */

/* What cannot be parked is left to the broker's dead-lettering, or held, and so given back. */
static void cannot_park(struct completions *c, struct message *m)
{
    bool rejectable = source_dead_letters(c->source);
    LOG_WARNING("a report cannot be parked", "queue", c->queues.from.queue, "why",
                park_reason_text(m->copy.reason), "then", rejectable ? "rejected" : "held", NULL);
    if (!rejectable) {
        m->due = INT64_MAX;
        return;
    }
    source_reject(c->source, m);
    forget(c, &c->parking, m);
}

static void publish(struct completions *c, int64_t now)
{
    struct message *m = TAILQ_FIRST(&c->parking);
    while (m && c->sink_open && sink_room(c->sink) > 0) {
        struct message *next = TAILQ_NEXT(m, link);
        if (m->due <= now && sink_publish(c->sink, m) == SINK_PUBLISHED) {
            TAILQ_REMOVE(&c->parking, m, link);
            TAILQ_INSERT_TAIL(&c->sent, m, link);
        } else if (m->due <= now) {
            cannot_park(c, m);
        }
        m = next;
    }
}

static void take_confirms(struct completions *c, int64_t now)
{
    struct message *m;
    enum sink_answer answer;
    bool returned = false;
    while (c->sink_open && (m = sink_next(c->sink, &answer))) {
        if (answer == SINK_CONFIRMED) {
            stats_count(&c->stats->parked);
            LOG_INFO("report parked", "queue", c->queues.from.queue, "reason",
                     park_reason_text(m->copy.reason), NULL);
            settle(c, &c->sent, m);
        } else if (m->facts.orphan) {
            forget(c, &c->sent, m);
        } else {
            m->due = now + RETRY_MS;
            TAILQ_REMOVE(&c->sent, m, link);
            TAILQ_INSERT_TAIL(&c->parking, m, link);
        }
        returned = returned || answer == SINK_RETURNED;
    }
    /* Opening again makes the queue again. */
    if (returned)
        sink_went_down(c, "the parking queue is gone", false);
}

/* ---- Stopping ---- */

static void begin_to_stop(struct completions *c, int64_t now)
{
    c->stopping = true;
    c->stop_by = now + STOP_PATIENCE_MS;
    if (c->source_open)
        source_cancel(c->source);
}

/* What is neither applied nor parked by now is delivered again to the next relay. */
static void finish(struct completions *c)
{
    char counts[3][24];
    const uint64_t numbers[3] = {atomic_load(&c->stats->completed),
                                 atomic_load(&c->stats->released), atomic_load(&c->stats->parked)};
    source_close(c->source, c->source_open ? CLOSE_PATIENCE_MS : 0);
    sink_close(c->sink, c->sink_open ? CLOSE_PATIENCE_MS : 0);
    report_stores_close(c->stores);
    for (size_t i = 0; i < 3; i++)
        snprintf(counts[i], sizeof counts[i], "%llu", (unsigned long long)numbers[i]);
    LOG_INFO("completions end", "completed", counts[0], "released", counts[1], "parked", counts[2],
             NULL);
    c->done = true;
}

bool completions_have_failed(const struct completions *c)
{
    return c->failed;
}

/* ---- The turn ---- */

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* When the oldest of those will have been held for too long. */
static int64_t give_back_at(const struct message_list *list)
{
    const struct message *oldest = TAILQ_FIRST(list);
    return oldest && !oldest->facts.orphan ? oldest->arrived + HOLD_LIMIT_MS : INT64_MAX;
}

static int64_t give_all_back_at(const struct completions *c)
{
    return earlier(earlier(give_back_at(&c->held), give_back_at(&c->parking)),
                   give_back_at(&c->sent));
}

/* When one of those is to be tried again. */
static int64_t next_due(const struct message_list *list)
{
    int64_t next = INT64_MAX;
    const struct message *m;
    TAILQ_FOREACH(m, list, link)
    next = m->due > 0 ? earlier(next, m->due) : next;
    return next;
}

static int64_t sleep_ms(const struct completions *c)
{
    int64_t next = c->stopping ? c->stop_by : earlier(next_due(&c->held), next_due(&c->parking));
    if (c->source_open)
        next = earlier(next, earlier(source_deadline(c->source), give_all_back_at(c)));
    else if (may_consume(c))
        next = earlier(next, c->source_outage.next_try);
    if (c->sink_open)
        next = earlier(next, sink_deadline(c->sink));
    else if (!c->stopping)
        next = earlier(next, c->sink_outage.next_try);
    int64_t now = clock_now();
    return next > now ? next - now : 0;
}

/* As a worker does: see vitals.h. */
static void show(struct completions *c)
{
    struct vitals *v = &c->stats->vitals;
    atomic_store_explicit(&v->up[LINK_SINK], c->sink_open, memory_order_relaxed);
    atomic_store_explicit(&v->up[LINK_SOURCE], c->source_open, memory_order_relaxed);
    vitals_turn(v, c->done ? 0 : clock_now());
}

/* How long it may sleep. */
static int64_t turn(struct completions *c)
{
    int64_t now = clock_now();
    if (!c->stopping && loop_asked(&c->loop))
        begin_to_stop(c, now);
    if (c->source_open)
        source_read(c->source, c->bytes < BUFFER, now);
    if (c->sink_open)
        sink_read(c->sink, now);
    keep_sink(c, now);
    keep_source(c, now);
    pull(c, now);
    take_confirms(c, now);
    bool more = !c->stopping && apply_all(c, now);
    publish(c, now);
    if (c->source_open && now >= give_all_back_at(c))
        give_back(c);
    if (c->source_open)
        source_flush(c->source, clock_now(), 0); /* A release must not be seen twice. */
    if (c->sink_open)
        sink_flush(c->sink, clock_now());
    if (c->failed || (c->stopping && (TAILQ_EMPTY(&c->sent) || now >= c->stop_by)))
        finish(c);
    return more ? 0 : sleep_ms(c);
}

/* ---- The thread ---- */

static bool turn_loop(void *context, int64_t *sleep)
{
    struct completions *c = context;
    int64_t wait = turn(c);
    show(c);
    *sleep = wait < TURN_EVERY_MS ? wait : TURN_EVERY_MS;
    return !c->done;
}

static size_t watch_links(void *context, struct pollfd *fds)
{
    struct completions *c = context;
    size_t count = 0;
    if (c->source_open)
        fds[count++] = (struct pollfd){.fd = source_fd(c->source),
                                       .events = source_events(c->source, c->bytes < BUFFER)};
    if (c->sink_open)
        fds[count++] = (struct pollfd){.fd = sink_fd(c->sink), .events = sink_events(c->sink)};
    return count;
}

bool completions_start(struct completions *c, void (*on_exit)(void *), void *context)
{
    vitals_turn(&c->stats->vitals, clock_now());
    return loop_start(&c->loop, "reports", on_exit, context);
}

void completions_ask_to_stop(struct completions *c)
{
    loop_ask_to_stop(&c->loop);
}

void completions_join(struct completions *c)
{
    loop_join(&c->loop);
}
