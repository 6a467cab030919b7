/*
 * config_servers - the servers that a configuration names, and the one that the relay is itself:
 * who logs in, what only some kinds of servers know, whether the files of TLS can be used, who may
 * reach the HTTP interface.
 */
#include "config_inside.h"
#include "redis_tls.h"
#include "tls.h"

#include <inttypes.h>
#include <stdlib.h>

#define POSTGRES_NAME_MAX 63

static struct path store_path(size_t index, const char *field)
{
    return path_to("stores", index, field);
}

static void replace(char **text, const char *by)
{
    free(*text);
    *text = xstrdup(by);
}

/* ---- TLS ---- */

/* A certificate of one's own comes with its key, TLS fields with TLS, and files can be used. */
static void check_tls(struct check *c, struct path (*path_of)(size_t index, const char *field),
                      size_t index, const struct tls_config *tls, bool used, const char *use)
{
    static const char *const fields[] = {"tls.ca", "tls.cert", "tls.key", "tls.verify"};
    for (size_t i = 0; !used && i < sizeof fields / sizeof fields[0]; i++)
        if (is_set(c, path_of(index, fields[i])))
            faults_add(c->faults, path_of(index, fields[i]).text,
                       "means something only to %s; leave it out", use);
    if (used && !tls->cert != !tls->key)
        faults_add(c->faults, path_of(index, tls->cert ? "tls.cert" : "tls.key").text,
                   "is one half of a pair; set tls.cert and tls.key, or neither");
    const char *field;
    char error[TLS_ERROR_MAX];
    if (used && !tls->cert == !tls->key && tls_check(tls, &field, error))
        faults_add(c->faults, path_of(index, field).text, "%s", error);
    struct path verify = path_of(index, "tls.verify");
    if (used && !tls->verify && is_set(c, verify))
        warn(c, faults_line(c->faults, verify.text,
                            "is false: anybody can pose as the server, and read the password"));
}

/* ---- The broker ---- */

/* Who logs in at one URL of the broker. What the fields say wins over what the URL says. */
static void decide_login(struct check *c, size_t index, struct broker_url *url)
{
    const struct broker_config *b = &c->config->broker;
    const struct path user = {"broker.username"};
    const struct path password = {"broker.password"};
    if (b->username)
        replace(&url->username, b->username);
    if (b->password)
        replace(&url->password, b->password);
    if (url->username && !url->password && !is_set(c, password)) {
        if (!b->username)
            faults_add(
                c->faults, path_to("broker.urls", index, "").text,
                "has a username and no password; write USER:PASSWORD@, or set broker.password");
        else if (index == 0)
            faults_add(c->faults, user.text, "has no password; set broker.password");
    }
    if (url->password && !url->username && !is_set(c, user) && index == 0)
        faults_add(c->faults, password.text, "has no username; set broker.username");
    bool external = url->tls && b->tls.cert; /* the certificate says who it is */
    if (!url->username && !url->password && !external) {
        url->username = xstrdup("guest");
        url->password = xstrdup("guest");
    }
}

static struct path broker_path(size_t index, const char *field)
{
    (void)index;
    struct path p;
    snprintf(p.text, sizeof p.text, "broker.%s", field);
    return p;
}

void config_check_broker(struct check *c)
{
    struct broker_config *b = &c->config->broker;
    bool tls = false;
    b->parsed = xcalloc(b->urls.count, sizeof *b->parsed);
    for (size_t i = 0; i < b->urls.count; i++) {
        struct path path = path_to("broker.urls", i, "");
        char error[256];
        if (!b->urls.items[i])
            continue;
        const char *bad = url_read_broker(b->urls.items[i], &b->parsed[i], error);
        if (bad)
            faults_add(c->faults, path.text, "%s", bad);
        else
            decide_login(c, i, &b->parsed[i]);
        tls = tls || b->parsed[i].tls;
    }
    check_tls(c, broker_path, 0, &b->tls, tls, "amqps://");
}

/* ---- The HTTP interface ---- */

static bool is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 ||
           strcmp(host, "localhost") == 0;
}

void config_check_admin(struct check *c)
{
    struct admin_config *a = &c->config->admin;
    const struct path listen = {"admin.listen"};
    const struct path token = {"admin.token"};
    if (!a->listen && !is_set(c, listen) && is_set(c, token))
        faults_add(c->faults, token.text, "means nothing without admin.listen; set that, too");
    const char *bad = a->listen ? url_read_listen(a->listen, &a->at) : NULL;
    if (bad)
        faults_add(c->faults, listen.text, "%s", bad);
    else if (a->listen && !a->token && !is_set(c, token) && !is_loopback(a->at.host))
        warn(c, faults_line(c->faults, listen.text,
                            "no admin.token is set, and this is not a loopback address: only "
                            "/healthz, /readyz and /metrics are served"));
}

