#include "config_check.h"

#include "config_inside.h"
#include "redis_tls.h"
#include "tls.h"

#include <inttypes.h>
#include <stdlib.h>

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
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

/* ---- Broker and stores ---- */

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

static struct path broker_path(size_t index, const char *field)
{
    (void)index;
    struct path p;
    snprintf(p.text, sizeof p.text, "broker.%s", field);
    return p;
}

static void check_broker(struct check *c)
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

static bool is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 ||
           strcmp(host, "localhost") == 0;
}

static void check_admin(struct check *c)
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

static void check_redis(struct check *c, size_t index, struct store_config *s)
{
    char error[REDIS_TLS_ERROR];
    const char *field;
    if (s->username)
        replace(&s->parsed.username, s->username);
    if (s->password)
        replace(&s->parsed.password, s->password);
    if (s->parsed.username && !s->parsed.password && !is_set(c, store_path(index, "password")))
        faults_add(c->faults, store_path(index, s->username ? "username" : "url").text,
                   "has a username and no password; set password (a URL's password alone is "
                   "written redis://:PASSWORD@HOST)");
    if (s->parsed.tls && !redis_tls_check(&s->tls, &field, error))
        faults_add(c->faults, store_path(index, field).text, "%s", error);
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

static void check_store(struct check *c, size_t index)
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
}

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

static void check_times(struct check *c, size_t index, const struct route_config *r)
{
    if (r->window && r->window < HOUR)
        warn(c, faults_line(c->faults, route_path(index, "window").text,
                            "is below an hour: a message that is redelivered or held for longer is "
                            "new, and forwarded again"));
    if (r->hold_limit > 15 * MINUTE)
        warn(c, faults_line(c->faults, route_path(index, "hold_limit").text,
                            "is above 15m, half of RabbitMQ's default consumer timeout: raise "
                            "consumer_timeout there, or the broker closes the channel"));
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
    check_broker(&c);
    check_admin(&c);
    for (size_t i = 0; i < config->store_count && !faults_full(faults); i++)
        check_store(&c, i);
    for (size_t i = 0; i < config->route_count && !faults_full(faults); i++)
        check_route(&c, i);
    config_check_completions(&c);
    config_check_leads(&c);
}
