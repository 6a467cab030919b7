#include "topology.h"

#include <stdio.h>
#include <string.h>

/* From RabbitMQ 4.0 on a quorum queue has a delivery limit, of 20, and x-delivery-limit -1 means
 * none. An older broker would take that for a limit that each return exceeds. */
#define DELIVERY_LIMITS 40000

struct thing {
    const char *kind; /* queue or exchange */
    const char *name;
};

/* Asks `rpc` of the broker, about `t`. False: the link is down. *refused: see link_rpc(). */
static bool ask(struct link *l, struct link_rpc rpc, struct thing t, unsigned *refused)
{
    char doing[640];
    snprintf(doing, sizeof doing, "%s %s '%s' as %s", rpc.doing, t.kind, t.name, link_whom(l));
    rpc.doing = doing;
    return link_rpc(l, &rpc, refused);
}

/* How to take a no: it takes the link down, or is an answer. */
static const unsigned no_is_fatal[2] = {0};
static const unsigned may_be_missing[2] = {AMQP_NOT_FOUND};
static const unsigned may_differ[2] = {AMQP_PRECONDITION_FAILED, AMQP_ACCESS_REFUSED};

static bool declare_queue(struct link *l, const char *name, const amqp_table_t *arguments,
                          const unsigned spared[2], unsigned *refused)
{
    amqp_queue_declare_t declare = {.queue = amqp_cstring_bytes(name),
                                    .passive = !arguments,
                                    .durable = 1,
                                    .arguments = arguments ? *arguments : amqp_empty_table};
    struct link_rpc rpc = {.doing = arguments ? "declaring" : "looking for",
                           .id = AMQP_QUEUE_DECLARE_METHOD,
                           .method = &declare,
                           .reply = AMQP_QUEUE_DECLARE_OK_METHOD,
                           .spared = {spared[0], spared[1]}};
    return ask(l, rpc, (struct thing){"queue", name}, refused);
}

static bool declare_exchange(struct link *l, const char *name, const enum exchange_type *type,
                             const unsigned spared[2], unsigned *refused)
{
    static const char *const names[] = {[EXCHANGE_TOPIC] = "topic",
                                        [EXCHANGE_DIRECT] = "direct",
                                        [EXCHANGE_FANOUT] = "fanout",
                                        [EXCHANGE_HEADERS] = "headers"};
    amqp_exchange_declare_t declare = {.exchange = amqp_cstring_bytes(name),
                                       .type =
                                           amqp_cstring_bytes(names[type ? *type : EXCHANGE_TOPIC]),
                                       .passive = !type,
                                       .durable = 1};
    struct link_rpc rpc = {.doing = type ? "declaring" : "looking for",
                           .id = AMQP_EXCHANGE_DECLARE_METHOD,
                           .method = &declare,
                           .reply = AMQP_EXCHANGE_DECLARE_OK_METHOD,
                           .spared = {spared[0], spared[1]}};
    return ask(l, rpc, (struct thing){"exchange", name}, refused);
}

static amqp_table_entry_t text_argument(const char *key, const char *value)
{
    amqp_table_entry_t e = {.key = amqp_cstring_bytes(key)};
    e.value.kind = AMQP_FIELD_KIND_UTF8;
    e.value.value.bytes = amqp_cstring_bytes(value);
    return e;
}

#define ARGUMENTS_MAX 4

static bool has_limits(const struct link *l)
{
    return link_broker_version(l) >= DELIVERY_LIMITS;
}

