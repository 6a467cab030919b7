#include "redis_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <signal.h>
#include <stdlib.h>

char text_user[] = "relay";

static char text_prefix[] = "oo";
static char text_host[] = "127.0.0.1";

void redis_bench_start(struct redis_bench *b)
{
    redis_server_start(&b->server, NULL);
    b->redis = redisConnect(text_host, b->server.port);
    if (!b->redis || b->redis->err)
        fail_msg("redis-server does not answer");
}

void redis_bench_kill(struct redis_bench *b)
{
    redisFree(b->redis);
    b->redis = NULL;
    redis_server_kill(&b->server);
}

void redis_bench_meet(struct redis_bench *b, int port)
{
    store_free(b->store);
    b->config.parsed.port = port;
    b->store = store_new(&b->config, "scope");
}

int redis_bench_set_up_config(void **state)
{
    struct redis_bench *b = xcalloc(1, sizeof *b);
    *state = b;
    signal(SIGPIPE, SIG_IGN);
    b->config = (struct store_config){.name = text_name, .prefix = text_prefix, .timeout = 1000};
    b->config.parsed = (struct store_url){.kind = STORE_REDIS, .host = text_host};
    return 0;
}

int redis_bench_set_up(void **state)
{
    redis_bench_set_up_config(state);
    struct redis_bench *b = *state;
    redis_server_create(&b->server);
    redis_bench_start(b);
    redis_bench_meet(b, b->server.port);
    assert_opens(b->store);
    return 0;
}

int redis_bench_tear_down(void **state)
{
    struct redis_bench *b = *state;
    store_free(b->store);
    if (b->redis)
        redisFree(b->redis);
    redis_server_remove(&b->server);
    free(b);
    return 0;
}

void redis_do(redisContext *redis, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    redisReply *reply = redisvCommand(redis, fmt, args);
    va_end(args);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", fmt, reply ? reply->str : redis->errstr);
    freeReplyObject(reply);
}

char *redis_text(redisContext *redis, const char *command)
{
    redisReply *reply = redisCommand(redis, command);
    assert_non_null(reply);
    char *text = reply->str ? xstrdup(reply->str) : xasprintf("%lld", reply->integer);
    freeReplyObject(reply);
    return text;
}
