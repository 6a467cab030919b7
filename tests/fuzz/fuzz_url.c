/*
 * fuzz_url - any text as a broker's URL, a store's, an address to listen on: it is understood, or
 * there is one line that says what is wrong. What was understood, written anew from its parts, is
 * understood as the same parts.
 */
#include "fuzz.h"
#include "url.h"

#include <assert.h>
#include <stdio.h>

/* Everything but letters and digits as %XX. */
static void add_encoded(struct buffer *out, const char *text)
{
    for (const char *p = text; *p; p++)
        if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", *p))
            buffer_add_u8(out, (uint8_t)*p);
        else
            buffer_printf(out, "%%%02X", (unsigned char)*p);
}

static void add_login(struct buffer *out, const char *username, const char *password)
{
    if (!username && !password)
        return;
    if (username)
        add_encoded(out, username);
    if (password) {
        buffer_add_u8(out, ':');
        add_encoded(out, password);
    }
    buffer_add_u8(out, '@');
}

static void add_host(struct buffer *out, const char *host, int port)
{
    assert(*host && port >= 1 && port <= 65535);
    buffer_printf(out, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, port);
}

static bool same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static void check_error(const char *bad)
{
    size_t len = strlen(bad);
    assert(len > 0);
    for (size_t i = 0; i < len; i++)
        assert((unsigned char)bad[i] >= ' ' && (unsigned char)bad[i] < 0x7f);
}

static void check_broker(const char *text)
{
    struct broker_url url;
    struct broker_url again;
    struct buffer out = {0};
    char error[256];
    const char *bad = url_read_broker(text, &url, error);
    if (bad) {
        check_error(bad);
        return;
    }
    buffer_printf(&out, url.tls ? "amqps://" : "amqp://");
    add_login(&out, url.username, url.password);
    add_host(&out, url.host, url.port);
    buffer_add_u8(&out, '/');
    add_encoded(&out, url.vhost);
    buffer_add_u8(&out, '\0');
    bad = url_read_broker((const char *)out.data, &again, error);
    assert(!bad);
    assert(url.tls == again.tls && url.port == again.port && same(url.host, again.host) &&
           same(url.vhost, again.vhost) && same(url.username, again.username) &&
           same(url.password, again.password));
    url_free_broker(&url);
    url_free_broker(&again);
    buffer_free(&out);
}

static void add_redis(struct buffer *out, const struct store_url *url)
{
    buffer_printf(out, "redis%s%s://", url->tls ? "s" : "", url->sentinel_count ? "+sentinel" : "");
    add_login(out, url->username, url->password);
    if (!url->sentinel_count)
        add_host(out, url->host, url->port);
    for (size_t i = 0; i < url->sentinel_count; i++) {
        if (i)
            buffer_add_u8(out, ',');
        add_host(out, url->sentinels[i].host, url->sentinels[i].port);
    }
    if (url->sentinel_count) {
        buffer_add_u8(out, '/');
        add_encoded(out, url->master);
    }
    buffer_printf(out, "/%d", url->database);
}

static void add_store(struct buffer *out, const struct store_url *url)
{
    switch (url->kind) {
    case STORE_REDIS: add_redis(out, url); break;
    case STORE_SQLITE: buffer_printf(out, "sqlite:%s", url->path); break;
    case STORE_POSTGRES: buffer_printf(out, "%s", url->postgres); break;
    case STORE_MEMORY: buffer_printf(out, "memory:"); break;
    }
    buffer_add_u8(out, '\0');
}

static void check_same(const struct store_url *a, const struct store_url *b)
{
    assert(a->kind == b->kind && a->tls == b->tls && same(a->host, b->host) && a->port == b->port &&
           a->database == b->database && same(a->username, b->username) &&
           same(a->password, b->password) && same(a->master, b->master) && same(a->path, b->path) &&
           same(a->postgres, b->postgres) && a->sentinel_count == b->sentinel_count);
    for (size_t i = 0; i < a->sentinel_count; i++)
        assert(same(a->sentinels[i].host, b->sentinels[i].host) &&
               a->sentinels[i].port == b->sentinels[i].port);
}

static void check_store(const char *text)
{
    struct store_url url;
    struct store_url again;
    struct buffer out = {0};
    char error[256];
    const char *bad = url_read_store(text, &url, error);
    if (bad) {
        check_error(bad);
        return;
    }
    add_store(&out, &url);
    bad = url_read_store((const char *)out.data, &again, error);
    assert(!bad);
    check_same(&url, &again);
    url_free_store(&url);
    url_free_store(&again);
    buffer_free(&out);
}

static void check_listen(const char *text)
{
    struct host_port at;
    struct host_port again;
    struct buffer out = {0};
    const char *bad = url_read_listen(text, &at);
    if (bad) {
        check_error(bad);
        return;
    }
    add_host(&out, at.host, at.port);
    buffer_add_u8(&out, '\0');
    bad = url_read_listen((const char *)out.data, &again);
    assert(!bad && same(at.host, again.host) && at.port == again.port);
    free(at.host);
    free(again.host);
    buffer_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text((struct span){data, size});
    check_broker(text);
    check_store(text);
    check_listen(text);
    free(text);
    return 0;
}
