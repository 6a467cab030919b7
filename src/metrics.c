#include "metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What one metric's series of one route are made of. */
struct writer {
    struct buffer *out;
    const char *name;
    const struct route_config *route;
    const struct route_stats *stats;
    int64_t now;
};

/* ---- Lines ---- */

static void add_escaped(struct buffer *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\n')
            buffer_printf(out, "\\n");
        else if (*text == '"' || *text == '\\')
            buffer_printf(out, "\\%c", *text);
        else
            buffer_add_u8(out, (uint8_t)*text);
    }
}

static void begin(struct buffer *out, const char *name, const char *type, const char *help)
{
    buffer_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* The metric's name, a suffix of it, and what stands in its braces; `label` NULL: the route alone.
 */
static void add_series(const struct writer *w, const char *suffix, const char *label,
                       const char *value)
{
    buffer_printf(w->out, "%s%s{route=\"", w->name, suffix);
    add_escaped(w->out, w->route->name);
    if (label) {
        buffer_printf(w->out, "\",%s=\"", label);
        add_escaped(w->out, value);
    }
    buffer_printf(w->out, "\"} ");
}

static void add_count(const struct writer *w, const char *label, const char *value, uint64_t n)
{
    add_series(w, "", label, value);
    buffer_printf(w->out, "%" PRIu64 "\n", n);
}

static uint64_t load(const atomic_uint_fast64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* ---- Counters ---- */

static void write_deliveries(const struct writer *w)
{
    add_count(w, NULL, NULL, stats_get(w->stats, STAT_DELIVERIES));
}

static void write_outcomes(const struct writer *w)
{
    add_count(w, "outcome", "forwarded", stats_get(w->stats, STAT_FORWARDED));
    add_count(w, "outcome", "duplicate", stats_get(w->stats, STAT_DUPLICATES));
    add_count(w, "outcome", "conflict", stats_get(w->stats, STAT_CONFLICTS_DROPPED));
    add_count(w, "outcome", "parked", stats_get(w->stats, STAT_PARKED));
}

/* The reasons behind in_doubt are those of reports. */
static void write_parked(const struct writer *w)
{
    for (size_t i = PARK_NONE + 1; i <= PARK_IN_DOUBT; i++)
        add_count(w, "reason", park_reason_text((enum park_reason)i), load(&w->stats->parked[i]));
}

static void write_marks(const struct writer *w)
{
    add_count(w, "mark", "in_doubt", stats_get(w->stats, STAT_MARKED_IN_DOUBT));
    add_count(w, "mark", "unchecked", stats_get(w->stats, STAT_MARKED_UNCHECKED));
    add_count(w, "mark", "no_key", stats_get(w->stats, STAT_MARKED_NO_KEY));
}

/* Alternatives of one name share their keys, and their series. No alternative is called (none). */
static void write_keys(const struct writer *w)
{
    const struct key_rule *rule = w->route->key_rule;
    size_t count = key_alternative_count(rule);
    for (size_t i = 0; i < count; i++) {
        const char *name = key_alternative_name(rule, (int)i);
        uint64_t sum = 0;
        bool first = true;
        for (size_t k = 0; k < count; k++) {
            if (strcmp(key_alternative_name(rule, (int)k), name) != 0)
                continue;
            first = first && k >= i;
            sum += load(&w->stats->alternatives[k]);
        }
        if (first)
            add_count(w, "alternative", name, sum);
    }
    add_count(w, "alternative", "(none)", stats_without_key(w->stats));
}

/* Those that no other metric tells. */
static void write_events(const struct writer *w)
{
    static const enum stat events[] = {
        STAT_DUPLICATES_PUBLISHED,
        STAT_REPLIES,
        STAT_REPLIES_DROPPED,
        STAT_CONFLICTS,
        STAT_WINDOWS_IGNORED,
        STAT_REJECTED,
        STAT_RETRIES,
        STAT_RETURNED,
        STAT_NACKED,
        STAT_TAKEN_OVER,
        STAT_NOT_RECORDED,
        STAT_KEY_LEFT_OUT,
        STAT_FOREIGN,
        STAT_GIVEN_BACK,
    };
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        add_count(w, "event", stats_name(events[i]), stats_get(w->stats, events[i]));
}

static bool has_link(const struct writer *w, size_t link)
{
    return link != LINK_REPLIES || w->route->reply;
}

static void write_reconnects(const struct writer *w)
{
    for (size_t i = 0; i < LINK_COUNT; i++)
        if (has_link(w, i))
            add_count(w, "link", link_name_text((enum link_name)i), load(&w->stats->reconnects[i]));
}

/* ---- Gauges ---- */

static void write_messages(const struct writer *w)
{
    for (size_t p = 0; p < PLACE_GONE; p++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < w->stats->worker_count; i++)
            sum += atomic_load_explicit(&w->stats->workers[i].messages[p], memory_order_relaxed);
        add_count(w, "place", place_name((enum place)p), sum);
    }
}

static void write_oldest(const struct writer *w)
{
    int64_t age = 0;
    for (size_t i = 0; i < w->stats->worker_count; i++) {
        const struct vitals *v = &w->stats->workers[i];
        int64_t oldest = atomic_load_explicit(&v->oldest, memory_order_relaxed);
        if (oldest && w->now - oldest > age)
            age = w->now - oldest;
    }
    add_series(w, "", NULL, NULL);
    buffer_printf(w->out, "%.3f\n", (double)age / 1000);
}

static void write_up(const struct writer *w)
{
    for (size_t link = 0; link < LINK_COUNT; link++) {
        bool up = true;
        for (size_t i = 0; i < w->stats->worker_count; i++)
            up = up && atomic_load_explicit(&w->stats->workers[i].up[link], memory_order_relaxed);
        if (has_link(w, link))
            add_count(w, "link", link_name_text((enum link_name)link), up);
    }
}

static void write_blocked(const struct writer *w)
{
    bool blocked = false;
    for (size_t i = 0; i < w->stats->worker_count; i++)
        blocked =
            blocked || atomic_load_explicit(&w->stats->workers[i].blocked, memory_order_relaxed);
    add_count(w, NULL, NULL, blocked);
}

static void write_endangered(const struct writer *w)
{
    bool endangered = false;
    for (size_t i = 0; i < w->stats->worker_count; i++)
        endangered = endangered ||
                     atomic_load_explicit(&w->stats->workers[i].endangered, memory_order_relaxed);
    add_count(w, NULL, NULL, endangered);
}

/* ---- Histograms ---- */

static void write_histogram(const struct writer *w, const struct histogram *h,
                            const histogram_bounds bounds)
{
    uint64_t count = 0;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        char le[32] = "+Inf";
        count += load(&h->buckets[i]);
        if (bounds[i])
            snprintf(le, sizeof le, "%.10g", (double)bounds[i] / 1e6);
        add_series(w, "_bucket", "le", le);
        buffer_printf(w->out, "%" PRIu64 "\n", count);
        if (!bounds[i])
            break;
    }
    add_series(w, "_sum", NULL, NULL);
    buffer_printf(w->out, "%.6f\n", (double)load(&h->sum) / 1e6);
    add_series(w, "_count", NULL, NULL);
    buffer_printf(w->out, "%" PRIu64 "\n", count);
}

