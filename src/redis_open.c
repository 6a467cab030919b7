/*
 * Opening a connection to Redis: who is the master, who are we, and will this server do?
 */
#include "redis_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool log_in(struct redis_link *l)
{
    const struct store_config *c = l->config;
    return redis_log_in(l, c->username ? c->username : c->parsed.username,
                        c->password ? c->password : c->parsed.password);
}

/* Sentinels go on naming an old master until they have agreed on a new one, and a master that was
 * replaced learns it last. */
static bool refuse_role(struct redis_link *l, const char *role)
{
    const char *master = l->config->parsed.master;
    l->refused = strcmp(role, "sentinel") == 0;
    if (l->refused)
        return store_fail(l->store,
                          "Redis at %s is a Sentinel; give the address of the master, or write "
                          "redis+sentinel://%s/MASTER",
                          l->address, l->address);
    if (master)
        return store_fail(l->store,
                          "Redis at %s is a replica, though a Sentinel calls it the master %s",
                          l->address, master);
    return store_fail(l->store, "Redis at %s is a replica; give the address of the master",
                      l->address);
}

static bool check_role(struct redis_link *l)
{
    redisReply *reply = redis_ask(l, "ROLE");
    if (!reply)
        return false;
    bool sensible = reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 &&
                    reply->element[0]->type == REDIS_REPLY_STRING;
    bool master = sensible && strcmp(reply->element[0]->str, "master") == 0;
    if (!sensible)
        redis_refuse(l, "ROLE", reply);
    else if (!master)
        refuse_role(l, reply->element[0]->str);
    freeReplyObject(reply);
    return master;
}

bool redis_info_field(const redisReply *info, const char *name, char *out, size_t size)
{
    size_t len = strlen(name);
    out[0] = '\0';
    if (info->type != REDIS_REPLY_STRING)
        return false;
    for (const char *line = info->str; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) == 0 && line[len] == ':') {
            snprintf(out, size, "%.*s", (int)strcspn(line + len + 1, "\r\n"), line + len + 1);
            return true;
        }
    }
    return false;
}

static void describe(struct redis_link *l)
{
    const struct store_url *url = &l->config->parsed;
    if (url->master)
        store_set_description(l->store, "%s at %s/%d (master %s of the Sentinels)", l->server,
                              l->address, url->database, url->master);
    else
        store_set_description(l->store, "%s at %s/%d", l->server, l->address, url->database);
}

/* What INFO says of kind and version: the server's name, and whether it will do. */
static bool judge_server(struct redis_link *l, const redisReply *info)
{
    char name[32];
    char version[32];
    char mode[32];
    redis_info_field(info, "server_name", name, sizeof name);
    bool valkey = strcmp(name, "valkey") == 0;
    if (!redis_info_field(info, "redis_mode", mode, sizeof mode))
        redis_info_field(info, "server_mode", mode, sizeof mode); /* Valkey, from 8.0 on */
    if (!redis_info_field(info, valkey ? "valkey_version" : "redis_version", version,
                          sizeof version))
        return store_fail(l->store, "Redis at %s: INFO does not tell a version", l->address);

    snprintf(l->server, sizeof l->server, "%s %s", valkey ? "Valkey" : "Redis", version);
    describe(l);
    l->refused = true;
    if (!valkey && strtol(version, NULL, 10) < 7)
        return store_fail(l->store, "%s at %s is too old: SET with NX and GET needs 7.0 or newer",
                          l->server, l->address);
    if (strcmp(mode, "cluster") == 0)
        return store_fail(l->store, "%s at %s is part of a Redis Cluster, which is not supported",
                          l->server, l->address);
    l->refused = false;
    return true;
}

/* A user who may not ask is let pass: the probe shows what has to be there. */
static bool check_server(struct redis_link *l)
{
    redisReply *info = redis_ask(l, "INFO server");
    if (!info)
        return false;
    bool good = info->type == REDIS_REPLY_STRING || redis_is_error(info, "NOPERM");
    if (info->type == REDIS_REPLY_STRING)
        good = judge_server(l, info);
    else if (good)
        describe(l);
    else
        redis_refuse(l, "INFO", info);
    freeReplyObject(info);
    return good;
}

/* Not all that calls itself Redis 7 is. A server that cannot write just now passes: reading and
 * releasing go on, and a claim will be told. */
static bool probe(struct redis_link *l)
{
    redisReply *reply = redis_ask(l, "SET %s:probe 1 NX GET PX 100", l->config->prefix);
    if (!reply)
        return false;
    bool full = redis_is_error(reply, "OOM") || redis_is_error(reply, "MISCONF") ||
                redis_is_error(reply, "NOREPLICAS");
    bool good = full || reply->type == REDIS_REPLY_NIL || reply->type == REDIS_REPLY_STRING;
    if (redis_is_error(reply, "ERR syntax")) {
        l->refused = true;
        store_fail(l->store, "%s at %s cannot SET with both NX and GET, as Redis 7.0 can",
                   l->server, l->address);
    } else if (!good) {
        redis_refuse(l, "SET NX GET", reply);
    }
    freeReplyObject(reply);
    return good;
}

bool redis_take_time(struct redis_link *l, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        reply->element[0]->type != REDIS_REPLY_STRING ||
        reply->element[1]->type != REDIS_REPLY_STRING)
        return redis_refuse(l, "TIME", reply);
    int64_t seconds = strtoll(reply->element[0]->str, NULL, 10);
    store_set_clock(l->store, seconds * 1000 + strtoll(reply->element[1]->str, NULL, 10) / 1000);
    return true;
}

static bool read_clock(struct redis_link *l)
{
    redisReply *reply = redis_ask(l, "TIME");
    bool good = reply && redis_take_time(l, reply);
    freeReplyObject(reply);
    return good;
}

/* For people who look at CLIENT LIST; a server that minds may keep its own name for us. */
static bool say_name(struct redis_link *l)
{
    redisReply *reply = redis_ask(l, "CLIENT SETNAME onlyonce:%s", l->store->owner);
    bool alive = reply != NULL;
    freeReplyObject(reply);
    return alive;
}

static bool select_database(struct redis_link *l)
{
    int database = l->config->parsed.database;
    return database == 0 || redis_take_ok(l, "SELECT", redis_ask(l, "SELECT %d", database));
}

static bool greet(struct redis_link *l)
{
    return log_in(l) && check_role(l) && check_server(l) && select_database(l) && say_name(l) &&
           read_clock(l) && probe(l);
}

/* The master is asked for each time, and never where it was before. */
static bool find(struct redis_link *l)
{
    return l->config->parsed.sentinel_count == 0 || redis_find_master(l);
}

bool redis_link_open(struct redis_link *l, bool *permanent)
{
    redis_begin(l);
    l->refused = false;
    snprintf(l->server, sizeof l->server, "Redis");
    bool found = find(l);
    bool good = found && redis_connect(l) && greet(l);
    l->failures += !good;
    /* What this Sentinel said was of no use: the next one may know better. */
    if (found && !good && l->config->parsed.sentinel_count > 0)
        l->sentinel = (l->sentinel + 1) % l->config->parsed.sentinel_count;
    *permanent = l->refused;
    return good;
}
