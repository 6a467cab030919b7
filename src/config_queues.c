/*
 * config_queues - the queues and exchanges that a configuration names: names that nobody may
 * declare, fields that contradict each other or mean nothing, and names derived from others.
 */
#include "config_inside.h"

/* ---- Of a route ---- */

/* RabbitMQ lets nobody declare these names; exchanges of the listed ones are there from the start.
 */
static void check_reserved(struct check *c, struct path path, const char *name, bool is_exchange,
                           const char *way_out)
{
    static const char *const present[] = {"amq.direct", "amq.fanout", "amq.headers", "amq.match",
                                          "amq.topic"};
    if (!name || strncmp(name, "amq.", 4) != 0)
        return;
    for (size_t i = 0; is_exchange && i < sizeof present / sizeof present[0]; i++)
        if (strcmp(name, present[i]) == 0)
            return;
    faults_add(c->faults, path.text,
               "%s begins with \"amq.\", which is reserved; choose another name%s",
               faults_quote(name).text, way_out);
}

/* Bindings that do not do what they say. */
static void check_bindings(struct check *c, size_t index, const struct route_config *r)
{
    struct path path = route_path(index, "from.bindings");
    enum exchange_type type = r->from.exchange_type;
    if (!is_set(c, path)) {
        if (type == EXCHANGE_DIRECT)
            faults_add(c->faults, path.text,
                       "is missing: a direct exchange needs the routing keys to bind with");
        return;
    }
    if (type == EXCHANGE_FANOUT || type == EXCHANGE_HEADERS)
        warn(c, faults_line(c->faults, path.text,
                            "a %s exchange looks at no routing keys: every message is bound",
                            type == EXCHANGE_FANOUT ? "fanout" : "headers"));
    for (size_t i = 0; type == EXCHANGE_DIRECT && i < r->from.bindings.count; i++)
        if (r->from.bindings.items[i] && strpbrk(r->from.bindings.items[i], "*#"))
            warn(c, faults_line(c->faults, path.text,
                                "a direct exchange takes * and # literally, as in %s",
                                faults_quote(r->from.bindings.items[i]).text));
}

static void check_from(struct check *c, size_t index, const struct route_config *r)
{
    if (r->from.declare) {
        const char *way_out = ", or set declare: false if it exists";
        check_reserved(c, route_path(index, "from.queue"), r->from.queue, false, way_out);
        check_reserved(c, route_path(index, "from.exchange"), r->from.exchange, true, way_out);
    }
    if (r->from.exchange) {
        check_bindings(c, index, r);
        return;
    }
    static const char *const needy[] = {"from.exchange_type", "from.bindings"};
    for (size_t i = 0; i < 2 && !is_set(c, route_path(index, "from.exchange")); i++)
        if (is_set(c, route_path(index, needy[i])))
            faults_add(c->faults, route_path(index, needy[i]).text,
                       "means nothing without from.exchange; set that, or leave this out");
}

static void check_to(struct check *c, size_t index, struct route_config *r)
{
    bool queue = is_set(c, route_path(index, "to.queue"));
    bool exchange = is_set(c, route_path(index, "to.exchange"));
    if (!queue && !exchange)
        faults_add(c->faults, route_path(index, "to").text,
                   "has neither queue nor exchange; write, for example, queue: payments.work");
    if (queue && exchange)
        faults_add(c->faults, route_path(index, "to.exchange").text,
                   "is set, and so is to.queue; leave one of them out");
    if (!exchange && queue && is_set(c, route_path(index, "to.routing_key")))
        faults_add(c->faults, route_path(index, "to.routing_key").text,
                   "needs to.exchange: a queue is reached by its own name");
    static const char *const needy[] = {"to.queue_type", "to.declare"};
    for (size_t i = 0; i < 2 && exchange && !queue; i++)
        if (is_set(c, route_path(index, needy[i])))
            faults_add(c->faults, route_path(index, needy[i]).text,
                       "means nothing without to.queue; leave it out");
    if (r->to.declare)
        check_reserved(c, route_path(index, "to.queue"), r->to.queue, false,
                       ", or set declare: false if it exists");
    r->to.type_is_written = is_set(c, route_path(index, needy[0]));
    if (!is_set(c, route_path(index, "on_unroutable")))
        r->on_unroutable = exchange ? UNROUTABLE_PARK : UNROUTABLE_HOLD;
}

