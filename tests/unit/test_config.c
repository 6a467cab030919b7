/*
 * The configuration: what is read, every fault as the exact line that it gets, and that the manual
 * page and the examples say what the table of options says.
 */
#include "config.h"

#include "file.h"
#include "options.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* The parts of a good configuration, one line each: tests replace one of them. */
#define BROKER "urls: [\"amqp://h\"]"
#define STORE "name: redis, url: \"redis://r\""
#define TO "to: {queue: work}, "
#define REST "key: [message_id], window: 24h"
#define ROUTE "name: a, from: {queue: in}, " TO REST
#define FROM(fields) "name: a, from: {" fields "}, " TO REST
#define TO_(fields)                                                                                \
    "name: a, from: {queue: in, exchange: x, bindings: [a.*]}, to: {" fields "}, " REST
#define BUT(fields) "name: a, from: {queue: in}, " TO "key: [message_id], " fields
#define DUPLICATES(fields)                                                                         \
    TO_("queue: w") ", on_duplicate: publish, duplicates: {" fields "}, reply: true"

static char folder[] = "/tmp/onlyonce-test-XXXXXX";
static char config_path[sizeof folder + 16];
static char secret_path[sizeof folder + 16];

static void write_file(const char *path, struct span content)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(content.data, 1, content.len, f), content.len);
    assert_int_equal(fclose(f), 0);
}

static char *build(const char *broker, const char *store, const char *route)
{
    return xasprintf("broker: {%s}\nstores: [{%s}]\nroutes: [{%s}]\n", broker ? broker : BROKER,
                     store ? store : STORE, route ? route : ROUTE);
}

static void same_text(const char *label, const char *got, const char *want)
{
    if (got && want ? strcmp(got, want) != 0 : got != want)
        fail_msg("%s:\n got: %s\nwant: %s", label, got ? got : "(null)", want ? want : "(null)");
}

static struct config *load_good(const char *label, struct span text)
{
    struct buffer errors = {0};
    write_file(config_path, text);
    struct config *config = config_load(config_path, &errors);
    if (!config)
        fail_msg("%s: %.*s", label, (int)errors.len, (const char *)errors.data);
    assert_int_equal(errors.len, 0);
    return config;
}

/* `want` are the lines without the file's name, separated by '|'. */
static void expect_faults(const char *label, struct span text, const char *want)
{
    struct buffer errors = {0};
    struct buffer got = {0};
    write_file(config_path, text);
    struct config *config = config_load(config_path, &errors);
    if (config)
        fail_msg("%s: was taken", label);
    buffer_add_u8(&errors, 0);
    size_t name = strlen(config_path) + 1;
    for (char *line = (char *)errors.data; *line;) {
        size_t len = strcspn(line, "\n");
        assert_int_equal(line[len], '\n');
        assert_int_equal(strncmp(line, config_path, name - 1), 0);
        buffer_printf(&got, "%s%.*s", got.len ? "|" : "", (int)(len - name), line + name);
        line += len + 1;
    }
    buffer_add_u8(&got, 0);
    same_text(label, (const char *)got.data, want);
    buffer_free(&errors);
    buffer_free(&got);
}

/* ---- What is read ---- */

static void test_defaults(void **state)
{
    (void)state;
    char *text = build(NULL, NULL, NULL);
    struct config *c = load_good("defaults", span_of(text));
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
    "    to: {exchange: y, routing_key: '', declare: false, unconfirmed: 1}\n"
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
    "  - {name: b, store: one, from: {queue: in2}, to: {queue: w}, key: [body], window: 1h,\n"
    "     on_store_failure: park, on_unroutable: park}\n";

static void test_every_field(void **state)
{
    (void)state;
    struct config *c = load_good("every field", span_of(every_field));
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
    assert_false(r->to.declare);
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
    assert_int_equal(c->routes[1].on_store_failure, STORE_FAILURE_PARK);
    assert_int_equal(c->routes[1].on_unroutable, UNROUTABLE_PARK);
    assert_int_equal(c->warnings.count, 0);
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
        char *text = build(broker, NULL, NULL);
        struct config *c = load_good(cases[i].in, span_of(text));
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
    char *broker = xasprintf(BROKER ", username: u, password: '${file:%s}'", secret_path);
    char *text = build(broker, NULL, NULL);
    for (size_t i = 0; i < COUNT(cases); i++) {
        write_file(secret_path, span_of(cases[i].content));
        struct config *c = load_good(cases[i].content, span_of(text));
        same_text(cases[i].content, c->broker.password, cases[i].want);
        config_free(c);
    }
    free(text);
    free(broker);
}

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
         "raise consumer_timeout there, or the broker closes the channel"},
        {"memory", "name: m, url: 'memory:'", NULL,
         ":2: stores[0].url: memory: records are lost at a restart, and one process only"},
        {"TLS", "name: m, url: 'rediss://h', tls: {verify: false}", NULL,
         ":2: stores[0].tls.verify: is false: anybody can pose as the server, and read the "
         "password"},
        {"direct", NULL, FROM("queue: in, exchange: x, exchange_type: direct, bindings: [a.*]"),
         ":3: routes[0].from.bindings: a direct exchange takes * and # literally, as in \"a.*\""},
        {"fanout", NULL, FROM("queue: in, exchange: x, exchange_type: fanout, bindings: [a]"),
         ":3: routes[0].from.bindings: a fanout exchange looks at no routing keys: every message "
         "is bound"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *text = build(NULL, cases[i].store, cases[i].route);
        struct config *c = load_good(cases[i].label, span_of(text));
        assert_int_equal(c->warnings.count, 1);
        same_text(cases[i].label, c->warnings.items[0] + strlen(config_path), cases[i].want);
        config_free(c);
        free(text);
    }
}

