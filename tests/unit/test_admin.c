/*
 * Answers to requests, without HTTP: paths, who may, health by the time of a worker's last turn,
 * and keys in a store that is memory.
 */
#include "admin_inside.h"

#include "clock.h"
#include "store_backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TOKEN "the token"

static char route_name[] = "pay";
static char store_name[] = "m";
static char queue_name[] = "q";
static char token[] = TOKEN;

struct bench {
    struct store_config store_config;
    struct route_config route;
    struct config config;
    struct route_stats stats;
    struct route_stats *all_stats; /* a list of one */
    struct report_stats reports;
    struct admin_served served;
    struct admin_answer answer;
};

static int set_up(void **state)
{
    struct bench *b = calloc(1, sizeof *b);
    b->store_config = (struct store_config){.name = store_name,
                                            .parsed = {.kind = STORE_MEMORY},
                                            .prefix = queue_name,
                                            .timeout = 1000,
                                            .session = 15000};
    b->route = (struct route_config){.name = route_name,
                                     .scope = route_name,
                                     .store = store_name,
                                     .store_config = &b->store_config,
                                     .window = 3600000};
    b->route.from.queue = queue_name;
    b->route.to.queue = queue_name;
    b->route.park.queue = queue_name;
    b->config = (struct config){.routes = &b->route, .route_count = 1};
    stats_init(&b->stats, 2);
    b->all_stats = &b->stats;
    vitals_init(&b->reports.vitals);
    admin_served_init(&b->served, &b->config, &b->all_stats, &b->reports, true);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    admin_served_free(&b->served);
    stats_free(&b->stats);
    vitals_free(&b->reports.vitals);
    buffer_free(&b->answer.body);
    store_memory_reset();
    free(b);
    return 0;
}

/* The status; the body is then text. */
static int ask_with(struct bench *b, struct admin_request r)
{
    buffer_free(&b->answer.body);
    admin_answer(&b->served, &r, &b->answer);
    buffer_add_u8(&b->answer.body, '\0');
    return (int)b->answer.status;
}

static int ask(struct bench *b, const char *method, const char *path)
{
    return ask_with(b, (struct admin_request){.method = method, .path = path});
}

static void body_has(const struct bench *b, const char *text)
{
    if (!strstr((const char *)b->answer.body.data, text))
        fail_msg("no %s in %s", text, (const char *)b->answer.body.data);
}

/* Again with a token, and as if others than this host could connect. */
static void serve_as(struct bench *b, bool loopback, bool with_token)
{
    admin_served_free(&b->served);
    b->config.admin.token = with_token ? token : NULL;
    admin_served_init(&b->served, &b->config, &b->all_stats, &b->reports, loopback);
}

/* Of a browser that a stranger's name server leads here the stranger's name is what it asks for. */
static void whose_host(void **state)
{
    static const struct {
        const char *host;
        bool own;
    } rows[] = {
        {NULL, true},
        {"localhost", true},
        {"LocalHost:8080", true},
        {"127.0.0.1", true},
        {"127.0.0.1:8080", true},
        {"127.1.2.3:1", true},
        {"[::1]", true},
        {"[::1]:8080", true},
        {"[0:0:0:0:0:0:0:1]", true},
        {"", false},
        {":8080", false},
        {"evil.example", false},
        {"evil.example:8080", false},
        {"localhost.evil.example", false},
        {"127.0.0.1.evil.example:8080", false},
        {"127.evil.example", false},
        {"128.0.0.1", false},
        {"0.0.0.0", false},
        {"10.0.0.1:8080", false},
        {"::1", false},
        {"[::1", false},
        {"[::2]:8080", false},
        {"[127.0.0.1]", false},
        {"[localhost]", false},
        {"[::1]x", false},
        {"localhost:8080x", false},
        {"localhost:80:80", false},
        {"evil.example@localhost", false},
        {"localhostlocalhostlocalhostlocalhostlocalhostlocalhost", false},
    };
    struct bench *b = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct admin_request health = {"GET", "/healthz", .host = rows[i].host};
        struct admin_request page = {"GET", "/", .host = rows[i].host};
        struct admin_request reads = {"GET", "/v1/routes", .host = rows[i].host};
        int want = rows[i].own ? 200 : 403;
        serve_as(b, true, false);
        assert_int_equal(ask_with(b, health), 200);
        assert_int_equal(ask_with(b, page), want);
        if (ask_with(b, reads) != want)
            fail_msg("%s gives %u", rows[i].host, b->answer.status);
        if (!rows[i].own)
            body_has(b, "localhost, 127.x.x.x or [::1]");
        serve_as(b, true, true);
        reads.authorization = "Bearer " TOKEN;
        assert_int_equal(ask_with(b, reads), 200);
    }
}

