/*
 * notify - tells the service manager that started the program how it is: sd_notify's protocol,
 * whose every message is one datagram of NAME=VALUE lines to the socket that $NOTIFY_SOCKET names.
 * A name that begins with @ is one of Linux's abstract sockets.
 *
 * The environment is read at notify_init(). Without $NOTIFY_SOCKET nobody listens, and every call
 * does nothing. Without the call of notify_turn() nothing is sent but what is asked for.
 *
 * An address or a watchdog's time that makes no sense, and a message that cannot be sent, are in
 * error[]: the caller says so, and clears it. The program goes on; an address that makes no sense
 * turns all off.
 *
 * One thread owns it.
 */
#ifndef ONLYONCE_NOTIFY_H
#define ONLYONCE_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#define NOTIFY_TEXT_MAX 256

struct notify {
    int fd; /* -1: off */
    struct sockaddr_un to;
    socklen_t to_length;
    int64_t watchdog;             /* ms from one WATCHDOG=1 to the next; 0: there is no watchdog */
    int64_t next_watchdog;        /* clock_now() */
    bool lost;                    /* the last message could not be sent */
    char status[NOTIFY_TEXT_MAX]; /* as it was sent last */
    char error[NOTIFY_TEXT_MAX];  /* "": all is well */
};

void notify_init(struct notify *n);
void notify_free(struct notify *n);
bool notify_is_on(const struct notify *n);

/* It does its work, or does it again after a reload. False: that could not be sent, and is still
 * to be told. */
bool notify_ready(struct notify *n);
void notify_reloading(struct notify *n); /* notify_ready() has to follow */
void notify_stopping(struct notify *n);
/* One line for people. What was sent last is not sent again. */
void notify_status(struct notify *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Feeds the watchdog when it is time, unless the program `hangs`; then it looks again every second.
 * To be called often: when the time comes that it answers (clock_now()), at the latest. */
int64_t notify_turn(struct notify *n, int64_t now, bool hangs);

#endif
