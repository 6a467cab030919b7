/*
 * admin_inside - what admin.c and the admin_*.c share: requests, answers, and what is served. No
 * other file but their tests includes it. Nothing in here knows of libmicrohttpd.
 */
#ifndef ONLYONCE_ADMIN_INSIDE_H
#define ONLYONCE_ADMIN_INSIDE_H

#include "config.h"
#include "stats.h"
#include "store.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define ADMIN_DIGEST_SIZE 32

/* The store of a route, opened by the first request that needs it. */
struct admin_store {
    pthread_mutex_t lock;
    struct store *store;
    int64_t used; /* clock_now() when it was used last */
};

/* What is served, and to whom. */
struct admin_served {
    const struct config *config;
    struct route_stats *const *stats; /* of each route */
    struct report_stats *reports;
    struct admin_store *stores;       /* of each route */
    bool loopback;                    /* nobody but this host can connect */
    uint8_t token[ADMIN_DIGEST_SIZE]; /* its digest, if the configuration has one */
    char *policy;                     /* Content-Security-Policy of the status page */
    atomic_bool stopping;
};

void admin_served_init(struct admin_served *s, const struct config *config,
                       struct route_stats *const *stats, struct report_stats *reports,
                       bool loopback);
void admin_served_free(struct admin_served *s);

/* The texts are as they came, percent encoding included; NULL: there is none. */
struct admin_request {
    const char *method;
    const char *path;
    const char *authorization; /* the header */
    const char *host;          /* likewise */
    const char *force;         /* of the query */
    const char *first_seen;    /* likewise */
    const char *stray;         /* likewise: one of another name, or without a value */
    struct span body;
    bool body_too_large; /* it is cut then */

    /* Found out by admin_answer(). */
    const struct route_config *route; /* that the path names, or NULL */
    size_t route_index;
    char key[KEY_TEXT_MAX + 1]; /* likewise, or "" */
};

struct admin_answer {
    unsigned status;
    const char *content_type;
    const char *allow;  /* 405 */
    const char *policy; /* a page: what a browser may do with it */
    bool challenge;     /* 401: says how to log in */
    bool wrong_token;
    struct buffer body;
};

/* Any request gets an answer. Its body is to be freed with buffer_free(). */
void admin_answer(struct admin_served *s, struct admin_request *r, struct admin_answer *out);

/* An error, as RFC 9457 has it. */
void admin_problem(struct admin_answer *out, unsigned status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The policy of the status page, to be freed. */
char *admin_page_policy(void) __attribute__((returns_nonnull, warn_unused_result));

struct cJSON;
/* Writes the object as the answer's body, and frees it. */
void admin_json(struct admin_answer *out, unsigned status, struct cJSON *object);

/* One for each path and method. */
typedef void admin_handler(struct admin_served *s, const struct admin_request *r,
                           struct admin_answer *out);
admin_handler admin_page;
admin_handler admin_health, admin_ready, admin_metrics;
admin_handler admin_routes, admin_recent, admin_history;
admin_handler admin_key_status, admin_key_complete, admin_key_release;

#endif
