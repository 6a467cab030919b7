/*
 * config - what the configuration file says, read and checked.
 *
 * config_load() reads one YAML file with libyaml, by the table in options.c, and answers either a
 * complete configuration (defaults filled in, every check across fields passed) or error lines,
 * one for each fault found, each naming file, line and field:
 *
 *   /etc/onlyonce/onlyonce.yaml:12: routes[0].window: "24" has no unit; write 24h
 *
 * Durations are milliseconds, sizes are bytes. Texts are NUL-terminated, owned by the
 * configuration, and NULL where the file says nothing and there is no default. The configuration
 * is not changed after loading, so threads share it without locks.
 */
#ifndef ONLYONCE_CONFIG_H
#define ONLYONCE_CONFIG_H

#include "claim.h"
#include "key.h"
#include "log.h"
#include "memory.h"
#include "url.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONFIG_DEFAULT_FILE "/etc/onlyonce/onlyonce.yaml"

enum queue_type { QUEUE_QUORUM, QUEUE_CLASSIC };
enum exchange_type { EXCHANGE_TOPIC, EXCHANGE_DIRECT, EXCHANGE_FANOUT, EXCHANGE_HEADERS };

/* What a route does where it has a choice. */
enum on_missing_key { MISSING_KEY_FORWARD, MISSING_KEY_PARK };
enum on_store_failure { STORE_FAILURE_HOLD, STORE_FAILURE_FORWARD, STORE_FAILURE_PARK };
/* Never _DEFAULT after loading. */
enum on_unroutable { UNROUTABLE_DEFAULT, UNROUTABLE_HOLD, UNROUTABLE_PARK };
enum on_in_doubt { IN_DOUBT_FORWARD, IN_DOUBT_PARK, IN_DOUBT_WAIT };
enum on_duplicate { DUPLICATE_DROP, DUPLICATE_PUBLISH };
enum fingerprint { FINGERPRINT_NONE, FINGERPRINT_BODY, FINGERPRINT_BODY_JSON };
enum on_dead_lettered { DEAD_LETTERED_FORWARD, DEAD_LETTERED_CHECK };

struct strings {
    char **items;
    size_t count;
};

/* Files of certificates and keys, in PEM. */
struct tls_config {
    char *ca;   /* NULL: the certificate authorities that the system trusts */
    char *cert; /* NULL: none is shown; set with key, and only with it */
    char *key;
    bool verify;
    uint8_t digest[32]; /* of the files' contents, so that renewed ones are noticed */
};

struct broker_config {
    struct strings urls;
    struct broker_url *parsed; /* urls.count of them, username and password already decided */
    char *username;
    char *password;
    int64_t heartbeat;
    struct tls_config tls; /* amqps:// */
};

/* What SQLite waits for before a transaction counts. */
enum synchronous { SYNCHRONOUS_FULL, SYNCHRONOUS_NORMAL };

struct store_config {
    char *name;
    char *url;
    struct store_url parsed;
    char *username; /* wins over the URL's, as password does; parsed holds the outcome for Redis */
    char *password;
    char *prefix;
    int64_t timeout;
    int64_t session;
    struct tls_config tls; /* rediss:// */
    struct {
        char *username; /* NULL: none */
        char *password;
    } sentinel;                   /* how to log in to Sentinels */
    int64_t wait_replicas;        /* Redis */
    enum synchronous synchronous; /* SQLite */
};

/* HTTP. */
struct admin_config {
    char *listen;        /* NULL: nowhere */
    char *token;         /* NULL: none */
    struct host_port at; /* listen, parsed */
};

struct log_config {
    enum log_level level;
    enum log_format format;
};

/* Where workers report. */
struct completions_config {
    char *queue; /* NULL: nowhere */
    char *park;  /* "<queue>.parked", unless set */
};

struct route_config {
    char *name;
    char *scope; /* the name, unless set */
    char *store; /* the name of a store; the only one, unless set */
    const struct store_config *store_config;
    int64_t workers;
    struct {
        char *queue;
        char *exchange;
        enum exchange_type exchange_type;
        struct strings bindings;
        enum queue_type queue_type;
        bool declare;
        int64_t prefetch;
        int64_t buffer;
    } from;
    struct {
        char *queue;       /* exactly one of queue */
        char *exchange;    /* and exchange is set */
        char *routing_key; /* NULL: the message's own */
        enum queue_type queue_type;
        bool type_is_written; /* in the file: queue_type is not the default */
        bool declare;
        int64_t unconfirmed;
    } to;
    struct {
        char *queue; /* "<from.queue>.parked", unless set */
        enum queue_type queue_type;
    } park;
    struct strings key;
    struct key_rule *key_rule; /* key, compiled */
    int64_t window;
    char *window_header;
    int64_t max_window; /* window, unless set */
    bool sliding;
    int64_t window_completed; /* -1: the rest of the window */
    enum fingerprint fingerprint;
    enum on_conflict on_conflict;
    enum on_duplicate on_duplicate;
    struct {
        char *exchange;    /* set if on_duplicate is to publish */
        char *routing_key; /* NULL: the message's own */
    } duplicates;
    bool reply;
    enum on_missing_key on_missing_key;
    enum on_store_failure on_store_failure;
    enum on_unroutable on_unroutable;
    enum on_in_doubt on_in_doubt;
    int64_t in_doubt_wait;
    enum on_dead_lettered on_dead_lettered;
    int64_t hold_limit;
};

struct config {
    size_t holders; /* besides the first one; of one thread, as is whoever frees it */
    char *file;
    struct broker_config broker;
    struct store_config *stores;
    size_t store_count;
    struct completions_config completions;
    struct admin_config admin;
    struct log_config log;
    struct route_config *routes;
    size_t route_count;
    struct strings warnings; /* to log at start: a window below an hour, a memory: store, ... */
};

/* The configuration of `file`, or NULL with at least one line, each ended by '\n', in *errors. */
struct config *config_load(const char *file, struct buffer *errors)
    __attribute__((warn_unused_result));
/* Each holder frees it, and the last one does so indeed. NULL is fine. All from one thread. */
struct config *config_hold(struct config *config);
void config_free(struct config *config);

/* The route of that name, or NULL. */
const struct route_config *config_route(const struct config *config, const char *name);

/* The name, if it is that of an inbound, work or parking queue of any route, or of one of the
 * completions' queues; or NULL. */
const char *config_queue(const struct config *config, struct span name);
/*
 * What a change of the configuration leaves as it is: a route, if nothing differs that it depends
 * on (its fields, its store's, the broker's, contents of certificates); the taking of reports; how
 * a route finds keys; all.
 */
bool config_same_route(const struct config *a, const struct route_config *route_a,
                       const struct config *b, const struct route_config *route_b);
bool config_same_reports(const struct config *a, const struct config *b);
bool config_same_key(const struct route_config *a, const struct route_config *b);
bool config_same(const struct config *a, const struct config *b);

#endif
