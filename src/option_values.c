/*
 * A row's value: read from a text, compared, freed.
 */
#include "options.h"

#include "config.h"
#include "faults.h"
#include "visible.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Numbers with and without a unit ---- */

struct unit {
    const char *name;
    int64_t factor;
};

static const struct unit no_units[] = {{"", 1}, {NULL, 0}};
static const struct unit durations[] = {{"ms", 1},      {"s", 1000},     {"m", 60000},
                                        {"h", 3600000}, {"d", 86400000}, {NULL, 0}};
static const struct unit sizes[] = {
    {"B", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {NULL, 0}};

static const struct unit *units_of(enum option_type type)
{
    if (type == OPTION_DURATION)
        return durations;
    return type == OPTION_SIZE ? sizes : no_units;
}

/* Digits and a unit. False: it is not that. *unit is NULL if it lacks one; what does not fit into
 * 64 bits is INT64_MAX, and so above every limit. */
static bool read_amount(const struct unit *units, const char *text, int64_t *out,
                        const struct unit **unit)
{
    int64_t n = 0;
    const char *p = text;
    for (; isdigit((unsigned char)*p); p++)
        n = n > (INT64_MAX - 9) / 10 ? INT64_MAX : n * 10 + (*p - '0');
    if (p == text)
        return false;
    for (*unit = units; (*unit)->name && strcmp(p, (*unit)->name) != 0;)
        (*unit)++;
    if (!(*unit)->name)
        *unit = NULL;
    int64_t factor = *unit ? (*unit)->factor : 1;
    *out = n > INT64_MAX / factor ? INT64_MAX : n * factor;
    return *unit || !*p;
}

static int64_t known_amount(const struct option *o, const char *text)
{
    int64_t n = 0;
    const struct unit *unit = NULL;
    bool ok = read_amount(units_of(o->type), text, &n, &unit);
    assert(ok && unit);
    return n;
}

static const char *read_number(const struct option *o, const char *text, int64_t *out,
                               char error[256])
{
    const struct unit *units = units_of(o->type);
    const char *model = o->model + strspn(o->model, "0123456789");
    const struct unit *unit;
    struct quoted shown = faults_quote(text);
    if (!read_amount(units, text, out, &unit)) {
        snprintf(error, 256, "%s is no %s; write %s to %s, as in %s", shown.text,
                 o->type == OPTION_DURATION ? "duration (a whole number and ms, s, m, h or d)"
                 : o->type == OPTION_SIZE   ? "size (a whole number and B, KiB, MiB or GiB)"
                                            : "whole number",
                 o->min, o->max, o->model);
        return error;
    }
    int64_t min = known_amount(o, o->min);
    int64_t max = known_amount(o, o->max);
    if (!unit && *out > 0) {
        char *fixed = xasprintf("%s%s", text, model);
        const struct unit *ignored;
        int64_t n;
        bool fits = read_amount(units, fixed, &n, &ignored) && n >= min && n <= max;
        snprintf(error, 256, "%s has no unit; write %s", shown.text, fits ? fixed : o->model);
        free(fixed);
        return error;
    }
    if (*out >= min && *out <= max)
        return NULL;
    snprintf(error, 256, "%s is too %s; write %s to %s", shown.text, *out < min ? "low" : "high",
             o->min, o->max);
    return error;
}

/* ---- Words and texts ---- */

static const char *read_word(const struct option *o, const char *text, void *target,
                             char error[256])
{
    static const char *const booleans[] = {"false", "true", NULL};
    const char *const *words = o->type == OPTION_BOOLEAN ? booleans : o->words;
    struct buffer list = {0};
    for (int i = 0; words[i]; i++) {
        if (*text && strcmp(words[i], text) == 0) {
            if (o->type == OPTION_BOOLEAN)
                *(bool *)target = i == 1;
            else
                memcpy(target, &i, sizeof i);
            buffer_free(&list);
            return NULL;
        }
        if (*words[i])
            buffer_printf(&list, "%s%s",
                          list.len == 0  ? ""
                          : words[i + 1] ? ", "
                                         : " or ",
                          words[i]);
    }
    snprintf(error, 256, "%s is not known here; write %.*s", faults_quote(text).text, (int)list.len,
             (const char *)list.data);
    buffer_free(&list);
    return error;
}

static const char *check_text(const struct option *o, const char *text, char error[256])
{
    static const char name[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";
    static const char prefix[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:{}-";
    if (!(o->flags & OPTION_SECRET) && !visible_is(text))
        return "has a control character, or is not UTF-8; write it as visible text";
    size_t len = strlen(text);
    if (o->type == OPTION_ENTITY && len > 255) {
        snprintf(error, 256, "has %zu bytes; AMQP allows 255", len);
        return error;
    }
    bool is_name = o->type == OPTION_NAME;
    if (!is_name && o->type != OPTION_PREFIX)
        return NULL;
    if (len <= 64 && text[strspn(text, is_name ? name : prefix)] == '\0')
        return NULL;
    snprintf(error, 256, "%s is not allowed; write 1 to 64 of %s", faults_quote(text).text,
             is_name ? "a-z 0-9 . _ -" : "A-Z a-z 0-9 . _ : { } -");
    return error;
}

static const char *read_text(const struct option *o, const char *text, void *target,
                             char error[256])
{
    const char *bad = check_text(o, text, error);
    if (bad)
        return bad;
    if (o->flags & OPTION_LIST) {
        struct strings *list = target;
        list->items = xrealloc(list->items, (list->count + 1) * sizeof *list->items);
        list->items[list->count++] = xstrdup(text);
    } else {
        *(char **)target = xstrdup(text);
    }
    return NULL;
}

const char *option_read(const struct option *o, const char *text, void *section, char error[256])
{
    void *target = (char *)section + o->offset;
    if (!*text && !(o->flags & OPTION_MAY_BE_EMPTY))
        return "is empty; write a value, or leave the field out";
    switch (o->type) {
    case OPTION_TEXT:
    case OPTION_NAME:
    case OPTION_ENTITY:
    case OPTION_PREFIX: return read_text(o, text, target, error);
    case OPTION_NUMBER:
    case OPTION_DURATION:
    case OPTION_SIZE: return read_number(o, text, target, error);
    case OPTION_BOOLEAN:
    case OPTION_WORD: return read_word(o, text, target, error);
    }
    panic("option %s has no type", o->path);
}

static bool holds_text(const struct option *o)
{
    return o->type == OPTION_TEXT || o->type == OPTION_NAME || o->type == OPTION_ENTITY ||
           o->type == OPTION_PREFIX;
}

void option_free(const struct option *o, void *section)
{
    if (!holds_text(o))
        return;
    void *target = (char *)section + o->offset;
    if (o->flags & OPTION_LIST) {
        struct strings *list = target;
        for (size_t i = 0; i < list->count; i++)
            free(list->items[i]);
        free(list->items);
        *list = (struct strings){0};
    } else {
        free(*(char **)target);
        *(char **)target = NULL;
    }
}

static bool same_texts(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_lists(const struct strings *a, const struct strings *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = same_texts(a->items[i], b->items[i]);
    return same;
}

static bool same_values(const struct option *o, const void *a, const void *b)
{
    switch (o->type) {
    case OPTION_TEXT:
    case OPTION_NAME:
    case OPTION_ENTITY:
    case OPTION_PREFIX:
        return o->flags & OPTION_LIST ? same_lists(a, b)
                                      : same_texts(*(char *const *)a, *(char *const *)b);
    case OPTION_NUMBER:
    case OPTION_DURATION:
    case OPTION_SIZE: return memcmp(a, b, sizeof(int64_t)) == 0;
    case OPTION_BOOLEAN: return *(const bool *)a == *(const bool *)b;
    case OPTION_WORD: return memcmp(a, b, sizeof(int)) == 0;
    }
    panic("option %s has no type", o->path);
}

bool options_same(const char *section, const void *a, const void *b)
{
    size_t len = strlen(section);
    for (const struct option *o = options; o < options + options_count; o++)
        if (strncmp(o->path, section, len) == 0 &&
            !same_values(o, (const char *)a + o->offset, (const char *)b + o->offset))
            return false;
    return true;
}
