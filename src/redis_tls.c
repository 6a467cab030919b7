#include "redis_tls.h"

#include "clock.h"

#include <stdio.h>

#ifndef ONLYONCE_REDIS_TLS

bool redis_tls_check(const struct tls_config *config, const char **field,
                     char error[REDIS_TLS_ERROR])
{
    (void)config;
    *field = "url";
    snprintf(error, REDIS_TLS_ERROR,
             "asks for TLS, which this build cannot: its hiredis is %d.%d.%d without TLS; write "
             "redis:// and go through a tunnel such as stunnel, or a private network, or build on "
             "Debian 13",
             HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
    return false;
}

bool redis_tls_begin(redisContext *context, const struct tls_config *config, const char *host,
                     int64_t deadline, bool *asked, char error[REDIS_TLS_ERROR])
{
    const char *field;
    (void)asked;
    (void)context;
    (void)host;
    (void)deadline;
    return redis_tls_check(config, &field, error);
}

void redis_tls_ready(void)
{
}

const char *redis_tls_why(const redisContext *context)
{
    return context->errstr;
}

#else

#include <arpa/inet.h>
#include <errno.h>
#include <hiredis/hiredis_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <string.h>

static bool fail(char error[REDIS_TLS_ERROR], const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static bool fail(char error[REDIS_TLS_ERROR], const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(error, REDIS_TLS_ERROR, fmt, args);
    va_end(args);
    return false;
}

/* ---- Files ---- */

/* Opens it only to learn why OpenSSL will not be able to. */
static bool is_readable(const char *path, char error[REDIS_TLS_ERROR])
{
    FILE *file = fopen(path, "r");
    if (!file)
        return fail(error, "cannot read %s: %s", path, strerror(errno));
    fclose(file);
    return true;
}

/* Without this OpenSSL would ask whoever sits at the terminal. */
static int no_passphrase(char *buffer, int size, int writing, void *context)
{
    (void)buffer;
    (void)size;
    (void)writing;
    *(bool *)context = true;
    return -1;
}

static bool load_authorities(SSL_CTX *ssl, const char *path, char error[REDIS_TLS_ERROR])
{
    if (!path)
        return SSL_CTX_set_default_verify_paths(ssl) == 1 ||
               fail(error, "is missing, and the system's authorities cannot be read");
    return is_readable(path, error) && (SSL_CTX_load_verify_locations(ssl, path, NULL) == 1 ||
                                        fail(error, "%s holds no certificates in PEM", path));
}

static bool load_certificate(SSL_CTX *ssl, const char *path, char error[REDIS_TLS_ERROR])
{
    return is_readable(path, error) &&
           (SSL_CTX_use_certificate_chain_file(ssl, path) == 1 ||
            fail(error, "%s holds no certificate in PEM that OpenSSL accepts", path));
}

static bool load_key(SSL_CTX *ssl, const char *path, char error[REDIS_TLS_ERROR])
{
    bool encrypted = false;
    if (!is_readable(path, error))
        return false;
    SSL_CTX_set_default_passwd_cb(ssl, no_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(ssl, &encrypted);
    if (SSL_CTX_use_PrivateKey_file(ssl, path, SSL_FILETYPE_PEM) == 1)
        return true;
    if (encrypted)
        return fail(error, "%s is encrypted; it has to be a key without a passphrase", path);
    if (ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH)
        return fail(error, "%s is not the key of the certificate in tls.cert", path);
    return fail(error, "%s holds no private key in PEM", path);
}

/* What all connections begin with, or NULL. */
static SSL_CTX *make_context(const struct tls_config *config, const char **field,
                             char error[REDIS_TLS_ERROR])
{
    SSL_CTX *ssl = SSL_CTX_new(TLS_client_method());
    *field = "url";
    if (!ssl) {
        fail(error, "asks for TLS, and OpenSSL cannot begin it");
        return NULL;
    }
    SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION);
    /* A read then never has to wait for a write. */
    SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION);
    *field = "tls.ca";
    bool good = !config->verify || load_authorities(ssl, config->ca, error);
    if (good && config->cert) {
        *field = "tls.cert";
        good = load_certificate(ssl, config->cert, error);
    }
    if (good && config->key) {
        *field = "tls.key";
        good = load_key(ssl, config->key, error);
    }
    if (!good) {
        SSL_CTX_free(ssl);
        return NULL;
    }
    return ssl;
}

bool redis_tls_check(const struct tls_config *config, const char **field,
                     char error[REDIS_TLS_ERROR])
{
    ERR_clear_error();
    SSL_CTX *ssl = make_context(config, field, error);
    SSL_CTX_free(ssl);
    return ssl != NULL;
}

/* ---- The handshake ---- */

static bool is_address(const char *host)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

/* OpenSSL is about to answer the server's request for a certificate. */
static int note_request(SSL *ssl, void *asked)
{
    (void)ssl;
    *(bool *)asked = true;
    return 1;
}

/* Which host is meant: checked in its certificate, and told to it, which is done for names only. */
static bool name_host(SSL *ssl, const char *host, bool verify)
{
    if (verify)
        SSL_set_verify(ssl, SSL_VERIFY_PEER, NULL);
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (is_address(host))
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

/* OpenSSL's reason for the last error, or NULL. */
static const char *last_reason(void)
{
    unsigned long last = ERR_peek_last_error();
    switch (last ? ERR_GET_REASON(last) : 0) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG: return "it does not speak TLS";
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
        return "it refuses the handshake, as one that asks for a client certificate does; set "
               "tls.cert and tls.key";
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
        return "it does not trust the authority of the certificate in tls.cert";
    default: return last ? ERR_reason_error_string(last) : NULL;
    }
}

static bool fail_verification(long verdict, const char *host, char error[REDIS_TLS_ERROR])
{
    switch (verdict) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return fail(error, "its certificate is for other names than %s", host);
    case X509_V_ERR_CERT_HAS_EXPIRED: return fail(error, "its certificate has expired");
    case X509_V_ERR_CERT_NOT_YET_VALID: return fail(error, "its certificate is not valid yet");
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        return fail(error, "its certificate is not of an authority in tls.ca (%s)",
                    X509_verify_cert_error_string(verdict));
    default:
        return fail(error, "its certificate is refused: %s",
                    X509_verify_cert_error_string(verdict));
    }
}

