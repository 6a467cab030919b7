#include "options.h"

#include "config.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Words are in the order of their enums. */
static const char *const queue_types[] = {"quorum", "classic", NULL};
static const char *const exchange_types[] = {"topic", "direct", "fanout", "headers", NULL};
static const char *const log_levels[] = {"debug", "info", "warning", "error", NULL};
static const char *const log_formats[] = {"logfmt", "json", NULL};
static const char *const missing_key[] = {"forward", "park", NULL};
static const char *const store_failure[] = {"hold", "forward", "park", NULL};
static const char *const unroutable[] = {"", "hold", "park", NULL};
static const char *const in_doubt[] = {"forward", "park", "wait", NULL};
static const char *const conflict[] = {"park", "drop", "forward", NULL};
static const char *const duplicate[] = {"drop", "publish", NULL};
static const char *const fingerprint[] = {"none", "body", "body:json", NULL};
static const char *const synchronous[] = {"full", "normal", NULL};
static const char *const dead_lettered[] = {"forward", "check", NULL};

/* Enums are stored through int. */
static_assert(sizeof(enum queue_type) == sizeof(int) && sizeof(enum log_level) == sizeof(int),
              "an enum is as wide as int");

/* clang-format off */
#define BROKER(member) offsetof(struct broker_config, member)
#define ADMIN(member) offsetof(struct admin_config, member)
#define STORE(member) offsetof(struct store_config, member)
#define COMPLETIONS(member) offsetof(struct completions_config, member)
#define LOG(member) offsetof(struct log_config, member)
#define ROUTE(member) offsetof(struct route_config, member)

