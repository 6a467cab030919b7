/*
 * tls.h and wire.h against a TLS server of the test's own, with certificates that it makes: what is
 * refused and how that is said, and much data in both directions at once. With a real broker:
 * tests/integration/tls.sh.
 */
#include "clock.h"
#include "wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DAY 86400L
#define MUCH ((size_t)4 * 1024 * 1024)

static char folder[] = "/tmp/onlyonce-test-XXXXXX";

/* ---- Certificates ---- */

struct maker {
    EVP_PKEY *key;
    X509 *cert;
};

static const char *path_of(const char *name, char out[128])
{
    snprintf(out, 128, "%s/%s", folder, name);
    return out;
}

static void add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert_non_null(extension);
    X509_add_ext(cert, extension, -1);
    X509_EXTENSION_free(extension);
}

/* `by`: its authority; NULL: itself, and it is one. `names`: as subjectAltName has them; NULL:
 * none. */
static struct maker make(const struct maker *by, const char *cn, const char *names, long from,
                         long until)
{
    struct maker m = {EVP_EC_gen("P-256"), X509_new()};
    const struct maker *issuer = by ? by : &m;
    static long serial;
    X509_set_version(m.cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(m.cert), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(m.cert), from);
    X509_gmtime_adj(X509_getm_notAfter(m.cert), until);
    X509_set_pubkey(m.cert, m.key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(m.cert), "CN", MBSTRING_ASC,
                               (const unsigned char *)cn, -1, -1, 0);
    X509_set_issuer_name(m.cert, X509_get_subject_name(issuer->cert));
    if (!by)
        add_extension(m.cert, m.cert, NID_basic_constraints, "critical,CA:TRUE");
    if (names)
        add_extension(m.cert, issuer->cert, NID_subject_alt_name, names);
    assert_true(X509_sign(m.cert, issuer->key, EVP_sha256()) > 0);
    return m;
}

/* NAME.pem and NAME.key; and it is no longer needed otherwise, but by an authority. */
static void save(const struct maker *m, const char *name, const char *passphrase)
{
    char path[128];
    char file[64];
    snprintf(file, sizeof file, "%s.pem", name);
    FILE *f = fopen(path_of(file, path), "w");
    assert_true(f && PEM_write_X509(f, m->cert));
    fclose(f);
    snprintf(file, sizeof file, "%s.key", name);
    f = fopen(path_of(file, path), "w");
    assert_true(f && PEM_write_PrivateKey(f, m->key, passphrase ? EVP_aes_128_cbc() : NULL,
                                          (const unsigned char *)passphrase,
                                          passphrase ? (int)strlen(passphrase) : 0, NULL, NULL));
    fclose(f);
}

static void forget(struct maker *m)
{
    EVP_PKEY_free(m->key);
    X509_free(m->cert);
}

static void make_one(const struct maker *by, const char *file, const char *cn, const char *names,
                     long from, long until)
{
    struct maker m = make(by, cn, names, from, until);
    save(&m, file, NULL);
    forget(&m);
}

static int make_certificates(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    if (!mkdtemp(folder))
        return -1;
    struct maker ca = make(NULL, "our authority", NULL, 0, DAY);
    struct maker old = make(NULL, "old authority", NULL, -2 * DAY, -DAY);
    struct maker locked = make(&ca, "locked", NULL, 0, DAY);
    save(&ca, "ca", NULL);
    save(&old, "old", NULL);
    save(&locked, "locked", "secret");
    make_one(NULL, "other", "our authority", NULL, 0, DAY); /* of the same name */
    make_one(&ca, "good", "x", "DNS:localhost,IP:127.0.0.1,IP:::1", 0, DAY);
    make_one(&ca, "dns", "localhost", "DNS:a.example,DNS:*.b.example,IP:10.0.0.1,IP:::2,DNS:c", 0,
             DAY);
    make_one(&ca, "cn", "localhost", NULL, 0, DAY);
    make_one(&ca, "strange", "x\ny", NULL, 0, DAY);
    make_one(&ca, "late", "x", "IP:127.0.0.1", -2 * DAY, -60);
    make_one(&ca, "early", "x", "IP:127.0.0.1", DAY, 2 * DAY);
    make_one(&old, "old-child", "x", "IP:127.0.0.1", -2 * DAY, DAY);
    forget(&ca);
    forget(&old);
    forget(&locked);
    return 0;
}

static int remove_certificates(void **state)
{
    (void)state;
    char *command = xasprintf("rm -r %s", folder);
    int code = system(command); /* NOLINT(bugprone-command-processor): the name is ours */
    free(command);
    return code;
}

