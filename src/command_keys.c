/*
 * command_keys - what became of a key: status, list, release. They talk to the route's store
 * directly and need no running relay.
 */
#include "command_store.h"

#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- status ---- */

static int print_status(const struct command_store *s, const char *key)
{
    char *json;
    enum report_answer answer = report_status(s->store, s->route->name, key, &json);
    if (!json)
        return command_report_failed(s, key, answer);
    puts(json);
    free(json);
    char *hint = answer == REPORT_NOT_FOUND ? command_missing_hint(s, key) : NULL;
    if (hint)
        command_error("%s", hint);
    free(hint);
    return answer == REPORT_DONE ? EXIT_OK : EXIT_NOT;
}

int command_status(int argc, char **argv)
{
    static const struct argp argp = {
        .parser = key_arguments_parse,
        .args_doc = "ROUTE KEY",
        .doc = "Prints what became of a key, as one JSON object on a line."
               "\v"
               "Exits with 0 if there is a record, 1 if there is none, 3 if the store cannot be "
               "reached.",
        .children = key_arguments_children};
    char *keys[1];
    struct key_arguments a = {.keys = keys, .most_keys = 1};
    struct command_store s;
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    int code = command_store_open(&s, &a);
    if (code == EXIT_OK)
        code = print_status(&s, a.keys[0]);
    command_store_close(&s);
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
        .parser = key_arguments_parse,
        .args_doc = "ROUTE",
        .doc = "Lists the keys on record, one a line, with state and time left, tab between them.",
        .children = key_arguments_children};
    struct key_arguments a = {.most_keys = 0};
    struct listing l = {.all = true};
    struct command_store s;
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    if (a.state) {
        l.all = false;
        if (!record_state_read(a.state, &l.state) || l.state == RECORD_NONE) {
            command_error("\"%s\" is no state; write pending, forwarded, completed or parked",
                          a.state);
            return EXIT_USAGE;
        }
    }
    int code = command_store_open(&s, &a);
    if (code == EXIT_OK && !store_list(s.store, print_key, &l))
        code = command_store_failed(&s);
    command_store_close(&s);
    return code;
}

/* ---- release ---- */

static int release_key(const struct command_store *s, const char *key, bool force)
{
    enum report_answer answer = report_release(s->store, span_of(key), 0, force);
    if (answer != REPORT_DONE)
        return command_report_failed(s, key, answer);
    printf("%s\treleased\n", key);
    return EXIT_OK;
}

/* The worst code of all. */
static int release_from_stdin(const struct command_store *s, bool force)
{
    char *line = NULL;
    size_t size = 0;
    int worst = EXIT_OK;
    while (worst != EXIT_UNREACHABLE && getline(&line, &size, stdin) >= 0) {
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
        .parser = key_arguments_parse,
        .args_doc = "ROUTE KEY...\nROUTE -",
        .doc = "Forgets keys, so that the next message of each is new again. With -, reads them "
               "from stdin, one a line."
               "\v"
               "Exits with 0 if all were released, 1 if one was not on record or is pending, 3 if "
               "the store cannot be reached.",
        .children = key_arguments_children};
    struct key_arguments a = {.keys = xcalloc((size_t)argc, sizeof(char *)), .most_keys = argc};
    struct command_store s;
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    int code = command_store_open(&s, &a);
    if (code == EXIT_OK && a.key_count == 1 && strcmp(a.keys[0], "-") == 0)
        code = release_from_stdin(&s, a.force);
    else
        for (int i = 0; i < a.key_count && code != EXIT_USAGE && code != EXIT_UNREACHABLE; i++) {
            int one = release_key(&s, a.keys[i], a.force);
            code = one > code ? one : code;
        }
    command_store_close(&s);
    free(a.keys);
    return code;
}
