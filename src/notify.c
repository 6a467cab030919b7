#include "notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOOK_AGAIN_MS 1000
#define SEND_PATIENCE_US 500000 /* a manager that takes nothing must not hold the program up */

/* ---- The environment ---- */

static bool set_address(struct notify *n, const char *name)
{
    size_t length = strlen(name);
    if ((*name != '/' && *name != '@') || length < 2) {
        snprintf(n->error, sizeof n->error,
                 "NOTIFY_SOCKET is \"%.64s\": a path that begins with / or @ is needed", name);
        return false;
    }
    if (length >= sizeof n->to.sun_path) {
        snprintf(n->error, sizeof n->error,
                 "NOTIFY_SOCKET has %zu bytes: a socket's name has at most %zu", length,
                 sizeof n->to.sun_path - 1);
        return false;
    }
    n->to.sun_family = AF_UNIX;
    memcpy(n->to.sun_path, name, length);
    if (*name == '@')
        n->to.sun_path[0] = '\0';
    n->to_length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    return true;
}

/* A whole number above 0, of which there is nothing else. */
static bool number(const char *text, long long *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return errno == 0 && *text >= '0' && *text <= '9' && *end == '\0' && *out > 0;
}

/* Half of the manager's time, so that one datagram may come late. */
static void set_watchdog(struct notify *n)
{
    const char *micros = getenv("WATCHDOG_USEC");
    const char *pid = getenv("WATCHDOG_PID");
    long long whose, time;
    if (!micros)
        return;
    if (pid && number(pid, &whose) && whose != getpid())
        return; /* It was meant for a process that handed its environment on. */
    if (!number(micros, &time) || time < 2000) {
        snprintf(n->error, sizeof n->error,
                 "WATCHDOG_USEC is \"%.32s\": a number of microseconds, from 2000 on, is needed",
                 micros);
        return;
    }
    n->watchdog = time / 2000;
}

void notify_init(struct notify *n)
{
    *n = (struct notify){.fd = -1};
    const char *name = getenv("NOTIFY_SOCKET");
    if (!name || !*name || !set_address(n, name))
        return;
    n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (n->fd < 0) {
        snprintf(n->error, sizeof n->error, "no socket for it: %s", strerror(errno));
        return;
    }
    struct timeval patience = {.tv_usec = SEND_PATIENCE_US};
    (void)setsockopt(n->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    set_watchdog(n);
}

void notify_free(struct notify *n)
{
    if (n->fd >= 0)
        close(n->fd);
    n->fd = -1;
}

bool notify_is_on(const struct notify *n)
{
    return n->fd >= 0;
}

/* ---- Messages ---- */

/* The name is looked up each time: a manager that was restarted may have made its socket anew. */
static bool send_text(struct notify *n, const char *text)
{
    if (n->fd < 0)
        return false;
    ssize_t sent = sendto(n->fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&n->to,
                          n->to_length);
    if (sent < 0 && !n->lost)
        snprintf(n->error, sizeof n->error, "NOTIFY_SOCKET: %s", strerror(errno));
    n->lost = sent < 0;
    return sent >= 0;
}

bool notify_ready(struct notify *n)
{
    return send_text(n, "READY=1\n");
}

/* systemd tells by the time which reload this is, and wants CLOCK_MONOTONIC. */
void notify_reloading(struct notify *n)
{
    struct timespec now;
    char text[64];
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%lld\n",
             (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    (void)send_text(n, text);
}

void notify_stopping(struct notify *n)
{
    (void)send_text(n, "STOPPING=1\n");
}

void notify_status(struct notify *n, const char *fmt, ...)
{
    char status[NOTIFY_TEXT_MAX];
    char text[NOTIFY_TEXT_MAX + 8];
    va_list args;
    va_start(args, fmt);
    vsnprintf(status, sizeof status, fmt, args);
    va_end(args);
    if (strcmp(status, n->status) == 0)
        return;
    snprintf(text, sizeof text, "STATUS=%s\n", status);
    if (send_text(n, text))
        memcpy(n->status, status, sizeof status);
}

int64_t notify_turn(struct notify *n, int64_t now, bool hangs)
{
    if (n->fd < 0 || n->watchdog == 0)
        return INT64_MAX;
    if (now < n->next_watchdog)
        return n->next_watchdog;
    bool fed = !hangs && send_text(n, "WATCHDOG=1\n");
    int64_t wait = fed || n->watchdog < LOOK_AGAIN_MS ? n->watchdog : LOOK_AGAIN_MS;
    n->next_watchdog = now + wait;
    return n->next_watchdog;
}
