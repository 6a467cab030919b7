/* The configuration: what is read. Its documentation is compared in test_config_texts.c. */
#include "config_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_defaults(void **state)
{
    (void)state;
    char *text = config_build(NULL, NULL, NULL);
    struct config *c = config_load_good("defaults", span_of(text));
    const struct route_config *r = &c->routes[0];
    assert_string_equal(c->file, config_path);
    assert_int_equal(c->broker.urls.count, 1);
    assert_string_equal(c->broker.parsed[0].host, "h");
    assert_string_equal(c->broker.parsed[0].username, "guest");
    assert_string_equal(c->broker.parsed[0].password, "guest");
    assert_int_equal(c->broker.heartbeat, 10000);
    assert_int_equal(c->store_count, 1);
    assert_string_equal(c->stores[0].prefix, "onlyonce");
    assert_int_equal(c->stores[0].timeout, 1000);
    assert_int_equal(c->stores[0].session, 15000);
    assert_null(c->stores[0].parsed.password);
    assert_int_equal(c->log.level, LOG_LEVEL_INFO);
    assert_int_equal(c->log.format, LOG_FORMAT_LOGFMT);
    assert_int_equal(c->route_count, 1);
    assert_string_equal(r->scope, "a");
    assert_string_equal(r->store, "redis");
    assert_ptr_equal(r->store_config, &c->stores[0]);
    assert_int_equal(r->workers, 1);
    assert_null(r->from.exchange);
    assert_int_equal(r->from.queue_type, QUEUE_QUORUM);
    assert_true(r->from.declare);
    assert_int_equal(r->from.prefetch, 2000);
    assert_int_equal(r->from.buffer, 64 << 20);
    assert_string_equal(r->to.queue, "work");
    assert_null(r->to.exchange);
    assert_null(r->to.routing_key);
    assert_true(r->to.declare);
    assert_int_equal(r->to.unconfirmed, 500);
    assert_string_equal(r->park.queue, "in.parked");
    assert_int_equal(r->park.queue_type, QUEUE_QUORUM);
    assert_non_null(r->key_rule);
    assert_int_equal(r->window, 86400000);
    assert_int_equal(r->on_missing_key, MISSING_KEY_FORWARD);
    assert_int_equal(r->on_store_failure, STORE_FAILURE_HOLD);
    assert_false(r->to.type_is_written);
    assert_int_equal(r->on_unroutable, UNROUTABLE_HOLD);
    assert_int_equal(r->on_in_doubt, IN_DOUBT_FORWARD);
    assert_true(r->window_completed == -1 && r->max_window == r->window && !r->window_header);
    assert_false(r->sliding);
    assert_int_equal(r->fingerprint, FINGERPRINT_NONE);
    assert_int_equal(r->in_doubt_wait, 30000);
    assert_int_equal(r->on_dead_lettered, DEAD_LETTERED_FORWARD);
    assert_int_equal(r->hold_limit, 600000);
    assert_int_equal(c->warnings.count, 0);
    assert_ptr_equal(config_route(c, "a"), r);
    assert_null(config_route(c, "b"));
    config_free(c);
    free(text);
}

static const char every_field[] =
    "broker:\n"
    "  urls: [\"amqp://n1/v\", \"amqp://x:y@n2:7\"]\n"
    "  username: 'us:er'\n"
    "  password: \"p@/ $$ %41\"\n"
    "  heartbeat: 1s\n"
    "stores:\n"
    "  - {name: one, url: 'redis://:old@r/3', username: u, password: new, prefix: '{p}:x',\n"
    "     timeout: 50ms, session: 3s}\n"
    "  - {name: two, url: 'redis://r'}\n"
    "log: {level: debug, format: json}\n"
    "routes:\n"
    "  - name: a.b_c-1\n"
    "    scope: s\n"
    "    store: two\n"
    "    workers: 64\n"
    "    from: {queue: in, exchange: x, exchange_type: direct, bindings: ['', k],\n"
    "           queue_type: classic, declare: false, prefetch: 65535, buffer: 1024KiB}\n"
    "    to: {exchange: y, routing_key: '', unconfirmed: 1}\n"
    "    park: {queue: p, queue_type: classic}\n"
    "    key: ['a = message_id', 'b = header:x']\n"
    "    window: 3650d\n"
    "    on_missing_key: park\n"
    "    on_store_failure: forward\n"
    "    on_in_doubt: park\n"
    "    window_header: x-ttl\n"
    "    max_window: 48h\n"
    "    sliding: true\n"
    "    window_completed: 0s\n"
    "    fingerprint: body:json\n"
    "    on_conflict: forward\n"
    "    on_dead_lettered: check\n"
    "    hold_limit: 15m\n"
    "  - {name: b, store: one, from: {queue: in2}, to: {queue: w, declare: false, queue_type: "
    "classic},\n"
    "     key: [body], window: 1h,\n"
    "     on_store_failure: park, on_unroutable: park}\n";

