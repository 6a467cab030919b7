#include "topology.h"

#include "refusal.h"

#include <stdio.h>

#define CHANNEL 1
#define UNLIMITED_DELIVERIES 40000 /* the version from which x-delivery-limit -1 means that */

struct thing {
    const char *kind; /* queue or exchange */
    const char *name;
};

/* The code with which the broker closed the channel, if that is its last word; 0: it is not, or did
 * not. */
static unsigned refusal(amqp_rpc_reply_t reply)
{
    struct refusal r;
    return refusal_of_reply(reply, &r) && r.channel && refusal_is_final(&r) ? r.code : 0;
}

static bool check(struct link *l, amqp_rpc_reply_t reply, const char *doing, struct thing t)
{
    if (reply.reply_type == AMQP_RESPONSE_NORMAL)
        return true;
    char what[640];
    snprintf(what, sizeof what, "%s %s '%s' as user '%s'", doing, t.kind, t.name, link_user(l));
    link_rpc_failed(l, reply, what);
    return false;
}

static amqp_rpc_reply_t declare_queue(struct link *l, const char *name, bool passive,
                                      amqp_table_t arguments)
{
    amqp_queue_declare(link_library(l), CHANNEL, amqp_cstring_bytes(name), passive, 1, 0, 0,
                       arguments);
    return amqp_get_rpc_reply(link_library(l));
}

static amqp_rpc_reply_t declare_exchange(struct link *l, const char *name, bool passive,
                                         enum exchange_type type)
{
    static const char *const names[] = {[EXCHANGE_TOPIC] = "topic",
                                        [EXCHANGE_DIRECT] = "direct",
                                        [EXCHANGE_FANOUT] = "fanout",
                                        [EXCHANGE_HEADERS] = "headers"};
    amqp_exchange_declare(link_library(l), CHANNEL, amqp_cstring_bytes(name),
                          amqp_cstring_bytes(names[type]), passive, 1, 0, 0, amqp_empty_table);
    return amqp_get_rpc_reply(link_library(l));
}

/* Passing over what is missing needs the channel anew: the broker closed it. */
static bool found_or_missing(struct link *l, amqp_rpc_reply_t reply, struct thing t, bool *missing)
{
    *missing = refusal(reply) == AMQP_NOT_FOUND;
    return *missing ? link_reopen_channel(l) : check(l, reply, "looking for", t);
}

static amqp_table_entry_t text_argument(const char *key, const char *value)
{
    amqp_table_entry_t e = {.key = amqp_cstring_bytes(key)};
    e.value.kind = AMQP_FIELD_KIND_UTF8;
    e.value.value.bytes = amqp_cstring_bytes(value);
    return e;
}

#define ARGUMENTS_MAX 4

/* `parking`: the queue to dead-letter to, or NULL. */
static amqp_table_t queue_arguments(struct link *l, enum queue_type type, const char *parking,
                                    amqp_table_entry_t entries[ARGUMENTS_MAX])
{
    int n = 0;
    entries[n++] = text_argument("x-queue-type", type == QUEUE_QUORUM ? "quorum" : "classic");
    if (type == QUEUE_QUORUM && parking) {
        entries[n++] = text_argument("x-dead-letter-exchange", "");
        entries[n++] = text_argument("x-dead-letter-routing-key", parking);
        if (link_broker_version(l) >= UNLIMITED_DELIVERIES) {
            entries[n] = (amqp_table_entry_t){.key = amqp_cstring_bytes("x-delivery-limit")};
            entries[n].value.kind = AMQP_FIELD_KIND_I64;
            entries[n++].value.value.i64 = -1;
        }
    }
    return (amqp_table_t){.num_entries = n, .entries = entries};
}

static bool ensure_queue(struct link *l, const char *name, enum queue_type type,
                         const char *parking, bool declare)
{
    struct thing t = {"queue", name};
    amqp_rpc_reply_t reply = declare_queue(l, name, true, amqp_empty_table);
    bool missing;
    if (!declare)
        return check(l, reply, "looking for", t);
    if (!found_or_missing(l, reply, t, &missing))
        return false;
    amqp_table_entry_t entries[ARGUMENTS_MAX];
    return !missing ||
           check(l, declare_queue(l, name, false, queue_arguments(l, type, parking, entries)),
                 "declaring", t);
}

