/*
 * canonical - reads JSON documents, one a line, and prints the canonical form of each, or
 * "invalid".
 */
#include "json.h"
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t len;
    struct buffer out = {0};
    while ((len = getline(&line, &size, stdin)) > 0) {
        size_t text = (size_t)len - (line[len - 1] == '\n');
        buffer_clear(&out);
        if (json_add_canonical(&out, (struct span){(const uint8_t *)line, text}))
            fwrite(out.data, 1, out.len, stdout);
        else
            fputs("invalid", stdout);
        putchar('\n');
    }
    buffer_free(&out);
    free(line);
    return ferror(stdout) || fflush(stdout) ? 1 : 0;
}
