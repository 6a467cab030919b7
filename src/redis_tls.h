/*
 * redis_tls - a TLS session of tls.h under a connection of hiredis, for redis_link.c and the check
 * of the configuration.
 *
 * hiredis has TLS since 1.0; Debian 12 has 0.14.1. Only redis_tls.c knows.
 */
#ifndef ONLYONCE_REDIS_TLS_H
#define ONLYONCE_REDIS_TLS_H

#include "tls.h"

#include <hiredis/hiredis.h>
#include <stdint.h>

/* NULL: there is TLS. Else why not, as a fragment for "FIELD: <fragment>". */
const char *redis_tls_check(void);

/* Shakes hands over a context that is connected, and whose socket does not block. False:
 * tls_error() says why, or clock_now() is `deadline`. The context is to be freed before the session
 * is. */
bool redis_tls_begin(redisContext *context, struct tls *tls, int64_t deadline);

/* To be called before each read and write: errors that others left behind in OpenSSL would be taken
 * for this connection's. */
void redis_tls_ready(void);

/* Why a read or a write of such a context failed; to be asked at once. */
const char *redis_tls_why(const redisContext *context, struct tls *tls);

#endif
