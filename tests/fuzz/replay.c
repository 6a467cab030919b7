/*
 * replay - runs a fuzz target over files, or all files of folders: what a fuzzer found once, every
 * compiler and sanitizer looks at again.
 */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>

static void die(const char *path)
{
    perror(path);
    exit(1);
}

/* Each input is an allocation of its own size, so that valgrind and sanitizers see where it ends.
 */
static void replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0)
        die(path);
    long size = ftell(f);
    if (size < 0)
        die(path);
    rewind(f);
    uint8_t *data = xmalloc((size_t)size);
    if (fread(data, 1, (size_t)size, f) != (size_t)size)
        die(path);
    fclose(f);
    (void)LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
}

static size_t replay_folder(const char *path)
{
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort);
    size_t done = 0;
    if (count < 0)
        die(path);
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.') {
            char *file = xasprintf("%s/%s", path, entries[i]->d_name);
            printf("%s\n", file); /* the last one is it, if the target ends the program */
            fflush(stdout);
            replay_file(file);
            free(file);
            done++;
        }
        free(entries[i]);
    }
    free(entries);
    return done;
}

int main(int argc, char **argv)
{
    size_t done = 0;
    for (int i = 1; i < argc; i++)
        done += replay_folder(argv[i]);
    printf("%zu inputs\n", done);
    return done > 0 ? 0 : 1;
}
