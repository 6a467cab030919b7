/*
 * command - the commands of the command line. Each takes its own words (argv[0] is for messages:
 * "onlyonce run"), and answers the program's exit code. onlyonce(1) is their manual.
 */
#ifndef ONLYONCE_COMMAND_H
#define ONLYONCE_COMMAND_H

#include "config.h"

enum exit_code {
    EXIT_OK = 0,
    EXIT_NOT = 1,         /* not found, no key, cannot run */
    EXIT_USAGE = 2,       /* bad usage or configuration */
    EXIT_UNREACHABLE = 3, /* the store cannot be reached */
};

int command_run(int argc, char **argv);
int command_check(int argc, char **argv);
int command_health(int argc, char **argv);
int command_status(int argc, char **argv);
int command_list(int argc, char **argv);
int command_complete(int argc, char **argv);
int command_release(int argc, char **argv);
int command_key(int argc, char **argv);

/* Prints "onlyonce: ..." on stderr. */
void command_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The configuration, or NULL with every fault printed on stderr: then exit with EXIT_USAGE. */
struct config *command_config(const char *file);

/* The route of that name, or NULL with a line on stderr that says which there are: then exit with
 * EXIT_USAGE. */
const struct route_config *command_route(const struct config *config, const char *name);

/* The option that every command has; `-c FILE` goes to *input, a const char **. */
extern const struct argp command_config_argp;

#endif