static void test_every_field(void **state)
{
    (void)state;
    struct config *c = config_load_good("every field", span_of(every_field));
    const struct route_config *r = &c->routes[0];
    assert_string_equal(c->broker.password, "p@/ $ %41");
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(c->broker.parsed[i].username, "us:er");
        assert_string_equal(c->broker.parsed[i].password, "p@/ $ %41");
    }
    assert_int_equal(c->broker.heartbeat, 1000);
    assert_string_equal(c->stores[0].parsed.username, "u");
    assert_string_equal(c->stores[0].parsed.password, "new");
    assert_int_equal(c->stores[0].parsed.database, 3);
    assert_string_equal(c->stores[0].prefix, "{p}:x");
    assert_int_equal(c->stores[0].timeout, 50);
    assert_int_equal(c->stores[0].session, 3000);
    assert_int_equal(c->log.level, LOG_LEVEL_DEBUG);
    assert_int_equal(c->log.format, LOG_FORMAT_JSON);
    assert_string_equal(r->name, "a.b_c-1");
    assert_string_equal(r->scope, "s");
    assert_ptr_equal(r->store_config, &c->stores[1]);
    assert_int_equal(r->workers, 64);
    assert_int_equal(r->from.exchange_type, EXCHANGE_DIRECT);
    assert_int_equal(r->from.bindings.count, 2);
    assert_string_equal(r->from.bindings.items[0], "");
    assert_string_equal(r->from.bindings.items[1], "k");
    assert_int_equal(r->from.queue_type, QUEUE_CLASSIC);
    assert_false(r->from.declare);
    assert_int_equal(r->from.prefetch, 65535);
    assert_int_equal(r->from.buffer, 1 << 20);
    assert_string_equal(r->to.exchange, "y");
    assert_string_equal(r->to.routing_key, "");
    assert_int_equal(r->to.unconfirmed, 1);
    assert_string_equal(r->park.queue, "p");
    assert_int_equal(r->park.queue_type, QUEUE_CLASSIC);
    assert_int_equal(r->key.count, 2);
    assert_int_equal(key_alternative_count(r->key_rule), 2);
    assert_int_equal(r->window, INT64_C(3650) * 86400000);
    assert_int_equal(r->on_missing_key, MISSING_KEY_PARK);
    assert_int_equal(r->on_store_failure, STORE_FAILURE_FORWARD);
    assert_int_equal(r->on_unroutable, UNROUTABLE_PARK);
    assert_int_equal(r->on_in_doubt, IN_DOUBT_PARK);
    assert_string_equal(r->window_header, "x-ttl");
    assert_int_equal(r->max_window, 48 * 3600000);
    assert_true(r->sliding && r->window_completed == 0);
    assert_int_equal(r->fingerprint, FINGERPRINT_BODY_JSON);
    assert_int_equal(r->on_conflict, CONFLICT_FORWARD);
    assert_int_equal(r->on_dead_lettered, DEAD_LETTERED_CHECK);
    assert_int_equal(r->hold_limit, 900000);
    assert_ptr_equal(c->routes[1].store_config, &c->stores[0]);
    assert_false(c->routes[1].to.declare);
    assert_int_equal(c->routes[1].to.queue_type, QUEUE_CLASSIC);
    assert_true(c->routes[1].to.type_is_written);
    assert_int_equal(c->routes[1].on_store_failure, STORE_FAILURE_PARK);
    assert_int_equal(c->routes[1].on_unroutable, UNROUTABLE_PARK);
    assert_int_equal(c->warnings.count, 1); /* on_in_doubt: park, to an exchange */
    config_free(c);
}

static void test_expansion(void **state)
{
    static const struct {
        const char *in, *want;
    } cases[] = {
        {"${ONLYONCE_T_SET}", "value"},
        {"a${ONLYONCE_T_SET}b${ONLYONCE_T_SET}", "avaluebvalue"},
        {"${ONLYONCE_T_SET:-other}", "value"},
        {"${ONLYONCE_T_EMPTY:-other}", "other"},
        {"${ONLYONCE_T_UNSET:-other}", "other"},
        {"${ONLYONCE_T_UNSET:-a:-b$$c}", "a:-b$c"},
        {"x${ONLYONCE_T_EMPTY}", "x"},
        {"$$", "$"},
        {"$${HOME}", "${HOME}"},
        {"${ONLYONCE_T_DOLLAR}", "${HOME}$$"},
        {"a$$$$b}", "a$$b}"},
    };
    (void)state;
    setenv("ONLYONCE_T_SET", "value", 1);
    setenv("ONLYONCE_T_EMPTY", "", 1);
    setenv("ONLYONCE_T_DOLLAR", "${HOME}$$", 1);
    unsetenv("ONLYONCE_T_UNSET");
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *broker = xasprintf(BROKER ", username: u, password: '%s'", cases[i].in);
        char *text = config_build(broker, NULL, NULL);
        struct config *c = config_load_good(cases[i].in, span_of(text));
        same_text(cases[i].in, c->broker.password, cases[i].want);
        config_free(c);
        free(text);
        free(broker);
    }
}

