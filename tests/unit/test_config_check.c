/*
 * What fields of a configuration say together: contradictions, routes that lead back, and what only
 * looks like one of those.
 */
#include "config_case.h"
#include "redis_tls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

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
    {"a store's TLS without it", NULL, STORE ", tls: {verify: false}", NULL,
     "2: stores[0].tls.verify: means something only to rediss: (PostgreSQL's TLS is parameters of "
     "its URL: sslmode, sslrootcert); leave it out"},
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
    {"timeout and heartbeat", BROKER ", heartbeat: 1s", STORE ", timeout: 1001ms", NULL,
     "2: stores[0].timeout: 1001ms is longer than broker.heartbeat (1000ms); write a shorter "
     "timeout or a longer heartbeat"},
    {"timeout, as long as a worker may stand still", BROKER ", heartbeat: 20s",
     STORE ", timeout: 11s, session: 5m", NULL,
     "2: stores[0].timeout: \"11s\" is too high; write 50ms to 10s"},
    {"no such store", NULL, NULL, ROUTE ", store: other",
     "3: routes[0].store: \"other\" is no store's name; write one of redis"},
    {"several stores", NULL, STORE "}, {name: two, url: 'redis://r'", NULL,
     "3: routes[0].store: is missing, and there are several stores; write one of redis, two"},
    {"stores of one name", NULL, STORE "}, {" STORE, ROUTE ", store: redis",
     "2: stores[1].name: \"redis\" is the name of stores[0], too; names differ"},
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
    {"declaring an exchange", NULL, NULL, TO_("exchange: e, declare: true"),
     "3: routes[0].to.declare: means nothing without to.queue; leave it out"},
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
};

static void test_contradictions(void **state)
{
    (void)state;
    config_expect_all(contradictions, COUNT(contradictions));
}

/* A circle is said once, at the first of its routes and the field by which it begins there. */
#define CIRCLE(route, field, through)                                                              \
    "3: routes[" route "]." field ": leads back to routes[" route "].from.queue through " through  \
    ": messages would go round; break the circle"

static const struct case_of_fault circles[] = {
    {"destinations", NULL, NULL,
     "name: a, from: {queue: q1}, to: {queue: q2}, " REST "}, {name: b, from: {queue: q2}, "
     "to: {queue: q1}, " REST "}, {name: c, from: {queue: q3}, to: {queue: q1}, " REST,
     CIRCLE("0", "to.queue", "routes[1].to.queue")},
    {"an exchange", NULL, NULL,
     "name: a, from: {queue: q1}, to: {exchange: x}, " REST
     "}, {name: b, from: {queue: q2, exchange: x}, to: {queue: q1}, " REST,
     CIRCLE("0", "to.exchange", "routes[1].to.queue")},
    {"parking queues", NULL, NULL,
     "name: a, from: {queue: q1}, to: {queue: w}, park: {queue: q2}, " REST
     "}, {name: b, from: {queue: q2}, to: {queue: w}, park: {queue: q1}, " REST,
     CIRCLE("0", "park.queue", "routes[1].park.queue")},
    {"parking queues by their usual names", NULL, NULL,
     "name: a, from: {queue: q}, to: {queue: w}, " REST
     "}, {name: b, from: {queue: q.parked}, to: {queue: q}, " REST,
     CIRCLE("0", "park.queue", "routes[1].to.queue")},
    {"parked by the last one", NULL, NULL,
     "name: z, from: {queue: q0}, to: {queue: q1}, " REST
     "}, {name: a, from: {queue: q1}, to: {queue: q2}, " REST
     "}, {name: b, from: {queue: q2}, to: {queue: q3}, " REST
     "}, {name: c, from: {queue: q3}, to: {queue: w}, park: {queue: q1}, " REST,
     CIRCLE("1", "to.queue", "routes[2].to.queue, then routes[3].park.queue")},
    {"duplicates", NULL, NULL,
     "name: a, from: {queue: q1}, to: {queue: w}, on_duplicate: publish, duplicates: {exchange: x, "
     "routing_key: k}, " REST
     "}, {name: b, from: {queue: q2, exchange: x, bindings: [k]}, to: {queue: w}, park: {queue: "
     "q1}, " REST,
     CIRCLE("0", "duplicates.exchange", "routes[1].park.queue")},
    {"two circles", NULL, NULL,
     "name: a, from: {queue: q1}, to: {queue: q2}, park: {queue: q3}, " REST
     "}, {name: b, from: {queue: q2}, to: {queue: q1}, " REST
     "}, {name: c, from: {queue: q3}, to: {queue: q1}, " REST,
     CIRCLE("0", "to.queue", "routes[1].to.queue") "|" CIRCLE("0", "park.queue",
                                                              "routes[2].to.queue")},
    {"the shortest way", NULL, NULL,
     "name: a, from: {queue: q1}, to: {queue: w}, park: {queue: q2}, " REST
     "}, {name: b, from: {queue: q2}, to: {queue: q3}, park: {queue: q1}, " REST
     "}, {name: c, from: {queue: q3}, to: {queue: q1}, " REST,
     CIRCLE("0", "park.queue", "routes[1].park.queue")},
    {"straight back is said as such", NULL, NULL,
     "name: a, from: {queue: q1}, to: {queue: q1}, park: {queue: q2}, " REST
     "}, {name: b, from: {queue: q2}, to: {queue: q1}, " REST,
     "3: routes[0].to.queue: is the inbound queue itself: copies would come straight back|" CIRCLE(
         "0", "park.queue", "routes[1].to.queue")},
};

