/*
 * command_check - is the configuration right, and, with --connect, is what it names there? It makes
 * nothing: what is missing and would be made by `run` is said so.
 */
#include "command.h"

#include "amqp.h"
#include "memory.h"
#include "store.h"
#include "topology.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arguments {
    const char *file;
    bool connect;
};

enum { OPTION_CONNECT = 256 };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &a->file; return 0;
    case OPTION_CONNECT: a->connect = true; return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "\"%s\" is too much: check takes no arguments; a file is named by -c",
                   arg);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static bool check_store(const struct store_config *config)
{
    const char *missing;
    struct buffer dangers = {0};
    struct store *store = store_new(config, "check");
    bool ok = store_look(store, &missing) && store_dangers(store, &dangers);
    if (ok) {
        printf("store %s: %s\n", config->name, store_describe(store));
        if (missing)
            printf("store %s: %s; run makes it\n", config->name, missing);
        printf("store %s: %s\n", config->name, store_promises(store));
        buffer_add_u8(&dangers, '\0');
        char *rest = (char *)dangers.data;
        for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n"))
            if (*line)
                printf("store %s: cannot promise everything: %s\n", config->name, line);
        if (dangers.len == 1)
            printf("store %s: durable: keys are kept for their whole window\n", config->name);
    } else {
        printf("store %s: FAILED: %s\n", config->name, store_error(store));
    }
    buffer_free(&dangers);
    store_free(store);
    return ok;
}

struct thing {
    bool is_queue;
    const char *name;
    bool made; /* `run` makes it if it is missing */
    const char *use;
    const struct route_config *feeds; /* the one whose inbound queue it is, or NULL */
};

/* Whether a route can consume from its inbound queue, which is there. */
static bool can_feed(struct link *l, const struct route_config *route)
{
    bool dead_letters;
    bool limited;
    return topology_dead_letters(l, route, &dead_letters, &limited);
}

/* `whose`: "route NAME", or "completions". */
static bool check_thing(struct link *l, const char *whose, const struct thing *t)
{
    bool exists;
    const char *kind = t->is_queue ? "queue" : "exchange";
    if (!t->name)
        return true;
    if (!topology_look(l, t->is_queue, t->name, &exists) ||
        (exists && t->feeds && !can_feed(l, t->feeds))) {
        printf("%s: FAILED: %s\n", whose, link_error(l));
        return false;
    }
    bool ok = exists || t->made;
    printf("%s: %s%s %s (%s)%s\n", whose, ok ? "" : "FAILED: ", kind, t->name, t->use,
           exists        ? " is there"
           : t->made     ? " is missing; run makes it"
           : t->is_queue ? " is missing; create it, or let run make it: declare: true"
                         : " is missing; create it");
    return ok;
}

/* That it is not allowed would else be known with the first message. */
static bool check_publishing(struct link *l, const char *whose)
{
    bool may;
    if (!topology_may_publish(l, &may))
        printf("%s: FAILED: %s\n", whose, link_error(l));
    else if (!may)
        printf("%s: FAILED: %s; publishing to queues needs the permission to write there\n", whose,
               link_refusal(l));
    return link_is_up(l) && may;
}

static bool check_things(const struct config *config, const char *whose, const struct thing *things,
                         size_t count)
{
    char *purpose = xasprintf("onlyonce check %s", whose);
    struct link *l = link_new(&config->broker, purpose);
    bool ok = link_open(l);
    if (ok)
        printf("%s: %s, as %s\n", whose, link_describe(l), link_whom(l));
    else
        printf("%s: FAILED: %s\n", whose, link_error(l));
    for (size_t i = 0; link_is_up(l) && i < count; i++)
        ok = check_thing(l, whose, &things[i]) && ok;
    if (link_is_up(l))
        ok = check_publishing(l, whose) && ok;
    link_free(l);
    free(purpose);
    return ok;
}

static bool check_route(const struct config *config, const struct route_config *route)
{
    const struct thing things[] = {
        {true, route->from.queue, route->from.declare, "from", route},
        {false, route->from.exchange, route->from.declare, "from", NULL},
        {true, route->to.queue, route->to.declare, "to", NULL},
        {false, route->to.exchange, false, "to", NULL},
        {true, route->park.queue, route->from.declare, "parking", NULL},
        {false, route->duplicates.exchange, false, "duplicates", NULL},
    };
    char *whose = xasprintf("route %s", route->name);
    bool ok = check_things(config, whose, things, sizeof things / sizeof *things);
    free(whose);
    return ok;
}

static bool check_completions(const struct config *config)
{
    const struct thing things[] = {
        {true, config->completions.queue, true, "reports", NULL},
        {true, config->completions.park, true, "parking", NULL},
    };
    return !config->completions.queue ||
           check_things(config, "completions", things, sizeof things / sizeof *things);
}

static int check(const struct config *config, bool connect)
{
    bool ok = true;
    for (size_t i = 0; i < config->warnings.count; i++)
        printf("warning: %s\n", config->warnings.items[i]);
    for (size_t i = 0; connect && i < config->store_count; i++)
        ok = check_store(&config->stores[i]) && ok;
    for (size_t i = 0; connect && i < config->route_count; i++)
        ok = check_route(config, &config->routes[i]) && ok;
    if (connect)
        ok = check_completions(config) && ok;
    printf("%s: %s\n", config->file, ok ? "good" : "the configuration is good, but see above");
    return ok ? EXIT_OK : EXIT_NOT;
}

int command_check(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"connect", OPTION_CONNECT, NULL, 0,
         "Also reach broker, stores and queues, and say what each store can promise", 0},
        {0}};
    static const struct argp_child children[] = {{&command_config_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .doc = "Checks the configuration."
               "\v"
               "Exits with 0 if all is well, 1 if a server or a queue is not, 2 if the "
               "configuration is not; each fault is a line.",
        .children = children};
    struct arguments a = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    struct config *config = command_config(a.file);
    int code = config ? check(config, a.connect) : EXIT_USAGE;
    config_free(config);
    return code;
}
