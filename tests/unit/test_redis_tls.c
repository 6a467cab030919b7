/*
 * TLS to Redis: certificates made here with openssl, and a redis-server that shows them. A build
 * whose hiredis has no TLS has to say so, clearly.
 */
#include "redis_server.h"
#include "redis_tls.h"
#include "store_backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef ONLYONCE_REDIS_TLS

static void without_tls_it_says_so(void **state)
{
    (void)state;
    const char *lack = redis_tls_check();
    assert_non_null(strstr(lack, "asks for TLS, which this build cannot: its hiredis is "));
    assert_non_null(strstr(lack, "; write redis:// and go through a tunnel such as stunnel"));
}

static void no_store_opens(void **state)
{
    static char name[] = "test";
    static char localhost[] = "localhost";
    struct redis_server server;
    struct store_config config = {.name = name, .prefix = name, .timeout = 2000};
    bool permanent = false;
    (void)state;
    redis_server_create(&server);
    redis_server_start(&server, NULL);
    config.parsed = (struct store_url){
        .kind = STORE_REDIS, .tls = true, .host = localhost, .port = server.port};
    struct store *store = store_new(&config, "scope");
    assert_false(store_open(store, &permanent));
    assert_true(permanent);
    assert_non_null(strstr(store_error(store), redis_tls_check()));
    store_free(store);
    redis_server_remove(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(without_tls_it_says_so),
                                       cmocka_unit_test(no_store_opens)};
    return cmocka_run_group_tests_name("store: no TLS", tests, NULL, NULL);
}

#else

#include "clock.h"

#define TIMEOUT 2000

static char text_name[] = "test";
static char text_prefix[] = "oo";
static char text_localhost[] = "localhost";
static char text_address[] = "127.0.0.1";
static char text_master[] = "mymaster";

/* Files of the folder; each is used by its name. */
static const char make_files[] =
    "set -e; cd %s\n"
    "exec >openssl.log 2>&1\n"
    "key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out $1.key; }\n"
    "authority() { key $1; openssl req -x509 -new -key $1.key -subj /CN=$1 -days 2 -out $1.pem; }\n"
    "cert() { key $1; openssl req -new -key $1.key -subj /CN=$1 -out $1.csr\n"
    "  echo subjectAltName=$3 >$1.ext\n"
    "  openssl x509 -req -in $1.csr -CA ca.pem -CAkey ca.key -days $2 -extfile $1.ext -out $1.pem; "
    "}\n"
    "authority ca; authority other\n"
    "cert named 2 DNS:localhost\n"
    "cert addressed 2 IP:127.0.0.1\n"
    "cert elsewhere 2 DNS:redis.example\n"
    "cert wild 2 DNS:*.example\n"
    "cert expired -1 DNS:localhost || {\n"
    "  openssl x509 -req -in expired.csr -CA ca.pem -CAkey ca.key -extfile expired.ext -out "
    "expired.pem \\\n"
    "    -not_before 20200101000000Z -not_after 20210101000000Z; }\n"
    "cert relay 2 DNS:relay\n"
    "openssl req -x509 -new -key relay.key -subj /CN=stranger -days 2 -out stranger.pem\n"
    "chmod 644 *\n";

struct bench {
    struct store_config config;
    struct store *store;
    struct redis_server server;
    char *paths[3];
};

static int set_up(void **state)
{
    struct bench *b = xcalloc(1, sizeof *b);
    *state = b;
    redis_server_create(&b->server);
    char *script = xasprintf(make_files, b->server.folder);
    if (system(script) != 0)
        fail_msg("openssl made no certificates: see %s", b->server.folder);
    free(script);
    b->config = (struct store_config){.name = text_name, .prefix = text_prefix, .timeout = TIMEOUT};
    b->config.parsed = (struct store_url){
        .kind = STORE_REDIS, .tls = true, .host = text_localhost, .port = b->server.port};
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    store_free(b->store);
    for (int i = 0; i < 3; i++)
        free(b->paths[i]);
    redis_server_remove(&b->server);
    free(b);
    return 0;
}

static char *path_of(const struct bench *b, const char *name)
{
    return name ? xasprintf("%s/%s", b->server.folder, name) : NULL;
}

