/*
 * Asking Sentinels for the master. hiredis knows nothing of them.
 *
 * They are asked one after the other, beginning with the one whose answer was of use last, each in
 * a share of half the call's time: one that is down, silent or speaks nonsense must not keep the
 * others from answering. The other half is for the master. What a Sentinel says is taken as it is,
 * and only the server's own ROLE tells whether it is right; see redis_open.c.
 */
#include "redis_link.h"

#include "clock.h"

#include <stdlib.h>
#include <string.h>

static bool is_text(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING && reply->len > 0;
}

/* The name in one entry of SENTINEL MASTERS, which is a list of fields and values, or NULL. */
static const char *entry_name(const redisReply *entry)
{
    if (entry->type != REDIS_REPLY_ARRAY)
        return NULL;
    for (size_t i = 0; i + 1 < entry->elements; i += 2)
        if (is_text(entry->element[i]) && is_text(entry->element[i + 1]) &&
            strcmp(entry->element[i]->str, "name") == 0)
            return entry->element[i + 1]->str;
    return NULL;
}

/* A master that a Sentinel does not know has been written wrongly, most likely: what does it know?
 */
static bool refuse_name(struct redis_link *s)
{
    redisReply *masters = redis_ask(s, "SENTINEL MASTERS");
    struct buffer names = {0};
    if (!masters)
        return false;
    for (size_t i = 0; masters->type == REDIS_REPLY_ARRAY && i < masters->elements; i++) {
        const char *name = entry_name(masters->element[i]);
        if (name)
            buffer_printf(&names, "%s%s", names.len > 0 ? ", " : "", name);
    }
    freeReplyObject(masters);
    s->refused = true;
    store_fail(s->store, "Sentinel at %s does not know it, but %.*s", s->address,
               names.len > 0 ? (int)names.len : 4, names.len > 0 ? (char *)names.data : "none");
    buffer_free(&names);
    return false;
}

static bool take_address(struct redis_link *s, const redisReply *reply, struct redis_link *master)
{
    if (reply->type == REDIS_REPLY_NIL)
        return refuse_name(s);
    if (redis_is_error(reply, "ERR unknown command")) {
        s->refused = true;
        return store_fail(s->store, "Redis at %s is no Sentinel", s->address);
    }
    bool sensible = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
                    is_text(reply->element[0]) && is_text(reply->element[1]);
    long port = sensible ? strtol(reply->element[1]->str, NULL, 10) : 0;
    if (port < 1 || port > 65535)
        return redis_refuse(s, "SENTINEL", reply);
    redis_set_address(master, reply->element[0]->str, (int)port);
    return true;
}

static bool ask_for_address(struct redis_link *s, struct redis_link *master)
{
    const char *name = master->config->parsed.master;
    redisReply *reply = redis_ask(s, "SENTINEL get-master-addr-by-name %s", name);
    bool good = reply && take_address(s, reply, master);
    freeReplyObject(reply);
    return good;
}

/* Asks one, within `share` ms. *refused: it will never say anything else. */
static bool ask_one(struct redis_link *master, const struct host_port *at, int64_t share,
                    bool *refused)
{
    const struct store_config *config = master->config;
    struct redis_link s = {
        .store = master->store, .config = config, .kind = "Sentinel", .failures = master->failures};
    redis_set_address(&s, at->host, at->port);
    s.allowed = share;
    s.deadline = clock_now() + share;
    bool good = redis_connect(&s) &&
                redis_log_in(&s, config->sentinel.username, config->sentinel.password) &&
                ask_for_address(&s, master);
    *refused = s.refused;
    redis_link_free(&s);
    return good;
}

bool redis_find_master(struct redis_link *l)
{
    const struct store_url *url = &l->config->parsed;
    size_t count = url->sentinel_count;
    size_t refusals = 0;
    struct buffer reasons = {0};
    bool found = false;
    int64_t until = clock_now() + l->allowed / 2;
    for (size_t i = 0; i < count && !found; i++) {
        int64_t share = (until - clock_now()) / (int64_t)(count - i);
        int64_t least = 1 + l->allowed / 2 / (int64_t)count; /* if a name took long to look up */
        bool refused = false;
        found = ask_one(l, &url->sentinels[l->sentinel], share > least ? share : least, &refused);
        if (found)
            break;
        refusals += refused;
        buffer_printf(&reasons, "; %s", store_error(l->store));
        l->sentinel = (l->sentinel + 1) % count;
    }
    if (!found) {
        l->refused = refusals == count;
        store_fail(l->store, "no Sentinel tells where the master %s is%.*s", url->master,
                   (int)reasons.len, (const char *)reasons.data);
    }
    buffer_free(&reasons);
    return found;
}