/* ---- Faults ---- */

struct case_of_fault {
    const char *label, *broker, *store, *route, *want; /* NULL: the good part */
};

static void expect_all(const struct case_of_fault *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_null(strstr(cases[i].want, "s3")); /* the beginning of every secret */
        char *text = build(cases[i].broker, cases[i].store, cases[i].route);
        expect_faults(cases[i].label, span_of(text), cases[i].want);
        free(text);
    }
}

#define KNOWN_ROUTE                                                                                \
    "unknown field; known here: name, scope, store, workers, from, to, park, key, window, "        \
    "window_header, max_window, sliding, window_completed, fingerprint, on_conflict, "             \
    "on_duplicate, duplicates, reply, on_missing_key, on_store_failure, on_unroutable, "           \
    "on_in_doubt, in_doubt_wait, on_dead_lettered, hold_limit"
#define DURATION                                                                                   \
    "is no duration (a whole number and ms, s, m, h or d); write 1s to 3650d, as in 24h"

static const struct case_of_fault faulty_fields[] = {
    /* Values */
    {"no unit", NULL, NULL, BUT("window: \"24\""),
     "3: routes[0].window: \"24\" has no unit; write 24h"},
    {"no unit, and too much", NULL, NULL, BUT("window: 999999999"),
     "3: routes[0].window: \"999999999\" has no unit; write 24h"},
    {"fraction", NULL, NULL, BUT("window: 1.5h"), "3: routes[0].window: \"1.5h\" " DURATION},
    {"words", NULL, NULL, BUT("window: a day"), "3: routes[0].window: \"a day\" " DURATION},
    {"unknown unit", NULL, NULL, BUT("window: 2w"), "3: routes[0].window: \"2w\" " DURATION},
    {"negative", NULL, NULL, BUT("window: -1h"), "3: routes[0].window: \"-1h\" " DURATION},
    {"zero", NULL, NULL, BUT("window: 0s"),
     "3: routes[0].window: \"0s\" is too low; write 1s to 3650d"},
    {"below", NULL, NULL, BUT("window: 999ms"),
     "3: routes[0].window: \"999ms\" is too low; write 1s to 3650d"},
    {"above", NULL, NULL, BUT("window: 3651d"),
     "3: routes[0].window: \"3651d\" is too high; write 1s to 3650d"},
    {"above 64 bits", NULL, NULL, BUT("window: 99999999999999999999d"),
     "3: routes[0].window: \"99999999999999999999d\" is too high; write 1s to 3650d"},
    {"heartbeat off", BROKER ", heartbeat: 0", NULL, NULL,
     "1: broker.heartbeat: \"0\" is too low; write 1s to 10m"},
    {"size unit", NULL, NULL, FROM("queue: in, buffer: 64MB"),
     "3: routes[0].from.buffer: \"64MB\" is no size (a whole number and B, KiB, MiB or GiB); "
     "write 1MiB to 64GiB, as in 64MiB"},
    {"size without unit", NULL, NULL, FROM("queue: in, buffer: 64"),
     "3: routes[0].from.buffer: \"64\" has no unit; write 64MiB"},
    {"size below", NULL, NULL, FROM("queue: in, buffer: 1023KiB"),
     "3: routes[0].from.buffer: \"1023KiB\" is too low; write 1MiB to 64GiB"},
    {"number", NULL, NULL, ROUTE ", workers: many",
     "3: routes[0].workers: \"many\" is no whole number; write 1 to 64, as in 1"},
    {"number below", NULL, NULL, ROUTE ", workers: 0",
     "3: routes[0].workers: \"0\" is too low; write 1 to 64"},
    {"number above", NULL, NULL, ROUTE ", workers: 65",
     "3: routes[0].workers: \"65\" is too high; write 1 to 64"},
    {"boolean", NULL, NULL, FROM("queue: in, declare: yes"),
     "3: routes[0].from.declare: \"yes\" is not known here; write false or true"},
    {"case of a boolean", NULL, NULL, FROM("queue: in, declare: True"),
     "3: routes[0].from.declare: \"True\" is not known here; write false or true"},
    {"word", NULL, NULL, ROUTE ", on_store_failure: drop",
     "3: routes[0].on_store_failure: \"drop\" is not known here; write hold, forward or park"},
    {"unknown word", NULL, NULL, ROUTE ", on_in_doubt: hope",
     "3: routes[0].on_in_doubt: \"hope\" is not known here; write forward, park or wait"},
    {"max_window alone", NULL, NULL, ROUTE ", max_window: 7d",
     "3: routes[0].max_window: means nothing without window_header; set that, too"},
    {"on_conflict alone", NULL, NULL, ROUTE ", on_conflict: drop",
     "3: routes[0].on_conflict: means nothing without fingerprint; write fingerprint: body or "
     "body:json"},
    {"a wait beyond hold_limit", NULL, NULL, ROUTE ", on_in_doubt: wait, hold_limit: 40s",
     "3: routes[0].in_doubt_wait: must be at most half of hold_limit, after which everything is "
     "given back"},
    {"empty", NULL, NULL, FROM("queue: ''"),
     "3: routes[0].from.queue: is empty; write a value, or leave the field out"},
    {"nothing", NULL, NULL, FROM("queue: "),
     "3: routes[0].from.queue: has no value; write one, or leave the field out"},
    {"null", BROKER ", password: null", NULL, NULL,
     "1: broker.password: has no value; write one, or leave the field out"},
    {"tilde", BROKER ", password: ~", NULL, NULL,
     "1: broker.password: has no value; write one, or leave the field out"},
    {"NUL", NULL, NULL, FROM("queue: \"a\\0b\""),
     "3: routes[0].from.queue: has a NUL character (\\0), which is not allowed"},
    {"control character", NULL, NULL, FROM("queue: \"a\\nb\""),
     "3: routes[0].from.queue: has a control character, or is not UTF-8; write it as visible "
     "text"},
    {"shown on one line", NULL, NULL, BUT("window: \"2\\n4\\e\""),
     "3: routes[0].window: \"2\\x0A4\\x1B\" " DURATION},
    {"name", NULL, NULL, "name: A b, from: {queue: in}, " TO REST,
     "3: routes[0].name: \"A b\" is not allowed; write 1 to 64 of a-z 0-9 . _ -"},
    {"scope", NULL, NULL, ROUTE ", scope: a/b",
     "3: routes[0].scope: \"a/b\" is not allowed; write 1 to 64 of a-z 0-9 . _ -"},
    {"prefix", NULL, STORE ", prefix: a*", NULL,
     "2: stores[0].prefix: \"a*\" is not allowed; write 1 to 64 of A-Z a-z 0-9 . _ : { } -"},
    {"list for one", NULL, NULL, FROM("queue: [in]"),
     "3: routes[0].from.queue: must be one value, not a list"},
    {"group for one", NULL, NULL, FROM("queue: {in: x}"),
     "3: routes[0].from.queue: must be one value, not a group of fields"},
    {"one for list", "urls: \"amqp://u:s3cret@h\"", NULL, NULL,
     "1: broker.urls: must be a list; write [ ] around its items"},
    {"empty list", "urls: []", NULL, NULL,
     "1: broker.urls: is an empty list; write at least one item"},
    {"one for group", NULL, NULL, "name: a, from: in, " TO REST,
     "3: routes[0].from: must be a group of fields: queue, exchange, exchange_type, bindings, "
     "queue_type, declare, prefetch, buffer|3: routes[0].from.queue: is missing; write, for "
     "example, queue: payments.in"},
    {"key", NULL, NULL, "name: a, from: {queue: in}, " TO "key: [\"header:\"], window: 1h",
     "3: routes[0].key[0]: header: lacks the header's name; write header:NAME"},
    {"two keys", NULL, NULL,
     "name: a, from: {queue: in}, " TO "key: [\"a = header:\", \"c = body\", type], window: 1h",
     "3: routes[0].key[0]: header: lacks the header's name; write header:NAME|3: "
     "routes[0].key[2]: \"type\" has no "
     "name, and needs one where the list has several; write NAME = type"},
    /* Fields */
    {"unknown", NULL, NULL, ROUTE ", wndow: 24h", "3: routes[0].wndow: " KNOWN_ROUTE},
    {"unknown below", NULL, NULL, FROM("queue: in, Exchange: x"),
     "3: routes[0].from.Exchange: unknown field; known here: queue, exchange, exchange_type, "
     "bindings, queue_type, declare, prefetch, buffer"},
    {"unknown, with a dot", NULL, NULL, ROUTE ", from.queue: x", "3: has an " KNOWN_ROUTE},
    {"unknown, maybe secret", BROKER ", \"amqp://u:s3cret@h\": x", NULL, NULL,
     "1: has an unknown field; known here: urls, username, password, heartbeat, tls"},
    {"unknown, no text", BROKER ", [a]: x", NULL, NULL,
     "1: has an unknown field; known here: urls, username, password, heartbeat, tls"},
    {"repeated", NULL, NULL, ROUTE ", name: b",
     "3: routes[0].name: is set twice, here and in line 3; leave one out"},
    {"no group", BROKER ", tls: true", NULL, NULL,
     "1: broker.tls: must be a group of fields: ca, cert, key, verify"},
    {"missing", "heartbeat: 1s", "prefix: x", "scope: x",
     "1: broker.urls: is missing; write, for example, urls: "
     "[\"amqp://rabbitmq:5672/%2f\"]|2: stores[0].name: is missing; write, for example, name: "
     "redis|2: stores[0].url: is missing; write, for example, url: redis://redis:6379/0|3: "
     "routes[0].name: is missing; write, for example, name: payments|3: "
     "routes[0].from.queue: is missing; write, for example, queue: payments.in|3: "
     "routes[0].key: is missing; write, for example, key: [\"message_id\"]|3: "
     "routes[0].window: is missing; write, for example, window: 24h|3: routes[0].to: has "
     "neither queue nor exchange; write, for example, queue: payments.work"},
    /* References */
    {"missing variable", "urls: [\"amqp://u:${ONLYONCE_T_UNSET}@h\"]", NULL, NULL,
     "1: broker.urls[0]: the environment variable ONLYONCE_T_UNSET is not set; set it, or "
     "write ${ONLYONCE_T_UNSET:-default}"},
    {"missing file", BROKER ", username: u, password: \"${file:/nonexistent/x}\"", NULL, NULL,
     "1: broker.password: the file \"/nonexistent/x\" cannot be read: No such file or "
     "directory"},
    {"a folder", BROKER ", username: u, password: \"${file:/}\"", NULL, NULL,
     "1: broker.password: the file \"/\" cannot be read: Is a directory"},
    {"no file", BROKER ", username: u, password: \"${file:}\"", NULL, NULL,
     "1: broker.password: \"${file:}\" names no file; write ${file:/path}"},
    {"lone dollar", BROKER ", username: u, password: s3$cret", NULL, NULL,
     "1: broker.password: a \"$\" is written $$; ${NAME} takes the environment's value"},
    {"not closed", BROKER ", username: u, password: \"s3${cret\"", NULL, NULL,
     "1: broker.password: \"${\" has no closing \"}\"; write a dollar as $$"},
    {"no name", BROKER ", username: u, password: \"s3${c-ret}\"", NULL, NULL,
     "1: broker.password: \"${\" must be followed by NAME}, NAME:-default} or file:/path}; "
     "write a dollar as $$"},
    {"nested", BROKER ", username: u, password: \"${A:-${B}}\"", NULL, NULL,
     "1: broker.password: a default in ${NAME:-default} cannot hold another ${...}; write a "
     "dollar as $$"},
    {"empty secret", BROKER ", username: u, password: \"${ONLYONCE_T_EMPTY}\"", NULL, NULL,
     "1: broker.password: is empty; write a value, or leave the field out"},
    {"not UTF-8", NULL, NULL, FROM("queue: \"${ONLYONCE_T_LATIN}\""),
     "3: routes[0].from.queue: has a control character, or is not UTF-8; write it as visible "
     "text"},
    {"word from outside", NULL, NULL, FROM("queue: in, declare: \"${ONLYONCE_T_SET}\""),
     "3: routes[0].from.declare: \"value\" is not known here; write false or true"},
    /* More than YAML's plain texts */
    {"alias", NULL, NULL, "name: &n a, scope: *n, from: {queue: in}, " TO REST,
     "3: routes[0].name: has an anchor (&), which is not supported; write the value where it "
     "is needed|3: routes[0].scope: is an alias (*), which is not supported; write the value "
     "itself"},
    {"tag", NULL, NULL, FROM("queue: !!str in"),
     "3: routes[0].from.queue: has a tag (!), which is not supported; leave it out"},
    {"tagged list", "urls: !x [\"amqp://h\"]", NULL, NULL,
     "1: broker.urls: has a tag (!), which is not supported; leave it out"},
    {"tagged name", NULL, NULL, ROUTE ", !x scope: s",
     "3: routes[0].scope: has a tag (!), which is not supported; leave it out"},
};

