/*
 * command_store - what the commands about keys share: their words, and the store of their route.
 * They talk to it directly and need no running relay.
 */
#ifndef ONLYONCE_COMMAND_STORE_H
#define ONLYONCE_COMMAND_STORE_H

#include "command.h"
#include "report.h"
#include "store.h"

#include <argp.h>

struct key_arguments {
    const char *file;
    const char *route;
    char **keys; /* room for most_keys */
    int key_count;
    int most_keys;
    const char *state;
    const char *result;
    bool force;
};

enum { OPTION_FORCE = 256, OPTION_STATE, OPTION_RESULT };

/* The parser of ROUTE KEY... and of those options that a command lists; its input is a struct
 * key_arguments. */
error_t key_arguments_parse(int key, char *arg, struct argp_state *state);
extern const struct argp_child key_arguments_children[];

struct command_store {
    struct config *config;
    const struct route_config *route;
    struct store *store;
};

/* EXIT_OK, or the code to exit with, said on stderr. Both after either: command_store_close(). */
int command_store_open(struct command_store *s, const struct key_arguments *a);
void command_store_close(struct command_store *s);

/* Says why, and answers the exit code. */
int command_store_failed(const struct command_store *s);
/* Likewise, why a report was not done: any answer but REPORT_DONE and REPORT_ALREADY. */
int command_report_failed(const struct command_store *s, const char *key,
                          enum report_answer answer);

/* Of a key that is not on record: what this route's keys begin with, if it does not; else NULL. */
char *command_missing_hint(const struct command_store *s, const char *key)
    __attribute__((warn_unused_result));

#endif
