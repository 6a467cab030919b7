/*
 * file - reads a small file whole.
 */
#ifndef ONLYONCE_FILE_H
#define ONLYONCE_FILE_H

#include "memory.h"

#include <stddef.h>

/* Appends the content of `path` to *out. NULL, or what is wrong, for "FILE: <fragment>". It may be
 * a pipe: one that nobody has open for writing is empty, and no writer is waited for longer than
 * 5 s. */
const char *file_read(const char *path, size_t limit, struct buffer *out, char error[256]);

#endif
