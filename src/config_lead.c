/*
 * config_lead - where copies lead: none may come round to the route that it came from.
 *
 * A route sends copies to its destination, to its parking queue and to its duplicates' exchange.
 * Where these surely arrive in the inbound queue of a route, they go on by all three ways of that
 * route. A message that comes round meets what it met before: what was parked is parked again, or
 * is taken for a duplicate and dropped; a duplicate is a duplicate again. So every circle of
 * routes is refused, whichever ways it goes. What a queue or a binding outside the file leads to
 * is not known here: workers' retries come round as they please.
 */
#include "config_inside.h"

#include <stdlib.h>

/* The ways by which copies leave a route. */
enum lead { LEAD_TO, LEAD_PARK, LEAD_DUPLICATES, LEAD_COUNT };

/* Whether the words of a routing key match a topic exchange's pattern: "*" is one word, "#" any
 * number. On a mismatch only the last "#" can have been too short: it takes one word more. */
static bool topic_matches(const char *pattern, const char *key)
{
    const char *p = *pattern ? pattern : NULL; /* no text has no words */
    const char *k = *key ? key : NULL;
    const char *retry_p = NULL;
    const char *retry_k = NULL;
    for (;;) {
        size_t p_len = p ? strcspn(p, ".") : 0;
        size_t k_len = k ? strcspn(k, ".") : 0;
        const char *k_next = k && k[k_len] ? k + k_len + 1 : NULL;
        if (p && p_len == 1 && *p == '#') {
            retry_p = p = p[1] ? p + 2 : NULL;
            retry_k = k;
        } else if (p && k &&
                   ((p_len == 1 && *p == '*') || (p_len == k_len && memcmp(p, k, k_len) == 0))) {
            p = p[p_len] ? p + p_len + 1 : NULL;
            k = k_next;
        } else if (!p && !k) {
            return true;
        } else if (!retry_k) {
            return false;
        } else {
            size_t len = strcspn(retry_k, ".");
            k = retry_k = retry_k[len] ? retry_k + len + 1 : NULL;
            p = retry_p;
        }
    }
}

/* Whether the bindings of a route surely catch what is published with a routing key (NULL: any). */
static bool catches(const struct route_config *r, const char *key)
{
    if (r->from.exchange_type == EXCHANGE_FANOUT || r->from.exchange_type == EXCHANGE_HEADERS)
        return true;
    for (size_t i = 0; i < r->from.bindings.count; i++) {
        const char *binding = r->from.bindings.items[i];
        if (!binding)
            continue;
        if (r->from.exchange_type == EXCHANGE_DIRECT ? same(key, binding)
            : key                                    ? topic_matches(binding, key)
                                                     : strcmp(binding, "#") == 0)
            return true;
    }
    return false;
}

/* Whether what is published with a routing key (NULL: its own) surely arrives in the inbound queue
 * of a route. What came from there, `back`, was caught by its own routing key before. */
static bool arrives(const char *exchange, const char *key, const struct route_config *r, bool back)
{
    return same(exchange, r->from.exchange) && ((back && !key) || catches(r, key));
}

/* Whether the copies of `a` that go by `lead` surely arrive in the inbound queue of `b`. */
static bool leads_to(const struct route_config *a, enum lead lead, const struct route_config *b)
{
    switch (lead) {
    case LEAD_TO:
        return same(a->to.queue, b->from.queue) ||
               arrives(a->to.exchange, a->to.routing_key, b, a == b);
    case LEAD_PARK: return same(a->park.queue, b->from.queue);
    case LEAD_DUPLICATES:
        return arrives(a->duplicates.exchange, a->duplicates.routing_key, b, a == b);
    case LEAD_COUNT: break;
    }
    return false;
}

static struct path lead_path(const struct config *config, size_t index, enum lead lead)
{
    switch (lead) {
    case LEAD_TO:
        return route_path(index, config->routes[index].to.exchange ? "to.exchange" : "to.queue");
    case LEAD_PARK: return route_path(index, "park.queue");
    case LEAD_DUPLICATES: return route_path(index, "duplicates.exchange");
    case LEAD_COUNT: break;
    }
    return route_path(index, "");
}

