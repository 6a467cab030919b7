#include "wire.h"

#include "clock.h"
#include "resolve.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void say_errno(struct wire *w, int error)
{
    char text[128];
    snprintf(w->error, sizeof w->error, "%s", strerror_r(error, text, sizeof text));
}

/* False: the time is over. */
static bool await(int fd, short events, int64_t until)
{
    struct pollfd p = {.fd = fd, .events = events};
    for (int64_t left; (left = until - clock_now()) > 0;) {
        int ready = poll(&p, 1, (int)left);
        if (ready > 0)
            return true;
        if (ready < 0 && errno != EINTR)
            return false;
    }
    return false;
}

static void set_options(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

/* 0, or why not. */
static int finish_connecting(int fd, int64_t until)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (!await(fd, POLLOUT, until))
        return ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

static bool try_address(struct wire *w, const struct addrinfo *a, int64_t until)
{
    w->fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
    int error = w->fd < 0 ? errno : 0;
    if (!error && connect(w->fd, a->ai_addr, a->ai_addrlen) < 0)
        error = errno == EINPROGRESS ? finish_connecting(w->fd, until) : errno;
    if (!error) {
        set_options(w->fd);
        return true;
    }
    say_errno(w, error);
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
    return false;
}

/* One address that does not answer leaves time for the others. */
static bool try_addresses(struct wire *w, const struct addrinfo *addresses, int64_t until)
{
    int64_t left = 0;
    for (const struct addrinfo *a = addresses; a; a = a->ai_next)
        left++;
    for (const struct addrinfo *a = addresses; a; a = a->ai_next, left--) {
        int64_t now = clock_now();
        if (try_address(w, a, now + (until - now) / left))
            return true;
    }
    return false;
}

static bool connect_to(struct wire *w, const char *host, int port, size_t turn, int64_t until)
{
    struct addrinfo *addresses;
    char error[RESOLVE_ERROR_MAX];
    if (!resolve_host(host, port, until, &addresses, error)) {
        snprintf(w->error, sizeof w->error, "%s", error);
        return false;
    }
    resolve_rotate(&addresses, turn);
    bool connected = try_addresses(w, addresses, until);
    freeaddrinfo(addresses);
    return connected;
}

static void take_error(struct wire *w)
{
    const char *why = tls_error(w->tls);
    snprintf(w->error, sizeof w->error, "%s", why ? why : "");
    w->refused = tls_refused(w->tls);
}

static bool start_tls(struct wire *w, int64_t until)
{
    for (;;) {
        switch (tls_handshake(w->tls, w->fd)) {
        case TLS_DONE: return true;
        case TLS_WAITS: break;
        case TLS_FAILED: take_error(w); return false;
        }
        if (await(w->fd, tls_events(w->tls), until))
            continue;
        snprintf(w->error, sizeof w->error, "it did not answer to TLS in time");
        return false;
    }
}

bool wire_open(struct wire *w, const char *host, int port, const struct tls_config *tls,
               size_t turn, int64_t until)
{
    *w = (struct wire){.fd = -1};
    if (tls && !(w->tls = tls_new(tls, host, w->error))) {
        w->refused = true;
        return false;
    }
    if (connect_to(w, host, port, turn, until) && (!tls || start_tls(w, until)))
        return true;
    wire_close(w);
    return false;
}

void wire_close(struct wire *w)
{
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
    tls_free(w->tls);
    w->tls = NULL;
}

/* What a call on the socket returned. */
static ssize_t result_of(struct wire *w, ssize_t n)
{
    if (n >= 0)
        return n;
    if (errno == EAGAIN || errno == EINTR)
        return 0;
    say_errno(w, errno);
    return -1;
}

ssize_t wire_send(struct wire *w, const void *data, size_t len)
{
    if (!w->tls)
        return result_of(w, send(w->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL));
    ssize_t n = tls_send(w->tls, data, len);
    if (n < 0)
        take_error(w);
    return n;
}

ssize_t wire_receive(struct wire *w, void *to, size_t room)
{
    assert(room >= WIRE_ROOM_MIN);
    if (!w->tls) {
        ssize_t n = recv(w->fd, to, room, MSG_DONTWAIT);
        return n == 0 ? -1 : result_of(w, n);
    }
    ssize_t n = tls_receive(w->tls, to, room);
    if (n < 0)
        take_error(w);
    return n;
}

bool wire_receive_wants_write(const struct wire *w)
{
    return w->tls && tls_receive_wants_write(w->tls);
}

bool wire_wants_write(const struct wire *w, bool unsent)
{
    bool sending_waits = w->tls && tls_send_wants_read(w->tls);
    return (unsent && !sending_waits) || wire_receive_wants_write(w);
}
