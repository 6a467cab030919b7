#include "faults.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_visible(struct buffer *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c < 0x20 || c == 0x7f)
            buffer_printf(out, "\\x%02X", c);
        else
            buffer_add_u8(out, c);
    }
}

static void add_line(const struct faults *f, struct buffer *out, size_t line, const char *path,
                     const char *what)
{
    add_visible(out, f->file);
    if (line)
        buffer_printf(out, ":%zu", line);
    buffer_printf(out, ": ");
    if (path && *path) {
        add_visible(out, path);
        buffer_printf(out, ": ");
    }
    add_visible(out, what);
}

static size_t line_of(const struct faults *f, const char *path)
{
    size_t line = 0;
    if (f->root)
        (void)node_find(f->root, path, &line);
    return line;
}

static void add_fault(struct faults *f, size_t line, const char *path, const char *what)
{
    if (f->count == FAULTS_MAX) {
        path = NULL;
        what = "has more faults than are shown here";
    }
    if (f->count <= FAULTS_MAX) {
        add_line(f, f->lines, line, path, what);
        buffer_add_u8(f->lines, '\n');
        f->count++;
    }
}

void faults_add(struct faults *f, const char *path, const char *fmt, ...)
{
    va_list args;
    char *what;
    va_start(args, fmt);
    int len = vasprintf(&what, fmt, args);
    va_end(args);
    assert(len >= 0);
    add_fault(f, line_of(f, path), path, what);
    free(what);
}

void faults_add_at(struct faults *f, size_t line, const char *path, const char *fmt, ...)
{
    va_list args;
    char *what;
    va_start(args, fmt);
    int len = vasprintf(&what, fmt, args);
    va_end(args);
    assert(len >= 0);
    add_fault(f, line, path, what);
    free(what);
}

bool faults_full(const struct faults *f)
{
    return f->count > FAULTS_MAX;
}

char *faults_line(const struct faults *f, const char *path, const char *fmt, ...)
{
    va_list args;
    char *what;
    va_start(args, fmt);
    int len = vasprintf(&what, fmt, args);
    va_end(args);
    assert(len >= 0);
    struct buffer out = {0};
    add_line(f, &out, line_of(f, path), path, what);
    free(what);
    buffer_add_u8(&out, 0);
    return (char *)out.data;
}

struct quoted faults_quote(const char *text)
{
    struct quoted q;
    const size_t room = sizeof q.text - sizeof "\"...\"";
    size_t len = strlen(text);
    bool cut = len > room;
    if (cut) {
        len = room;
        while (len > 0 && ((unsigned char)text[len] & 0xC0) == 0x80) /* not inside a character */
            len--;
    }
    snprintf(q.text, sizeof q.text, "\"%.*s%s\"", (int)len, text, cut ? "..." : "");
    return q;
}
