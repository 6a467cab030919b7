#include "tls.h"

#include "file.h"
#include "log.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FILE_MAX ((size_t)4 * 1024 * 1024)
#define NAMES_MAX 4                                   /* of a certificate's names, in an error */
#define ALERT(reason) ((reason)-SSL_AD_REASON_OFFSET) /* what the other side sent */

struct tls {
    const struct tls_config *config;
    char *host;
    SSL *ssl;
    bool established;
    int receive_wants; /* SSL_ERROR_WANT_READ or _WRITE, of the last call that had to wait */
    int send_wants;
    bool over;
    bool refused;
    char error[TLS_ERROR_MAX]; /* the first reason */
};

/* ---- Files ---- */

/* A key that is encrypted would be asked for on the terminal. */
static int no_passphrase(char *to, int size, int writing, void *unused)
{
    (void)to;
    (void)size;
    (void)writing;
    (void)unused;
    return -1;
}

static bool is_readable(const char *file, char error[TLS_ERROR_MAX])
{
    struct buffer content = {0};
    char why[256];
    const char *bad = file_read(file, FILE_MAX, &content, why);
    buffer_free(&content);
    if (bad)
        snprintf(error, TLS_ERROR_MAX, "%s %s", file, bad);
    return !bad;
}

static bool load_ca(SSL_CTX *ctx, const char *file, char error[TLS_ERROR_MAX])
{
    if (!file)
        return SSL_CTX_set_default_verify_paths(ctx) == 1;
    if (!is_readable(file, error))
        return false;
    if (SSL_CTX_load_verify_locations(ctx, file, NULL) == 1)
        return true;
    snprintf(error, TLS_ERROR_MAX, "%s holds no certificate in PEM", file);
    return false;
}

static bool load_cert(SSL_CTX *ctx, const char *file, char error[TLS_ERROR_MAX])
{
    if (!is_readable(file, error))
        return false;
    if (SSL_CTX_use_certificate_chain_file(ctx, file) == 1)
        return true;
    unsigned long why = ERR_peek_error();
    if (ERR_GET_LIB(why) == ERR_LIB_PEM)
        snprintf(error, TLS_ERROR_MAX, "%s holds no certificate in PEM", file);
    else
        snprintf(error, TLS_ERROR_MAX, "%s holds a certificate that cannot be used: %s", file,
                 ERR_reason_error_string(why));
    return false;
}

static bool load_key(SSL_CTX *ctx, const struct tls_config *config, char error[TLS_ERROR_MAX])
{
    if (!is_readable(config->key, error))
        return false;
    if (SSL_CTX_use_PrivateKey_file(ctx, config->key, SSL_FILETYPE_PEM) == 1)
        return true;
    if (ERR_GET_LIB(ERR_peek_last_error()) == ERR_LIB_X509)
        snprintf(error, TLS_ERROR_MAX, "%s is not the key of the certificate %s", config->key,
                 config->cert);
    else
        snprintf(error, TLS_ERROR_MAX, "%s holds no private key in PEM without a passphrase",
                 config->key);
    return false;
}

static bool load(SSL_CTX *ctx, const struct tls_config *config, const char **field,
                 char error[TLS_ERROR_MAX])
{
    snprintf(error, TLS_ERROR_MAX, "the system's authorities cannot be loaded");
    ERR_clear_error();
    *field = "tls.ca";
    if (!load_ca(ctx, config->ca, error))
        return false;
    *field = "tls.cert";
    if (config->cert && !load_cert(ctx, config->cert, error))
        return false;
    *field = "tls.key";
    return !config->key || load_key(ctx, config, error);
}

/* Like out of memory elsewhere: without it nothing goes. */
static void must(bool done)
{
    if (!done)
        panic("OpenSSL: %s", ERR_reason_error_string(ERR_peek_last_error()));
}

static SSL_CTX *new_context(void)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    must(ctx != NULL);
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
    return ctx;
}

const char *tls_check(const struct tls_config *config, const char **field,
                      char error[TLS_ERROR_MAX])
{
    SSL_CTX *ctx = new_context();
    bool good = load(ctx, config, field, error);
    SSL_CTX_free(ctx);
    return good ? NULL : error;
}

/* ---- What is wrong with a certificate ---- */

/* One line of plain text, whatever the other side put there. */
static void add_plain(struct buffer *out, const unsigned char *text, int len)
{
    for (int i = 0; i < len && i < 100; i++)
        buffer_add_u8(out, text[i] > ' ' && text[i] < 0x7f ? text[i] : '?');
}

static void add_name(struct buffer *out, const GENERAL_NAME *name)
{
    char text[INET6_ADDRSTRLEN] = "?";
    if (name->type == GEN_DNS) {
        add_plain(out, ASN1_STRING_get0_data(name->d.dNSName), ASN1_STRING_length(name->d.dNSName));
        return;
    }
    int len = ASN1_STRING_length(name->d.iPAddress);
    inet_ntop(len == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(name->d.iPAddress), text,
              sizeof text);
    buffer_printf(out, "%s", text);
}

