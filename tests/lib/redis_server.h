/*
 * redis_server - a real redis-server of a test's own, or the like of it that RIG_REDIS_SERVER
 * names, on a free loopback port, with a folder of its own. It dies with the test. What goes wrong
 * ends the program.
 */
#ifndef ONLYONCE_REDIS_SERVER_H
#define ONLYONCE_REDIS_SERVER_H

#include <sys/types.h>

struct redis_server {
    int port;
    pid_t pid; /* 0: it does not run */
    char folder[40];
};

int free_port(void);

/* Chooses port and folder, and starts nothing. */
void redis_server_create(struct redis_server *s);

/* Starts it, also after it was killed, and waits until it answers. `settings` are words as
 * redis-server has them, ended by NULL, perhaps with the path of a file first; they win over ours.
 */
void redis_server_start(struct redis_server *s, const char *const *settings);
void redis_server_kill(struct redis_server *s);

/* Kills it, if it runs, and removes its folder. */
void redis_server_remove(struct redis_server *s);

#endif
