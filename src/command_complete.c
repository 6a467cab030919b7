/*
 * command_complete - records that a key's work is done.
 */
#include "command_store.h"

#include <stdio.h>
#include <string.h>

static bool check_result(const char *result)
{
    size_t len = strlen(result);
    if (len > STORE_RESULT_MAX)
        command_error("the result has %zu bytes; at most %d are kept", len, STORE_RESULT_MAX);
    else if (len == 0 || !report_is_result(span_of(result)))
        command_error("the result is not valid JSON; a text has quotes, as in "
                      "--result '\"done\"'");
    else
        return true;
    return false;
}

static int complete_key(const struct command_store *s, const char *key, const char *result)
{
    enum report_answer answer = report_complete(s->store, span_of(key), 0, span_of(result));
    if (answer != REPORT_DONE && answer != REPORT_ALREADY)
        return command_report_failed(s, key, answer);
    printf("%s\t%s\n", key, answer == REPORT_DONE ? "completed" : "already completed");
    if (answer == REPORT_ALREADY && *result)
        command_error("key %s was complete before: this result is not kept", key);
    return EXIT_OK;
}

int command_complete(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"result", OPTION_RESULT, "JSON", 0, "What came of it, of at most 4 KiB", 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = key_arguments_parse,
        .args_doc = "ROUTE KEY",
        .doc = "Records that the work of a key is done, and its result. The first completion of a "
               "key stays."
               "\v"
               "Exits with 0 if it is completed, now or before, 1 if it is not on record, 3 if the "
               "store cannot be reached.",
        .children = key_arguments_children};
    char *keys[1];
    struct key_arguments a = {.keys = keys, .most_keys = 1};
    struct command_store s;
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    if (a.result && !check_result(a.result))
        return EXIT_USAGE;
    int code = command_store_open(&s, &a);
    if (code == EXIT_OK)
        code = complete_key(&s, a.keys[0], a.result ? a.result : "");
    command_store_close(&s);
    return code;
}