static void who_may(void **state)
{
    static const struct {
        bool loopback, token;
        const char *authorization;
        int open, page, read, write;
    } rows[] = {
        {true, false, NULL, 200, 200, 200, 403},
        {true, false, "Bearer " TOKEN, 200, 200, 200, 403},
        {false, false, NULL, 200, 403, 403, 403},
        {false, false, "Bearer ", 200, 403, 403, 403},
        {true, true, NULL, 200, 200, 401, 401},
        {false, true, NULL, 200, 200, 401, 401},
        {true, true, "Bearer " TOKEN, 200, 200, 200, 404},
        {false, true, "Bearer " TOKEN, 200, 200, 200, 404},
        {false, true, "bearer " TOKEN, 200, 200, 200, 404},
        {false, true, "Bearer", 200, 200, 401, 401},
        {false, true, "Bearer ", 200, 200, 401, 401},
        {false, true, "Bearer the toke", 200, 200, 401, 401},
        {false, true, "Bearer the tokenn", 200, 200, 401, 401},
        {false, true, "Bearer the tokeN", 200, 200, 401, 401},
        {false, true, "Basic " TOKEN, 200, 200, 401, 401},
        {false, true, TOKEN, 200, 200, 401, 401},
        {false, true, "", 200, 200, 401, 401},
    };
    struct bench *b = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        serve_as(b, rows[i].loopback, rows[i].token);
        struct admin_request open = {"GET", "/metrics", rows[i].authorization, .key = ""};
        struct admin_request page = {"GET", "/", rows[i].authorization, .key = ""};
        struct admin_request reads = {"GET", "/v1/routes", rows[i].authorization, .key = ""};
        struct admin_request writes = {"DELETE", "/v1/keys/pay/k", rows[i].authorization,
                                       .key = ""};
        b->config.route_count = 0; /* Metrics want a key rule. */
        assert_int_equal(ask_with(b, open), rows[i].open);
        b->config.route_count = 1;
        assert_int_equal(ask_with(b, page), rows[i].page);
        assert_int_equal(ask_with(b, reads), rows[i].read);
        assert_int_equal(b->answer.challenge, rows[i].read == 401);
        assert_int_equal(ask_with(b, writes), rows[i].write);
    }
}

static void paths_and_methods(void **state)
{
    static const struct {
        const char *method, *path;
        int status;
        const char *allow;
    } rows[] = {
        {"GET", "/healthz", 200, NULL},
        {"HEAD", "/healthz", 200, NULL},
        {"POST", "/healthz", 405, "GET, HEAD"},
        {"get", "/healthz", 405, "GET, HEAD"},
        {"GET", "", 404, NULL},
        {"GET", "/", 200, NULL},
        {"POST", "/", 405, "GET, HEAD"},
        {"GET", "/index.html", 404, NULL},
        {"GET", "healthz", 404, NULL},
        {"GET", "*", 404, NULL},
        {"GET", "//healthz", 404, NULL},
        {"GET", "/healthz/", 404, NULL},
        {"GET", "/%68ealthz", 404, NULL},
        {"GET", "/v1/routes", 200, NULL},
        {"GET", "/v1/routes/", 404, NULL},
        {"GET", "/v1/history", 200, NULL},
        {"GET", "/v1/routes/pay/recent", 200, NULL},
        {"GET", "/v1/routes/p%61y/recent", 200, NULL},
        {"GET", "/v1/routes/other/recent", 404, NULL},
        {"GET", "/v1/routes//recent", 404, NULL},
        {"PUT", "/v1/keys/pay/k", 405, "GET, HEAD, DELETE"},
        {"GET", "/v1/keys/pay/k", 404, NULL},
        {"GET", "/v1/keys/pay/k/x", 404, NULL},
        {"GET", "/v1/keys/pay/complete", 404, NULL},
        {"GET", "/v1/keys/pay/k/complete", 405, "POST"},
    };
    struct bench *b = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int status = ask(b, rows[i].method, rows[i].path);
        if (status != rows[i].status)
            fail_msg("%s %s: %d", rows[i].method, rows[i].path, status);
        if (rows[i].allow)
            assert_string_equal(b->answer.allow, rows[i].allow);
        else
            assert_null(b->answer.allow);
    }
}

