/*
 * redis_tls - TLS for connections to Redis and its Sentinels, for redis_link.c and the check of the
 * configuration.
 *
 * The server's certificate has to come from an authority that is trusted, and has to name the host
 * that was asked for, unless tls.verify is false. The files are read at each connect, so that new
 * ones are used when they are there.
 *
 * hiredis has TLS since 1.0; Debian 12 has 0.14. Only redis_tls.c knows: without TLS,
 * redis_tls_check() always answers that.
 */
#ifndef ONLYONCE_REDIS_TLS_H
#define ONLYONCE_REDIS_TLS_H

#include "config.h"

#include <hiredis/hiredis.h>

#define REDIS_TLS_ERROR 320

/* Is there TLS, and can the files be used? False: what is wrong with *field, "url" or "tls.cert",
 * as the fragment of a sentence. */
bool redis_tls_check(const struct tls_config *config, const char **field,
                     char error[REDIS_TLS_ERROR]);

/* TLS over a context that is connected, and whose socket does not block. *asked: the server asked
 * for a certificate. It may refuse what it got, or got not, only afterwards, by hanging up. */
bool redis_tls_begin(redisContext *context, const struct tls_config *config, const char *host,
                     int64_t deadline, bool *asked, char error[REDIS_TLS_ERROR]);

/* To be called before each read and write: errors that others left behind in OpenSSL would be taken
 * for this connection's. */
void redis_tls_ready(void);

/* Why a read or a write of such a context failed. */
const char *redis_tls_why(const redisContext *context);

#endif
