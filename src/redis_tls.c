#include "redis_tls.h"

#include "clock.h"

#include <assert.h>
#include <openssl/err.h>
#include <poll.h>

#ifndef ONLYONCE_REDIS_TLS

#define TEXT_OF(number) #number
#define TEXT(macro) TEXT_OF(macro)

const char *redis_tls_check(void)
{
    return "asks for TLS, which this build cannot: its hiredis is " TEXT(HIREDIS_MAJOR) "." TEXT(
        HIREDIS_MINOR) "." TEXT(HIREDIS_PATCH) " without TLS; write redis:// and go through a "
                                               "tunnel such as stunnel, or a private network, or "
                                               "build on Debian 13";
}

bool redis_tls_begin(redisContext *context, struct tls *tls, int64_t deadline)
{
    (void)context;
    (void)tls;
    (void)deadline;
    return false; /* nobody asks, after redis_tls_check() */
}

#else

#include <hiredis/hiredis_ssl.h>

const char *redis_tls_check(void)
{
    return NULL;
}

/* What hiredis is given, it frees, but not if it fails. A quick server may already have answered to
 * the handshake that it begins, and the answer may be no good. */
static bool hand_over(redisContext *context, struct tls *tls)
{
    SSL *ssl = tls_ssl(tls);
    SSL_up_ref(ssl);
    if (redisInitiateSSL(context, ssl) == REDIS_OK)
        return true;
    tls_explain(tls, -1);
    SSL_free(ssl);
    return false;
}

static bool wait_for(int fd, short events, int64_t deadline)
{
    struct pollfd socket = {.fd = fd, .events = events};
    int64_t left = deadline - clock_now();
    return left > 0 && poll(&socket, 1, (int)left) != 0;
}

/* hiredis gives no way to go on with what it began. */
bool redis_tls_begin(redisContext *context, struct tls *tls, int64_t deadline)
{
    enum tls_step step = TLS_FAILED;
    if (!hand_over(context, tls))
        return false;
    while ((step = tls_handshake(tls, context->fd)) == TLS_WAITS)
        if (!wait_for(context->fd, tls_events(tls), deadline))
            return false;
    return step == TLS_DONE;
}

#endif

void redis_tls_ready(void)
{
    ERR_clear_error();
}

const char *redis_tls_why(const redisContext *context, struct tls *tls)
{
    bool by_tls = context->err == REDIS_ERR_IO || context->err == REDIS_ERR_EOF;
    const char *why = by_tls ? tls_explain(tls, -1) : NULL;
    return why ? why : context->errstr;
}