static void test_circles(void **state)
{
    (void)state;
    config_expect_all(circles, COUNT(circles));
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
    char *rest = config_build(NULL, NULL, NULL);
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *text = xasprintf("completions: {%s}\n%s", cases[i].completions, rest);
        config_expect_faults(cases[i].completions, span_of(text), cases[i].want);
        free(text);
    }
    struct config *c = config_load_good("none", span_of(rest));
    assert_null(c->completions.queue);
    assert_null(c->completions.park);
    config_free(c);
    char *text = xasprintf("%scompletions: {queue: q}\n", rest);
    c = config_load_good("a queue", span_of(text));
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
        {"parked for another route", NULL,
         "name: a, from: {queue: q1}, to: {queue: w}, park: {queue: q2}, " REST
         "}, {name: b, from: {queue: q2}, to: {queue: w}, " REST},
        {"all the ways to another route", NULL,
         "name: a, from: {queue: q1}, to: {queue: q2}, park: {queue: q4}, on_duplicate: publish, "
         "duplicates: {exchange: x}, " REST
         "}, {name: b, from: {queue: q2, exchange: x}, to: {queue: q3}, park: {queue: q4}, " REST
         "}, {name: c, from: {queue: q4}, to: {queue: q3}, " REST},
        {"back through a binding that may not catch it", NULL,
         "name: a, from: {queue: q1, exchange: x, bindings: [a]}, to: {queue: w}, park: {queue: "
         "q2}, " REST "}, {name: b, from: {queue: q2}, to: {exchange: x}, " REST},
        {"parked together", NULL,
         "name: a, from: {queue: q1}, to: {queue: w}, park: {queue: p}, " REST
         "}, {name: b, from: {queue: q2}, to: {queue: w}, park: {queue: p}, " REST},
        {"one scope", NULL,
         "name: a, from: {queue: q1}, to: {queue: w}, " REST
         "}, {name: b, scope: a, from: {queue: q2}, to: {queue: w}, " REST},
        {"predeclared exchange", NULL, FROM("queue: in, exchange: amq.topic")},
        {"reserved, not declared", NULL,
         FROM("queue: amq.in, declare: false") ", park: {queue: p}"},
        {"a high prefetch of a quorum queue", NULL,
         FROM("queue: in, queue_type: quorum, prefetch: 65535")},
        {"limits", STORE ", timeout: 999ms, session: 3s", BUT("window: 1h")},
        {"password alone", "name: a, url: 'redis://r', password: x", NULL},
        {"user, and password beside it", "name: a, url: 'redis://u@r', password: x", NULL},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *text = config_build(NULL, cases[i].store, cases[i].route);
        config_free(config_load_good(cases[i].label, span_of(text)));
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
        char *text = config_build(NULL, NULL, route);
        char *want = xasprintf(CATCHES("%s"), cases[i].key);
        if (cases[i].matches)
            config_expect_faults(label, span_of(text), want);
        else
            config_free(config_load_good(label, span_of(text)));
        free(want);
        free(text);
        free(route);
        free(label);
    }
}

/* A build without TLS for Redis says so, in a line more. */
static void test_tls_of_stores(void **state)
{
#define REDISS "name: redis, url: \"rediss://r\""
    static const struct {
        const char *label, *store, *want; /* besides that line; NULL: nothing */
    } cases[] = {
        {"the system's authorities", REDISS, NULL},
        {"Sentinels", "name: redis, url: \"rediss+sentinel://a,b/m/0\"", NULL},
        {"half a pair", REDISS ", tls: {key: x}",
         "2: stores[0].tls.key: is one half of a pair; set tls.cert and tls.key, or neither"},
        {"a file that is not there", REDISS ", tls: {ca: /no/such}",
         "2: stores[0].tls.ca: /no/such cannot be read: No such file or directory"},
    };
    const char *lack = redis_tls_check();
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *text = config_build(NULL, cases[i].store, NULL);
        char *want = xasprintf("%s%s%s%s", cases[i].want ? cases[i].want : "",
                               cases[i].want && lack ? "|" : "", lack ? "2: stores[0].url: " : "",
                               lack ? lack : "");
        if (*want)
            config_expect_faults(cases[i].label, span_of(text), want);
        else
            config_free(config_load_good(cases[i].label, span_of(text)));
        free(want);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contradictions), cmocka_unit_test(test_circles),
        cmocka_unit_test(test_completions),    cmocka_unit_test(test_allowed),
        cmocka_unit_test(test_topic_patterns), cmocka_unit_test(test_tls_of_stores),
    };
    return cmocka_run_group_tests(tests, config_make_folder, config_remove_folder);
}