/* The common name counts only where there are no names of hosts. */
static void add_common_name(struct buffer *out, X509 *cert)
{
    char name[128] = "";
    X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, name, sizeof name);
    add_plain(out, (unsigned char *)name, (int)strlen(name));
}

static void add_names(struct buffer *out, X509 *cert)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    int added = 0;
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type != GEN_DNS && (name->type != GEN_IPADD || name->d.iPAddress->length % 4))
            continue;
        if (added == NAMES_MAX) {
            buffer_printf(out, ", ...");
            break;
        }
        buffer_printf(out, "%s", added++ ? ", " : "");
        add_name(out, name);
    }
    GENERAL_NAMES_free(names);
    if (!added)
        add_common_name(out, cert);
}

static void say_wrong_host(struct tls *t, X509 *cert)
{
    struct buffer names = {0};
    add_names(&names, cert);
    snprintf(t->error, sizeof t->error, "its certificate is not of host %s, but of %.*s", t->host,
             (int)names.len, (const char *)names.data);
    buffer_free(&names);
}

static void say_time(struct tls *t, X509 *cert, int depth, const char *what, const ASN1_TIME *when)
{
    struct tm tm = {0};
    char text[32] = "?";
    struct buffer name = {0};
    if (ASN1_TIME_to_tm(when, &tm))
        strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &tm);
    add_common_name(&name, cert);
    if (depth == 0)
        snprintf(t->error, sizeof t->error, "its certificate %s %s", what, text);
    else
        snprintf(t->error, sizeof t->error, "the certificate of its authority %.*s %s %s",
                 (int)name.len, (const char *)name.data, what, text);
    buffer_free(&name);
}

static void say_unknown_authority(struct tls *t)
{
    if (t->config->ca)
        snprintf(t->error, sizeof t->error,
                 "its certificate is signed by an authority that tls.ca (%s) does not hold",
                 t->config->ca);
    else
        snprintf(t->error, sizeof t->error,
                 "its certificate is signed by an authority that this system does not trust; set "
                 "tls.ca to that authority's file");
}

static void say_certificate(struct tls *t, int why, X509 *cert, int depth)
{
    switch (why) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH: say_wrong_host(t, cert); return;
    case X509_V_ERR_CERT_HAS_EXPIRED:
        say_time(t, cert, depth, "has expired on", X509_get0_notAfter(cert));
        return;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        say_time(t, cert, depth, "is valid only from", X509_get0_notBefore(cert));
        return;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE: say_unknown_authority(t); return;
    default:
        snprintf(t->error, sizeof t->error, "its certificate is not valid: %s",
                 X509_verify_cert_error_string(why));
    }
}

/* OpenSSL tells what is wrong only here, with the certificate in hand. */
static int on_verified(int good, X509_STORE_CTX *x509)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(x509, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct tls *t = SSL_get_app_data(ssl);
    if (!good && !*t->error) {
        say_certificate(t, X509_STORE_CTX_get_error(x509), X509_STORE_CTX_get_current_cert(x509),
                        X509_STORE_CTX_get_error_depth(x509));
        t->refused = true;
    }
    return good;
}

/* ---- Why it failed ---- */

static void say_too_old(struct tls *t)
{
    t->refused = true;
    snprintf(t->error, sizeof t->error, "it speaks no TLS 1.2 or newer");
}

/* What the server says of our side, most of it about certificates. */
static void say_alert(struct tls *t, int alert)
{
    const char *cert = t->config->cert;
    const char *text = SSL_alert_desc_string_long(alert);
    t->refused = true;
    switch (alert) {
    case SSL3_AD_BAD_CERTIFICATE:
    case SSL3_AD_UNSUPPORTED_CERTIFICATE:
    case SSL3_AD_CERTIFICATE_REVOKED:
    case SSL3_AD_CERTIFICATE_EXPIRED:
    case SSL3_AD_CERTIFICATE_UNKNOWN:
    case TLS1_AD_UNKNOWN_CA:
    case TLS1_AD_ACCESS_DENIED:
    case SSL3_AD_HANDSHAKE_FAILURE: /* TLS 1.2 calls a missing certificate so, and other things */
    case TLS13_AD_CERTIFICATE_REQUIRED:
        if (cert && alert == SSL3_AD_HANDSHAKE_FAILURE)
            break;
        if (cert)
            snprintf(t->error, sizeof t->error, "it refuses our certificate tls.cert (%s): %s",
                     cert, text);
        else
            snprintf(t->error, sizeof t->error,
                     "it refuses us without a certificate (%s); set tls.cert and tls.key", text);
        return;
    case TLS1_AD_PROTOCOL_VERSION: say_too_old(t); return;
    default: break;
    }
    t->refused = false;
    snprintf(t->error, sizeof t->error, "it ended TLS: %s", text);
}

static void say_protocol(struct tls *t, unsigned long code)
{
    int reason = ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0;
    if (reason > SSL_AD_REASON_OFFSET) {
        say_alert(t, ALERT(reason));
        return;
    }
    switch (reason) {
    case SSL_R_UNEXPECTED_EOF_WHILE_READING: return; /* no error: it hung up */
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_R_WRONG_SSL_VERSION: say_too_old(t); return;
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
        if (!t->established) {
            snprintf(t->error, sizeof t->error, "it does not speak TLS (is it the plain port?)");
            return;
        }
        break;
    default: break;
    }
    const char *text = ERR_reason_error_string(code);
    snprintf(t->error, sizeof t->error, "TLS: %s", text ? text : "an unknown error");
}