/* A server with that certificate; `clients`: whether clients must show one. */
static void start_server(struct bench *b, const char *cert, const char *clients)
{
    char port[16];
    char *pem = xasprintf("%s/%s.pem", b->server.folder, cert);
    char *key = xasprintf("%s/%s.key", b->server.folder, cert);
    char *ca = path_of(b, "ca.pem");
    const char *const settings[] = {"--port",
                                    "0",
                                    "--tls-port",
                                    port,
                                    "--tls-cert-file",
                                    pem,
                                    "--tls-key-file",
                                    key,
                                    "--tls-ca-cert-file",
                                    ca,
                                    "--tls-auth-clients",
                                    clients,
                                    NULL};
    snprintf(port, sizeof port, "%d", b->server.port);
    if (b->server.pid)
        redis_server_kill(&b->server);
    redis_server_start(&b->server, settings);
    free(pem);
    free(key);
    free(ca);
}

static void use_files(struct bench *b, const char *ca, const char *cert, const char *key)
{
    const char *const names[3] = {ca, cert, key};
    for (int i = 0; i < 3; i++) {
        free(b->paths[i]);
        b->paths[i] = path_of(b, names[i]);
    }
    b->config.tls = (struct tls_config){
        .ca = b->paths[0], .cert = b->paths[1], .key = b->paths[2], .verify = true};
}

/* NULL: it opens, and a claim is made. */
static void assert_outcome(struct bench *b, const char *label, const char *want)
{
    bool permanent;
    store_free(b->store);
    b->store = store_new(&b->config, "scope");
    bool open = store_open(b->store, &permanent);
    if (open && !want) {
        struct store_op op = {.key = span_of("k"), .ttl = 60000};
        assert_true(store_apply(b->store, NULL, &op, 1));
    } else if (open || !want || !strstr(store_error(b->store), want)) {
        fail_msg("%s: %s, wanted %s", label, open ? "opens" : store_error(b->store),
                 want ? want : "it to open");
    }
    assert_null(strchr(store_error(b->store), '\n'));
    store_close(b->store);
}

static void servers_and_what_is_trusted(void **state)
{
    static const struct {
        const char *label, *server, *clients;
        char *host;
        const char *ca, *cert, *key;
        bool careless;
        const char *want;
    } cases[] = {
        {"by name", "named", "no", text_localhost, "ca.pem", NULL, NULL, false, NULL},
        {"by address", "addressed", "no", text_address, "ca.pem", NULL, NULL, false, NULL},
        {"a name's certificate, by address", "named", "no", text_address, "ca.pem", NULL, NULL,
         false, "its certificate is not of host 127.0.0.1, but of localhost"},
        {"another host's", "elsewhere", "no", text_localhost, "ca.pem", NULL, NULL, false,
         "its certificate is not of host localhost, but of redis.example"},
        {"another authority", "named", "no", text_localhost, "other.pem", NULL, NULL, false,
         "its certificate is signed by an authority that tls.ca ("},
        {"the system's authorities", "named", "no", text_localhost, NULL, NULL, NULL, false,
         "its certificate is signed by an authority that this system does not trust"},
        {"expired", "expired", "no", text_localhost, "ca.pem", NULL, NULL, false,
         "its certificate has expired on "},
        {"not verified", "elsewhere", "no", text_localhost, "other.pem", NULL, NULL, true, NULL},
        {"a client certificate", "named", "yes", text_localhost, "ca.pem", "relay.pem", "relay.key",
         false, NULL},
        {"no client certificate", "named", "yes", text_localhost, "ca.pem", NULL, NULL, false,
         "it refuses us without a certificate"},
        {"an unknown client certificate", "named", "yes", text_localhost, "ca.pem", "stranger.pem",
         "relay.key", false, "it refuses our certificate tls.cert ("},
        {"a file that is gone", "named", "no", text_localhost, "gone.pem", NULL, NULL, false,
         "gone.pem cannot be read: No such file"},
    };
    struct bench *b = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        print_message("           %s\n", cases[i].label);
        start_server(b, cases[i].server, cases[i].clients);
        use_files(b, cases[i].ca, cases[i].cert, cases[i].key);
        b->config.tls.verify = !cases[i].careless;
        b->config.parsed.host = cases[i].host;
        assert_outcome(b, cases[i].label, cases[i].want);
    }
}

static void a_server_without_tls(void **state)
{
    struct bench *b = *state;
    redis_server_start(&b->server, NULL);
    use_files(b, "ca.pem", NULL, NULL);
    assert_outcome(b, "plain Redis", "(is it the plain port?)");
}

