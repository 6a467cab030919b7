/*
 * admin_show - what the program is at: health, readiness, metrics, its routes, and the messages
 * that they did not forward lately.
 */
#include "admin_inside.h"

#include "clock.h"
#include "metrics.h"
#include "record.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

static void status_ok(struct admin_answer *out, const char *status)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "status", status);
    admin_json(out, 200, object);
}

/* ---- Health ---- */

static void add_still(struct buffer *text, const char *who, const struct vitals *v, int64_t now)
{
    if (vitals_hangs(v, now))
        buffer_printf(text, "%s%s has not turned its loop for %lld s", text->len ? "; " : "", who,
                      (long long)(vitals_still(v, now) / 1000));
}

void admin_health(struct admin_served *s, const struct admin_request *r, struct admin_answer *out)
{
    (void)r;
    int64_t now = clock_now();
    struct buffer text = {0};
    for (size_t i = 0; i < s->config->route_count; i++) {
        for (size_t k = 0; k < s->stats[i]->worker_count; k++) {
            char who[128];
            snprintf(who, sizeof who, "worker %zu of route %s", k, s->config->routes[i].name);
            add_still(&text, who, &s->stats[i]->workers[k], now);
        }
    }
    if (s->reports)
        add_still(&text, "the thread for completions.queue", &s->reports->vitals, now);
    if (text.len)
        admin_problem(out, 503, "%.*s", (int)text.len, (const char *)text.data);
    else
        status_ok(out, "ok");
    buffer_free(&text);
}

/* ---- Readiness ---- */

/* What a connection leads to, or why it is down. */
static void link_text(struct vitals *v, enum link_name link, char out[VITALS_TEXT_MAX])
{
    vitals_text(v, link, out);
    if (!*out)
        snprintf(out, VITALS_TEXT_MAX, "%s",
                 link == LINK_SOURCE ? "waits for the store and the destination" : "not tried yet");
}

/* Adds one that is not reached; `route` NULL: completions.queue is not. */
static void add_missing(cJSON *missing, const char *route, size_t worker, struct vitals *v,
                        enum link_name link)
{
    char why[VITALS_TEXT_MAX];
    link_text(v, link, why);
    cJSON *entry = cJSON_CreateObject();
    cJSON_AddStringToObject(entry, "who", route ? "route" : "completions");
    if (route) {
        cJSON_AddStringToObject(entry, "route", route);
        cJSON_AddNumberToObject(entry, "worker", (double)worker);
    }
    cJSON_AddStringToObject(entry, "link", link_name_text(link));
    cJSON_AddStringToObject(entry, "why", why);
    cJSON_AddItemToArray(missing, entry);
}

static cJSON *find_missing(const struct admin_served *s)
{
    static const enum link_name needed[] = {LINK_STORE, LINK_SINK, LINK_SOURCE};
    cJSON *missing = cJSON_CreateArray();
    for (size_t i = 0; i < s->config->route_count; i++)
        for (size_t k = 0; k < s->stats[i]->worker_count; k++)
            for (size_t n = 0; n < sizeof needed / sizeof *needed; n++) {
                struct vitals *v = &s->stats[i]->workers[k];
                if (!vitals_is_up(v, needed[n]))
                    add_missing(missing, s->config->routes[i].name, k, v, needed[n]);
            }
    for (size_t n = 1; s->reports && n < sizeof needed / sizeof *needed; n++)
        if (!vitals_is_up(&s->reports->vitals, needed[n]))
            add_missing(missing, NULL, 0, &s->reports->vitals, needed[n]);
    return missing;
}

void admin_ready(struct admin_served *s, const struct admin_request *r, struct admin_answer *out)
{
    (void)r;
    if (atomic_load(&s->stopping)) {
        admin_problem(out, 503, "stopping");
        return;
    }
    cJSON *missing = find_missing(s);
    if (cJSON_GetArraySize(missing) == 0) {
        cJSON_Delete(missing);
        status_ok(out, "ready");
        return;
    }
    admin_problem(out, 503, "not everything is reached: see not_reached");
    cJSON *problem = cJSON_ParseWithLength((const char *)out->body.data, out->body.len);
    cJSON_AddItemToObject(problem, "not_reached", missing);
    admin_json(out, 503, problem);
}

