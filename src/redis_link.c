#include "redis_link.h"

#include "clock.h"
#include "redis_tls.h"
#include "resolve.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void redis_set_address(struct redis_link *l, const char *host, int port)
{
    char *copy = xstrdup(host);
    free(l->host);
    free(l->address);
    l->host = copy;
    l->port = port;
    l->address = xasprintf(strchr(copy, ':') ? "[%s]:%d" : "%s:%d", copy, port);
}

void redis_link_init(struct redis_link *l, struct store *store, const struct store_config *config)
{
    const struct store_url *url = &config->parsed;
    l->store = store;
    l->config = config;
    l->kind = "Redis";
    if (url->sentinel_count > 0) {
        store_set_description(store, "Redis, the master %s of the Sentinels", url->master);
        return;
    }
    redis_set_address(l, url->host, url->port);
    store_set_description(store, "Redis at %s/%d", l->address, url->database);
}

void redis_link_free(struct redis_link *l)
{
    redis_link_close(l);
    buffer_free(&l->command);
    free(l->host);
    free(l->address);
}

void redis_link_close(struct redis_link *l)
{
    if (l->context)
        redisFree(l->context);
    tls_free(l->tls);
    l->context = NULL;
    l->tls = NULL;
}

/* ---- Building commands ---- */

void redis_begin(struct redis_link *l)
{
    l->allowed = l->config->timeout;
    l->deadline = clock_now() + l->allowed;
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
        return store_fail(l->store, "%s at %s: the answer to %s makes no sense", l->kind,
                          l->address, what);
    if (redis_is_error(reply, "MOVED ") || redis_is_error(reply, "ASK "))
        return store_fail(l->store, "%s at %s: %s: Redis Cluster is not supported", l->kind,
                          l->address, reply->str);
    l->refused = l->refused || is_refusal(reply);
    /* "unknown command" goes on to repeat the arguments, and one may be the password. And what a
     * script is refused names the script, which would make two reasons of one. */
    const char *rest = strstr(reply->str, ", with args");
    if (!rest)
        rest = strstr(reply->str, " script: ");
    size_t len = rest ? (size_t)(rest - reply->str) : reply->len;
    return store_fail(l->store, "%s at %s: %.*s", l->kind, l->address, (int)len, reply->str);
}

static bool fail_late(struct redis_link *l)
{
    return store_fail(l->store, "%s at %s: no answer within %lld ms", l->kind, l->address,
                      (long long)l->allowed);
}

static bool fail_context(struct redis_link *l)
{
    const char *why = l->tls ? redis_tls_why(l->context, l->tls) : l->context->errstr;
    if (clock_now() >= l->deadline)
        return fail_late(l);
    l->refused = l->refused || (l->tls && tls_refused(l->tls));
    return store_fail(l->store, "%s at %s: %s%s", l->kind, l->address, why,
                      l->context->err == REDIS_ERR_PROTOCOL ? " (is it Redis that listens there?)"
                                                            : "");
}

/* ---- Round trips ---- */

/* Waits until the socket can be read or written, at most until the deadline. With TLS nothing is
 * left behind in OpenSSL: hiredis reads as much at a time as its largest record holds. */
static bool wait_for(struct redis_link *l, short events)
{
    struct pollfd socket = {.fd = l->context->fd, .events = events};
    int64_t left = l->deadline - clock_now();
    if (left <= 0 || poll(&socket, 1, (int)left) == 0)
        return fail_late(l);
    if (l->tls)
        redis_tls_ready();
    return true;
}