static void say_errno(struct tls *t, int error)
{
    char text[128];
    if (error)
        snprintf(t->error, sizeof t->error, "%s", strerror_r(error, text, sizeof text));
}

/* The socket fails. A server that hung up may have said why, still to be read: of a certificate
 * that it refuses, it says so when we believe the handshake done. */
static void hear_last_words(struct tls *t, int error)
{
    char byte;
    size_t n;
    ERR_clear_error();
    int result = t->established ? SSL_read_ex(t->ssl, &byte, 1, &n) : 1;
    if (result == 0 && SSL_get_error(t->ssl, result) == SSL_ERROR_SSL)
        say_protocol(t, ERR_peek_error());
    if (!*t->error)
        say_errno(t, error);
}

const char *tls_explain(struct tls *t, int result)
{
    int error = errno;
    int kind = SSL_get_error(t->ssl, result);
    if (kind == SSL_ERROR_NONE || kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE)
        return NULL;
    t->over = true;
    if (kind == SSL_ERROR_SSL && !*t->error)
        say_protocol(t, ERR_peek_error());
    else if (kind == SSL_ERROR_SYSCALL && !*t->error)
        hear_last_words(t, error);
    if (!t->established && !*t->error)
        snprintf(t->error, sizeof t->error,
                 "it closed the connection when TLS began (is it the plain port?)");
    return tls_error(t);
}

const char *tls_error(const struct tls *t)
{
    return *t->error ? t->error : NULL;
}

bool tls_refused(const struct tls *t)
{
    return t->refused;
}

/* ---- A session ---- */

struct tls *tls_new(const struct tls_config *config, const char *host, char error[TLS_ERROR_MAX])
{
    const char *field;
    SSL_CTX *ctx = new_context();
    if (!load(ctx, config, &field, error)) {
        SSL_CTX_free(ctx);
        return NULL;
    }
    struct tls *t = xcalloc(1, sizeof *t);
    t->config = config;
    t->host = xstrdup(host);
    t->ssl = SSL_new(ctx);
    must(t->ssl != NULL);
    SSL_CTX_free(ctx);
    assert(*host); /* an empty name would switch the check off */
    SSL_set_app_data(t->ssl, t);
    SSL_set_verify(t->ssl, config->verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE,
                   config->verify ? on_verified : NULL);
    if (!X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(t->ssl), host)) {
        must(SSL_set1_host(t->ssl, host) == 1);
        SSL_set_tlsext_host_name(t->ssl, t->host);
    }
    return t;
}

void tls_free(struct tls *t)
{
    if (!t)
        return;
    SSL_free(t->ssl);
    free(t->host);
    free(t);
}

SSL *tls_ssl(struct tls *t)
{
    return t->ssl;
}

enum tls_step tls_handshake(struct tls *t, int fd)
{
    if (SSL_get_fd(t->ssl) != fd)
        SSL_set_fd(t->ssl, fd);
    ERR_clear_error();
    errno = 0;
    int result = SSL_connect(t->ssl);
    if (result == 1) {
        t->established = true;
        return TLS_DONE;
    }
    t->receive_wants = SSL_get_error(t->ssl, result);
    tls_explain(t, result);
    return t->over ? TLS_FAILED : TLS_WAITS;
}

short tls_events(const struct tls *t)
{
    return t->receive_wants == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN;
}

bool tls_receive_wants_write(const struct tls *t)
{
    return t->receive_wants == SSL_ERROR_WANT_WRITE;
}

bool tls_send_wants_read(const struct tls *t)
{
    return t->send_wants == SSL_ERROR_WANT_READ;
}

ssize_t tls_send(struct tls *t, const void *data, size_t len)
{
    size_t done = 0;
    size_t n;
    while (!t->over && done < len) {
        ERR_clear_error();
        errno = 0;
        int result = SSL_write_ex(t->ssl, (const char *)data + done, len - done, &n);
        t->send_wants = SSL_get_error(t->ssl, result);
        if (result == 1) {
            done += n;
            continue;
        }
        tls_explain(t, result);
        break;
    }
    return done || !t->over ? (ssize_t)done : -1;
}

ssize_t tls_receive(struct tls *t, void *to, size_t room)
{
    size_t done = 0;
    size_t n;
    /* With room for a whole record each time, none of its bytes stay inside, unseen by poll(). */
    while (!t->over && room - done >= TLS_RECORD_MAX) {
        ERR_clear_error();
        errno = 0;
        int result = SSL_read_ex(t->ssl, (char *)to + done, room - done, &n);
        t->receive_wants = SSL_get_error(t->ssl, result);
        if (result == 1) {
            done += n;
            continue;
        }
        tls_explain(t, result);
        break;
    }
    return done || !t->over ? (ssize_t)done : -1;
}
