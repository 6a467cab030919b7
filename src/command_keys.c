/*
 * command_keys - what became of a key: status, list, release. They talk to the route's store
 * directly and need no running relay.
 */
#include "command.h"

#include "claim.h"
#include "key.h"
#include "memory.h"
#include "store.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RELEASE_TRIES 5 /* a record that changes more often than this is busy */

struct arguments {
    const char *file;
    const char *route;
    char **keys;
    int key_count;
    int most_keys;
    const char *state;
    bool force;
};

enum { OPTION_FORCE = 256, OPTION_STATE };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &a->file; return 0;
    case OPTION_FORCE: a->force = true; return 0;
    case OPTION_STATE: a->state = arg; return 0;
    case ARGP_KEY_ARG:
        if (!a->route)
            a->route = arg;
        else if (a->key_count == a->most_keys)
            argp_error(state, "\"%s\" is too much", arg);
        else
            a->keys[a->key_count++] = arg;
        return 0;
    case ARGP_KEY_END:
        if (!a->route)
            argp_error(state, "the route's name is missing");
        else if (a->most_keys > 0 && a->key_count == 0)
            argp_error(state, "the key is missing");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&command_config_argp, 0, NULL, 0}, {0}};

/* ---- The store of a route ---- */

struct session_of_command {
    struct config *config;
    const struct route_config *route;
    struct store *store;
};

static void close_store(struct session_of_command *s)
{
    if (s->store)
        store_free(s->store);
    config_free(s->config);
}

/* EXIT_OK, or the code to exit with after close_store(). */
static int open_store(struct session_of_command *s, const struct arguments *a)
{
    *s = (struct session_of_command){.config = command_config(a->file)};
    if (!s->config)
        return EXIT_USAGE;
    s->route = config_route(s->config, a->route);
    if (!s->route) {
        command_error("%s has no route \"%s\"", s->config->file, a->route);
        return EXIT_USAGE;
    }
    if (s->route->store_config->parsed.kind == STORE_MEMORY) {
        command_error("store %s is inside the running process (memory:), nobody else can look "
                      "into it",
                      s->route->store);
        return EXIT_UNREACHABLE;
    }
    bool permanent;
    s->store = store_new(s->route->store_config, s->route->scope);
    if (!store_open(s->store, &permanent)) {
        command_error("store %s: %s", s->route->store, store_error(s->store));
        return EXIT_UNREACHABLE;
    }
    return EXIT_OK;
}

static int store_failed(const struct session_of_command *s)
{
    command_error("store %s: %s", s->route->store, store_error(s->store));
    return EXIT_UNREACHABLE;
}

static int say_foreign(const char *key)
{
    command_error("what is stored under key %s is not onlyonce's; look at it with the store's own "
                  "tools",
                  key);
    return EXIT_NOT;
}

/* ---- status ---- */

static int print_status(const struct session_of_command *s, const char *key)
{
    struct record record;
    int64_t ttl;
    bool foreign;
    if (!store_get(s->store, span_of(key), &record, &ttl, &foreign))
        return store_failed(s);
    if (foreign)
        return say_foreign(key);
    char *json = record_json(&record, s->route->name, key, ttl, NULL);
    puts(json);
    free(json);
    return record.now.state == RECORD_NONE ? EXIT_NOT : EXIT_OK;
}

int command_status(int argc, char **argv)
{
    static const struct argp argp = {
        .parser = parse,
        .args_doc = "ROUTE KEY",
        .doc = "Prints what became of a key, as one JSON object on a line."
               "\v"
               "Exits with 0 if there is a record, 1 if there is none, 3 if the store cannot be "
               "reached.",
        .children = children};
    char *keys[1];
    struct arguments a = {.keys = keys, .most_keys = 1};
    struct session_of_command s;
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    int code = open_store(&s, &a);
    if (code == EXIT_OK)
        code = print_status(&s, a.keys[0]);
    close_store(&s);
    return code;
}

/* ---- list ---- */

struct listing {
    bool all;
    enum record_state state;
};

static void print_left(int64_t ms)
{
    int64_t seconds = ms / 1000;
    if (seconds >= 86400)
        printf("%lldd", (long long)(seconds / 86400));
    if (seconds >= 3600)
        printf("%lldh", (long long)(seconds / 3600 % 24));
    if (seconds >= 60)
        printf("%lldm", (long long)(seconds / 60 % 60));
    printf("%llds\n", (long long)(seconds % 60));
}