static void test_faulty_fields(void **state)
{
    (void)state;
    setenv("ONLYONCE_T_SET", "value", 1);
    setenv("ONLYONCE_T_EMPTY", "", 1);
    setenv("ONLYONCE_T_LATIN", "gr\xfc\xdf", 1);
    unsetenv("ONLYONCE_T_UNSET");
    expect_all(faulty_fields, COUNT(faulty_fields));
}

#define OWN_KEY                                                                                    \
    "3: routes[0].to.exchange: leads back to the inbound queue: a binding of from.exchange "       \
    "catches the message's own routing key; set to.routing_key, or publish elsewhere"
#define CATCHES(key)                                                                               \
    "3: routes[0].to.exchange: leads back to the inbound queue: a binding of from.exchange "       \
    "catches \"" key "\""
#define RESERVED(name) "\"" name "\" begins with \"amq.\", which is reserved; choose another name"

static const struct case_of_fault contradictions[] = {
    {"TLS's fields without it", BROKER ", tls: {ca: x}", NULL, NULL,
     "1: broker.tls.ca: means something only to amqps://; leave it out"},
    {"half a pair", "urls: [\"amqps://h\"], tls: {cert: x}", NULL, NULL,
     "1: broker.tls.cert: is one half of a pair; set tls.cert and tls.key, or neither"},
    {"a file that is not there", "urls: [\"amqps://h\"], tls: {ca: /no/such}", NULL, NULL,
     "1: broker.tls.ca: /no/such cannot be read: No such file or directory"},
    {"a certificate that is none", "urls: [\"amqps://h\"], tls: {cert: /dev/null, key: /dev/null}",
     NULL, NULL, "1: broker.tls.cert: /dev/null holds no certificate in PEM"},
    {"a store's file that is not there", NULL, "name: a, url: \"rediss://h\", tls: {ca: /no/such}",
     NULL, "2: stores[0].tls.ca: /no/such cannot be read: No such file or directory"},
    {"a store's TLS without it", NULL, STORE ", tls: {verify: false}", NULL,
     "2: stores[0].tls.verify: means something only to rediss: (PostgreSQL's TLS is parameters of "
     "its URL: sslmode, sslrootcert); leave it out"},
    {"half a store's pair", NULL, "name: a, url: \"rediss://h\", tls: {key: x}", NULL,
     "2: stores[0].tls.key: is one half of a pair; set tls.cert and tls.key, or neither"},
    {"replicas of a file", NULL, "name: a, url: \"sqlite:/x\", wait_replicas: 1", NULL,
     "2: stores[0].wait_replicas: means something only to redis:; leave it out"},
    {"a schema's long name", NULL,
     "name: a, url: \"postgresql://h/d\", prefix: "
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
     NULL,
     "2: stores[0].prefix: is the name of a schema in PostgreSQL, which has at most 63 bytes"},
    {"one URL of two", "urls: [\"amqp://h\", \"amqp://u:s3cret@h:x\"]", NULL, NULL,
     "1: broker.urls[1]: has a port that is not a number from 1 to 65535; or a username and "
     "password lack their \"@HOST\""},
    {"both URLs", "urls: [\"${ONLYONCE_T_UNSET}\", \"amqp://h:x\"]", NULL, NULL,
     "1: broker.urls[0]: the environment variable ONLYONCE_T_UNSET is not set; set it, or "
     "write ${ONLYONCE_T_UNSET:-default}|1: broker.urls[1]: has a port that is not a number "
     "from 1 to 65535; or a username and password lack their \"@HOST\""},
    {"user without password", "urls: [\"amqp://u@h\"]", NULL, NULL,
     "1: broker.urls[0]: has a username and no password; write USER:PASSWORD@, or set "
     "broker.password"},
    {"username without password", BROKER ", username: u", NULL, NULL,
     "1: broker.username: has no password; set broker.password"},
    {"password without username", BROKER ", password: s3cret", NULL, NULL,
     "1: broker.password: has no username; set broker.username"},
    {"store's URL", NULL, "name: a, url: \"http://u:s3cret@h\"", NULL,
     "2: stores[0].url: has a scheme that is not known here, http://; write "
     "redis://HOST:PORT/DATABASE, redis+sentinel://HOST,HOST/MASTER/DATABASE, sqlite:/FILE, "
     "postgresql://USER@HOST/DATABASE or memory:"},
    {"store's user", NULL, "name: a, url: \"redis://u@h\"", NULL,
     "2: stores[0].url: has a username and no password; set password (a URL's password alone "
     "is written redis://:PASSWORD@HOST)"},
    {"memory with password", NULL, "name: a, url: 'memory:', password: s3cret", NULL,
     "2: stores[0].password: means something only to redis: and postgresql:; leave it out"},
    {"timeout", NULL, STORE ", timeout: 1s, session: 3s", NULL,
     "2: stores[0].timeout: 1000ms is not below a third of session (3000ms); write a shorter "
     "timeout or a longer session"},
    {"no such store", NULL, NULL, ROUTE ", store: other",
     "3: routes[0].store: \"other\" is no store's name; write one of redis"},
    {"several stores", NULL, STORE "}, {name: two, url: 'redis://r'", NULL,
     "3: routes[0].store: is missing, and there are several stores; write one of redis, two"},
    {"stores of one name", NULL, STORE "}, {" STORE, ROUTE ", store: redis",
     "2: stores[1].name: \"redis\" is the name of stores[0], too; names differ"},
    {"prefetch", NULL, NULL, FROM("queue: in, prefetch: 2001"),
     "3: routes[0].from.prefetch: 2001 is more than the 2000 that a quorum queue allows; "
     "write less, or set queue_type: classic"},
    {"bindings of nothing", NULL, NULL, FROM("queue: in, bindings: [a], exchange_type: topic"),
     "3: routes[0].from.exchange_type: means nothing without from.exchange; set that, or "
     "leave this out|3: routes[0].from.bindings: means nothing without from.exchange; set "
     "that, or leave this out"},
    {"bindings of a faulty exchange", NULL, NULL, FROM("queue: in, exchange: [x], bindings: [a]"),
     "3: routes[0].from.exchange: must be one value, not a list"},
    {"direct", NULL, NULL, FROM("queue: in, exchange: x, exchange_type: direct"),
     "3: routes[0].from.bindings: is missing: a direct exchange needs the routing keys to "
     "bind with"},
    {"reserved inbound queue", NULL, NULL, FROM("queue: amq.in, exchange: amq.x"),
     "3: routes[0].from.queue: " RESERVED("amq.in") ", or set declare: false if it "
                                                    "exists|3: routes[0].from.exchange: " RESERVED(
                                                        "amq.x") ", or set declare: false if it "
                                                                 "exists"},
    {"reserved parking queue", NULL, NULL, FROM("queue: amq.in, declare: false"),
     "3: routes[0].park.queue: " RESERVED("amq.in.parked")},
    {"reserved work queue", NULL, NULL, TO_("queue: amq.w"),
     "3: routes[0].to.queue: " RESERVED("amq.w") ", or set declare: false if it exists"},
    {"two destinations", NULL, NULL, TO_("queue: w, exchange: e"),
     "3: routes[0].to.exchange: is set, and so is to.queue; leave one of them out"},
    {"routing key of a queue", NULL, NULL, TO_("queue: w, routing_key: k"),
     "3: routes[0].to.routing_key: needs to.exchange: a queue is reached by its own name"},
    {"type of an exchange", NULL, NULL, TO_("exchange: e, queue_type: quorum"),
     "3: routes[0].to.queue_type: means nothing without to.queue; leave it out"},
    {"work queue is inbound", NULL, NULL, TO_("queue: in"),
     "3: routes[0].to.queue: is the inbound queue itself: copies would come straight back"},
    {"parking queue is inbound", NULL, NULL, ROUTE ", park: {queue: in}",
     "3: routes[0].park.queue: is the inbound queue itself: parked messages would come "
     "straight back"},
    {"parking queue is work queue", NULL, NULL, ROUTE ", park: {queue: work}",
     "3: routes[0].park.queue: is the work queue: workers would get what was parked; write "
     "another queue"},
    {"back by the own key", NULL, NULL, TO_("exchange: x"), OWN_KEY},
    {"back by a binding", NULL, NULL, TO_("exchange: x, routing_key: a.b"), CATCHES("a.b")},
    {"back by fanout", NULL, NULL,
     "name: a, from: {queue: in, exchange: x, exchange_type: fanout}, to: {exchange: x, "
     "routing_key: k}, " REST,
     CATCHES("k")},
    {"back by a direct binding", NULL, NULL,
     "name: a, from: {queue: in, exchange: x, exchange_type: direct, bindings: [j, k]}, to: "
     "{exchange: x, routing_key: k}, " REST,
     CATCHES("k")},
    {"duplicates to nowhere", NULL, NULL, ROUTE ", on_duplicate: publish",
     "3: routes[0].duplicates.exchange: is missing, and on_duplicate is publish; write, for "
     "example, exchange: payments.duplicates"},
    {"no duplicates", NULL, NULL, ROUTE ", duplicates: {exchange: d, routing_key: k}",
     "3: routes[0].duplicates.exchange: means nothing without on_duplicate: publish; write that, "
     "or leave this out"},
    {"a routing key of no duplicates", NULL, NULL, ROUTE ", duplicates: {routing_key: k}",
     "3: routes[0].duplicates.routing_key: means nothing without duplicates.exchange; set that, or "
     "leave this out"},
    {"duplicates back by the own key", NULL, NULL, DUPLICATES("exchange: x"),
     "3: routes[0].duplicates.exchange: leads back to the inbound queue: a binding of "
     "from.exchange catches the message's own routing key; set duplicates.routing_key, or publish "
     "elsewhere"},
    {"duplicates back by a binding", NULL, NULL, DUPLICATES("exchange: x, routing_key: a.b"),
     "3: routes[0].duplicates.exchange: leads back to the inbound queue: a binding of "
     "from.exchange catches \"a.b\""},
    {"routes of one name and queue", NULL, NULL, ROUTE "}, {" ROUTE,
     "3: routes[1].name: \"a\" is the name of routes[0], too; names differ|3: "
     "routes[1].from.queue: \"in\" is the inbound queue of routes[0], too; a queue has one "
     "route"},
    {"a circle", NULL, NULL,
     "name: a, from: {queue: q1}, to: {queue: q2}, " REST "}, {name: b, from: {queue: q2}, "
     "to: {queue: q1}, " REST "}, {name: c, from: {queue: q3}, to: {queue: q1}, " REST,
     "3: routes[0].to.queue: leads back to the inbound queue through other routes; break the "
     "circle|3: routes[1].to.queue: leads back to the inbound queue through other routes; "
     "break the circle"},
    {"a circle through an exchange", NULL, NULL,
     "name: a, from: {queue: q1}, to: {exchange: x}, " REST
     "}, {name: b, from: {queue: q2, exchange: x}, to: {queue: q1}, " REST,
     "3: routes[0].to.exchange: leads back to the inbound queue through other routes; break "
     "the circle|3: routes[1].to.queue: leads back to the inbound queue through other "
     "routes; break the circle"},
};

