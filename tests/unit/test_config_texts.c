/* The manual page and the examples of configurations say what the table of options says. */
#include "config_case.h"
#include "file.h"
#include "option_texts.h"
#include "options.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

static char *read_source(const char *name)
{
    char *path = xasprintf("%s/%s", ONLYONCE_SOURCE_DIR, name);
    struct buffer text = {0};
    char error[256];
    const char *bad = file_read(path, 1 << 20, &text, error);
    if (bad)
        fail_msg("%s: %s", path, bad);
    buffer_add_u8(&text, 0);
    free(path);
    return (char *)text.data;
}

static void test_texts_are_current(void **state)
{
    (void)state;
    for (size_t i = 0; i < option_texts_count; i++) {
        char *text = read_source(option_texts[i].file);
        struct buffer want = {0};
        assert_true(option_text_renew(&option_texts[i], text, &want));
        buffer_add_u8(&want, 0);
        if (strcmp(text, (const char *)want.data) != 0)
            fail_msg("%s is not what src/options.c says: run tests/option_texts in the build's "
                     "folder, which writes it",
                     option_texts[i].file);
        buffer_free(&want);
        free(text);
    }
}

static void same_values(const struct option *o, const void *a, const void *b)
{
    const void *x = (const char *)a + o->offset;
    const void *y = (const char *)b + o->offset;
    switch (o->type) {
    case OPTION_BOOLEAN: assert_memory_equal(x, y, sizeof(bool)); break;
    case OPTION_WORD: assert_memory_equal(x, y, sizeof(int)); break;
    case OPTION_NUMBER:
    case OPTION_DURATION:
    case OPTION_SIZE: assert_memory_equal(x, y, sizeof(int64_t)); break;
    case OPTION_TEXT:
    case OPTION_NAME:
    case OPTION_ENTITY:
    case OPTION_PREFIX:
        if (!(o->flags & OPTION_LIST))
            same_text(o->path, *(char *const *)x, *(char *const *)y);
        break;
    }
}

/* Takes the "#" of every default away: "#heartbeat: 10s", but not "# prose". */
static char *uncommented(const char *text)
{
    struct buffer out = {0};
    bool in_indent = true;
    for (const char *p = text; *p; p++) {
        if (in_indent && p[0] == '#' && (islower((unsigned char)p[1]) || p[1] == '-'))
            continue;
        in_indent = *p == '\n' || (in_indent && *p == ' ');
        buffer_add_u8(&out, (uint8_t)*p);
    }
    buffer_add_u8(&out, 0);
    return (char *)out.data;
}

/* The files of the store with TLS are on no machine, and not every build has TLS. */
static char *without_tls(const char *text)
{
    const char *scheme = strstr(text, "rediss+");
    const char *tls = scheme ? strstr(scheme, "    tls:\n") : NULL;
    const char *behind = tls ? strstr(tls, "\n    # ") : NULL;
    if (!behind) {
        fail_msg("the example has no store with TLS");
        return NULL;
    }
    const char *between = scheme + strlen("rediss");
    return xasprintf("%.*sredis%.*s%s", (int)(scheme - text), text, (int)(tls - between), between,
                     behind + 1);
}

/* A certificate, signed by itself, and its key, in one file. */
static void write_certificate(const char *path)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    X509_gmtime_adj(X509_getm_notBefore(cert), 0);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, key);
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(PEM_write_X509(f, cert), 1);
    assert_int_equal(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL), 1);
    assert_int_equal(fclose(f), 0);
    EVP_PKEY_free(key);
    X509_free(cert);
}

/* The files of certificates and keys that it names are not here, but another. */
static char *with_certificates(const char *text)
{
    static const char *const names[] = {"ca.pem", "relay.pem", "relay.key"};
    char *out = xstrdup(text);
    write_certificate(config_secret_path);
    for (size_t i = 0; i < COUNT(names); i++) {
        char *name = xasprintf("/etc/onlyonce/%s", names[i]);
        for (char *at; (at = strstr(out, name));) {
            char *next =
                xasprintf("%.*s%s%s", (int)(at - out), out, config_secret_path, at + strlen(name));
            free(out);
            out = next;
        }
        free(name);
    }
    return out;
}

static void test_example_shows_every_field_and_default(void **state)
{
    (void)state;
    char *text = read_source("config/onlyonce.yaml");
    struct buffer missing = {0};
    option_texts_missing_from(text, &missing);
    if (missing.len)
        fail_msg("config/onlyonce.yaml: %.*s", (int)missing.len, (const char *)missing.data);
    char *bare = uncommented(text);
    char *plain = without_tls(bare);
    char *full = with_certificates(plain);
    struct config *a = config_load_good("config/onlyonce.yaml", span_of(text));
    struct config *b = config_load_good("config/onlyonce.yaml, uncommented", span_of(full));
    assert_true(strlen(bare) < strlen(text));
    for (size_t i = 0; i < options_count; i++) {
        const struct option *o = &options[i];
        if (strncmp(o->path, "broker", 6) == 0)
            same_values(o, &a->broker, &b->broker);
        else if (strncmp(o->path, "log", 3) == 0)
            same_values(o, &a->log, &b->log);
        else if (strncmp(o->path, "stores", 6) == 0)
            same_values(o, &a->stores[0], &b->stores[0]);
        else if (strncmp(o->path, "routes", 6) == 0)
            same_values(o, &a->routes[0], &b->routes[0]);
    }
    assert_int_equal(b->routes[0].from.bindings.count, 1);
    assert_string_equal(b->routes[0].from.bindings.items[0], a->routes[0].from.bindings.items[0]);
    assert_int_equal(a->warnings.count, 0);
    config_free(a);
    config_free(b);
    free(full);
    free(bare);
    free(plain);
    free(text);
}

static void test_drift_is_noticed(void **state)
{
    (void)state;
    struct buffer missing = {0};
    option_texts_missing_from("heartbeat: 11s", &missing);
    buffer_add_u8(&missing, 0);
    assert_non_null(
        strstr((const char *)missing.data, "broker.heartbeat: \"heartbeat: 10s\" is missing\n"));
    buffer_free(&missing);
}

static void test_demo(void **state)
{
    (void)state;
    setenv("ONLYONCE_DEMO_AMQP", "amqp://guest:guest@127.0.0.1:5673", 1);
    setenv("ONLYONCE_DEMO_REDIS", "redis://127.0.0.1:6380", 1);
    char *text = read_source("config/demo.yaml");
    struct config *c = config_load_good("config/demo.yaml", span_of(text));
    assert_int_equal(c->broker.parsed[0].port, 5673);
    assert_int_equal(c->stores[0].parsed.port, 6380);
    assert_non_null(config_route(c, "payments"));
    assert_string_equal(c->routes[0].from.queue, "payments.in");
    assert_string_equal(c->routes[0].to.queue, "payments.work");
    config_free(c);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_are_current),
        cmocka_unit_test(test_example_shows_every_field_and_default),
        cmocka_unit_test(test_drift_is_noticed),
        cmocka_unit_test(test_demo),
    };
    return cmocka_run_group_tests(tests, config_make_folder, config_remove_folder);
}