static void keys_are_decoded_once(void **state)
{
    static const struct {
        const char *path;
        int status;
    } rows[] = {
        {"k", 200},      {"%6b", 200}, {"%6B", 200}, {"%256b", 400}, {"%", 400},     {"%6", 400},
        {"%6g", 400},    {"%g6", 400}, {"%00", 400}, {"k%00", 400},  {"k%2Fx", 400}, {"k%20", 400},
        {"%C3%A4", 400}, {"", 400},    {"k+", 404},  {"~41,b", 404}, {"k%", 400},
    };
    struct bench *b = *state;
    const char *record = "2F 1 1782640800123 t67 e86400067";
    struct store *s = store_new(&b->store_config, route_name);
    bool permanent;
    assert_true(store_open(s, &permanent));
    store_memory_put(s, span_of("k"), record, 60000);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[64];
        snprintf(path, sizeof path, "/v1/keys/pay/%s", rows[i].path);
        int status = ask(b, "GET", path);
        if (status != rows[i].status)
            fail_msg("%s: %d", path, status);
    }
    char path[1024];
    snprintf(path, sizeof path, "/v1/keys/pay/%0*d", KEY_TEXT_MAX, 0);
    assert_int_equal(ask(b, "GET", path), 404);
    snprintf(path, sizeof path, "/v1/keys/pay/%0*d", KEY_TEXT_MAX + 1, 0);
    assert_int_equal(ask(b, "GET", path), 400);
    store_free(s);
}

static void completing_and_releasing(void **state)
{
    struct bench *b = *state;
    struct store *s = store_new(&b->store_config, route_name);
    bool permanent;
    assert_true(store_open(s, &permanent));
    store_memory_put(s, span_of("k"), "2F 1 1782640800123 t67 e86400067", 60000);
    serve_as(b, true, true);
    struct admin_request complete = {"POST", "/v1/keys/pay/k/complete", "Bearer " TOKEN,
                                     .body = span_of("{\"a\": 1}")};
    struct admin_request late = complete;
    struct admin_request large = complete;
    struct admin_request release = {"DELETE", "/v1/keys/pay/k", "Bearer " TOKEN, .key = ""};
    struct admin_request odd = release;
    late.first_seen = "1782640800124";
    large.body_too_large = true;
    odd.force = "yes";
    assert_int_equal(ask_with(b, late), 404);
    assert_int_equal(ask_with(b, large), 413);
    assert_int_equal(ask_with(b, complete), 200);
    body_has(b, "\"answer\":\"completed\"");
    assert_int_equal(ask_with(b, complete), 200);
    body_has(b, "\"answer\":\"already_completed\"");
    complete.body = span_of("{");
    assert_int_equal(ask_with(b, complete), 400);
    assert_int_equal(ask_with(b, odd), 400);
    assert_int_equal(ask_with(b, release), 200);
    assert_int_equal(ask_with(b, release), 404);
    for (size_t i = 0; i < 5; i++) {
        static const char *const bad[] = {"", "x", "-1", "0", "99999999999999999999"};
        late.first_seen = bad[i];
        assert_int_equal(ask_with(b, late), 400);
    }
    store_free(s);
}