/* `parking`: the queue to dead-letter to, or NULL. */
static amqp_table_t queue_arguments(enum queue_type type, const char *parking, bool unlimited,
                                    amqp_table_entry_t entries[ARGUMENTS_MAX])
{
    int n = 0;
    entries[n++] = text_argument("x-queue-type", type == QUEUE_QUORUM ? "quorum" : "classic");
    if (type == QUEUE_QUORUM && parking) {
        entries[n++] = text_argument("x-dead-letter-exchange", "");
        entries[n++] = text_argument("x-dead-letter-routing-key", parking);
        if (unlimited) {
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
    unsigned refused;
    if (!declare_queue(l, name, NULL, declare ? may_be_missing : no_is_fatal, &refused))
        return false;
    amqp_table_entry_t entries[ARGUMENTS_MAX];
    amqp_table_t arguments = queue_arguments(type, parking, has_limits(l), entries);
    return !refused || declare_queue(l, name, &arguments, no_is_fatal, &refused);
}

static bool exchange_exists(struct link *l, const char *name)
{
    unsigned refused;
    return declare_exchange(l, name, NULL, no_is_fatal, &refused);
}

static bool ensure_exchange(struct link *l, const char *name, enum exchange_type type)
{
    unsigned refused;
    return declare_exchange(l, name, NULL, may_be_missing, &refused) &&
           (!refused || declare_exchange(l, name, &type, no_is_fatal, &refused));
}

static bool bind_queue(struct link *l, const struct route_config *route)
{
    bool bound = true;
    for (size_t i = 0; bound && i < route->from.bindings.count; i++) {
        unsigned refused;
        amqp_queue_bind_t bind = {.queue = amqp_cstring_bytes(route->from.queue),
                                  .exchange = amqp_cstring_bytes(route->from.exchange),
                                  .routing_key = amqp_cstring_bytes(route->from.bindings.items[i])};
        struct link_rpc rpc = {.doing = "binding",
                               .id = AMQP_QUEUE_BIND_METHOD,
                               .method = &bind,
                               .reply = AMQP_QUEUE_BIND_OK_METHOD};
        bound = ask(l, rpc, (struct thing){"queue", route->from.queue}, &refused);
    }
    return bound;
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

bool topology_source(struct link *l, const struct route_config *route)
{
    return ensure_parking(l, route) && ensure_inbound(l, route) &&
           ensure_inbound_exchange(l, route);
}

/* A refusal ends with what the queue has, as in: received 'quorum' but current is 'stream'. */
static bool tells_of_stream(const char *refusal)
{
    const char *has = strstr(refusal, "current is");
    return has && strstr(refusal, "x-queue-type") && strstr(has, "'stream'");
}

/* Whether the broker takes the inbound queue's declaration, as that of the queue which is there. */
static bool is_as_declared(struct link *l, const struct route_config *route, bool unlimited,
                           bool *same)
{
    unsigned refused;
    amqp_table_entry_t entries[ARGUMENTS_MAX];
    amqp_table_t arguments =
        queue_arguments(route->from.queue_type, route->park.queue, unlimited, entries);
    bool done = declare_queue(l, route->from.queue, &arguments, may_differ, &refused);
    *same = done && !refused;
    if (refused == AMQP_PRECONDITION_FAILED && tells_of_stream(link_refusal(l)))
        link_refuse(
            l,
            "queue '%s' is a stream, which keeps what is acknowledged, and shows a consumer "
            "nothing of what came before it; take from a quorum or classic queue",
            route->from.queue);
    return link_is_up(l);
}

bool topology_dead_letters(struct link *l, const struct route_config *route, bool *dead_letters,
                           bool *limited)
{
    *dead_letters = false;
    *limited = false;
    if (!route->from.declare)
        return true;
    bool same;
    bool quorum = route->from.queue_type == QUEUE_QUORUM;
    if (!is_as_declared(l, route, has_limits(l), &same))
        return false;
    *dead_letters = same && quorum;
    if (same || !quorum || !has_limits(l))
        return true;
    bool done = is_as_declared(l, route, false, dead_letters);
    *limited = *dead_letters;
    return done;
}

bool topology_sink(struct link *l, const struct route_config *route)
{
    return ensure_parking(l, route) &&
           (route->to.queue
                ? ensure_queue(l, route->to.queue, route->to.queue_type, NULL, route->to.declare)
                : exchange_exists(l, route->to.exchange)) &&
           (!route->duplicates.exchange || exchange_exists(l, route->duplicates.exchange));
}

bool topology_certain(struct link *l, const struct route_config *route, bool *certain)
{
    unsigned refused;
    bool quorum = route->to.queue && route->to.queue_type == QUEUE_QUORUM;
    *certain = quorum && route->to.type_is_written;
    /* A queue that is not ours to make may be deleted at any time: our question would make it. */
    if (!quorum || !route->to.declare)
        return true;
    amqp_table_entry_t entries[ARGUMENTS_MAX];
    amqp_table_t arguments = queue_arguments(QUEUE_QUORUM, NULL, false, entries);
    if (!declare_queue(l, route->to.queue, &arguments, may_differ, &refused))
        return false;
    /* The broker names one argument that differs. That it is another one says nothing about this.
     */
    if (!refused)
        *certain = true;
    else if (refused == AMQP_PRECONDITION_FAILED && strstr(link_refusal(l), "x-queue-type"))
        *certain = false;
    return true;
}

bool topology_look(struct link *l, bool is_queue, const char *name, bool *exists)
{
    unsigned refused;
    bool done = is_queue ? declare_queue(l, name, NULL, may_be_missing, &refused)
                         : declare_exchange(l, name, NULL, may_be_missing, &refused);
    *exists = done && !refused;
    return done;
}

/* Before the answer to a second question the first one's refusal would come. No queue has an empty
 * name: nothing gets the message. */
bool topology_may_publish(struct link *l, bool *may)
{
    static const uint8_t nothing[14] = {0, AMQP_BASIC_CLASS}; /* no properties, no body */
    unsigned refused;
    amqp_basic_publish_t publish = {0};
    amqp_confirm_select_t select = {0};
    struct link_rpc rpc = {.doing = "trying to publish (an alarm would hold that up)",
                           .id = AMQP_CONFIRM_SELECT_METHOD,
                           .method = &select,
                           .reply = AMQP_CONFIRM_SELECT_OK_METHOD,
                           .spared = {AMQP_ACCESS_REFUSED}};
    link_put_method(l, AMQP_BASIC_PUBLISH_METHOD, &publish);
    link_put_content(l, (struct span){nothing, sizeof nothing}, (struct span){0});
    bool done = link_rpc(l, &rpc, &refused);
    *may = done && !refused;
    return done;
}
