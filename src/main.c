#include "command.h"

#include <argp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *argp_program_version = "onlyonce " ONLYONCE_VERSION;

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"run", command_run},         {"check", command_check}, {"health", command_health},
    {"status", command_status},   {"list", command_list},   {"complete", command_complete},
    {"release", command_release}, {"key", command_key},
};

void command_error(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("onlyonce: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
}

struct config *command_config(const char *file)
{
    struct buffer errors = {0};
    struct config *config = config_load(file ? file : CONFIG_DEFAULT_FILE, &errors);
    if (!config)
        fwrite(errors.data, 1, errors.len, stderr);
    buffer_free(&errors);
    return config;
}

const struct route_config *command_route(const struct config *config, const char *name)
{
    const struct route_config *route = config_route(config, name);
    if (route)
        return route;
    struct buffer names = {0};
    for (size_t i = 0; i < config->route_count; i++)
        buffer_printf(&names, "%s%s", i ? ", " : "", config->routes[i].name);
    command_error("%s has no route \"%s\"; it has %.*s", config->file, name, (int)names.len,
                  (const char *)names.data);
    buffer_free(&names);
    return NULL;
}

static error_t parse_config_option(int key, char *arg, struct argp_state *state)
{
    const char **file = state->input;
    if (key != 'c')
        return ARGP_ERR_UNKNOWN;
    *file = arg;
    return 0;
}

static const struct argp_option config_option[] = {
    {"config", 'c', "FILE", 0, "Configuration file (default " CONFIG_DEFAULT_FILE ")", 0}, {0}};

const struct argp command_config_argp = {.options = config_option, .parser = parse_config_option};

static int run_command(const char *name, int argc, char **argv)
{
    char title[64];
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            snprintf(title, sizeof title, "onlyonce %s", name);
            argv[0] = title;
            return commands[i].run(argc, argv);
        }
    }
    command_error("\"%s\" is no command; the commands are run, check, health, status, list, "
                  "complete, release and key: see onlyonce --help",
                  name);
    return EXIT_USAGE;
}

/* The program's own words end at the command; what follows is the command's. */
static error_t parse(int key, char *arg, struct argp_state *state)
{
    int *code = state->input;
    switch (key) {
    case ARGP_KEY_ARG: {
        int first = state->next - 1;
        *code = run_command(arg, state->argc - first, state->argv + first);
        state->next = state->argc;
        return 0;
    }
    case ARGP_KEY_NO_ARGS:
        argp_error(
            state,
            "a command is missing: run, check, health, status, list, complete, release or key");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const char doc[] =
    "Lets each message through once: consumes from a RabbitMQ queue, claims every message's key in "
    "a store, republishes the first message of each key, and drops the rest."
    "\v"
    "Commands:\n"
    "  run                   relay, in the foreground\n"
    "  check [--connect]     check the configuration, and with --connect the servers\n"
    "  health                ask the running process whether it is healthy\n"
    "  status ROUTE KEY      what became of a key, as JSON\n"
    "  list ROUTE            the keys on record\n"
    "  complete ROUTE KEY    record that a key's work is done\n"
    "  release ROUTE KEY...  forget keys, so that their next message is new\n"
    "  key ROUTE < BODY      the key that a message would get\n"
    "\n"
    "onlyonce COMMAND --help tells more, and so does onlyonce(1).\n"
    "Exit codes: 0 done, 1 not found or cannot run, 2 bad usage or configuration, 3 the store "
    "cannot be reached.";

int main(int argc, char **argv)
{
    int code = EXIT_OK;
    const struct argp argp = {.parser = parse, .args_doc = "COMMAND [OPTION...]", .doc = doc};
    argp_err_exit_status = EXIT_USAGE;
    /* hiredis writes to sockets that may have been closed. */
    signal(SIGPIPE, SIG_IGN);
    error_t error = argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &code);
    return error ? EXIT_USAGE : code;
}
