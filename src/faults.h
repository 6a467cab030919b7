/*
 * faults - what is wrong with a configuration file, one line for each fault:
 *
 *   FILE:LINE: routes[0].window: "24" has no unit; write 24h
 *
 * A line stays one line whatever the file says: control characters are written \xNN. After
 * FAULTS_MAX lines the rest is left out, and the last line says so.
 */
#ifndef ONLYONCE_FAULTS_H
#define ONLYONCE_FAULTS_H

#include "document.h"
#include "memory.h"

#include <stdbool.h>
#include <stddef.h>

#define FAULTS_MAX 100

struct faults {
    const char *file;
    const struct node *root; /* where lines are looked up; NULL before the file was read */
    struct buffer *lines;    /* not owned */
    size_t count;
};

/* A fault of the field at `path`: its line, or that of the nearest one around it that exists. */
void faults_add(struct faults *f, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A fault at a line: 0 is the file as a whole. `path` may be NULL. */
void faults_add_at(struct faults *f, size_t line, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

bool faults_full(const struct faults *f);

/* The same line without its end, for a warning. The caller's to free. */
char *faults_line(const struct faults *f, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 3, 4), returns_nonnull, warn_unused_result));

/* A text in quotation marks, cut to what fits into a message. Never for what may be secret. */
struct quoted {
    char text[72];
};
struct quoted faults_quote(const char *text);

#endif