/* ---- Straight back ---- */

static void say_straight_back(struct check *c, size_t index, enum lead lead)
{
    const struct route_config *r = &c->config->routes[index];
    struct path path = lead_path(c->config, index, lead);
    bool duplicates = lead == LEAD_DUPLICATES;
    const char *key = duplicates ? r->duplicates.routing_key : r->to.routing_key;
    if (lead == LEAD_PARK)
        faults_add(c->faults, path.text,
                   "is the inbound queue itself: parked messages would come straight back");
    else if (lead == LEAD_TO && r->to.queue)
        faults_add(c->faults, path.text,
                   "is the inbound queue itself: copies would come straight back");
    else if (key)
        faults_add(c->faults, path.text,
                   "leads back to the inbound queue: a binding of from.exchange catches %s",
                   faults_quote(key).text);
    else
        faults_add(c->faults, path.text,
                   "leads back to the inbound queue: a binding of from.exchange catches the "
                   "message's own routing key; set %s.routing_key, or publish elsewhere",
                   duplicates ? "duplicates" : "to");
}

/* ---- In circles ---- */

/* The shortest way from a route to the one that is looked for: in so many steps (0: none is known),
 * of which the first goes by `lead` to route `next`. */
struct way {
    size_t steps;
    enum lead lead;
    size_t next;
};

static bool leads_somehow(const struct route_config *a, const struct route_config *b,
                          enum lead *lead)
{
    for (enum lead l = 0; l < LEAD_COUNT; l++)
        if (leads_to(a, l, b)) {
            *lead = l;
            return true;
        }
    return false;
}

/* Those of the routes behind `end`, over routes behind `end`. */
static struct way *find_ways(const struct config *config, size_t end)
{
    struct way *ways = xcalloc(config->route_count, sizeof *ways);
    size_t *found = xmalloc(config->route_count * sizeof *found);
    size_t count = 1;
    found[0] = end;
    for (size_t done = 0; done < count; done++) {
        size_t next = found[done];
        for (size_t i = end + 1; i < config->route_count; i++) {
            enum lead lead;
            if (ways[i].steps > 0 ||
                !leads_somehow(&config->routes[i], &config->routes[next], &lead))
                continue;
            ways[i] = (struct way){ways[next].steps + 1, lead, next};
            found[count++] = i;
        }
    }
    free(found);
    return ways;
}

static void say_circle(struct check *c, size_t index, enum lead lead, const struct way *ways,
                       size_t next)
{
    struct buffer through = {0};
    for (size_t at = next; at != index; at = ways[at].next)
        buffer_printf(&through, "%s%s", through.len ? ", then " : "",
                      lead_path(c->config, at, ways[at].lead).text);
    faults_add(c->faults, lead_path(c->config, index, lead).text,
               "leads back to %s through %.*s: messages would go round; break the circle",
               route_path(index, "from.queue").text, (int)through.len, (const char *)through.data);
    buffer_free(&through);
}

/* A circle is found at the first of its routes. */
static void check_circles(struct check *c, size_t index)
{
    const struct config *config = c->config;
    const struct route_config *r = &config->routes[index];
    struct way *ways = find_ways(config, index);
    for (enum lead lead = 0; lead < LEAD_COUNT; lead++) {
        size_t next = index;
        if (leads_to(r, lead, r)) {
            say_straight_back(c, index, lead);
            continue;
        }
        for (size_t i = index + 1; i < config->route_count; i++)
            if (ways[i].steps > 0 && leads_to(r, lead, &config->routes[i]) &&
                (next == index || ways[i].steps < ways[next].steps))
                next = i;
        if (next != index)
            say_circle(c, index, lead, ways, next);
    }
    free(ways);
}

void config_check_leads(struct check *c)
{
    for (size_t i = 0; i < c->config->route_count && !faults_full(c->faults); i++)
        check_circles(c, i);
}