/* ---- The server ---- */

struct server {
    int listener;
    int port;
    const char *cert; /* NULL: it speaks no TLS, but `text` */
    const char *text;
    bool asks; /* for the client's certificate */
    int version_max;
    size_t echo; /* so many bytes are sent back as they come */
    pthread_t thread;
};

static SSL_CTX *server_context(const struct server *s)
{
    char path[128];
    char file[64];
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    snprintf(file, sizeof file, "%s.pem", s->cert);
    assert_int_equal(SSL_CTX_use_certificate_chain_file(ctx, path_of(file, path)), 1);
    snprintf(file, sizeof file, "%s.key", s->cert);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(ctx, path_of(file, path), SSL_FILETYPE_PEM), 1);
    if (s->version_max) {
        SSL_CTX_set_min_proto_version(ctx, TLS1_VERSION);
        SSL_CTX_set_max_proto_version(ctx, s->version_max);
        SSL_CTX_set_cipher_list(ctx, "DEFAULT@SECLEVEL=0");
    }
    if (s->asks) {
        SSL_CTX_load_verify_locations(ctx, path_of("ca.pem", path), NULL);
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    }
    return ctx;
}

static void echo(SSL *ssl, size_t left)
{
    static char chunk[50000];
    int n;
    while (left && (n = SSL_read(ssl, chunk, sizeof chunk)) > 0) {
        SSL_write(ssl, chunk, n);
        left -= (size_t)n;
    }
}

static void *serve(void *arg)
{
    struct server *s = arg;
    int fd = accept(s->listener, NULL, NULL);
    if (s->cert) {
        SSL_CTX *ctx = server_context(s);
        SSL *ssl = SSL_new(ctx);
        SSL_set_fd(ssl, fd);
        if (SSL_accept(ssl) == 1)
            echo(ssl, s->echo);
        SSL_free(ssl);
        SSL_CTX_free(ctx);
    } else if (*s->text) {
        assert_int_equal(send(fd, s->text, strlen(s->text), MSG_NOSIGNAL), strlen(s->text));
    }
    shutdown(fd, SHUT_WR);
    char rest[512];
    while (recv(fd, rest, sizeof rest, 0) > 0)
        ; /* until the client has gone, so that what it was told is not lost by a reset */
    close(fd);
    return NULL;
}

static void start(struct server *s)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    s->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(s->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(s->listener, 1), 0);
    getsockname(s->listener, (struct sockaddr *)&address, &size);
    s->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void stop(struct server *s)
{
    pthread_join(s->thread, NULL);
    close(s->listener);
}

/* ---- Refusals ---- */

static bool wait_for(const struct wire *w, bool unsent, int64_t until)
{
    struct pollfd p = {.fd = w->fd, .events = POLLIN};
    if (wire_wants_write(w, unsent))
        p.events |= POLLOUT;
    return poll(&p, 1, 5000) == 1 && clock_now() < until;
}

/* Opens, and hears what comes behind the handshake: TLS 1.3 tells of a refused client only then. */
static bool opens(struct wire *w, const char *host, int port, const struct tls_config *tls)
{
    int64_t until = clock_now() + 5000;
    uint8_t byte[WIRE_ROOM_MIN];
    if (!wire_open(w, host, port, tls, 0, until))
        return false;
    ssize_t n;
    while ((n = wire_receive(w, byte, sizeof byte)) == 0)
        assert_true(wait_for(w, false, until));
    bool good = n > 0 || !*w->error; /* closed without a word is all that is expected */
    wire_close(w);
    return good;
}

struct refusal_case {
    const char *label;
    const char *cert; /* the server's; NULL: it says `text` */
    const char *text;
    const char *host;
    const char *ca;
    const char *own; /* shown by the client */
    bool asks;
    bool no_verify;
    int version_max;
    bool refused;
    const char *want; /* NULL: all is well */
};