const struct option options[] = {
    {"broker.urls", OPTION_TEXT, OPTION_LIST | OPTION_SECRET | OPTION_REQUIRED, BROKER(urls),
     "amqp://rabbitmq:5672/%2f", NULL, NULL, NULL,
     "The broker, or the nodes of its cluster, tried in turn: amqp://[USER[:PASSWORD]@]HOST[:PORT][/VHOST]. "
     "What is no letter or digit in USER, PASSWORD and VHOST is written %XX; the virtual host / is /%2f, or left out."},
    {"broker.username", OPTION_TEXT, OPTION_DERIVED, BROKER(username), "the URL's, or guest", NULL, NULL, NULL,
     "As it is, unencoded. It wins over the URL's."},
    {"broker.password", OPTION_TEXT, OPTION_DERIVED | OPTION_SECRET, BROKER(password), "the URL's, or guest",
     NULL, NULL, NULL, "As it is, unencoded. It wins over the URL's."},
    {"broker.heartbeat", OPTION_DURATION, 0, BROKER(heartbeat), "10s", "1s", "10m", NULL,
     "How often each side shows that it is alive. A peer that is silent for twice as long is given up."},
    {"broker.tls.ca", OPTION_TEXT, OPTION_DERIVED, BROKER(tls.ca), "what the system trusts", NULL, NULL, NULL,
     "amqps:// only: a file of the certificate authorities to trust, in PEM."},
    {"broker.tls.cert", OPTION_TEXT, OPTION_DERIVED, BROKER(tls.cert), "none", NULL, NULL, NULL,
     "A file with the relay's own certificate, in PEM. Where no username is set, it logs in by it (SASL EXTERNAL)."},
    {"broker.tls.key", OPTION_TEXT, OPTION_DERIVED, BROKER(tls.key), "none", NULL, NULL, NULL,
     "A file with its private key, in PEM."},
    {"broker.tls.verify", OPTION_BOOLEAN, 0, BROKER(tls.verify), "true", NULL, NULL, NULL,
     "Whether the broker's certificate has to be valid, and of that host. false is for tests: anybody can then be "
     "the broker."},

    {"stores[].name", OPTION_NAME, OPTION_REQUIRED, STORE(name), "redis", NULL, NULL, NULL,
     "What routes call it."},
    {"stores[].url", OPTION_TEXT, OPTION_SECRET | OPTION_REQUIRED, STORE(url), "redis://redis:6379/0",
     NULL, NULL, NULL,
     "redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE], or rediss:// with TLS; "
     "redis+sentinel://[[USER]:PASSWORD@]SENTINEL[:PORT],.../MASTER[/DATABASE], or rediss+sentinel://; "
     "sqlite:/FILE, for relays on one host; postgresql://[USER[:PASSWORD]@]HOST[:PORT],.../DATABASE[?PARAMETERS], as "
     "libpq reads it; or memory: for tests: its records are lost at a restart, and seen by one process only."},
    {"stores[].username", OPTION_TEXT, OPTION_DERIVED, STORE(username), "the URL's, or none", NULL, NULL, NULL,
     "As it is, unencoded. It wins over the URL's."},
    {"stores[].password", OPTION_TEXT, OPTION_DERIVED | OPTION_SECRET, STORE(password), "the URL's, or none",
     NULL, NULL, NULL, "As it is, unencoded. It wins over the URL's."},
    {"stores[].prefix", OPTION_PREFIX, 0, STORE(prefix), "onlyonce", NULL, NULL, NULL,
     "What the names of all keys in the store begin with. In PostgreSQL, the schema; in SQLite, what its tables' "
     "names begin with."},
    {"stores[].timeout", OPTION_DURATION, 0, STORE(timeout), "1s", "50ms", "10s", NULL,
     "How long an answer may take. Below a third of session, and no longer than broker.heartbeat."},
    {"stores[].session", OPTION_DURATION, 0, STORE(session), "15s", "3s", "5m", NULL,
     "How long the claims of a worker that died stay its own."},

    {"stores[].tls.ca", OPTION_TEXT, OPTION_DERIVED, STORE(tls.ca), "what the system trusts", NULL, NULL, NULL,
     "rediss:// only: a file of the certificate authorities to trust, in PEM."},
    {"stores[].tls.cert", OPTION_TEXT, OPTION_DERIVED, STORE(tls.cert), "none", NULL, NULL, NULL,
     "A file with the relay's own certificate, for a server that asks for one, in PEM."},
    {"stores[].tls.key", OPTION_TEXT, OPTION_DERIVED, STORE(tls.key), "none", NULL, NULL, NULL,
     "A file with its private key, in PEM."},
    {"stores[].tls.verify", OPTION_BOOLEAN, 0, STORE(tls.verify), "true", NULL, NULL, NULL,
     "Whether the server's certificate has to be valid, and of that host. false is for tests: anybody can then be "
     "the server."},
    {"stores[].sentinel.username", OPTION_TEXT, OPTION_DERIVED, STORE(sentinel.username), "none", NULL, NULL, NULL,
     "redis+sentinel:// only: how to log in to the Sentinels. The URL's names are for the master."},
    {"stores[].sentinel.password", OPTION_TEXT, OPTION_DERIVED | OPTION_SECRET, STORE(sentinel.password), "none",
     NULL, NULL, NULL, "The password for that, as it is."},
    {"stores[].wait_replicas", OPTION_NUMBER, 0, STORE(wait_replicas), "0", "0", "16", NULL,
     "Redis only: how many replicas must have a claim before it counts; if all of them, a failover forgets none. One "
     "WAIT for each batch; while fewer have it, messages are held."},
    {"stores[].synchronous", OPTION_WORD, 0, STORE(synchronous), "full", NULL, NULL, synchronous,
     "SQLite only: full keeps every record when the power fails; normal is faster, and may then forget the last ones."},

    {"admin.listen", OPTION_TEXT, OPTION_DERIVED, ADMIN(listen), "off", NULL, NULL, NULL,
     "ADDRESS:PORT for HTTP: a status page, health, metrics, and the keys. See HTTP."},
    {"admin.token", OPTION_TEXT, OPTION_DERIVED | OPTION_SECRET, ADMIN(token), "none", NULL, NULL, NULL,
     "What requests show as Authorization: Bearer. Without one nothing can be changed, and an address other than "
     "loopback serves health and metrics alone."},

    {"completions.queue", OPTION_ENTITY, OPTION_DERIVED, COMPLETIONS(queue), "none", NULL, NULL, NULL,
     "A queue that workers report to. It is made if it is missing. See REPORTS."},
    {"completions.park", OPTION_ENTITY, OPTION_DERIVED, COMPLETIONS(park), "<completions.queue>.parked",
     NULL, NULL, NULL, "The queue for reports that cannot be followed. It is made if it is missing."},

    {"log.level", OPTION_WORD, 0, LOG(level), "info", NULL, NULL, log_levels, "The least that is logged."},
    {"log.format", OPTION_WORD, 0, LOG(format), "logfmt", NULL, NULL, log_formats,
     "How a line of the log, on standard error, is written."},

    {"routes[].name", OPTION_NAME, OPTION_REQUIRED, ROUTE(name), "payments", NULL, NULL, NULL,
     "What commands, log lines and the copies' x-onlyonce-route call it."},
    {"routes[].scope", OPTION_NAME, OPTION_DERIVED, ROUTE(scope), "the name", NULL, NULL, NULL,
     "The name space of the keys. Equal keys in two scopes never meet; routes that share one on purpose do."},
    {"routes[].store", OPTION_NAME, OPTION_DERIVED, ROUTE(store), "the only store", NULL, NULL, NULL,
     "The name of the store that holds the keys."},
    {"routes[].workers", OPTION_NUMBER, 0, ROUTE(workers), "1", "1", "64", NULL,
     "Threads, each with its own connections. One keeps the order of arrival."},
    {"routes[].from.queue", OPTION_ENTITY, OPTION_REQUIRED, ROUTE(from.queue), "payments.in", NULL, NULL, NULL,
     "The inbound queue."},
    {"routes[].from.exchange", OPTION_ENTITY, OPTION_DERIVED, ROUTE(from.exchange), "none", NULL, NULL, NULL,
     "An exchange to bind the inbound queue to."},
    {"routes[].from.exchange_type", OPTION_WORD, 0, ROUTE(from.exchange_type), "topic", NULL, NULL, exchange_types,
     "Its type, where it has to be made."},
    {"routes[].from.bindings", OPTION_ENTITY, OPTION_LIST | OPTION_MAY_BE_EMPTY, ROUTE(from.bindings), "#",
     NULL, NULL, NULL, "The routing keys to bind with. A direct exchange needs them named: it knows no #."},
    {"routes[].from.queue_type", OPTION_WORD, 0, ROUTE(from.queue_type), "quorum", NULL, NULL, queue_types,
     "The inbound queue's type, where it has to be made."},
    {"routes[].from.declare", OPTION_BOOLEAN, 0, ROUTE(from.declare), "true", NULL, NULL, NULL,
     "Make what is missing, durable. What exists is used as it is. false: it must exist."},
    {"routes[].from.prefetch", OPTION_NUMBER, 0, ROUTE(from.prefetch), "2000", "1", "65535", NULL,
     "Messages that a worker holds at most."},
    {"routes[].from.buffer", OPTION_SIZE, 0, ROUTE(from.buffer), "64MiB", "1MiB", "64GiB", NULL,
     "Bytes of messages that a worker holds; above it, it reads no more."},
    {"routes[].to.queue", OPTION_ENTITY, OPTION_DERIVED, ROUTE(to.queue), "none; this or to.exchange is required",
     NULL, NULL, NULL, "The work queue."},
    {"routes[].to.exchange", OPTION_ENTITY, OPTION_DERIVED, ROUTE(to.exchange), "none; this or to.queue is required",
     NULL, NULL, NULL, "An exchange to publish to instead. It must exist."},
    {"routes[].to.routing_key", OPTION_ENTITY, OPTION_DERIVED | OPTION_MAY_BE_EMPTY, ROUTE(to.routing_key),
     "the message's own", NULL, NULL, NULL, "The routing key to publish to that exchange with."},
    {"routes[].to.queue_type", OPTION_WORD, 0, ROUTE(to.queue_type), "quorum", NULL, NULL, queue_types,
     "The work queue's type: it is made so if it is missing. What a quorum queue "
     "refuses it did not store; what another one refuses is in doubt, and so is what a queue of unknown type "
     "refuses. So write quorum, if it is, for a queue with arguments of its own or with to.declare: false."},
    {"routes[].to.declare", OPTION_BOOLEAN, 0, ROUTE(to.declare), "true", NULL, NULL, NULL,
     "Make the work queue if it is missing. false: it must exist."},
    {"routes[].to.unconfirmed", OPTION_NUMBER, 0, ROUTE(to.unconfirmed), "500", "1", "65535", NULL,
     "Copies in flight, and so the most that one crash leaves in doubt."},
    {"routes[].park.queue", OPTION_ENTITY, OPTION_DERIVED, ROUTE(park.queue), "<from.queue>.parked", NULL, NULL, NULL,
     "The parking queue, for messages that cannot be handled. Like the inbound queue it is made if it is "
     "missing, unless from.declare is false."},
    {"routes[].park.queue_type", OPTION_WORD, 0, ROUTE(park.queue_type), "quorum", NULL, NULL, queue_types,
     "Its type, where it has to be made."},
    {"routes[].key", OPTION_TEXT, OPTION_LIST | OPTION_REQUIRED, ROUTE(key), "message_id", NULL, NULL, NULL,
     "How to find a message's key: alternatives, tried in order. See KEYS."},
    {"routes[].window", OPTION_DURATION, OPTION_REQUIRED, ROUTE(window), "24h", "1s", "3650d", NULL,
     "How long a key blocks, from the moment its message was forwarded. Longer than the longest job, the "
     "delays of its retries, and any time that a message is redelivered or held."},
    {"routes[].window_header", OPTION_TEXT, OPTION_DERIVED, ROUTE(window_header), "none", NULL, NULL, NULL,
     "A header that brings a message's own window, in ms: an integer of any width, or digits."},
    {"routes[].max_window", OPTION_DURATION, OPTION_DERIVED, ROUTE(max_window), "window", "1s", "3650d", NULL,
     "The longest window that a message may bring; a longer one is cut to it."},
    {"routes[].sliding", OPTION_BOOLEAN, 0, ROUTE(sliding), "false", NULL, NULL, NULL,
     "Each duplicate begins its key's window anew."},
    {"routes[].window_completed", OPTION_DURATION, OPTION_DERIVED, ROUTE(window_completed),
     "the rest of window", "0s", "3650d", NULL,
     "How long a key blocks once its message was reported complete, within its window. 0s: it is free at once."},
    {"routes[].fingerprint", OPTION_WORD, 0, ROUTE(fingerprint), "none", NULL, NULL, fingerprint,
     "What two messages of a key must have in common, else they are in conflict: the body's bytes, or its JSON "
     "value (of a body that is not JSON, its bytes)."},
    {"routes[].on_conflict", OPTION_WORD, 0, ROUTE(on_conflict), "park", NULL, NULL, conflict,
     "What becomes of a message whose key is recorded for another content. drop only counts it."},
    {"routes[].on_duplicate", OPTION_WORD, 0, ROUTE(on_duplicate), "drop", NULL, NULL, duplicate,
     "What becomes of a duplicate. publish sends it to duplicates.exchange before it is acknowledged, with "
     "headers that say key, first seen, state and count."},
    {"routes[].duplicates.exchange", OPTION_ENTITY, OPTION_DERIVED, ROUTE(duplicates.exchange),
     "none; on_duplicate: publish requires it", NULL, NULL, NULL,
     "The exchange that duplicates are published to. It must exist, with a queue that takes them: a duplicate "
     "that is returned or refused is held."},
    {"routes[].duplicates.routing_key", OPTION_ENTITY, OPTION_DERIVED | OPTION_MAY_BE_EMPTY,
     ROUTE(duplicates.routing_key), "the message's own", NULL, NULL, NULL,
     "The routing key to publish duplicates with."},
    {"routes[].reply", OPTION_BOOLEAN, 0, ROUTE(reply), "false", NULL, NULL, NULL,
     "Answer a duplicate that has a reply_to with its key's status as JSON, under its correlation_id. An answer "
     "that does not arrive is dropped and counted."},
    {"routes[].on_missing_key", OPTION_WORD, 0, ROUTE(on_missing_key), "forward", NULL, NULL, missing_key,
     "What becomes of a message without a key. forward marks the copy x-onlyonce-no-key."},
    {"routes[].on_store_failure", OPTION_WORD, 0, ROUTE(on_store_failure), "hold", NULL, NULL, store_failure,
     "What becomes of messages while the store is away. hold waits; forward lets them pass, marked "
     "x-onlyonce-unchecked."},
    {"routes[].on_unroutable", OPTION_WORD, OPTION_DERIVED, ROUTE(on_unroutable),
     "hold for to.queue, park for to.exchange", NULL, NULL, unroutable,
     "What becomes of a copy that the broker returns. park: after three returns."},
    {"routes[].on_in_doubt", OPTION_WORD, 0, ROUTE(on_in_doubt), "forward", NULL, NULL, in_doubt,
     "What becomes of a message of which a copy may or may not have arrived. forward marks the next copy "
     "x-onlyonce-in-doubt; wait holds it for the completion of the earlier copy, which makes it a duplicate, "
     "and forwards it, marked, if none comes. park parks it, and with it what a full work queue "
     "refuses, unless that is known to be a quorum queue (to.queue_type)."},
    {"routes[].in_doubt_wait", OPTION_DURATION, 0, ROUTE(in_doubt_wait), "30s", "1s", "1h", NULL,
     "With on_in_doubt: wait, how long to wait for the completion of an earlier copy. At most half of hold_limit."},
    {"routes[].on_dead_lettered", OPTION_WORD, 0, ROUTE(on_dead_lettered), "forward", NULL, NULL, dead_lettered,
     "What becomes of a message that workers dead-lettered and that comes back. forward takes it for a "
     "retry; check parks it."},
    {"routes[].hold_limit", OPTION_DURATION, 0, ROUTE(hold_limit), "10m", "1s", "24h", NULL,
     "How long messages are held unacknowledged before they are given back to the broker. Below half of its "
     "consumer timeout (30 minutes, unless it was changed)."},
};
/* clang-format on */

