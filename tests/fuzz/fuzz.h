/*
 * fuzz - what the fuzz targets share.
 *
 * A target is a file fuzz_NAME.c with one function, which is given bytes and asserts what has to be
 * true of them. Built with -DONLYONCE_FUZZ=ON and clang it is a program of libFuzzer's, which says
 * how with -help=1; without, replay.c runs it over the files of corpus/fuzz_NAME, as ctest does.
 */
#ifndef ONLYONCE_FUZZ_H
#define ONLYONCE_FUZZ_H

#include "../lib/amqp_build.h"
#include "memory.h"
#include "message.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Takes the first `len` bytes, or as many as there are. */
static inline struct span fuzz_take(struct span *rest, size_t len)
{
    struct span out = {rest->data, len < rest->len ? len : rest->len};
    *rest = (struct span){rest->data + out.len, rest->len - out.len};
    return out;
}

static inline uint8_t fuzz_byte(struct span *rest)
{
    struct span one = fuzz_take(rest, 1);
    return one.len ? one.data[0] : 0;
}

/* Takes bytes behind a length of two bytes. */
static inline struct span fuzz_counted(struct span *rest)
{
    size_t high = fuzz_byte(rest);
    return fuzz_take(rest, high << 8 | fuzz_byte(rest));
}

/* Takes a line, without its '\n'. */
static inline struct span fuzz_line(struct span *rest)
{
    const uint8_t *end = rest->len ? memchr(rest->data, '\n', rest->len) : NULL;
    struct span out = fuzz_take(rest, end ? (size_t)(end - rest->data) : rest->len);
    fuzz_take(rest, 1);
    return out;
}

/* A text of its own, up to the first NUL, for the caller to free. */
static inline char *fuzz_text(struct span s)
{
    char *out = xmalloc(s.len + 1);
    if (s.len)
        memcpy(out, s.data, s.len);
    out[s.len] = '\0';
    return out;
}

#endif
