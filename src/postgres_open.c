/*
 * Connecting to a PostgreSQL server: where to, as whom, and what kind of server it is.
 */
#include "postgres_link.h"

#include "clock.h"
#include "postgres_url.h"
#include "resolve.h"

#include <assert.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The oldest that its own project cared for when this was written. What is older was not looked at.
 */
#define OLDEST_VERSION 140000
#define KEYWORDS_MAX 64

/* ---- Where it goes ---- */

static const char *option(const struct postgres_link *l, const char *name)
{
    return postgres_url_option(l->options, name);
}

/* Where both are named, url.c has seen to it that they are as many. */
static size_t count_hosts(const struct postgres_link *l)
{
    size_t hosts = postgres_url_count(option(l, "host"));
    return hosts ? hosts : postgres_url_count(option(l, "hostaddr"));
}

static void set_address(struct postgres_link *l, const char *host, const char *port,
                        const char *database)
{
    bool bare_ipv6 = host && !strchr(host, ',') && strchr(host, ':');
    free(l->address);
    l->address =
        xasprintf(bare_ipv6 ? "[%s]%s%s/%s" : "%s%s%s/%s", host ? host : "the default host",
                  port ? ":" : "", port ? port : "", database ? database : "");
}

void postgres_link_init(struct postgres_link *l, struct store *store,
                        const struct store_config *config)
{
    l->store = store;
    l->config = config;
    l->options = PQconninfoParse(config->parsed.postgres, NULL);
    assert(l->options); /* as url.c has seen to */
    const char *host = option(l, "host");
    set_address(l, host ? host : option(l, "hostaddr"), option(l, "port"), option(l, "dbname"));
    store_set_description(store, "PostgreSQL at %s", l->address);
}

/* ---- Connecting ---- */

struct keywords {
    const char *names[KEYWORDS_MAX];
    const char *values[KEYWORDS_MAX];
    int count;
};

/* libpq takes the last value of a name. */
static void add(struct keywords *k, const char *name, const char *value)
{
    assert(k->count < KEYWORDS_MAX - 1);
    k->names[k->count] = name;
    k->values[k->count++] = value;
}

static void add_default(struct keywords *k, const struct postgres_link *l, const char *name,
                        const char *value)
{
    if (!option(l, name))
        add(k, name, value);
}

/* Where to connect, for libpq: three lists of the same length. */
struct targets {
    struct buffer hosts, addresses, ports;
    size_t count;
};

static void free_targets(struct targets *t)
{
    buffer_free(&t->hosts);
    buffer_free(&t->addresses);
    buffer_free(&t->ports);
}

static void add_target(struct targets *t, const char *host, const char *address, const char *port)
{
    const char *comma = t->count++ > 0 ? "," : "";
    buffer_printf(&t->hosts, "%s%s", comma, host);
    buffer_printf(&t->addresses, "%s%s", comma, address);
    buffer_printf(&t->ports, "%s%s", comma, port);
}

static const char *ended(struct buffer *list)
{
    buffer_add_u8(list, '\0');
    return (const char *)list->data;
}

/* All addresses of a name; none if there are none until then. */
static void look_up(struct postgres_link *l, struct targets *t, const char *host, const char *port,
                    size_t turn, int64_t until)
{
    char error[RESOLVE_ERROR_MAX], address[NI_MAXHOST];
    struct addrinfo *found;
    if (!resolve_host(host, 0, until, &found, error)) {
        store_fail(l->store, "PostgreSQL at %s: %s: %s", l->address, host, error);
        return;
    }
    resolve_rotate(&found, turn);
    for (struct addrinfo *a = found; a; a = a->ai_next)
        if (getnameinfo(a->ai_addr, a->ai_addrlen, address, sizeof address, NULL, 0,
                        NI_NUMERICHOST) == 0)
            add_target(t, host, address, port);
    freeaddrinfo(found);
}

/* libpq would look up names itself, and nothing bounds that; and it would wait for a host that does
 * not answer until our deadline is over, and never come to the next one. So it gets addresses, and
 * after a failure the next attempt begins with another host; once all were the first, with another
 * address of each. */
static bool find_targets(struct postgres_link *l, struct targets *t)
{
    const char *hosts = option(l, "host");
    const char *addresses = option(l, "hostaddr");
    const char *ports = option(l, "port");
    size_t count = count_hosts(l);
    int64_t until = clock_now() + l->config->timeout / 2;
    for (size_t i = 0; i < count; i++) {
        size_t at = (l->failures + i) % count;
        char *host = postgres_url_item(hosts, at);
        char *address = postgres_url_item(addresses, at);
        char *port = postgres_url_item(ports, at);
        if (*address || !*host || *host == '/' || *host == '@')
            add_target(t, host, address, port);
        else
            look_up(l, t, host, port, l->failures / count, until);
        free(host);
        free(address);
        free(port);
    }
    return count == 0 || t->count > 0;
}

static PGconn *start(struct postgres_link *l, struct targets *t)
{
    struct keywords k = {0};
    char *name = xasprintf("onlyonce:%s", l->store->owner);
    char patience[24];
    snprintf(patience, sizeof patience, "%lld", (long long)l->config->timeout);
    for (const PQconninfoOption *o = l->options; o->keyword; o++)
        if (o->val && *o->val)
            add(&k, o->keyword, o->val);
    if (l->config->username)
        add(&k, "user", l->config->username);
    if (l->config->password)
        add(&k, "password", l->config->password);
    if (t->count > 0) {
        add(&k, "host", ended(&t->hosts));
        add(&k, "hostaddr", ended(&t->addresses));
        add(&k, "port", ended(&t->ports));
    }
    if (count_hosts(l) > 1)
        add_default(&k, l, "target_session_attrs", "read-write");
    add_default(&k, l, "application_name", name);
    add_default(&k, l, "tcp_user_timeout", patience);
    add(&k, "client_encoding", "UTF8");
    PGconn *connection = PQconnectStartParams(k.names, k.values, 0);
    free(name);
    return connection;
}

