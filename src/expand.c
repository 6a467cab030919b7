#include "expand.h"

#include "faults.h"
#include "file.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECRET_FILE_LIMIT ((size_t)64 * 1024)

static bool is_variable_name(struct span name)
{
    if (name.len == 0 || isdigit(name.data[0]))
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (name.data[i] >= 0x80 || (!isalnum(name.data[i]) && name.data[i] != '_'))
            return false;
    return true;
}

static const char *add_first_line(const char *path, struct buffer *out, char error[256])
{
    if (!*path)
        return "\"${file:}\" names no file; write ${file:/path}";
    struct buffer content = {0};
    char why[256];
    const char *bad = file_read(path, SECRET_FILE_LIMIT, &content, why);
    if (!bad) {
        const uint8_t *end = content.len ? memchr(content.data, '\n', content.len) : NULL;
        size_t len = end ? (size_t)(end - content.data) : content.len;
        if (len > 0 && content.data[len - 1] == '\r')
            len--;
        if (len == 0)
            bad = "has an empty first line";
        else if (memchr(content.data, '\0', len))
            bad = "has a NUL byte in its first line";
        else
            buffer_add(out, content.data, len);
    }
    buffer_free(&content);
    if (!bad)
        return NULL;
    snprintf(error, 256, "the file %s %s", faults_quote(path).text, bad);
    return error;
}

/* A default is taken as it is, but for $$. */
static const char *add_default(const char *text, size_t len, struct buffer *out)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '$') {
            i++;
            if (i == len || text[i] != '$')
                return "a default in ${NAME:-default} cannot hold another ${...}; write a dollar "
                       "as $$";
        }
        if (out)
            buffer_add_u8(out, (uint8_t)text[i]);
    }
    return NULL;
}

/* What stands between "${" and "}". */
static const char *add_reference(const char *text, size_t len, struct buffer *out, char error[256])
{
    if (len >= 5 && strncmp(text, "file:", 5) == 0) {
        char *path = xasprintf("%.*s", (int)(len - 5), text + 5);
        const char *bad = add_first_line(path, out, error);
        free(path);
        return bad;
    }
    const char *fallback = memmem(text, len, ":-", 2);
    size_t name_len = fallback ? (size_t)(fallback - text) : len;
    if (!is_variable_name((struct span){(const uint8_t *)text, name_len}))
        return "\"${\" must be followed by NAME}, NAME:-default} or file:/path}; write a dollar as "
               "$$";
    char *name = xasprintf("%.*s", (int)name_len, text);
    const char *value = getenv(name);
    const char *bad = NULL;
    if (fallback) {
        bool unset = !value || !*value;
        bad = add_default(fallback + 2, len - name_len - 2, unset ? out : NULL);
        if (!unset)
            buffer_add_span(out, span_of(value));
    } else if (value) {
        buffer_add_span(out, span_of(value));
    } else {
        snprintf(error, 256,
                 "the environment variable %.80s is not set; set it, or write ${%.80s:-default}",
                 name, name);
        bad = error;
    }
    free(name);
    return bad;
}

const char *expand(const char *text, struct buffer *out, char error[256])
{
    const char *bad = NULL;
    while (*text && !bad) {
        size_t plain = strcspn(text, "$");
        buffer_add(out, text, plain);
        text += plain;
        if (text[0] == '$' && text[1] == '$') {
            buffer_add_u8(out, '$');
            text += 2;
        } else if (text[0] == '$' && text[1] == '{') {
            size_t len = strcspn(text + 2, "}");
            if (!text[2 + len])
                return "\"${\" has no closing \"}\"; write a dollar as $$";
            bad = add_reference(text + 2, len, out, error);
            text += 2 + len + 1;
        } else if (text[0] == '$') {
            bad = "a \"$\" is written $$; ${NAME} takes the environment's value";
        }
    }
    return bad;
}
