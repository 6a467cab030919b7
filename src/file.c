#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Without waiting for somebody who writes: a pipe that nobody has open for writing is an empty
 * file. */
static int open_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0)
        fcntl(fd, F_SETFL, 0);
    return fd;
}

const char *file_read(const char *path, size_t limit, struct buffer *out, char error[256])
{
    int fd = open_file(path);
    if (fd < 0) {
        snprintf(error, 256, "cannot be read: %s", strerror(errno));
        return error;
    }
    const char *bad = NULL;
    size_t total = 0;
    while (!bad) {
        uint8_t *to = buffer_reserve(out, 65536);
        ssize_t n = read(fd, to, 65536);
        if (n == 0)
            break;
        if (n > 0) {
            out->len += (size_t)n;
            total += (size_t)n;
        } else if (errno != EINTR) {
            snprintf(error, 256, "cannot be read: %s", strerror(errno));
            bad = error;
        }
        if (total > limit) {
            snprintf(error, 256, "is larger than %zu KiB, the most that is read", limit / 1024);
            bad = error;
        }
    }
    close(fd);
    return bad;
}