static void be_silent(void *context, const PGresult *notice)
{
    (void)context;
    (void)notice;
}

/* The server's SQLSTATE is to be had from the text alone: ": 28P01: ". */
static bool says(const char *text, const char *state)
{
    size_t len = strlen(state);
    for (const char *p = text; (p = strstr(p, state)); p++)
        if (p > text && p[-1] == ' ' && p[len] && p[5] == ':' && p[6] == ' ')
            return true;
    return false;
}

/* A login, a database or a permission that will not be there the next time either. */
static bool fail_connecting(struct postgres_link *l)
{
    static const char *const states[] = {"28000", "28P01", "3D000", "42501"};
    const char *text = PQerrorMessage(l->connection);
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        l->refused = l->refused || says(text, states[i]);
    l->refused = l->refused || PQconnectionNeedsPassword(l->connection);
    return postgres_fail_connection(l);
}

/* libpq looks at the URL's parameters as it begins to connect: a value that it does not know it
 * will not know the next time either. */
static bool fail_beginning(struct postgres_link *l)
{
    static const char unknown[] = "invalid ";
    const char *text = PQerrorMessage(l->connection);
    l->refused =
        strncmp(text, unknown, strlen(unknown)) == 0 || strstr(text, ": invalid integer value ");
    return fail_connecting(l);
}

static bool await_connection(struct postgres_link *l)
{
    short met;
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;
    while (next != PGRES_POLLING_OK) {
        if (next == PGRES_POLLING_FAILED)
            return fail_connecting(l);
        if (!postgres_wait(l, next == PGRES_POLLING_READING ? POLLIN : POLLOUT, &met))
            return false;
        next = PQconnectPoll(l->connection);
    }
    return true;
}

static bool dial(struct postgres_link *l)
{
    struct targets t = {0};
    bool found = find_targets(l, &t);
    l->connection = found ? start(l, &t) : NULL;
    free_targets(&t);
    if (!found)
        return false;
    if (!l->connection)
        return store_fail(l->store, "PostgreSQL at %s: out of memory", l->address);
    if (PQstatus(l->connection) == CONNECTION_BAD)
        return fail_beginning(l);
    PQsetErrorVerbosity(l->connection, PQERRORS_VERBOSE); /* with SQLSTATEs */
    PQsetNoticeReceiver(l->connection, be_silent, NULL);
    if (!await_connection(l))
        return false;
    PQsetErrorVerbosity(l->connection, PQERRORS_DEFAULT);
    set_address(l, PQhost(l->connection), PQport(l->connection), PQdb(l->connection));
    return PQsetnonblocking(l->connection, 1) == 0 || postgres_fail_connection(l);
}

/* ---- Getting to know the server ---- */

/*
 * A transaction whose relay is gone must not hold locks for long. Its isolation has to be the one
 * that the statements are written for. And their plans must not depend on statistics, which are
 * wrong for tables that have just been made: by index, in the order of the keys, which also is the
 * order of the locks.
 */
static bool set_up(struct postgres_link *l)
{
    long long patience = l->config->timeout + 100;
    char *sql = xasprintf("SET statement_timeout = %lld; SET lock_timeout = %lld;"
                          "SET idle_in_transaction_session_timeout = %lld;"
                          "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5;"
                          "SET tcp_keepalives_count = 3;"
                          "SET default_transaction_isolation = 'read committed';"
                          "SET plan_cache_mode = force_generic_plan; SET jit = off;"
                          "SET enable_seqscan = off; SET enable_bitmapscan = off;"
                          "SET enable_hashjoin = off; SET enable_mergejoin = off;"
                          "SET enable_material = off",
                          patience, patience, patience);
    PGresult *result = postgres_script(l, sql);
    PQclear(result);
    free(sql);
    return result != NULL;
}

static bool check_server(struct postgres_link *l)
{
    int version = PQserverVersion(l->connection);
    const char *text = PQparameterStatus(l->connection, "server_version");
    store_set_description(l->store, "PostgreSQL %.*s at %s, schema %s",
                          (int)strcspn(text ? text : "", " "), text ? text : "", l->address,
                          l->config->prefix);
    if (version < OLDEST_VERSION)
        return postgres_refuse(l, "the server is too old: its version is %s, and 14 is needed",
                               text ? text : "unknown");
    PGresult *result =
        postgres_script(l, "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::int8,"
                           " pg_is_in_recovery(), current_setting('transaction_read_only')::bool");
    if (!result)
        return false;
    store_set_clock(l->store, postgres_number(result, 0, 0));
    bool standby = *PQgetvalue(result, 0, 1) == 't';
    bool read_only = *PQgetvalue(result, 0, 2) == 't';
    PQclear(result);
    if (standby)
        return store_fail(l->store,
                          "PostgreSQL at %s is a standby; give the address of the primary, or of "
                          "all of them",
                          l->address);
    return !read_only || store_fail(l->store, "PostgreSQL at %s is read-only", l->address);
}

static bool quote_schema(struct postgres_link *l)
{
    const char *name = l->config->prefix;
    l->schema = PQescapeIdentifier(l->connection, name, strlen(name));
    return l->schema || postgres_fail_connection(l);
}

bool postgres_link_open(struct postgres_link *l)
{
    postgres_begin(l);
    l->refused = false;
    bool good = dial(l) && quote_schema(l) && set_up(l) && check_server(l);
    l->failures += !good;
    return good;
}