static void test_secret_files(void **state)
{
    static const struct {
        const char *content, *want;
    } cases[] = {{"hush", "hush"},       {"hush\n", "hush"},         {"hush\r\n", "hush"},
                 {"hush\nmore", "hush"}, {" hu${X} \n", " hu${X} "}, {"h\xff\n", "h\xff"}};
    (void)state;
    char *broker = xasprintf(BROKER ", username: u, password: '${file:%s}'", config_secret_path);
    char *text = config_build(broker, NULL, NULL);
    for (size_t i = 0; i < COUNT(cases); i++) {
        config_write_file(config_secret_path, span_of(cases[i].content));
        struct config *c = config_load_good(cases[i].content, span_of(text));
        same_text(cases[i].content, c->broker.password, cases[i].want);
        config_free(c);
    }
    free(text);
    free(broker);
}

#define DOUBT(to) "name: a, from: {queue: in}, to: {" to "}, on_in_doubt: park, " REST
#define PARKS                                                                                      \
    ":3: routes[0].on_in_doubt: parks what a full queue refuses, too: it is certain to be held "   \
    "only where to.queue is known to be a quorum queue"

static void test_warnings(void **state)
{
    static const struct {
        const char *label, *store, *route, *want;
    } cases[] = {
        {"window", NULL, BUT("window: 59m"),
         ":3: routes[0].window: is below an hour: a message that is redelivered or held for longer "
         "is new, and forwarded again"},
        {"hold_limit", NULL, ROUTE ", hold_limit: 16m",
         ":3: routes[0].hold_limit: is above 15m, half of RabbitMQ's default consumer timeout: "
         "raise consumer_timeout there, or the broker takes everything back"},
        {"memory", "name: m, url: 'memory:'", NULL,
         ":2: stores[0].url: memory: records are lost at a restart, and one process only"},
        {"direct", NULL, FROM("queue: in, exchange: x, exchange_type: direct, bindings: [a.*]"),
         ":3: routes[0].from.bindings: a direct exchange takes * and # literally, as in \"a.*\""},
        {"parks what a classic queue refuses", NULL, DOUBT("queue: w, queue_type: classic"), PARKS},
        {"parks what a queue of unknown type refuses", NULL, DOUBT("queue: w, declare: false"),
         PARKS},
        {"parks what a fan-out refuses", NULL, DOUBT("exchange: e"), PARKS},
        {"fanout", NULL, FROM("queue: in, exchange: x, exchange_type: fanout, bindings: [a]"),
         ":3: routes[0].from.bindings: a fanout exchange looks at no routing keys: every message "
         "is bound"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *text = config_build(NULL, cases[i].store, cases[i].route);
        struct config *c = config_load_good(cases[i].label, span_of(text));
        assert_int_equal(c->warnings.count, 1);
        same_text(cases[i].label, c->warnings.items[0] + strlen(config_path), cases[i].want);
        config_free(c);
        free(text);
    }
}

/* A byte order mark and comments are no fault; neither is a document's start and end. */
static void test_trimmings(void **state)
{
    (void)state;
    char *text = config_build(NULL, NULL, NULL);
    char *trimmed = xasprintf("\xef\xbb\xbf# x\n---\n%s...\n", text);
    config_free(config_load_good("trimmings", span_of(trimmed)));
    free(trimmed);
    free(text);
}

static void test_queues_of_ours(void **state)
{
    static const char *const ours[] = {"q1", "w",        "q1.parked",      "q2",
                                       "p",  "reported", "reported.parked"};
    static const char *const others[] = {"", "q", "q11", "x", "q2.parked", "answers"};
    (void)state;
    char *routes =
        config_build(NULL, NULL,
                     "name: a, from: {queue: q1, exchange: x}, to: {queue: w}, " REST
                     "}, {name: b, from: {queue: q2}, to: {exchange: y}, park: {queue: p}, " REST);
    char *text = xasprintf("%scompletions: {queue: reported}\n", routes);
    struct config *c = config_load_good("queues of ours", span_of(text));
    for (size_t i = 0; i < COUNT(ours); i++)
        same_text(ours[i], config_queue(c, span_of(ours[i])), ours[i]);
    for (size_t i = 0; i < COUNT(others); i++)
        assert_null(config_queue(c, span_of(others[i])));
    config_free(c);
    c = config_load_good("without reports", span_of(routes));
    assert_null(config_queue(c, span_of("reported")));
    config_free(c);
    free(text);
    free(routes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),       cmocka_unit_test(test_every_field),
        cmocka_unit_test(test_expansion),      cmocka_unit_test(test_secret_files),
        cmocka_unit_test(test_warnings),       cmocka_unit_test(test_trimmings),
        cmocka_unit_test(test_queues_of_ours),
    };
    return cmocka_run_group_tests(tests, config_make_folder, config_remove_folder);
}