/* A worker that never turned is not running, and one that turned long ago hangs. */
static void healthy_is_who_turned_lately(void **state)
{
    static const struct {
        int64_t ago; /* -1: not running */
        int status;
    } rows[] = {{-1, 200}, {0, 200}, {29000, 200}, {31000, 503}, {90000000, 503}};
    struct bench *b = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vitals_turn(&b->stats.workers[0], clock_now());
        vitals_turn(&b->stats.workers[1], rows[i].ago < 0 ? 0 : clock_now() - rows[i].ago);
        assert_int_equal(ask(b, "GET", "/healthz"), rows[i].status);
        if (rows[i].status == 503)
            body_has(b, "worker 1 of route pay has not turned its loop for ");
    }
    vitals_turn(&b->stats.workers[1], 0);
    vitals_turn(&b->reports.vitals, clock_now() - 31000);
    assert_int_equal(ask(b, "GET", "/healthz"), 503);
    body_has(b, "the thread for completions.queue has not turned its loop for 31 s");
}

static void reach_all(struct bench *b)
{
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < LINK_COUNT; k++)
            atomic_store(&b->stats.workers[i].up[k], true);
    atomic_store(&b->reports.vitals.up[LINK_SINK], true);
    atomic_store(&b->reports.vitals.up[LINK_SOURCE], true);
}

static void ready_is_who_reaches_all(void **state)
{
    struct bench *b = *state;
    assert_int_equal(ask(b, "GET", "/readyz"), 503);
    body_has(b, "{\"who\":\"route\",\"route\":\"pay\",\"worker\":0,\"link\":\"store\",\"why\":"
                "\"not tried yet\"}");
    reach_all(b);
    assert_int_equal(ask(b, "GET", "/readyz"), 200);
    atomic_store(&b->stats.workers[0].up[LINK_REPLIES], false); /* Nothing waits for these. */
    assert_int_equal(ask(b, "GET", "/readyz"), 200);
    atomic_store(&b->stats.workers[1].up[LINK_SINK], false);
    vitals_say(&b->stats.workers[1], LINK_SINK, "\"refused\"");
    assert_int_equal(ask(b, "GET", "/readyz"), 503);
    body_has(b,
             "\"not_reached\":[{\"who\":\"route\",\"route\":\"pay\",\"worker\":1,\"link\":\"sink\","
             "\"why\":\"\\\"refused\\\"\"}]");
    reach_all(b);
    atomic_store(&b->reports.vitals.up[LINK_SOURCE], false);
    assert_int_equal(ask(b, "GET", "/readyz"), 503);
    body_has(b, "\"who\":\"completions\",\"link\":\"source\"");
    reach_all(b);
    atomic_store(&b->served.stopping, true);
    assert_int_equal(ask(b, "GET", "/readyz"), 503);
    body_has(b, "\"detail\":\"stopping\"");
}

/* With the policy that lets it run, and no other page. */
static void the_page_is_served(void **state)
{
    struct bench *b = *state;
    assert_int_equal(ask(b, "GET", "/"), 200);
    assert_string_equal(b->answer.content_type, "text/html; charset=utf-8");
    assert_non_null(strstr(b->answer.policy, "default-src 'none'; script-src 'sha256-"));
    assert_null(strstr(b->answer.policy, "unsafe"));
    body_has(b, "<!doctype html>");
    body_has(b, "</html>");
    assert_int_equal(ask(b, "GET", "/healthz"), 200);
    assert_null(b->answer.policy);
}

