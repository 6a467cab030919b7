/*
 * postgres_url - what libpq reads in a URL of a PostgreSQL server, which may name several: lists
 * with a comma between their items. For url.c, which checks it, and postgres_open.c, which
 * connects.
 */
#ifndef ONLYONCE_POSTGRES_URL_H
#define ONLYONCE_POSTGRES_URL_H

#include <libpq-fe.h>

#include <stddef.h>

/* The value of a parameter, as PQconninfoParse() found it; NULL: it has none, or an empty one. */
const char *postgres_url_option(const PQconninfoOption *options, const char *name);

/* How many items a list has; NULL: none. */
size_t postgres_url_count(const char *list);

/* A list's item, or ""; what has one item has it for all hosts. The caller's to free. */
char *postgres_url_item(const char *list, size_t index)
    __attribute__((returns_nonnull, warn_unused_result));

#endif