static void write_claims(const struct writer *w)
{
    write_histogram(w, &w->stats->claims, histogram_short);
}

static void write_confirms(const struct writer *w)
{
    write_histogram(w, &w->stats->confirms, histogram_short);
}

static void write_relays(const struct writer *w)
{
    write_histogram(w, &w->stats->relays, histogram_short);
}

static void write_duplicate_age(const struct writer *w)
{
    write_histogram(w, &w->stats->duplicate_age, histogram_long);
}

/* ---- All ---- */

static const struct {
    const char *name;
    const char *type;
    const char *help;
    void (*write)(const struct writer *w);
} metrics[] = {
    {"onlyonce_deliveries_total", "counter", "Messages that arrived from the inbound queue.",
     write_deliveries},
    {"onlyonce_outcomes_total", "counter",
     "What became of messages: forwarded (copies confirmed into the work queue or exchange), "
     "duplicate, conflict (dropped for its content), parked.",
     write_outcomes},
    {"onlyonce_parked_total", "counter", "Copies confirmed into the parking queue, by reason.",
     write_parked},
    {"onlyonce_marks_total", "counter", "Forwarded copies marked in doubt, unchecked or no key.",
     write_marks},
    {"onlyonce_keys_total", "counter",
     "Messages by the alternative of the key rule that gave their key; (none): they have no key.",
     write_keys},
    {"onlyonce_events_total", "counter", "What else happened to messages, by event.", write_events},
    {"onlyonce_messages", "gauge", "Messages that the relay has, by the place they are in.",
     write_messages},
    {"onlyonce_oldest_message_seconds", "gauge",
     "Since when the relay has the oldest message that it has not acknowledged, to the second.",
     write_oldest},
    {"onlyonce_connection_up", "gauge",
     "Whether all workers have this connection: store, sink (publishing), source (consuming), "
     "replies.",
     write_up},
    {"onlyonce_reconnects_total", "counter", "Connections opened again after they were lost.",
     write_reconnects},
    {"onlyonce_blocked", "gauge", "Whether the broker takes no messages: an alarm of its own.",
     write_blocked},
    {"onlyonce_store_endangered", "gauge",
     "Whether the store's settings allow it to forget keys; the log says how.", write_endangered},
    {"onlyonce_claim_duration_seconds", "histogram",
     "How long the store took to answer one claiming of a batch.", write_claims},
    {"onlyonce_confirm_duration_seconds", "histogram",
     "How long the broker took to confirm a copy, from its publishing.", write_confirms},
    {"onlyonce_relay_duration_seconds", "histogram",
     "How long a forwarded message took from its arrival to its acknowledgement.", write_relays},
    {"onlyonce_duplicate_age_seconds", "histogram",
     "How long before a duplicate its key was first seen.", write_duplicate_age},
};

static void write_build(struct buffer *out)
{
    begin(out, "onlyonce_build_info", "gauge", "Always 1; its label says which version runs.");
    buffer_printf(out, "onlyonce_build_info{version=\"" ONLYONCE_VERSION "\"} 1\n");
}

static void write_reports(const struct report_stats *reports, struct buffer *out)
{
    begin(out, "onlyonce_reports_total", "counter",
          "Reports of workers by AMQP: keys completed and released, reports parked.");
    buffer_printf(out, "onlyonce_reports_total{answer=\"completed\"} %" PRIu64 "\n",
                  load(&reports->completed));
    buffer_printf(out, "onlyonce_reports_total{answer=\"released\"} %" PRIu64 "\n",
                  load(&reports->released));
    buffer_printf(out, "onlyonce_reports_total{answer=\"parked\"} %" PRIu64 "\n",
                  load(&reports->parked));
}

void metrics_write(const struct config *config, struct route_stats *const *stats,
                   const struct report_stats *reports, int64_t now, struct buffer *out)
{
    write_build(out);
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++) {
        begin(out, metrics[i].name, metrics[i].type, metrics[i].help);
        for (size_t k = 0; k < config->route_count; k++) {
            const struct writer w = {out, metrics[i].name, &config->routes[k], stats[k], now};
            metrics[i].write(&w);
        }
    }
    if (reports)
        write_reports(reports, out);
}