static void test_contradictions(void **state)
{
    (void)state;
    expect_all(contradictions, COUNT(contradictions));
}

static void test_completions(void **state)
{
    static const struct {
        const char *completions;
        const char *want;
    } cases[] = {
        {"park: p",
         "1: completions.park: means nothing without completions.queue; set that, or leave "
         "this out"},
        {"queue: ''", "1: completions.queue: is empty; write a value, or leave the field out"},
        {"queue: q, park: q",
         "1: completions.park: \"q\" is completions.queue, too; write another queue"},
        {"queue: amq.q, park: amq.p",
         "1: completions.queue: \"amq.q\" begins with \"amq.\", which is reserved; choose another "
         "name|1: completions.park: \"amq.p\" begins with \"amq.\", which is reserved; choose "
         "another "
         "name"},
        {"queue: in, park: work",
         "1: completions.queue: \"in\" is routes[0].from.queue, too; write another queue|1: "
         "completions.park: \"work\" is routes[0].to.queue, too; write another queue"},
        {"queue: work, park: in",
         "1: completions.queue: \"work\" is routes[0].to.queue, too; write another queue|1: "
         "completions.park: \"in\" is routes[0].from.queue, too; write another queue"},
        {"queue: in.parked",
         "1: completions.queue: \"in.parked\" is routes[0].park.queue, too; write another queue"},
    };
    (void)state;
    char *rest = build(NULL, NULL, NULL);
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *text = xasprintf("completions: {%s}\n%s", cases[i].completions, rest);
        expect_faults(cases[i].completions, span_of(text), cases[i].want);
        free(text);
    }
    struct config *c = load_good("none", span_of(rest));
    assert_null(c->completions.queue);
    assert_null(c->completions.park);
    config_free(c);
    char *text = xasprintf("%scompletions: {queue: q}\n", rest);
    c = load_good("a queue", span_of(text));
    assert_string_equal(c->completions.queue, "q");
    assert_string_equal(c->completions.park, "q.parked");
    config_free(c);
    free(text);
    free(rest);
}

