/*
 * file - reads a small file whole.
 */
#ifndef ONLYONCE_FILE_H
#define ONLYONCE_FILE_H

#include "memory.h"

#include <stddef.h>

/* Appends the content of `path` to *out. NULL, or what is wrong, for "FILE: <fragment>". */
const char *file_read(const char *path, size_t limit, struct buffer *out, char error[256]);

#endif