static bool send_all(struct redis_link *l)
{
    int done = 0;
    while (!done)
        if (!wait_for(l, POLLOUT) ||
            (redisBufferWrite(l->context, &done) != REDIS_OK && !fail_context(l)))
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
        if (!wait_for(l, POLLIN) || (redisBufferRead(l->context) != REDIS_OK && !fail_context(l)))
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

/* ---- Connecting ---- */

/* Nothing blocks from now on. The buffer for replies is kept instead of being allocated for each
 * large one. */
static bool prepare_context(struct redis_link *l)
{
    redisContext *c = l->context;
    int flags = fcntl(c->fd, F_GETFL);
    if (flags < 0 || fcntl(c->fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return store_fail(l->store, "%s at %s: %s", l->kind, l->address, strerror(errno));
    c->flags &= ~REDIS_BLOCK;
    c->reader->maxbuf = 0;
    return true;
}

/* A Redis without TLS waits for the rest of what it takes for a command. */
static bool start_tls(struct redis_link *l)
{
    if (redis_tls_begin(l->context, l->tls, l->deadline))
        return true;
    const char *why = tls_error(l->tls);
    l->refused = l->refused || tls_refused(l->tls);
    if (why)
        return store_fail(l->store, "%s at %s: %s", l->kind, l->address, why);
    return store_fail(l->store, "%s at %s: no answer to TLS within %lld ms (is it the plain port?)",
                      l->kind, l->address, (long long)l->allowed);
}

/* The files of its certificates may have become unusable. */
static bool make_tls(struct redis_link *l)
{
    char error[TLS_ERROR_MAX] = "";
    const char *lack = redis_tls_check();
    l->tls = lack ? NULL : tls_new(&l->config->tls, l->host, error);
    l->refused = l->refused || !l->tls;
    return l->tls || store_fail(l->store, "%s at %s: %s", l->kind, l->address, lack ? lack : error);
}

/* An address as text, the scope of a local one included. */
#define ADDRESS_TEXT_MAX 64

/* Connects to one address, within so many ms. NULL: out of memory. */
static redisContext *connect_to(const struct addrinfo *address, int port, int64_t ms)
{
    char host[ADDRESS_TEXT_MAX] = "";
    struct timeval limit = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    getnameinfo(address->ai_addr, address->ai_addrlen, host, sizeof host, NULL, 0, NI_NUMERICHOST);
    return redisConnectWithTimeout(host, port, limit);
}

/* Tries the addresses in turn; each gets its share of the time. */
static void connect_to_one(struct redis_link *l, const struct addrinfo *addresses)
{
    int64_t count = 0;
    for (const struct addrinfo *a = addresses; a; a = a->ai_next)
        count++;
    for (const struct addrinfo *a = addresses; a; a = a->ai_next, count--) {
        int64_t left = l->deadline - clock_now();
        redis_link_close(l);
        l->context = connect_to(a, l->port, left > count ? left / count : 1);
        if (!l->context || !l->context->err)
            return;
    }
}

/* hiredis would wait for name servers as long as they like, so it gets addresses. */
bool redis_connect(struct redis_link *l)
{
    struct addrinfo *addresses;
    char error[RESOLVE_ERROR_MAX];
    if (clock_now() >= l->deadline)
        return fail_late(l);
    if (!resolve_host(l->host, l->port, l->deadline, &addresses, error))
        return store_fail(l->store, "%s at %s: %s", l->kind, l->address, error);
    resolve_rotate(&addresses, l->failures);
    connect_to_one(l, addresses);
    freeaddrinfo(addresses);
    if (!l->context)
        return store_fail(l->store, "%s at %s: out of memory", l->kind, l->address);
    if (l->context->err)
        return fail_context(l);
    return prepare_context(l) && (!l->config->parsed.tls || (make_tls(l) && start_tls(l)));
}

bool redis_take_ok(struct redis_link *l, const char *what, redisReply *reply)
{
    bool ok = reply && (reply->type == REDIS_REPLY_STATUS || redis_refuse(l, what, reply));
    freeReplyObject(reply);
    return ok;
}

bool redis_log_in(struct redis_link *l, const char *username, const char *password)
{
    if (username && *username)
        return redis_take_ok(l, "AUTH",
                             redis_ask(l, "AUTH %s %s", username, password ? password : ""));
    return !password || redis_take_ok(l, "AUTH", redis_ask(l, "AUTH %s", password));
}
