/*
 * tls - one TLS session with a server, by OpenSSL: TLS 1.2 or newer, the server's certificate
 * verified against its host name or address unless the configuration says otherwise, our own
 * certificate shown if there is one. Nothing here waits.
 *
 * tls_new() reads the files of the configuration, so a session uses those of its own day: renewed
 * certificates need no restart. Errors are fragments for "cannot connect to HOST: <fragment>".
 *
 * Either this file drives the session (tls_handshake(), tls_send(), tls_receive()), or a library
 * does that is given tls_ssl(), as hiredis is by redis_tls.c, and one asks tls_explain() why it
 * failed.
 *
 * DANGER: OpenSSL writes without MSG_NOSIGNAL, so a process that uses this must ignore SIGPIPE.
 */
#ifndef ONLYONCE_TLS_H
#define ONLYONCE_TLS_H

#include "config.h"

#include <openssl/ssl.h>
#include <stdbool.h>
#include <sys/types.h>

#define TLS_ERROR_MAX 512
/* The most that one record holds. Who has room for it leaves nothing inside OpenSSL. */
#define TLS_RECORD_MAX ((size_t)16 * 1024)

struct tls;

/* NULL: the files can be used. Else what is wrong with the one of *field ("tls.ca", "tls.cert",
 * "tls.key"), for "FIELD: <fragment>". */
const char *tls_check(const struct tls_config *config, const char **field,
                      char error[TLS_ERROR_MAX]);

/* A session that has not begun, with a server that is to be `host`, a name or an address. NULL: a
 * file cannot be used. `config` must outlive it. */
struct tls *tls_new(const struct tls_config *config, const char *host, char error[TLS_ERROR_MAX])
    __attribute__((warn_unused_result));
void tls_free(struct tls *t); /* NULL is fine */

/* The session's own; SSL_up_ref() it for a library that frees what it is given. */
SSL *tls_ssl(struct tls *t);

/* Goes on with the handshake over a socket that does not block. TLS_WAITS: call again once the
 * socket has tls_events(). TLS_FAILED: tls_error() says why. */
enum tls_step { TLS_DONE, TLS_WAITS, TLS_FAILED };
enum tls_step tls_handshake(struct tls *t, int fd);
short tls_events(const struct tls *t);

/* How many bytes were taken, or came; 0: none now; -1: it is over, and tls_error() says why. */
ssize_t tls_send(struct tls *t, const void *data, size_t len);
ssize_t tls_receive(struct tls *t, void *to, size_t room); /* at least TLS_RECORD_MAX */

/* Either direction may have to wait for the other one's readiness. */
bool tls_receive_wants_write(const struct tls *t);
bool tls_send_wants_read(const struct tls *t);

/* At once after an OpenSSL call on tls_ssl() that returned `result`: tls_error(), or NULL if it
 * only has to wait. */
const char *tls_explain(struct tls *t, int result);
/* NULL also if the server closed the connection. */
const char *tls_error(const struct tls *t);
/* Certificates, or the version of TLS, are why it failed: trying again will hardly help. */
bool tls_refused(const struct tls *t);

#endif
