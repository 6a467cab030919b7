/*
 * wire - a stream of bytes to a server: TCP, with TLS over it where that is wanted. Opening waits,
 * up to a deadline (and for the resolver, as long as that takes); nothing else does.
 *
 * DANGER: a process that uses it with TLS must ignore SIGPIPE, see tls.h.
 */
#ifndef ONLYONCE_WIRE_H
#define ONLYONCE_WIRE_H

#include "tls.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What a reader has room for at least. */
#define WIRE_ROOM_MIN TLS_RECORD_MAX

struct wire {
    int fd;          /* -1: closed */
    struct tls *tls; /* NULL: none */
    bool refused;    /* see tls_refused() */
    char error[TLS_ERROR_MAX];
};

/* Tries all addresses of the host, at each `turn` another one first, and then TLS unless `tls` is
 * NULL, until clock_now() is `until`. False: it is closed, and w->error is a fragment for "cannot
 * connect to HOST: <fragment>". */
bool wire_open(struct wire *w, const char *host, int port, const struct tls_config *tls,
               size_t turn, int64_t until) __attribute__((warn_unused_result));
void wire_close(struct wire *w);

/* How many bytes were taken, or came; 0: none now; -1: it is over. Then w->error says why: empty,
 * if the other side closed it. */
ssize_t wire_send(struct wire *w, const void *data, size_t len);
ssize_t wire_receive(struct wire *w, void *to, size_t room);

/* With TLS, a direction may wait for the other one's readiness. Whether to poll for POLLOUT, and
 * whether that is (also) because reading waits for it. */
bool wire_wants_write(const struct wire *w, bool unsent);
bool wire_receive_wants_write(const struct wire *w);

#endif