static void check_park(struct check *c, size_t index, struct route_config *r)
{
    struct path path = route_path(index, "park.queue");
    if (!r->park.queue && !is_set(c, path) && r->from.queue) {
        r->park.queue = xasprintf("%s.parked", r->from.queue);
        if (strlen(r->park.queue) > 255)
            faults_add(
                c->faults, path.text,
                "would be from.queue and \".parked\", which is more than AMQP's 255 bytes; set it");
    }
    if (is_set(c, path) || !r->from.declare)
        check_reserved(c, path, r->park.queue, false, "");
    if (same(r->park.queue, r->to.queue))
        faults_add(c->faults, path.text,
                   "is the work queue: workers would get what was parked; write another queue");
}

static void check_duplicates(struct check *c, size_t index, const struct route_config *r)
{
    struct path path = route_path(index, "duplicates.exchange");
    struct path key_path = route_path(index, "duplicates.routing_key");
    bool exchange = is_set(c, path);
    const char *key = r->duplicates.routing_key;
    const char *work_key = r->to.routing_key;
    if (r->on_duplicate == DUPLICATE_PUBLISH && !exchange)
        faults_add(c->faults, path.text,
                   "is missing, and on_duplicate is publish; write, for example, exchange: "
                   "payments.duplicates");
    if (r->on_duplicate == DUPLICATE_DROP && r->duplicates.exchange)
        faults_add(c->faults, path.text,
                   "means nothing without on_duplicate: publish; write that, or leave this out");
    if (!exchange && is_set(c, key_path))
        faults_add(c->faults, key_path.text,
                   "means nothing without duplicates.exchange; set that, or leave this out");
    if (same(r->duplicates.exchange, r->to.exchange) &&
        (same(key, work_key) || (!key && !work_key)))
        warn(c,
             faults_line(c->faults, path.text,
                         "is to.exchange, with the same routing key: workers get the duplicates, "
                         "unless a binding by headers keeps them away"));
}

/* Of a queue that the relay may ask about it is not known yet. */
static void check_doubt(struct check *c, size_t index, const struct route_config *r)
{
    bool certain =
        r->to.queue && r->to.queue_type == QUEUE_QUORUM && (r->to.declare || r->to.type_is_written);
    if (r->on_in_doubt == IN_DOUBT_PARK && !certain)
        warn(c, faults_line(c->faults, route_path(index, "on_in_doubt").text,
                            "parks what a full queue refuses, too: it is certain to be held only "
                            "where to.queue is known to be a quorum queue"));
}

void config_check_queues(struct check *c, size_t index)
{
    struct route_config *r = &c->config->routes[index];
    check_from(c, index, r);
    check_to(c, index, r);
    check_park(c, index, r);
    check_duplicates(c, index, r);
    check_doubt(c, index, r);
}

/* ---- Of the reports ---- */

/* A queue of the completions is used for nothing else. */
static void check_apart(struct check *c, const char *field, const char *name, const char *other,
                        struct path others)
{
    if (same(name, other))
        faults_add(c->faults, field, "%s is %s, too; write another queue", faults_quote(name).text,
                   others.text);
}

void config_check_completions(struct check *c)
{
    struct completions_config *f = &c->config->completions;
    const struct path queue = {"completions.queue"};
    const struct path park = {"completions.park"};
    if (!is_set(c, queue) && is_set(c, park))
        faults_add(c->faults, park.text,
                   "means nothing without completions.queue; set that, or leave this out");
    if (!f->queue)
        return;
    if (!f->park && !is_set(c, park)) {
        f->park = xasprintf("%s.parked", f->queue);
        if (strlen(f->park) > 255)
            faults_add(c->faults, park.text,
                       "would be completions.queue and \".parked\", which is more than AMQP's 255 "
                       "bytes; set it");
    }
    check_reserved(c, queue, f->queue, false, "");
    check_reserved(c, is_set(c, park) ? park : queue, f->park, false, "");
    check_apart(c, park.text, f->park, f->queue, queue);
    for (size_t i = 0; i < c->config->route_count; i++) {
        const struct route_config *r = &c->config->routes[i];
        check_apart(c, queue.text, f->queue, r->from.queue, route_path(i, "from.queue"));
        check_apart(c, queue.text, f->queue, r->to.queue, route_path(i, "to.queue"));
        check_apart(c, queue.text, f->queue, r->park.queue, route_path(i, "park.queue"));
        check_apart(c, park.text, f->park, r->from.queue, route_path(i, "from.queue"));
        check_apart(c, park.text, f->park, r->to.queue, route_path(i, "to.queue"));
    }
}