static void history_is_told(void **state)
{
    struct bench *b = *state;
    assert_int_equal(ask(b, "GET", "/v1/history"), 200);
    body_has(b,
             "{\"routes\":[{\"name\":\"pay\",\"ms_ago\":[],\"forwarded\":[],\"duplicates\":[]}]}");
    stats_sample(&b->stats, clock_now() - 90000000);
    stats_add(&b->stats, STAT_FORWARDED, 7);
    stats_add(&b->stats, STAT_DUPLICATES, 3);
    stats_sample(&b->stats, clock_now());
    assert_int_equal(ask(b, "GET", "/v1/history"), 200);
    body_has(b, "\"ms_ago\":[9000");
    body_has(b, "\"forwarded\":[0,7],\"duplicates\":[0,3]}");
}

struct sampler {
    struct route_stats *stats;
    atomic_bool stop;
};

static void *sample_all_the_time(void *arg)
{
    struct sampler *s = arg;
    while (!atomic_load(&s->stop))
        stats_sample(s->stats, clock_now());
    return NULL;
}

/* Of many routes, so that answering takes longer than the clock's step. */
static void nothing_is_of_the_future(void **state)
{
    enum { ROUTES = 200, TIMES = 20 };
    static struct route_config routes[ROUTES];
    static struct route_stats *stats[ROUTES];
    struct bench *b = *state;
    struct sampler sampler = {.stats = &b->stats};
    pthread_t thread;
    for (size_t i = 0; i < ROUTES; i++) {
        routes[i] = b->route;
        stats[i] = &b->stats;
    }
    admin_served_free(&b->served);
    b->config.routes = routes;
    b->config.route_count = ROUTES;
    admin_served_init(&b->served, &b->config, stats, &b->reports, true);
    atomic_store(&b->stats.workers[0].oldest, clock_now() + 60000);
    assert_int_equal(ask(b, "GET", "/v1/routes"), 200);
    assert_null(strstr((const char *)b->answer.body.data, "_ms\":-"));
    assert_int_equal(pthread_create(&thread, NULL, sample_all_the_time, &sampler), 0);
    for (size_t i = 0; i < TIMES; i++) {
        assert_int_equal(ask(b, "GET", "/v1/history"), 200);
        if (strpbrk((const char *)b->answer.body.data, "-"))
            fail_msg("a sample is of the future: %.300s", (const char *)b->answer.body.data);
    }
    atomic_store(&sampler.stop, true);
    pthread_join(thread, NULL);
}

/* What the page goes by. */
static void routes_say_what_may_be_done(void **state)
{
    struct bench *b = *state;
    assert_int_equal(ask(b, "GET", "/v1/routes"), 200);
    body_has(
        b,
        "\"stopping\":false,\"writable\":false,\"completions\":{\"links\":{\"sink\":{\"up\":false");
    serve_as(b, true, true);
    atomic_store(&b->served.stopping, true);
    struct admin_request r = {"GET", "/v1/routes", "Bearer " TOKEN, .key = ""};
    assert_int_equal(ask_with(b, r), 200);
    body_has(b, "\"stopping\":true,\"writable\":true");
}

static void recent_messages_are_told(void **state)
{
    struct bench *b = *state;
    struct recent_message m = {
        .at = 1782640800123, .first_seen = 1, .what = "parked", .why = "loop"};
    strcpy(m.key, "k");
    recent_add(&b->stats.recent, &m);
    m = (struct recent_message){.at = 2, .first_seen = 1, .what = "duplicate"};
    recent_add(&b->stats.recent, &m);
    assert_int_equal(ask(b, "GET", "/v1/routes/pay/recent"), 200);
    body_has(
        b,
        "{\"key\":\"k\",\"what\":\"parked\",\"why\":\"loop\",\"at\":\"2026-06-28T10:00:00.123Z\","
        "\"first_seen\":\"1970-01-01T00:00:00.001Z\"},{\"what\":\"duplicate\",");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(who_may),
        TEST(whose_host),
        TEST(paths_and_methods),
        TEST(keys_are_decoded_once),
        TEST(completing_and_releasing),
        TEST(healthy_is_who_turned_lately),
        TEST(ready_is_who_reaches_all),
        TEST(the_page_is_served),
        TEST(history_is_told),
        TEST(nothing_is_of_the_future),
        TEST(routes_say_what_may_be_done),
        TEST(recent_messages_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