static bool fail_handshake(SSL *ssl, const char *host, char error[REDIS_TLS_ERROR])
{
    long verdict = SSL_get_verify_result(ssl);
    const char *reason = last_reason();
    if (SSL_get_verify_mode(ssl) != SSL_VERIFY_NONE && verdict != X509_V_OK)
        return fail_verification(verdict, host, error);
    return fail(error, "no TLS: %s", reason ? reason : "it closed the connection");
}

static bool wait_for(int fd, short events, int64_t deadline)
{
    struct pollfd socket = {.fd = fd, .events = events};
    int64_t left = deadline - clock_now();
    return left > 0 && poll(&socket, 1, (int)left) != 0;
}

/* hiredis has begun it, and gives no way to go on: but the SSL object is ours. */
static bool shake_hands(int fd, SSL *ssl, const char *host, int64_t deadline,
                        char error[REDIS_TLS_ERROR])
{
    for (;;) {
        ERR_clear_error();
        int done = SSL_do_handshake(ssl);
        if (done == 1)
            return true;
        int why = SSL_get_error(ssl, done);
        if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
            return fail_handshake(ssl, host, error);
        if (!wait_for(fd, why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, deadline))
            return fail(error, "no TLS: no answer in time");
    }
}

bool redis_tls_begin(redisContext *context, const struct tls_config *config, const char *host,
                     int64_t deadline, bool *asked, char error[REDIS_TLS_ERROR])
{
    const char *field;
    char why[REDIS_TLS_ERROR];
    ERR_clear_error();
    SSL_CTX *shared = make_context(config, &field, why);
    if (!shared)
        return fail(error, "%s: %.200s", field, why);
    SSL_CTX_set_cert_cb(shared, note_request, asked);
    SSL *ssl = SSL_new(shared);
    SSL_CTX_free(shared); /* ssl holds it */
    if (!ssl || !name_host(ssl, host, config->verify)) {
        SSL_free(ssl);
        return fail(error, "no TLS: OpenSSL cannot begin it");
    }
    /* A quick server may already have answered, and the answer may be no good. */
    if (redisInitiateSSL(context, ssl) != REDIS_OK) {
        fail_handshake(ssl, host, error);
        SSL_free(ssl);
        return false;
    }
    return shake_hands(context->fd, ssl, host, deadline, error);
}

void redis_tls_ready(void)
{
    ERR_clear_error();
}

const char *redis_tls_why(const redisContext *context)
{
    const char *reason = last_reason();
    return reason ? reason : context->errstr;
}

#endif