/* ---- Stores ---- */

static void check_redis(struct check *c, size_t index, struct store_config *s)
{
    const char *lack = s->parsed.tls ? redis_tls_check() : NULL;
    if (s->username)
        replace(&s->parsed.username, s->username);
    if (s->password)
        replace(&s->parsed.password, s->password);
    if (s->parsed.username && !s->parsed.password && !is_set(c, store_path(index, "password")))
        faults_add(c->faults, store_path(index, s->username ? "username" : "url").text,
                   "has a username and no password; set password (a URL's password alone is "
                   "written redis://:PASSWORD@HOST)");
    if (lack)
        faults_add(c->faults, store_path(index, "url").text, "%s", lack);
}

/* Who logs in at PostgreSQL is libpq's business, but one thing has to be right. */
static void check_postgres(struct check *c, size_t index, const struct store_config *s)
{
    if (strlen(s->prefix ? s->prefix : "") > POSTGRES_NAME_MAX)
        faults_add(c->faults, store_path(index, "prefix").text,
                   "is the name of a schema in PostgreSQL, which has at most %d bytes",
                   POSTGRES_NAME_MAX);
}

static void check_memory(struct check *c, size_t index)
{
    warn(c, faults_line(c->faults, store_path(index, "url").text,
                        "memory: records are lost at a restart, and one process only"));
}

/* Fields that only some kinds of stores know. */
static void check_meaning(struct check *c, size_t index, const struct store_config *s)
{
    const struct store_url *url = &s->parsed;
    bool redis = url->kind == STORE_REDIS;
    bool login = redis || url->kind == STORE_POSTGRES;
    bool sentinel = url->sentinel_count > 0;
    const struct {
        const char *field;
        bool means_something;
        const char *to;
    } fields[] = {
        {"username", login, "redis: and postgresql:"},
        {"password", login, "redis: and postgresql:"},
        {"sentinel.username", sentinel, "redis+sentinel:"},
        {"sentinel.password", sentinel, "redis+sentinel:"},
        {"wait_replicas", redis, "redis:"},
        {"synchronous", url->kind == STORE_SQLITE, "sqlite:"},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        struct path path = store_path(index, fields[i].field);
        if (!fields[i].means_something && is_set(c, path))
            faults_add(c->faults, path.text, "means something only to %s; leave it out",
                       fields[i].to);
    }
    check_tls(c, store_path, index, &s->tls, url->tls,
              "rediss: (PostgreSQL's TLS is parameters of its URL: sslmode, sslrootcert)");
}

static void check_store_kind(struct check *c, size_t index, struct store_config *s)
{
    check_meaning(c, index, s);
    switch (s->parsed.kind) {
    case STORE_REDIS: check_redis(c, index, s); return;
    case STORE_POSTGRES: check_postgres(c, index, s); return;
    case STORE_MEMORY: check_memory(c, index); return;
    case STORE_SQLITE: return;
    }
}

void config_check_store(struct check *c, size_t index)
{
    struct store_config *s = &c->config->stores[index];
    for (size_t i = 0; i < index; i++)
        if (same(s->name, c->config->stores[i].name))
            faults_add(c->faults, store_path(index, "name").text,
                       "%s is the name of stores[%zu], too; names differ",
                       faults_quote(s->name).text, i);
    char error[256];
    const char *bad = s->url ? url_read_store(s->url, &s->parsed, error) : NULL;
    if (bad)
        faults_add(c->faults, store_path(index, "url").text, "%s", bad);
    else if (s->url)
        check_store_kind(c, index, s);
    if (s->timeout && s->session && s->timeout * 3 >= s->session)
        faults_add(c->faults, store_path(index, "timeout").text,
                   "%" PRId64 "ms is not below a third of session (%" PRId64
                   "ms); write a shorter timeout or a longer session",
                   s->timeout, s->session);
    /* A worker that waits for its store shows the broker nothing meanwhile: the store's outage
     * would cost the connections, and leave copies in doubt. */
    int64_t heartbeat = c->config->broker.heartbeat;
    if (s->timeout && heartbeat && s->timeout > heartbeat)
        faults_add(c->faults, store_path(index, "timeout").text,
                   "%" PRId64 "ms is longer than broker.heartbeat (%" PRId64
                   "ms); write a shorter timeout or a longer heartbeat",
                   s->timeout, heartbeat);
}
