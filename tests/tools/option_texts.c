/*
 * option_texts - writes what the option table says into the files that repeat it: the manual page,
 * docs/configuration.md and docs/onlyonce.schema.json.
 */
#include "option_texts.h"

#include "file.h"

#include <stdio.h>
#include <stdlib.h>

static bool write_file(const char *path, const struct buffer *text)
{
    FILE *f = fopen(path, "w");
    bool good = f && fwrite(text->data, 1, text->len, f) == text->len;
    if (f && fclose(f) != 0)
        good = false;
    if (!good)
        perror(path);
    return good;
}

static bool renew(const struct option_text *t)
{
    char *path = xasprintf("%s/%s", ONLYONCE_SOURCE_DIR, t->file);
    struct buffer current = {0};
    struct buffer wanted = {0};
    char error[256] = "";
    /* A file that is all of the table's need not be there. */
    const char *bad = t->begin ? file_read(path, 1 << 20, &current, error) : NULL;
    if (bad)
        fprintf(stderr, "%s: %s\n", path, bad);
    buffer_add_u8(&current, 0);
    bool good = !bad && option_text_renew(t, (const char *)current.data, &wanted);
    if (!bad && !good)
        fprintf(stderr, "%s lacks the line %s", path, t->begin);
    good = good && write_file(path, &wanted);
    buffer_free(&current);
    buffer_free(&wanted);
    free(path);
    return good;
}

int main(void)
{
    bool good = true;
    for (size_t i = 0; i < option_texts_count; i++)
        good = renew(&option_texts[i]) && good;
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
