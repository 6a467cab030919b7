#include "file.h"

#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE 5000 /* ms */

/* Waits for what a pipe's writer says. False: nothing came. */
static bool await(int fd, int64_t until)
{
    int64_t left = until - clock_now();
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return left > 0 && (poll(&p, 1, (int)left) >= 0 || errno == EINTR);
}

/* Reads on, up to the end or beyond the limit. 0, or why not. */
static int read_all(int fd, size_t limit, struct buffer *out)
{
    int64_t until = clock_now() + PATIENCE;
    size_t start = out->len;
    while (out->len - start <= limit) {
        uint8_t *to = buffer_reserve(out, 65536);
        ssize_t n = read(fd, to, 65536);
        if (n == 0)
            return 0;
        if (n > 0)
            out->len += (size_t)n;
        else if (errno == EAGAIN && !await(fd, until))
            return ETIMEDOUT;
        else if (errno != EAGAIN && errno != EINTR)
            return errno;
    }
    return EFBIG;
}

const char *file_read(const char *path, size_t limit, struct buffer *out, char error[256])
{
    /* Without waiting for somebody to write into a pipe. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int wrong = fd < 0 ? errno : read_all(fd, limit, out);
    if (fd >= 0)
        close(fd);
    if (!wrong)
        return NULL;
    if (wrong == EFBIG)
        snprintf(error, 256, "is larger than %zu KiB, the most that is read", limit / 1024);
    else if (wrong == ETIMEDOUT)
        snprintf(error, 256, "cannot be read: it has no end within %d s", PATIENCE / 1000);
    else
        snprintf(error, 256, "cannot be read: %s", strerror(wrong));
    return error;
}