/* ---- Metrics ---- */

void admin_metrics(struct admin_served *s, const struct admin_request *r, struct admin_answer *out)
{
    (void)r;
    metrics_write(s->config, s->stats, s->reports, clock_now(), &out->body);
    out->status = 200;
    out->content_type = METRICS_CONTENT_TYPE;
}

/* ---- Routes ---- */

static void add_link(cJSON *links, struct vitals *v, enum link_name name)
{
    char text[VITALS_TEXT_MAX];
    bool up = vitals_is_up(v, name);
    link_text(v, name, text);
    cJSON *link = cJSON_AddObjectToObject(links, link_name_text(name));
    cJSON_AddBoolToObject(link, "up", up);
    cJSON_AddStringToObject(link, up ? "to" : "why", text);
}

static void add_links(cJSON *worker, const struct route_config *route, struct vitals *v)
{
    cJSON *links = cJSON_AddObjectToObject(worker, "links");
    for (size_t i = 0; i < LINK_COUNT; i++)
        if (i != LINK_REPLIES || route->reply)
            add_link(links, v, (enum link_name)i);
}

static void add_messages(cJSON *worker, const struct vitals *v, int64_t now)
{
    cJSON *messages = cJSON_AddObjectToObject(worker, "messages");
    for (size_t p = 0; p < PLACE_GONE; p++)
        cJSON_AddNumberToObject(
            messages, place_name((enum place)p),
            (double)atomic_load_explicit(&v->messages[p], memory_order_relaxed));
    int64_t oldest = atomic_load_explicit(&v->oldest, memory_order_relaxed);
    cJSON_AddNumberToObject(worker, "oldest_message_ms",
                            oldest && now > oldest ? (double)(now - oldest) : 0);
    const char *holding = atomic_load_explicit(&v->holding, memory_order_relaxed);
    if (holding)
        cJSON_AddStringToObject(worker, "holding", holding);
}

static void add_workers(cJSON *object, const struct route_config *route,
                        const struct route_stats *stats)
{
    int64_t now = clock_now();
    cJSON *workers = cJSON_AddArrayToObject(object, "workers");
    for (size_t i = 0; i < stats->worker_count; i++) {
        struct vitals *v = &stats->workers[i];
        cJSON *worker = cJSON_CreateObject();
        cJSON_AddNumberToObject(worker, "turned_ms_ago", (double)vitals_still(v, now));
        cJSON_AddBoolToObject(worker, "blocked",
                              atomic_load_explicit(&v->blocked, memory_order_relaxed));
        cJSON_AddBoolToObject(worker, "endangered",
                              atomic_load_explicit(&v->endangered, memory_order_relaxed));
        add_links(worker, route, v);
        add_messages(worker, v, now);
        cJSON_AddItemToArray(workers, worker);
    }
}

static void add_counters(cJSON *object, const struct route_stats *stats)
{
    cJSON *counters = cJSON_AddObjectToObject(object, "counters");
    for (size_t i = 0; i < STAT_COUNT; i++)
        cJSON_AddNumberToObject(counters, stats_name((enum stat)i),
                                (double)stats_get(stats, (enum stat)i));
}

static cJSON *describe_route(const struct route_config *route, const struct route_stats *stats)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "name", route->name);
    cJSON *from = cJSON_AddObjectToObject(object, "from");
    cJSON_AddStringToObject(from, "queue", route->from.queue);
    cJSON *to = cJSON_AddObjectToObject(object, "to");
    cJSON_AddStringToObject(to, route->to.queue ? "queue" : "exchange",
                            route->to.queue ? route->to.queue : route->to.exchange);
    if (route->to.routing_key)
        cJSON_AddStringToObject(to, "routing_key", route->to.routing_key);
    cJSON *park = cJSON_AddObjectToObject(object, "park");
    cJSON_AddStringToObject(park, "queue", route->park.queue);
    cJSON_AddStringToObject(object, "store", route->store);
    cJSON_AddStringToObject(object, "scope", route->scope);
    cJSON_AddNumberToObject(object, "window_ms", (double)route->window);
    add_counters(object, stats);
    add_workers(object, route, stats);
    return object;
}

