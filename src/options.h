/*
 * options - the one table of what can be configured.
 *
 * Each row is a field: its path in the file, its type, where its value goes, its default written as
 * a user would write it (it is read like one, too), its limits and a line of help. The table drives
 * loading (config.c), and what tests/tools/option_texts writes into docs/onlyonce.1,
 * docs/configuration.md and docs/onlyonce.schema.json; tests hold these and config/onlyonce.yaml
 * against it. To add a field: a row here, a member in config.h, a line in config/onlyonce.yaml, and
 * build/gcc/tests/option_texts.
 */
#ifndef ONLYONCE_OPTIONS_H
#define ONLYONCE_OPTIONS_H

#include "memory.h"

#include <stdbool.h>
#include <stddef.h>

enum option_type {
    OPTION_TEXT,     /* char *: any text */
    OPTION_NAME,     /* char *: [a-z0-9._-], 1 to 64 */
    OPTION_ENTITY,   /* char *: what AMQP calls a short string: at most 255 bytes */
    OPTION_PREFIX,   /* char *: [A-Za-z0-9._:{}-], 1 to 64 */
    OPTION_NUMBER,   /* int64_t */
    OPTION_BOOLEAN,  /* bool */
    OPTION_DURATION, /* int64_t: ms */
    OPTION_SIZE,     /* int64_t: bytes */
    OPTION_WORD      /* an enum: the index in `words` */
};

enum option_flag {
    OPTION_LIST = 1,     /* struct strings, of items of the type */
    OPTION_SECRET = 2,   /* never shown in an error */
    OPTION_REQUIRED = 4, /* `model` is an example then */
    OPTION_DERIVED = 8,  /* the default depends on something else: `model` says on what */
    OPTION_MAY_BE_EMPTY = 16
};

struct option {
    const char *path; /* "routes[].from.queue": a list's items share their rows */
    enum option_type type;
    int flags;
    size_t offset;     /* in the struct of the row's section: stores[], routes[] and so on */
    const char *model; /* the default, or what flags say */
    const char *min;
    const char *max;
    const char *const *words; /* ended by NULL; "" is a value that nobody can write */
    const char *help;
};

extern const struct option options[];
extern const size_t options_count;

/* The row of this path, or NULL. */
const struct option *options_find(const char *path);

/* Whether rows lie under `path`: joined to it by "." (a group of fields) or "[]." (a list of
 * groups). */
bool options_have_group(const char *path, const char *joint);

/* Adds the names of the fields right under a group ("" is the top), comma-separated. */
void options_list_names(const char *group, struct buffer *out);

/*
 * Reads `text` into the row's place in `section`; a list gets one more item. NULL, or what is wrong
 * with the text, for "FILE:LINE: FIELD: <fragment>".
 */
const char *option_read(const struct option *o, const char *text, void *section, char error[256]);

/* Frees what option_read() allocated. */
void option_free(const struct option *o, void *section);

/* Whether all values of the rows whose path begins with `section` ("routes[].") are the same in two
 * structs. */
bool options_same(const char *section, const void *a, const void *b);

#endif
