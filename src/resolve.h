/*
 * resolve - the addresses of a host, within a time.
 *
 * getaddrinfo() waits for name servers as long as the system's settings say, half a minute and
 * more, and cannot be told to stop. So it runs in a thread of its own, which is left alone when the
 * time is over, and ends by itself. An address, instead of a name, needs no thread.
 */
#ifndef ONLYONCE_RESOLVE_H
#define ONLYONCE_RESOLVE_H

#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RESOLVE_ERROR_MAX 128

/* *out is for freeaddrinfo(). False: not by `until` (clock_now()), or there are none; `error` says
 * which. */
bool resolve_host(const char *host, int port, int64_t until, struct addrinfo **out,
                  char error[RESOLVE_ERROR_MAX]);

/* Another address comes first at each turn: one that takes connections and then says nothing must
 * not be the first for ever. */
void resolve_rotate(struct addrinfo **addresses, size_t turn);

#endif
