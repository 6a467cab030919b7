#include "report_store.h"

#include "clock.h"
#include "outage.h"

#include <assert.h>
#include <stdlib.h>

struct route_store {
    const char *route;
    struct store *store;
    struct outage outage;
};

struct report_stores {
    struct route_store *items;
    size_t count;
    uint64_t random;
};

struct report_stores *report_stores_new(const struct config *config)
{
    struct report_stores *s = xcalloc(1, sizeof *s);
    s->count = config->route_count;
    s->items = xcalloc(s->count, sizeof *s->items);
    for (size_t i = 0; i < s->count; i++) {
        const struct route_config *route = &config->routes[i];
        s->items[i] = (struct route_store){
            .route = route->name,
            .store = store_new(route->store_config, route->scope),
            .outage = {.route = route->name, .link = "completions store"},
        };
    }
    s->random = (uint64_t)clock_now() * UINT64_C(0x9e3779b97f4a7c15) + 1;
    return s;
}

void report_stores_free(struct report_stores *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++)
        store_free(s->items[i].store);
    free(s->items);
    free(s);
}

void report_stores_close(struct report_stores *s)
{
    for (size_t i = 0; i < s->count; i++)
        store_close(s->items[i].store);
}

static struct route_store *find(const struct report_stores *s, struct span route)
{
    for (size_t i = 0; i < s->count; i++)
        if (span_is(route, s->items[i].route))
            return &s->items[i];
    return NULL;
}

bool report_stores_have(const struct report_stores *s, struct span route)
{
    return find(s, route) != NULL;
}

/* Is the store there? Opens it if it is time to. */
static bool reach(struct report_stores *s, struct route_store *r)
{
    bool permanent;
    if (store_is_open(r->store))
        return true;
    if (!outage_is_due(&r->outage, clock_now()))
        return false;
    if (store_open(r->store, &permanent)) {
        outage_ends(&r->outage, store_describe(r->store));
        return true;
    }
    outage_begins(&r->outage, &s->random, store_error(r->store), false);
    return false;
}

enum report_answer report_stores_apply(struct report_stores *s, const struct report *report,
                                       int64_t *next_try)
{
    struct route_store *r = find(s, report->route);
    assert(r);
    enum report_answer answer = REPORT_UNREACHABLE;
    if (reach(s, r)) {
        answer = report->release
                     ? report_release(r->store, report->key, report->first_seen, false)
                     : report_complete(r->store, report->key, report->first_seen, report->result);
        if (answer == REPORT_UNREACHABLE)
            outage_begins(&r->outage, &s->random, store_error(r->store), false);
    }
    *next_try = r->outage.next_try;
    return answer;
}