const size_t options_count = sizeof options / sizeof options[0];

/* ---- Finding rows ---- */

const struct option *options_find(const char *path)
{
    for (size_t i = 0; i < options_count; i++)
        if (strcmp(options[i].path, path) == 0)
            return &options[i];
    return NULL;
}

/* What follows group and joint in a row's path, or NULL. */
static const char *below(const struct option *o, const char *group, const char *joint)
{
    size_t group_len = strlen(group);
    size_t joint_len = strlen(joint);
    if (strncmp(o->path, group, group_len) != 0)
        return NULL;
    const char *rest = o->path + group_len;
    return strncmp(rest, joint, joint_len) == 0 ? rest + joint_len : NULL;
}

bool options_have_group(const char *path, const char *joint)
{
    for (size_t i = 0; i < options_count; i++)
        if (below(&options[i], path, joint))
            return true;
    return false;
}

void options_list_names(const char *group, struct buffer *out)
{
    const char *last = "";
    size_t last_len = 0;
    for (size_t i = 0; i < options_count; i++) {
        const char *name = below(&options[i], group, *group ? "." : "");
        if (!name)
            continue;
        size_t len = strcspn(name, ".[");
        if (len == last_len && strncmp(name, last, len) == 0)
            continue;
        buffer_printf(out, "%s%.*s", last_len ? ", " : "", (int)len, name);
        last = name;
        last_len = len;
    }
}
