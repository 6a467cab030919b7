#include "redis_link.h"

#include "clock.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void redis_link_init(struct redis_link *l, struct store *store, const struct store_config *config)
{
    bool bare_ipv6 = strchr(config->parsed.host, ':') != NULL;
    l->store = store;
    l->config = config;
    l->address =
        xasprintf(bare_ipv6 ? "[%s]:%d" : "%s:%d", config->parsed.host, config->parsed.port);
    store_set_description(store, "Redis at %s/%d", l->address, config->parsed.database);
}

void redis_link_free(struct redis_link *l)
{
    redis_link_close(l);
    buffer_free(&l->command);
    free(l->address);
}

void redis_link_close(struct redis_link *l)
{
    if (l->context)
        redisFree(l->context);
    l->context = NULL;
}

/* ---- Building commands ---- */

void redis_begin(struct redis_link *l)
{
    l->deadline = clock_now() + l->config->timeout;
    buffer_clear(&l->command);
}

/* By hand, as it is done some thousand times for a batch. */
static struct span write_number(char out[24], uint64_t number)
{
    size_t at = 24;
    do {
        out[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    return (struct span){(const uint8_t *)out + at, 24 - at};
}

/* "*12\r\n" or "$12\r\n". */
static void put_count(struct buffer *b, char kind, size_t count)
{
    char digits[24];
    buffer_add(b, &kind, 1);
    buffer_add_span(b, write_number(digits, count));
    buffer_add(b, "\r\n", 2);
}

void redis_put_command(struct redis_link *l, size_t words)
{
    put_count(&l->command, '*', words);
}

void redis_put_word(struct redis_link *l, struct span first, struct span second)
{
    put_count(&l->command, '$', first.len + second.len);
    buffer_add_span(&l->command, first);
    buffer_add_span(&l->command, second);
    buffer_add(&l->command, "\r\n", 2);
}

void redis_put_text(struct redis_link *l, const char *text)
{
    redis_put_word(l, span_of(text), (struct span){0});
}

void redis_put_number(struct redis_link *l, int64_t number)
{
    char digits[24];
    assert(number >= 0);
    redis_put_word(l, write_number(digits, (uint64_t)number), (struct span){0});
}

/* ---- Failing ---- */

bool redis_is_error(const redisReply *reply, const char *kind)
{
    return reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, kind, strlen(kind)) == 0;
}

/* What will be said again however often one asks. */
static bool is_refusal(const redisReply *reply)
{
    static const char *const kinds[] = {
        "NOAUTH",
        "WRONGPASS",
        "NOPERM",
        "DENIED",
        "ERR AUTH",
        "ERR invalid password",
        "ERR DB index",
        "ERR invalid DB index",
        "ERR unknown command",
        "ERR Client sent AUTH",
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (redis_is_error(reply, kinds[i]))
            return true;
    return false;
}

bool redis_refuse(struct redis_link *l, const char *what, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ERROR)
        return store_fail(l->store, "Redis at %s: the answer to %s makes no sense", l->address,
                          what);
    if (redis_is_error(reply, "MOVED ") || redis_is_error(reply, "ASK "))
        return store_fail(l->store, "Redis at %s: %s: Redis Cluster is not supported", l->address,
                          reply->str);
    l->refused = l->refused || is_refusal(reply);
    /* "unknown command" goes on to repeat the arguments, and one may be the password. */
    const char *arguments = strstr(reply->str, ", with args");
    size_t len = arguments ? (size_t)(arguments - reply->str) : reply->len;
    return store_fail(l->store, "Redis at %s: %.*s", l->address, (int)len, reply->str);
}

static bool fail_late(struct redis_link *l)
{
    return store_fail(l->store, "Redis at %s: no answer within %lld ms", l->address,
                      (long long)l->config->timeout);
}

static bool fail_context(struct redis_link *l)
{
    if (clock_now() >= l->deadline)
        return fail_late(l);
    return store_fail(l->store, "Redis at %s: %s", l->address, l->context->errstr);
}

/* ---- Round trips ---- */

static struct timeval to_timeval(int64_t ms)
{
    return (struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
}

/* The next read or write may last until the deadline. hiredis has a timeout for each of them only,
 * and with that a server that dribbles could hold a call for as long as it likes. */
static bool arm(struct redis_link *l)
{
    int64_t left = l->deadline - clock_now();
    if (left <= 0)
        return fail_late(l);
    return redisSetTimeout(l->context, to_timeval(left)) == REDIS_OK || fail_context(l);
}

static bool send_all(struct redis_link *l)
{
    int done = 0;
    while (!done)
        if (!arm(l) || (redisBufferWrite(l->context, &done) != REDIS_OK && !fail_context(l)))
            return false;
    return true;
}

static bool receive(struct redis_link *l, redisReply **out)
{
    void *reply = NULL;
    for (;;) {
        if (redisGetReplyFromReader(l->context, &reply) != REDIS_OK)
            return fail_context(l);
        if (reply)
            break;
        if (!arm(l) || (redisBufferRead(l->context) != REDIS_OK && !fail_context(l)))
            return false;
    }
    *out = reply;
    return true;
}

static bool receive_all(struct redis_link *l, redisReply **replies, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!receive(l, &replies[i])) {
            redis_free_replies(replies, i);
            return false;
        }
    }
    return true;
}