/* What looks like a contradiction and is none. */
static void test_allowed(void **state)
{
    static const struct {
        const char *label, *store, *route;
    } cases[] = {
        {"to the same exchange, not caught", NULL, TO_("exchange: x, routing_key: b")},
        {"to another exchange, own key", NULL, TO_("exchange: y")},
        {"duplicates to the same exchange, not caught", NULL,
         DUPLICATES("exchange: x, routing_key: b")},
        {"duplicates to another exchange", NULL, DUPLICATES("exchange: d")},
        {"a chain", NULL,
         "name: a, from: {queue: q1}, to: {queue: q2}, " REST
         "}, {name: b, from: {queue: q2}, to: {queue: q3}, " REST},
        {"one scope", NULL,
         "name: a, from: {queue: q1}, to: {queue: w}, " REST
         "}, {name: b, scope: a, from: {queue: q2}, to: {queue: w}, " REST},
        {"predeclared exchange", NULL, FROM("queue: in, exchange: amq.topic")},
        {"reserved, not declared", NULL,
         FROM("queue: amq.in, declare: false") ", park: {queue: p}"},
        {"prefetch of a classic queue", NULL,
         FROM("queue: in, queue_type: classic, prefetch: 2001")},
        {"limits", STORE ", timeout: 999ms, session: 3s", BUT("window: 1h")},
        {"password alone", "name: a, url: 'redis://r', password: x", NULL},
        {"user, and password beside it", "name: a, url: 'redis://u@r', password: x", NULL},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *text = build(NULL, cases[i].store, cases[i].route);
        config_free(load_good(cases[i].label, span_of(text)));
        free(text);
    }
}

