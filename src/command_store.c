#include "command_store.h"

#include "key.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>

error_t key_arguments_parse(int key, char *arg, struct argp_state *state)
{
    struct key_arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &a->file; return 0;
    case OPTION_FORCE: a->force = true; return 0;
    case OPTION_STATE: a->state = arg; return 0;
    case OPTION_RESULT: a->result = arg; return 0;
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

const struct argp_child key_arguments_children[] = {{&command_config_argp, 0, NULL, 0}, {0}};

int command_store_open(struct command_store *s, const struct key_arguments *a)
{
    *s = (struct command_store){.config = command_config(a->file)};
    if (!s->config)
        return EXIT_USAGE;
    s->route = command_route(s->config, a->route);
    if (!s->route)
        return EXIT_USAGE;
    if (s->route->store_config->parsed.kind == STORE_MEMORY) {
        command_error("store %s is inside the running process (memory:), nobody else can look "
                      "into it",
                      s->route->store);
        return EXIT_UNREACHABLE;
    }
    bool permanent;
    s->store = store_new(s->route->store_config, s->route->scope);
    return store_open(s->store, &permanent) ? EXIT_OK : command_store_failed(s);
}

void command_store_close(struct command_store *s)
{
    if (s->store)
        store_free(s->store);
    config_free(s->config);
}

int command_store_failed(const struct command_store *s)
{
    command_error("store %s: %s", s->route->store, store_error(s->store));
    return EXIT_UNREACHABLE;
}

/* The usual slip: where keys begin with their alternative's name, it is left out. */
char *command_missing_hint(const struct command_store *s, const char *key)
{
    const struct key_rule *rule = s->route->key_rule;
    size_t count = key_alternative_count(rule);
    struct buffer names = {0};
    for (size_t i = 0; count > 1 && i < count; i++) {
        const char *name = key_alternative_name(rule, (int)i);
        size_t len = strlen(name);
        if (strncmp(key, name, len) == 0 && key[len] == ':')
            count = 0;
        /* Several alternatives may share one name, and mostly follow each other. */
        if (i == 0 || strcmp(name, key_alternative_name(rule, (int)i - 1)) != 0)
            buffer_printf(&names, "%s%s:", i ? ", " : "", name);
    }
    char *hint = count > 1 ? xasprintf("the keys of route %s begin with %.*s", s->route->name,
                                       (int)names.len, (const char *)names.data)
                           : NULL;
    buffer_free(&names);
    return hint;
}

static void report_missing(const struct command_store *s, const char *key)
{
    char *hint = command_missing_hint(s, key);
    command_error("key %s %s%s%s", key, report_answer_text(REPORT_NOT_FOUND), hint ? "; " : "",
                  hint ? hint : "");
    free(hint);
}

int command_report_failed(const struct command_store *s, const char *key, enum report_answer answer)
{
    switch (answer) {
    case REPORT_DONE:
    case REPORT_ALREADY: return EXIT_OK;
    case REPORT_NOT_FOUND: report_missing(s, key); break;
    case REPORT_FOREIGN:
    case REPORT_BUSY: command_error("key %s %s", key, report_answer_text(answer)); break;
    case REPORT_PENDING:
        command_error("key %s %s (--force)", key, report_answer_text(answer));
        break;
    case REPORT_UNREACHABLE: return command_store_failed(s);
    }
    return EXIT_NOT;
}
