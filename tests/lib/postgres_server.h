/*
 * postgres_server - a real PostgreSQL server of a test's own, on a free loopback port, with a
 * folder of its own. Its superuser is "onlyonce", who needs no password; "guarded" needs one, if
 * the test makes such a user. It dies with the test. What goes wrong ends the program.
 */
#ifndef ONLYONCE_POSTGRES_SERVER_H
#define ONLYONCE_POSTGRES_SERVER_H

#include <libpq-fe.h>
#include <sys/types.h>

struct postgres_server {
    int port;
    pid_t pid;          /* 0: it does not run */
    PGconn *connection; /* the test's own, as superuser */
    char url[80];
    char folder[40];
};

/* Makes its folder, and starts it. */
void postgres_server_create(struct postgres_server *s);

/* Makes a standby of the running server `of`, and starts it. */
void postgres_server_create_standby(struct postgres_server *s, const struct postgres_server *of);

/* Starts it, also after it was killed, and waits until it answers. */
void postgres_server_start(struct postgres_server *s);
void postgres_server_kill(struct postgres_server *s);

/* Sends a signal to it and all of its children. */
void postgres_server_signal(const struct postgres_server *s, int signal);

/* Runs a statement; the first value of its first row, or "", valid until the next one. */
const char *postgres_server_do(struct postgres_server *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Kills it, if it runs, and removes its folder. */
void postgres_server_remove(struct postgres_server *s);

#endif