static const struct refusal_case refusals[] = {
    {"an address", "good", "", "127.0.0.1", "ca", NULL, false, false, 0, false, NULL},
    {"a name", "good", "", "localhost", "ca", NULL, false, false, 0, false, NULL},
    {"a common name", "cn", "", "localhost", "ca", NULL, false, false, 0, false, NULL},
    {"nothing verified", "late", "", "localhost", "other", NULL, false, true, 0, false, NULL},
    {"TLS 1.2", "good", "", "localhost", "ca", NULL, false, false, TLS1_2_VERSION, false, NULL},
    {"other names", "dns", "", "localhost", "ca", NULL, false, false, 0, true,
     "its certificate is not of host localhost, but of a.example, *.b.example, 10.0.0.1, ::2, ..."},
    {"another address", "dns", "", "127.0.0.1", "ca", NULL, false, false, 0, true,
     "its certificate is not of host 127.0.0.1, but of a.example"},
    {"a common name is no address", "cn", "", "127.0.0.1", "ca", NULL, false, false, 0, true,
     "its certificate is not of host 127.0.0.1, but of localhost"},
    {"a name in two lines", "strange", "", "localhost", "ca", NULL, false, false, 0, true,
     "but of x?y"},
    {"too late", "late", "", "127.0.0.1", "ca", NULL, false, false, 0, true,
     "its certificate has expired on 20"},
    {"too early", "early", "", "127.0.0.1", "ca", NULL, false, false, 0, true,
     "its certificate is valid only from 20"},
    {"an authority that is too old", "old-child", "", "127.0.0.1", "old", NULL, false, false, 0,
     true, "the certificate of its authority old?authority has expired on 20"},
    {"another authority of that name", "good", "", "127.0.0.1", "other", NULL, false, false, 0,
     true, "its certificate is signed by an authority that tls.ca ("},
    {"signed by itself", "old", "", "127.0.0.1", "ca", NULL, false, false, 0, true,
     "its certificate is signed by an authority that tls.ca ("},
    {"TLS 1.1", "good", "", "127.0.0.1", "ca", NULL, false, false, TLS1_1_VERSION, true,
     "it speaks no TLS 1.2 or newer"},
    {"HTTP", NULL, "HTTP/1.1 400 Bad Request\r\n\r\n", "127.0.0.1", "ca", NULL, false, false, 0,
     false, "it does not speak TLS (is it the plain port?)"},
    {"a plain broker", NULL, "AMQP\x01\x01\x09\x01", "127.0.0.1", "ca", NULL, false, false, 0,
     false, "it does not speak TLS (is it the plain port?)"},
    {"it hangs up", NULL, "", "127.0.0.1", "ca", NULL, false, false, 0, false,
     "it closed the connection when TLS began (is it the plain port?)"},
    {"a client's certificate", "good", "", "127.0.0.1", "ca", "good", true, false, 0, false, NULL},
    {"none", "good", "", "127.0.0.1", "ca", NULL, true, false, 0, true,
     "it refuses us without a certificate ("},
    {"none, TLS 1.2", "good", "", "127.0.0.1", "ca", NULL, true, false, TLS1_2_VERSION, true,
     "; set tls.cert and tls.key"},
    {"a stranger's", "good", "", "127.0.0.1", "ca", "other", true, false, 0, true,
     "it refuses our certificate tls.cert ("},
    {"an old one, TLS 1.2", "good", "", "127.0.0.1", "ca", "late", true, false, TLS1_2_VERSION,
     true, "certificate expired"},
};

static void check_refusal(const struct refusal_case *c)
{
    char ca[128], cert[128], key[128], file[64];
    struct server s = {
        .cert = c->cert, .text = c->text, .asks = c->asks, .version_max = c->version_max};
    struct tls_config config = {.verify = !c->no_verify};
    snprintf(file, sizeof file, "%s.pem", c->ca);
    path_of(file, ca);
    config.ca = ca;
    if (c->own) {
        snprintf(file, sizeof file, "%s.pem", c->own);
        path_of(file, cert);
        snprintf(file, sizeof file, "%s.key", c->own);
        path_of(file, key);
        config.cert = cert;
        config.key = key;
    }
    struct wire w;
    start(&s);
    bool good = opens(&w, c->host, s.port, &config);
    if (good != !c->want || (c->want && !strstr(w.error, c->want)) || w.refused != c->refused)
        fail_msg("%s: %s, refused %d", c->label, good ? "is well" : w.error, (int)w.refused);
    wire_close(&w);
    stop(&s);
}

static void test_what_is_refused_and_how_it_is_said(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        check_refusal(&refusals[i]);
}

/* Nobody answers: the deadline bounds it. */
static void test_a_server_that_says_nothing(void **state)
{
    (void)state;
    struct server s = {0};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    s.listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(s.listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(s.listener, 1), 0);
    getsockname(s.listener, (struct sockaddr *)&address, &size);
    char ca[128];
    struct tls_config config = {.verify = true};
    path_of("ca.pem", ca);
    config.ca = ca;
    struct wire w;
    int64_t before = clock_now();
    assert_false(wire_open(&w, "127.0.0.1", ntohs(address.sin_port), &config, 0, before + 1000));
    assert_true(clock_now() - before >= 1000 && clock_now() - before < 5000);
    assert_string_equal(w.error, "it did not answer to TLS in time");
    assert_false(w.refused);
    assert_int_equal(w.fd, -1);
    close(s.listener);
}