/* Of who takes reports from completions.queue. */
static void add_reports(cJSON *object, struct report_stats *reports)
{
    cJSON *completions = cJSON_AddObjectToObject(object, "completions");
    cJSON *links = cJSON_AddObjectToObject(completions, "links");
    add_link(links, &reports->vitals, LINK_SINK);
    add_link(links, &reports->vitals, LINK_SOURCE);
}

void admin_routes(struct admin_served *s, const struct admin_request *r, struct admin_answer *out)
{
    (void)r;
    cJSON *object = cJSON_CreateObject();
    cJSON *routes = cJSON_AddArrayToObject(object, "routes");
    for (size_t i = 0; i < s->config->route_count; i++)
        cJSON_AddItemToArray(routes, describe_route(&s->config->routes[i], s->stats[i]));
    cJSON_AddStringToObject(object, "version", ONLYONCE_VERSION);
    cJSON_AddBoolToObject(object, "stopping", atomic_load(&s->stopping));
    cJSON_AddBoolToObject(object, "writable", s->config->admin.token != NULL);
    if (s->reports)
        add_reports(object, s->reports);
    admin_json(out, 200, object);
}

/* ---- The last ten minutes ---- */

static void describe_history(cJSON *object, struct history *history)
{
    struct history_sample *samples = xcalloc(HISTORY_MAX, sizeof *samples);
    size_t count = history_copy(history, samples);
    int64_t now = clock_now(); /* After the copy, so that no sample is of the future. */
    cJSON *ms_ago = cJSON_AddArrayToObject(object, "ms_ago");
    cJSON *forwarded = cJSON_AddArrayToObject(object, "forwarded");
    cJSON *duplicates = cJSON_AddArrayToObject(object, "duplicates");
    for (size_t i = 0; i < count; i++) {
        cJSON_AddItemToArray(ms_ago, cJSON_CreateNumber((double)(now - samples[i].at)));
        cJSON_AddItemToArray(forwarded, cJSON_CreateNumber((double)samples[i].forwarded));
        cJSON_AddItemToArray(duplicates, cJSON_CreateNumber((double)samples[i].duplicates));
    }
    free(samples);
}

void admin_history(struct admin_served *s, const struct admin_request *r, struct admin_answer *out)
{
    (void)r;
    cJSON *object = cJSON_CreateObject();
    cJSON *routes = cJSON_AddArrayToObject(object, "routes");
    for (size_t i = 0; i < s->config->route_count; i++) {
        cJSON *route = cJSON_CreateObject();
        cJSON_AddStringToObject(route, "name", s->config->routes[i].name);
        describe_history(route, &s->stats[i]->history);
        cJSON_AddItemToArray(routes, route);
    }
    admin_json(out, 200, object);
}

/* ---- Recent messages ---- */

static void add_time(cJSON *object, const char *name, int64_t ms)
{
    char text[RECORD_TIME_MAX];
    if (record_time(ms, text))
        cJSON_AddStringToObject(object, name, text);
}

void admin_recent(struct admin_served *s, const struct admin_request *r, struct admin_answer *out)
{
    struct recent_message *recent = xcalloc(RECENT_MAX, sizeof *recent);
    size_t count = recent_copy(&s->stats[r->route_index]->recent, recent);
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "route", r->route->name);
    cJSON *messages = cJSON_AddArrayToObject(object, "messages");
    for (size_t i = 0; i < count; i++) {
        cJSON *message = cJSON_CreateObject();
        if (*recent[i].key)
            cJSON_AddStringToObject(message, "key", recent[i].key);
        cJSON_AddStringToObject(message, "what", recent[i].what);
        if (recent[i].why)
            cJSON_AddStringToObject(message, "why", recent[i].why);
        add_time(message, "at", recent[i].at);
        add_time(message, "first_seen", recent[i].first_seen);
        cJSON_AddItemToArray(messages, message);
    }
    free(recent);
    admin_json(out, 200, object);
}