static bool exchange_exists(struct link *l, const char *name)
{
    return check(l, declare_exchange(l, name, true, EXCHANGE_TOPIC), "looking for",
                 (struct thing){"exchange", name});
}

static bool ensure_exchange(struct link *l, const char *name, enum exchange_type type)
{
    struct thing t = {"exchange", name};
    bool missing;
    if (!found_or_missing(l, declare_exchange(l, name, true, type), t, &missing))
        return false;
    return !missing || check(l, declare_exchange(l, name, false, type), "declaring", t);
}

static bool bind_queue(struct link *l, const struct route_config *route)
{
    for (size_t i = 0; i < route->from.bindings.count; i++) {
        amqp_queue_bind(link_library(l), CHANNEL, amqp_cstring_bytes(route->from.queue),
                        amqp_cstring_bytes(route->from.exchange),
                        amqp_cstring_bytes(route->from.bindings.items[i]), amqp_empty_table);
        if (!check(l, amqp_get_rpc_reply(link_library(l)), "binding",
                   (struct thing){"queue", route->from.queue}))
            return false;
    }
    return true;
}

static bool ensure_parking(struct link *l, const struct route_config *route)
{
    return ensure_queue(l, route->park.queue, route->park.queue_type, NULL, route->from.declare);
}

static bool ensure_inbound(struct link *l, const struct route_config *route)
{
    return ensure_queue(l, route->from.queue, route->from.queue_type, route->park.queue,
                        route->from.declare);
}

static bool ensure_inbound_exchange(struct link *l, const struct route_config *route)
{
    if (!route->from.exchange)
        return true;
    if (!route->from.declare)
        return exchange_exists(l, route->from.exchange);
    return ensure_exchange(l, route->from.exchange, route->from.exchange_type) &&
           bind_queue(l, route);
}

bool topology_source(struct link *l, const struct route_config *route, enum link_failure *failure)
{
    bool done =
        ensure_parking(l, route) && ensure_inbound(l, route) && ensure_inbound_exchange(l, route);
    *failure = link_how_failed(l);
    return done;
}

bool topology_dead_letters(struct link *l, const struct route_config *route, bool *dead_letters,
                           enum link_failure *failure)
{
    *dead_letters = false;
    if (!route->from.declare || route->from.queue_type != QUEUE_QUORUM)
        return true;
    amqp_table_entry_t entries[ARGUMENTS_MAX];
    amqp_rpc_reply_t reply =
        declare_queue(l, route->from.queue, false,
                      queue_arguments(l, route->from.queue_type, route->park.queue, entries));
    *dead_letters = reply.reply_type == AMQP_RESPONSE_NORMAL;
    bool done;
    if (refusal(reply) == AMQP_PRECONDITION_FAILED || refusal(reply) == AMQP_ACCESS_REFUSED)
        done = link_reopen_channel(l);
    else
        done = check(l, reply, "declaring", (struct thing){"queue", route->from.queue});
    *failure = link_how_failed(l);
    return done;
}

bool topology_sink(struct link *l, const struct route_config *route, enum link_failure *failure)
{
    bool done = ensure_parking(l, route) &&
                (route->to.queue ? ensure_queue(l, route->to.queue, route->to.queue_type, NULL,
                                                route->to.declare)
                                 : exchange_exists(l, route->to.exchange)) &&
                (!route->duplicates.exchange || exchange_exists(l, route->duplicates.exchange));
    *failure = link_how_failed(l);
    return done;
}

bool topology_look(struct link *l, bool is_queue, const char *name, bool *exists,
                   enum link_failure *failure)
{
    struct thing t = {is_queue ? "queue" : "exchange", name};
    amqp_rpc_reply_t reply = is_queue ? declare_queue(l, name, true, amqp_empty_table)
                                      : declare_exchange(l, name, true, EXCHANGE_TOPIC);
    bool missing = false;
    bool done = found_or_missing(l, reply, t, &missing);
    *exists = done && !missing;
    *failure = link_how_failed(l);
    return done;
}