/* ---- Files ---- */

static void test_files(void **state)
{
    (void)state;
    static const struct {
        const char *label;
        const char *ca, *cert, *key;
        const char *field;
        const char *want;
    } table[] = {
        {"all", "ca.pem", "good.pem", "good.key", NULL, NULL},
        {"the system's", NULL, NULL, NULL, NULL, NULL},
        {"no such authority", "no.pem", NULL, NULL, "tls.ca",
         "no.pem cannot be read: No such file or directory"},
        {"a key as authority", "good.key", NULL, NULL, "tls.ca", "holds no certificate in PEM"},
        {"a folder", ".", NULL, NULL, "tls.ca", "cannot be read: Is a directory"},
        {"no such certificate", "ca.pem", "no.pem", "good.key", "tls.cert", "cannot be read: "},
        {"a key as certificate", "ca.pem", "good.key", "good.key", "tls.cert",
         "holds no certificate in PEM"},
        {"no such key", "ca.pem", "good.pem", "no.key", "tls.key", "cannot be read: "},
        {"a certificate as key", "ca.pem", "good.pem", "good.pem", "tls.key",
         "holds no private key in PEM"},
        {"a key that is locked", "ca.pem", "locked.pem", "locked.key", "tls.key",
         "holds no private key in PEM without a passphrase"},
        {"another's key", "ca.pem", "good.pem", "late.key", "tls.key",
         "late.key is not the key of the certificate "},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char ca[128], cert[128], key[128];
        char error[TLS_ERROR_MAX] = "";
        const char *field = NULL;
        struct tls_config config = {.verify = true};
        const char *const names[] = {table[i].ca, table[i].cert, table[i].key};
        config.ca = names[0] ? (path_of(names[0], ca), ca) : NULL;
        config.cert = names[1] ? (path_of(names[1], cert), cert) : NULL;
        config.key = names[2] ? (path_of(names[2], key), key) : NULL;
        const char *bad = tls_check(&config, &field, error);
        if (!bad != !table[i].want ||
            (bad && (!strstr(bad, table[i].want) || strcmp(field, table[i].field) != 0)))
            fail_msg("%s: %s: %s", table[i].label, field, bad ? bad : "is well");
        struct tls *t = tls_new(&config, "h", error);
        assert_true(!t == !!table[i].want);
        tls_free(t);
    }
}

/* ---- Data ---- */

static uint8_t byte_at(size_t i)
{
    return (uint8_t)(i * 7 + i / 65521);
}

/* Both directions at once, with more on its way than any socket holds: neither waits for the other,
 * and nothing stays inside OpenSSL while poll() waits for the socket. */
static void test_much_data_both_ways(void **state)
{
    (void)state;
    char ca[128];
    struct server s = {.cert = "good", .text = "", .echo = MUCH};
    struct tls_config config = {.verify = true};
    path_of("ca.pem", ca);
    config.ca = ca;
    start(&s);
    struct wire w;
    int64_t until = clock_now() + 30000;
    assert_true(wire_open(&w, "localhost", s.port, &config, 0, until));
    uint8_t *out = xmalloc(MUCH);
    uint8_t *in = xmalloc(MUCH + WIRE_ROOM_MIN);
    for (size_t i = 0; i < MUCH; i++)
        out[i] = byte_at(i);
    size_t sent = 0;
    size_t got = 0;
    while (got < MUCH) {
        ssize_t n = sent < MUCH ? wire_send(&w, out + sent, MUCH - sent) : 0;
        assert_true(n >= 0);
        sent += (size_t)n;
        n = wire_receive(&w, in + got, MUCH + WIRE_ROOM_MIN - got);
        if (n < 0)
            fail_msg("after %zu bytes: %s", got, w.error);
        got += (size_t)n;
        if (n == 0)
            assert_true(wait_for(&w, sent < MUCH, until));
    }
    assert_memory_equal(in, out, MUCH);
    ssize_t n;
    while ((n = wire_receive(&w, in, WIRE_ROOM_MIN)) == 0)
        assert_true(wait_for(&w, false, until));
    assert_int_equal(n, -1);
    assert_string_equal(w.error, ""); /* it has ended */
    wire_close(&w);
    stop(&s);
    free(in);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_what_is_refused_and_how_it_is_said),
        cmocka_unit_test(test_a_server_that_says_nothing),
        cmocka_unit_test(test_much_data_both_ways),
    };
    return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
