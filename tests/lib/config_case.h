/*
 * config_case - a configuration file for a test, and what is said of it.
 *
 * A good configuration has three parts, one line each: broker, store and route. Tests replace one
 * of them. The file is in a folder of its own, from config_make_folder() on.
 */
#ifndef ONLYONCE_TESTS_CONFIG_CASE_H
#define ONLYONCE_TESTS_CONFIG_CASE_H

#include "config.h"
#include "memory.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* The parts. */
#define BROKER "urls: [\"amqp://h\"]"
#define STORE "name: redis, url: \"redis://r\""
#define TO "to: {queue: work}, "
#define REST "key: [message_id], window: 24h"
#define ROUTE "name: a, from: {queue: in}, " TO REST
#define FROM(fields) "name: a, from: {" fields "}, " TO REST
#define TO_(fields)                                                                                \
    "name: a, from: {queue: in, exchange: x, bindings: [a.*]}, to: {" fields "}, " REST
#define BUT(fields) "name: a, from: {queue: in}, " TO "key: [message_id], " fields
#define DUPLICATES(fields)                                                                         \
    TO_("queue: w") ", on_duplicate: publish, duplicates: {" fields "}, reply: true"

struct case_of_fault {
    const char *label, *broker, *store, *route, *want; /* NULL: the good part */
};

extern char config_path[];
extern char config_secret_path[]; /* another file in the same folder */

/* Set-up and tear-down of a group of tests. */
int config_make_folder(void **state);
int config_remove_folder(void **state);

void config_write_file(const char *path, struct span content);

/* The text of a configuration; NULL: the good part. The caller's to free. */
char *config_build(const char *broker, const char *store, const char *route);

void same_text(const char *label, const char *got, const char *want);

/* It must load; the caller frees it. */
struct config *config_load_good(const char *label, struct span text);

/* `want` are the lines without the file's name, separated by '|'. */
void config_expect_faults(const char *label, struct span text, const char *want);
void config_expect_all(const struct case_of_fault *cases, size_t count);

#endif