/* Which routing keys a topic binding catches shows in which destinations are refused. */
static void test_topic_patterns(void **state)
{
    static const struct {
        const char *pattern, *key;
        bool matches;
    } cases[] = {
        {"#", "a", true},
        {"#", "a.b.c", true},
        {"#", "", true},
        {"*", "a", true},
        {"*", "a.b", false},
        {"*", "", false},
        {"a", "a", true},
        {"a", "ab", false},
        {"ab", "a", false},
        {"a.*", "a.b", true},
        {"a.*", "a", false},
        {"a.*", "a.b.c", false},
        {"a.#", "a", true},
        {"a.#", "a.b.c", true},
        {"a.#", "b.a", false},
        {"#.c", "a.b.c", true},
        {"#.c", "c", true},
        {"#.c", "c.a", false},
        {"#.a.#", "b.a.b", true},
        {"#.a.#.c", "a.b.a", false},
        {"#.a.#.c", "a.b.a.c", true},
        {"*.#.*", "a", false},
        {"*.#.*", "a.b", true},
        {"#.#", "a", true},
        {"a.#.b.c", "a.b.b.c", true},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *label = xasprintf("%s catches %s", cases[i].pattern, cases[i].key);
        char *route = xasprintf("name: a, from: {queue: in, exchange: x, bindings: ['%s']}, to: "
                                "{exchange: x, routing_key: '%s'}, " REST,
                                cases[i].pattern, cases[i].key);
        char *text = build(NULL, NULL, route);
        char *want = xasprintf(CATCHES("%s"), cases[i].key);
        if (cases[i].matches)
            expect_faults(label, span_of(text), want);
        else
            config_free(load_good(label, span_of(text)));
        free(want);
        free(text);
        free(route);
        free(label);
    }
}

