/* What SIGHUP goes by: which differences of two configurations are seen, and whom they concern. */
#include "config_case.h"
#include "options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECTION_MAX 4096 /* bytes; no section is larger */

/* Another value than nothing, whatever the type. */
static void set_value(const struct option *o, void *section)
{
    static char text[] = "x";
    static char *items[] = {text};
    void *target = (char *)section + o->offset;
    switch (o->type) {
    case OPTION_TEXT:
    case OPTION_NAME:
    case OPTION_ENTITY:
    case OPTION_PREFIX:
        if (o->flags & OPTION_LIST)
            *(struct strings *)target = (struct strings){items, 1};
        else
            *(char **)target = text;
        break;
    case OPTION_NUMBER:
    case OPTION_DURATION:
    case OPTION_SIZE: *(int64_t *)target = 1; break;
    case OPTION_BOOLEAN: *(bool *)target = true; break;
    case OPTION_WORD: *(int *)target = 1; break;
    }
}

/* "routes[]." of "routes[].from.queue". */
static void section_of(const struct option *o, char out[32])
{
    snprintf(out, 32, "%.*s.", (int)strcspn(o->path, "."), o->path);
}

static void every_field_makes_a_difference(void **state)
{
    (void)state;
    for (size_t i = 0; i < options_count; i++) {
        char section[32];
        void *a = calloc(1, SECTION_MAX);
        void *b = calloc(1, SECTION_MAX);
        section_of(&options[i], section);
        assert_true(options_same(section, a, b));
        set_value(&options[i], b);
        if (options_same(section, a, b))
            fail_msg("%s makes no difference", options[i].path);
        set_value(&options[i], a);
        assert_true(options_same(section, a, b));
        free(a);
        free(b);
    }
}

static struct config *load(const char *broker, const char *store, const char *routes)
{
    char *text = config_build(broker, store, routes);
    struct config *config = config_load_good("a configuration", span_of(text));
    free(text);
    return config;
}

#define OTHER "}, {name: b, from: {queue: in2}, to: {queue: work2}, " REST

#define WRITTEN "name: a, from: {queue: in}, to: {queue: work, queue_type: quorum}, " REST

static void differences_concern_whom_they_should(void **state)
{
    static const struct {
        const char *label, *broker, *store, *routes;
        bool all, route, reports; /* what is the same as before */
    } cases[] = {
        {"nothing", NULL, NULL, ROUTE OTHER, true, true, true},
        {"another order", NULL, NULL,
         "name: b, from: {queue: in2}, to: {queue: work2}, " REST "}, {" ROUTE, true, true, true},
        {"the broker", BROKER ", heartbeat: 5s", NULL, ROUTE OTHER, false, false, false},
        {"the store", NULL, STORE ", timeout: 2s", ROUTE OTHER, false, false, false},
        {"a store's password", NULL, STORE ", password: other", ROUTE OTHER, false, false, false},
        {"its own field", NULL, NULL, ROUTE ", sliding: true" OTHER, false, false, false},
        {"a default that is written now", NULL, NULL, WRITTEN OTHER, false, false, false},
        {"another route's", NULL, NULL, ROUTE OTHER ", sliding: true", false, true, false},
        {"another route is gone", NULL, NULL, ROUTE, false, true, false},
    };
    (void)state;
    struct config *before = load(NULL, NULL, ROUTE OTHER);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct config *after = load(cases[i].broker, cases[i].store, cases[i].routes);
        const struct route_config *a = config_route(before, "a");
        const struct route_config *now = config_route(after, "a");
        if (config_same(before, after) != cases[i].all ||
            config_same_route(before, a, after, now) != cases[i].route ||
            config_same_reports(before, after) != cases[i].reports)
            fail_msg("%s", cases[i].label);
        config_free(after);
    }
    config_free(before);
}

/* It minds the names of all queues. */
static void a_route_that_replies_minds_the_others(void **state)
{
    (void)state;
    struct config *before = load(NULL, NULL, ROUTE ", reply: true" OTHER);
    struct config *after = load(NULL, NULL, ROUTE ", reply: true" OTHER ", sliding: true");
    assert_false(
        config_same_route(before, config_route(before, "a"), after, config_route(after, "a")));
    config_free(before);
    config_free(after);
}

static void renewed_files_are_seen(void **state)
{
    (void)state;
    struct config *a = load(NULL, NULL, ROUTE);
    struct config *b = load(NULL, NULL, ROUTE);
    assert_true(config_same(a, b));
    b->broker.tls.digest[31] ^= 1;
    assert_false(config_same(a, b));
    b->broker.tls.digest[31] ^= 1;
    b->stores[0].tls.digest[0] ^= 1;
    assert_false(config_same_route(a, &a->routes[0], b, &b->routes[0]));
    config_free(a);
    config_free(b);
}

static void holders_share_it(void **state)
{
    (void)state;
    struct config *a = load(NULL, NULL, ROUTE);
    assert_ptr_equal(config_hold(a), a);
    config_free(a);
    assert_string_equal(a->routes[0].name, "a");
    config_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_makes_a_difference),
        cmocka_unit_test(differences_concern_whom_they_should),
        cmocka_unit_test(a_route_that_replies_minds_the_others),
        cmocka_unit_test(renewed_files_are_seen),
        cmocka_unit_test(holders_share_it),
    };
    return cmocka_run_group_tests(tests, config_make_folder, config_remove_folder);
}
