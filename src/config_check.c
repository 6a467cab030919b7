#include "config_check.h"

#include "config_inside.h"

#include <inttypes.h>
#include <stdlib.h>

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)

/* ---- A route by itself ---- */

static void choose_store(struct check *c, size_t index, struct route_config *r)
{
    struct config *config = c->config;
    struct path path = route_path(index, "store");
    if (!r->store && is_set(c, path))
        return;
    if (!r->store && config->store_count == 1 && config->stores[0].name)
        r->store = xstrdup(config->stores[0].name);
    struct buffer names = {0};
    for (size_t i = 0; i < config->store_count; i++) {
        const char *name = config->stores[i].name;
        if (same(r->store, name))
            r->store_config = &config->stores[i];
        if (name)
            buffer_printf(&names, "%s%s", names.len ? ", " : "", name);
    }
    if (!r->store && config->store_count > 1)
        faults_add(c->faults, path.text,
                   "is missing, and there are several stores; write one of %.*s", (int)names.len,
                   (const char *)names.data);
    else if (r->store && !r->store_config && names.len)
        faults_add(c->faults, path.text, "%s is no store's name; write one of %.*s",
                   faults_quote(r->store).text, (int)names.len, (const char *)names.data);
    buffer_free(&names);
}

/* A rule's faults come one at a time: a faulty line gives way to a good one, and the others are
 * tried again. */
static void compile_key(struct check *c, size_t index, struct route_config *r)
{
    char good[] = "good = message_id";
    size_t count = r->key.count;
    char **lines = xcalloc(count, sizeof *lines);
    for (size_t i = 0; i < count; i++)
        lines[i] = r->key.items[i] ? r->key.items[i] : good;
    while (count > 0 && !r->key_rule) {
        char error[256] = "";
        size_t bad = 0;
        r->key_rule = key_compile(lines, count, &bad, error);
        if (r->key_rule)
            break;
        char *item = xasprintf("%s[%zu]", route_path(index, "key").text, bad);
        faults_add(c->faults, item, "%s", error);
        free(item);
        if (lines[bad] == good || count > KEY_MAX_ALTERNATIVES)
            break;
        lines[bad] = good;
    }
    free(lines);
}

/* What follows from the window where nothing else is written. */
static void derive_windows(struct check *c, size_t index, struct route_config *r)
{
    struct path path = route_path(index, "max_window");
    if (!is_set(c, path))
        r->max_window = r->window;
    else if (!r->window_header)
        faults_add(c->faults, path.text, "means nothing without window_header; set that, too");
    if (!is_set(c, route_path(index, "window_completed")))
        r->window_completed = -1;
    if (r->on_conflict != CONFLICT_PARK && r->fingerprint == FINGERPRINT_NONE)
        faults_add(c->faults, route_path(index, "on_conflict").text,
                   "means nothing without fingerprint; write fingerprint: body or body:json");
    if (r->on_in_doubt == IN_DOUBT_WAIT && r->hold_limit && r->in_doubt_wait > r->hold_limit / 2)
        faults_add(c->faults, route_path(index, "in_doubt_wait").text,
                   "must be at most half of hold_limit, after which everything is given back");
}

/* RabbitMQ's consumer timeout is 30 minutes. When it is over, the channel is closed, or, from 4.3
 * on, the consumer cancelled; from then on for quorum queues alone. */
static void check_times(struct check *c, size_t index, const struct route_config *r)
{
    if (r->window && r->window < HOUR)
        warn(c, faults_line(c->faults, route_path(index, "window").text,
                            "is below an hour: a message that is redelivered or held for longer is "
                            "new, and forwarded again"));
    if (r->hold_limit > 15 * MINUTE)
        warn(c, faults_line(c->faults, route_path(index, "hold_limit").text,
                            "is above 15m, half of RabbitMQ's default consumer timeout: raise "
                            "consumer_timeout there, or the broker takes everything back"));
}

/* ---- Routes among each other ---- */

static void compare_routes(struct check *c, size_t index, size_t earlier)
{
    const struct route_config *r = &c->config->routes[index];
    const struct route_config *other = &c->config->routes[earlier];
    if (same(r->name, other->name))
        faults_add(c->faults, route_path(index, "name").text,
                   "%s is the name of routes[%zu], too; names differ", faults_quote(r->name).text,
                   earlier);
    if (same(r->from.queue, other->from.queue))
        faults_add(c->faults, route_path(index, "from.queue").text,
                   "%s is the inbound queue of routes[%zu], too; a queue has one route",
                   faults_quote(r->from.queue).text, earlier);
    if (same(r->scope, other->scope) && r->store_config && other->store_config &&
        r->store_config != other->store_config)
        warn(c, faults_line(c->faults, route_path(index, "scope").text,
                            "%s is the scope of routes[%zu], too, but in another store: their keys "
                            "do not meet",
                            faults_quote(r->scope).text, earlier));
}

static void check_route(struct check *c, size_t index)
{
    struct route_config *r = &c->config->routes[index];
    if (!r->scope && r->name && !is_set(c, route_path(index, "scope")))
        r->scope = xstrdup(r->name);
    choose_store(c, index, r);
    compile_key(c, index, r);
    config_check_queues(c, index);
    derive_windows(c, index, r);
    check_times(c, index, r);
    for (size_t i = 0; i < index; i++)
        compare_routes(c, index, i);
}

void config_check(struct config *config, struct faults *faults)
{
    struct check c = {.config = config, .faults = faults};
    config_check_broker(&c);
    config_check_admin(&c);
    for (size_t i = 0; i < config->store_count && !faults_full(faults); i++)
        config_check_store(&c, i);
    for (size_t i = 0; i < config->route_count && !faults_full(faults); i++)
        check_route(&c, i);
    config_check_completions(&c);
    config_check_leads(&c);
}