static void test_documents(void **state)
{
#define NO_SECTIONS                                                                                \
    "1: broker.urls: is missing; write, for example, urls: [\"amqp://rabbitmq:5672/%2f\"]|"        \
    "1: stores: is missing; write at least one item|1: routes: is missing; write at least one "    \
    "item"
    static const struct {
        const char *label, *text;
        size_t len; /* 0: up to the NUL */
        const char *want;
    } cases[] = {
        {"nothing", "", 0, "1: is empty; it needs at least broker, stores and routes"},
        {"comment", "# x\n", 0, "1: is empty; it needs at least broker, stores and routes"},
        {"text", "x\n", 0,
         "1: must be a group of fields: broker, stores, admin, completions, log, "
         "routes|" NO_SECTIONS},
        {"no fields", "{}\n", 0, NO_SECTIONS},
        {"empty lists", "broker: {urls: ['amqp://h']}\nstores: []\nroutes: []\n", 0,
         "2: stores: is an empty list; write at least one item|3: routes: is an empty list; write "
         "at least one item"},
        {"no lists", "broker: {urls: ['amqp://h']}\nstores: {}\nroutes: x\n", 0,
         "2: stores: must be a list; begin each item with \"- name: ...\"|3: routes: must be a "
         "list; begin each item with \"- name: ...\""},
        {"unknown groups", "admins: {listen: x}\nlogs: {}\n", 0,
         "1: admins: unknown field; known here: broker, stores, admin, completions, log, routes|"
         "2: logs: unknown field; known here: broker, stores, admin, completions, log, "
         "routes|" NO_SECTIONS},
        {"no port", "admin: {listen: localhost}\n", 0,
         NO_SECTIONS "|1: admin.listen: has no port; write 127.0.0.1:8080"},
        {"no address", "admin: {listen: ':80'}\n", 0,
         NO_SECTIONS
         "|1: admin.listen: has no address; write 127.0.0.1:PORT, or 0.0.0.0:PORT for all"},
        {"a URL", "admin: {listen: 'http://h:80'}\n", 0,
         NO_SECTIONS "|1: admin.listen: is no ADDRESS:PORT; write 127.0.0.1:8080"},
        {"a token for nothing", "admin: {token: s3cret}\n", 0,
         NO_SECTIONS "|1: admin.token: means nothing without admin.listen; set that, too"},
        {"NUL", "a: b\nc: \0d\n", 10, "2: contains a NUL byte; a configuration is UTF-8 text"},
        {"second document", "{}\n---\n{}\n", 0,
         "2: a second document begins here; a configuration is one document"},
        {"tab", "broker:\n\turls: []\n", 0,
         "2: is not valid YAML: found character that cannot start any token while scanning for "
         "the next token (indent with spaces, not tabs)"},
        {"unquoted at", "broker:\n  password: @x\n", 0,
         "2: is not valid YAML: found character that cannot start any token while scanning for "
         "the next token (a text that begins with this character needs quotation marks)"},
        {"colon", "broker:\n  password: a: b\n", 0,
         "2: is not valid YAML: mapping values are not allowed in this context (a text that "
         "contains \": \" needs quotation marks; or the indentation is off)"},
        {"reference in brackets", "broker:\n  urls: [${X}]\n", 0,
         "2: is not valid YAML: did not find expected ',' or ']' while parsing a flow sequence "
         "(between [ ] and { } a text with ${...} needs quotation marks)"},
        {"not closed", "broker: {urls: [\n", 0,
         "2: is not valid YAML: did not find expected node content while parsing a flow node"},
        {"not UTF-8", "a: b\nc: \xff\n", 0, "2: is not valid YAML: invalid leading UTF-8 octet"},
        {"too deep", "a: [[[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]]\n", 0,
         "1: is nested more than 16 levels deep"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t len = cases[i].len ? cases[i].len : strlen(cases[i].text);
        expect_faults(cases[i].label, (struct span){(const uint8_t *)cases[i].text, len},
                      cases[i].want);
    }
}

/* A byte order mark and comments are no fault; neither is a document's start and end. */
static void test_trimmings(void **state)
{
    (void)state;
    char *text = build(NULL, NULL, NULL);
    char *trimmed = xasprintf("\xef\xbb\xbf# x\n---\n%s...\n", text);
    config_free(load_good("trimmings", span_of(trimmed)));
    free(trimmed);
    free(text);
}

static void test_many_faults(void **state)
{
    (void)state;
    struct buffer text = {0};
    for (int i = 0; i < 5000; i++)
        buffer_printf(&text, "x%d: y\n", i);
    struct buffer errors = {0};
    write_file(config_path, buffer_span(&text));
    assert_null(config_load(config_path, &errors));
    size_t lines = 0;
    for (size_t i = 0; i < errors.len; i++)
        lines += errors.data[i] == '\n';
    assert_int_equal(lines, 101);
    buffer_free(&errors);
    buffer_free(&text);
}

static void expect_no_file(const char *path, const char *want)
{
    struct buffer errors = {0};
    assert_null(config_load(path, &errors));
    buffer_add_u8(&errors, 0);
    same_text(path, (const char *)errors.data, want);
    buffer_free(&errors);
}

static void test_files_that_cannot_be_read(void **state)
{
    (void)state;
    struct buffer text = {0};
    buffer_printf(&text, "#");
    memset(buffer_reserve(&text, 1 << 20), 'x', 1 << 20);
    text.len += 1 << 20;
    write_file(config_path, buffer_span(&text));
    buffer_free(&text);
    char *want = xasprintf("%s: is larger than 1024 KiB, the most that is read\n", config_path);
    expect_no_file(config_path, want);
    free(want);
    expect_no_file("/nonexistent/x.yaml",
                   "/nonexistent/x.yaml: cannot be read: No such file or directory\n");
    expect_no_file("/", "/: cannot be read: Is a directory\n");
    expect_no_file("", ": cannot be read: No such file or directory\n");
}

/* ---- No drift ---- */

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

static void test_manual_page_is_current(void **state)
{
    (void)state;
    char *page = read_source("docs/onlyonce.1");
    struct buffer want = {0};
    options_print(&want);
    buffer_add_u8(&want, 0);
    if (!strstr(page, (const char *)want.data))
        fail_msg("docs/onlyonce.1 must contain:\n%s", (const char *)want.data);
    buffer_free(&want);
    free(page);
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
    write_certificate(secret_path);
    for (size_t i = 0; i < COUNT(names); i++) {
        char *name = xasprintf("/etc/onlyonce/%s", names[i]);
        for (char *at; (at = strstr(out, name));) {
            char *next =
                xasprintf("%.*s%s%s", (int)(at - out), out, secret_path, at + strlen(name));
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
    options_missing_from(text, &missing);
    if (missing.len)
        fail_msg("config/onlyonce.yaml: %.*s", (int)missing.len, (const char *)missing.data);
    char *bare = uncommented(text);
    char *full = with_certificates(bare);
    struct config *a = load_good("config/onlyonce.yaml", span_of(text));
    struct config *b = load_good("config/onlyonce.yaml, uncommented", span_of(full));
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
    free(text);
}

static void test_drift_is_noticed(void **state)
{
    (void)state;
    struct buffer missing = {0};
    options_missing_from("heartbeat: 11s", &missing);
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
    struct config *c = load_good("config/demo.yaml", span_of(text));
    assert_int_equal(c->broker.parsed[0].port, 5673);
    assert_int_equal(c->stores[0].parsed.port, 6380);
    assert_non_null(config_route(c, "payments"));
    assert_string_equal(c->routes[0].from.queue, "payments.in");
    assert_string_equal(c->routes[0].to.queue, "payments.work");
    config_free(c);
    free(text);
}

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(config_path, sizeof config_path, "%s/c.yaml", folder);
    snprintf(secret_path, sizeof secret_path, "%s/secret", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(config_path);
    unlink(secret_path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_every_field),
        cmocka_unit_test(test_expansion),
        cmocka_unit_test(test_secret_files),
        cmocka_unit_test(test_warnings),
        cmocka_unit_test(test_faulty_fields),
        cmocka_unit_test(test_contradictions),
        cmocka_unit_test(test_completions),
        cmocka_unit_test(test_allowed),
        cmocka_unit_test(test_topic_patterns),
        cmocka_unit_test(test_documents),
        cmocka_unit_test(test_trimmings),
        cmocka_unit_test(test_many_faults),
        cmocka_unit_test(test_files_that_cannot_be_read),
        cmocka_unit_test(test_manual_page_is_current),
        cmocka_unit_test(test_example_shows_every_field_and_default),
        cmocka_unit_test(test_drift_is_noticed),
        cmocka_unit_test(test_demo),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