bool redis_exchange(struct redis_link *l, redisReply **replies, size_t count)
{
    const char *bytes = (const char *)l->command.data;
    if (redisAppendFormattedCommand(l->context, bytes, l->command.len) != REDIS_OK)
        return fail_context(l);
    return send_all(l) && receive_all(l, replies, count);
}

void redis_free_replies(redisReply **replies, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        freeReplyObject(replies[i]);
        replies[i] = NULL;
    }
}

redisReply *redis_ask(struct redis_link *l, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    bool appended = redisvAppendCommand(l->context, fmt, args) == REDIS_OK;
    va_end(args);
    redisReply *reply = NULL;
    if (!appended)
        fail_context(l);
    else if (send_all(l))
        (void)receive(l, &reply);
    return reply;
}

/* ---- Getting to know the server ---- */

/* Asks for something that needs no answer but "OK". */
static bool ask_ok(struct redis_link *l, const char *what, redisReply *reply)
{
    bool ok = reply && (reply->type == REDIS_REPLY_STATUS || redis_refuse(l, what, reply));
    freeReplyObject(reply);
    return ok;
}

static bool log_in(struct redis_link *l)
{
    const struct store_config *c = l->config;
    const char *username = c->username ? c->username : c->parsed.username;
    const char *password = c->password ? c->password : c->parsed.password;
    if (username && *username)
        return ask_ok(l, "AUTH", redis_ask(l, "AUTH %s %s", username, password ? password : ""));
    return !password || ask_ok(l, "AUTH", redis_ask(l, "AUTH %s", password));
}

static bool check_role(struct redis_link *l)
{
    redisReply *reply = redis_ask(l, "ROLE");
    if (!reply)
        return false;
    bool sensible = reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 &&
                    reply->element[0]->type == REDIS_REPLY_STRING;
    bool master = sensible && strcmp(reply->element[0]->str, "master") == 0;
    if (!sensible) {
        redis_refuse(l, "ROLE", reply);
    } else if (strcmp(reply->element[0]->str, "sentinel") == 0) {
        l->refused = true;
        store_fail(l->store, "Redis at %s is a Sentinel; give the address of the master",
                   l->address);
    } else if (!master) {
        store_fail(l->store, "Redis at %s is a replica; give the address of the master",
                   l->address);
    }
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

/* What INFO says of kind and version: the server's name, and whether it will do. */
static bool judge_server(struct redis_link *l, const redisReply *info)
{
    char name[32];
    char version[32];
    char mode[32];
    redis_info_field(info, "redis_mode", mode, sizeof mode);
    redis_info_field(info, "server_name", name, sizeof name);
    bool valkey = strcmp(name, "valkey") == 0;
    if (!redis_info_field(info, valkey ? "valkey_version" : "redis_version", version,
                          sizeof version))
        return store_fail(l->store, "Redis at %s: INFO does not tell a version", l->address);

    snprintf(l->server, sizeof l->server, "%s %s", valkey ? "Valkey" : "Redis", version);
    store_set_description(l->store, "%s at %s/%d", l->server, l->address,
                          l->config->parsed.database);
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

static bool check_server(struct redis_link *l)
{
    redisReply *info = redis_ask(l, "INFO server");
    if (!info)
        return false;
    bool good =
        info->type == REDIS_REPLY_STRING ? judge_server(l, info) : redis_refuse(l, "INFO", info);
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

static bool greet(struct redis_link *l)
{
    return log_in(l) && check_role(l) && check_server(l) &&
           ask_ok(l, "SELECT", redis_ask(l, "SELECT %d", l->config->parsed.database)) &&
           say_name(l) && read_clock(l) && probe(l);
}

bool redis_link_open(struct redis_link *l, bool *permanent)
{
    redis_begin(l);
    l->refused = false;
    l->context = redisConnectWithTimeout(l->config->parsed.host, l->config->parsed.port,
                                         to_timeval(l->config->timeout));
    if (!l->context)
        return store_fail(l->store, "Redis at %s: out of memory", l->address);
    bool good = l->context->err ? fail_context(l) : true;
    /* Keep the buffer between replies instead of allocating it for each large one. */
    if (good)
        l->context->reader->maxbuf = 0;
    good = good && greet(l);
    *permanent = l->refused;
    return good;
}