/* It stands still in the middle of a handshake, or of a call. */
static void a_server_that_is_silent(void **state)
{
    struct bench *b = *state;
    bool permanent;
    struct store_op op = {.key = span_of("k"), .ttl = 60000};
    start_server(b, "named", "no");
    use_files(b, "ca.pem", NULL, NULL);
    b->store = store_new(&b->config, "scope");
    assert_true(store_open(b->store, &permanent));
    b->config.timeout = 300;
    kill(b->server.pid, SIGSTOP);
    int64_t before = clock_now();
    assert_false(store_apply(b->store, NULL, &op, 1));
    assert_non_null(strstr(store_error(b->store), "no answer within 300 ms"));
    assert_false(store_open(b->store, &permanent));
    assert_non_null(strstr(store_error(b->store), "no answer to TLS within 300 ms"));
    assert_in_range(clock_now() - before, 600, 2500);
    kill(b->server.pid, SIGCONT);
    b->config.timeout = TIMEOUT;
    assert_true(store_open(b->store, &permanent));
}

/* Answers and batches of many records of TLS. */
static void large_batches(void **state)
{
    enum { COUNT = 5000 };
    struct bench *b = *state;
    bool permanent;
    struct store_op *ops = xcalloc(COUNT, sizeof *ops);
    char(*keys)[16] = xcalloc(COUNT, sizeof *keys);
    start_server(b, "named", "no");
    use_files(b, "ca.pem", NULL, NULL);
    b->store = store_new(&b->config, "scope");
    assert_true(store_open(b->store, &permanent));
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            snprintf(keys[i], sizeof keys[i], "key%zu", i);
            ops[i] = (struct store_op){.key = span_of(keys[i]), .ttl = 60000};
            ops[i].write = (struct record){.now = {.state = RECORD_FORWARDED,
                                                   .number = 1,
                                                   .first_seen = 1,
                                                   .since = 2,
                                                   .ends = 3}};
        }
        if (!store_apply(b->store, NULL, ops, COUNT))
            fail_msg("%s", store_error(b->store));
        for (size_t i = 0; i < COUNT; i++)
            assert_int_equal(ops[i].answer, round == 0 ? STORE_APPLIED : STORE_MET);
    }
    free(ops);
    free(keys);
}

/* A Sentinel over TLS is a redis-server in another mode, with the same settings. */
static void sentinels_speak_tls(void **state)
{
    struct bench *b = *state;
    struct redis_server sentinel;
    char port[16];
    redis_server_create(&sentinel);
    snprintf(port, sizeof port, "%d", sentinel.port);
    char *path = xasprintf("%s/sentinel.conf", sentinel.folder);
    char *pem = path_of(b, "addressed.pem");
    char *key = path_of(b, "addressed.key");
    char *ca = path_of(b, "ca.pem");
    const char *const settings[] = {path,
                                    "--sentinel",
                                    "--port",
                                    "0",
                                    "--tls-port",
                                    port,
                                    "--tls-cert-file",
                                    pem,
                                    "--tls-key-file",
                                    key,
                                    "--tls-ca-cert-file",
                                    ca,
                                    "--tls-auth-clients",
                                    "no",
                                    "--tls-replication",
                                    "yes",
                                    NULL};
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "sentinel monitor mymaster 127.0.0.1 %d 1\n", b->server.port);
    fclose(file);
    redis_server_start(&sentinel, settings);
    start_server(b, "addressed", "no");
    use_files(b, "ca.pem", NULL, NULL);
    b->config.parsed.host = NULL;
    b->config.parsed.master = text_master;
    b->config.parsed.sentinels[0] = (struct host_port){text_address, sentinel.port};
    b->config.parsed.sentinel_count = 1;
    assert_outcome(b, "a Sentinel by its address", NULL);
    b->config.parsed.sentinels[0].host = text_localhost;
    assert_outcome(b, "a Sentinel by another name",
                   "its certificate is not of host localhost, but of 127.0.0.1");
    free(path);
    free(pem);
    free(key);
    free(ca);
    redis_server_remove(&sentinel);
}

/* clang-format off */
#define TEST(name) {#name, name, set_up, tear_down, NULL}
/* clang-format on */

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(servers_and_what_is_trusted), TEST(a_server_without_tls),
        TEST(a_server_that_is_silent),     TEST(large_batches),
        TEST(sentinels_speak_tls),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("store: TLS", tests, NULL, NULL);
}

#endif
