/*
 * option_texts - the option table (src/options.c) as texts: the fields in the manual page and in
 * docs/configuration.md, and a JSON Schema for editors. tests/tools/option_texts writes them into
 * the files, and a test compares them.
 */
#ifndef ONLYONCE_OPTION_TEXTS_H
#define ONLYONCE_OPTION_TEXTS_H

#include "memory.h"

#include <stddef.h>

struct option_text {
    const char *file;  /* in the folder of the sources */
    const char *begin; /* the line before what is made from the table; NULL: all of the file is */
    const char *end;   /* the line behind it */
    void (*print)(struct buffer *out);
};

extern const struct option_text option_texts[];
extern const size_t option_texts_count;

/* Adds what the file should be, `current` being what it is. False: it lacks the two lines. */
bool option_text_renew(const struct option_text *t, const char *current, struct buffer *out);

/* Adds a line for every field that `text`, an example configuration, does not show as "name:
 * default". */
void option_texts_missing_from(const char *text, struct buffer *out);

#endif