static bool print_key(void *context, struct span key, const struct record *r, int64_t ttl)
{
    const struct listing *l = context;
    if (!l->all && (!r || r->now.state != l->state))
        return true;
    printf("%.*s\t%s\t", (int)key.len, (const char *)key.data,
           r ? record_state_name(r->now.state) : "foreign");
    print_left(ttl > 0 ? ttl : 0);
    return !ferror(stdout);
}

int command_list(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"state", OPTION_STATE, "STATE", 0, "Only pending, forwarded, completed or parked ones", 0},
        {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "ROUTE",
        .doc = "Lists the keys on record, one a line, with state and time left, tab between them.",
        .children = children};
    struct arguments a = {.most_keys = 0};
    struct listing l = {.all = true};
    struct session_of_command s;
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    if (a.state) {
        l.all = false;
        if (!record_state_read(a.state, &l.state) || l.state == RECORD_NONE) {
            command_error("\"%s\" is no state; write pending, forwarded, completed or parked",
                          a.state);
            return EXIT_USAGE;
        }
    }
    int code = open_store(&s, &a);
    if (code == EXIT_OK && !store_list(s.store, print_key, &l))
        code = store_failed(&s);
    close_store(&s);
    return code;
}

/* ---- release ---- */

/* Deletes what is on record, if it is still what was looked at: a claim made meanwhile stays. */
static int release_key(const struct session_of_command *s, const char *key, bool force)
{
    for (int i = 0; i < RELEASE_TRIES; i++) {
        struct record record;
        int64_t ttl;
        bool foreign;
        if (!store_get(s->store, span_of(key), &record, &ttl, &foreign))
            return store_failed(s);
        if (foreign)
            return say_foreign(key);
        if (record.now.state == RECORD_NONE) {
            command_error("key %s is not on record", key);
            return EXIT_NOT;
        }
        if (record.now.state == RECORD_PENDING && !force) {
            command_error("key %s is pending: a relay is at it, or will be; wait, or use --force "
                          "and risk a second copy",
                          key);
            return EXIT_NOT;
        }
        struct store_op op = {.key = span_of(key), .expect = record};
        if (!store_apply(s->store, NULL, &op, 1))
            return store_failed(s);
        if (op.answer == STORE_APPLIED) {
            printf("%s\treleased\n", key);
            return EXIT_OK;
        }
    }
    command_error("key %s changes too fast, try again", key);
    return EXIT_NOT;
}

/* The worst code of all. */
static int release_from_stdin(const struct session_of_command *s, bool force)
{
    char *line = NULL;
    size_t size = 0;
    int worst = EXIT_OK;
    ssize_t len;
    while (worst != EXIT_UNREACHABLE && (len = getline(&line, &size, stdin)) >= 0) {
        line[strcspn(line, "\t\r\n")] = '\0'; /* A line of `list` will do. */
        if (!line[0])
            continue;
        int code = release_key(s, line, force);
        worst = code > worst ? code : worst;
    }
    free(line);
    return worst;
}

int command_release(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"force", OPTION_FORCE, NULL, 0, "Release pending keys, too", 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "ROUTE KEY...\nROUTE -",
        .doc = "Forgets keys, so that the next message of each is new again. With -, reads them "
               "from stdin, one a line."
               "\v"
               "Exits with 0 if all were released, 1 if one was not on record or is pending, 3 if "
               "the store cannot be reached.",
        .children = children};
    struct arguments a = {.keys = xcalloc((size_t)argc, sizeof(char *)), .most_keys = argc};
    struct session_of_command s;
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    int code = open_store(&s, &a);
    if (code == EXIT_OK && a.key_count == 1 && strcmp(a.keys[0], "-") == 0)
        code = release_from_stdin(&s, a.force);
    else
        for (int i = 0; i < a.key_count && code != EXIT_USAGE && code != EXIT_UNREACHABLE; i++) {
            int one = release_key(&s, a.keys[i], a.force);
            code = one > code ? one : code;
        }
    close_store(&s);
    free(a.keys);
    return code;
}
