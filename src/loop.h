/*
 * loop - a thread that turns something, sleeps in poll() until the next turn, and can be asked to
 * stop, which wakes it.
 *
 *   loop_init(&l, turn, watch, context);
 *   loop_start(&l, "name", on_exit, their_context);
 *   loop_ask_to_stop(&l);      from any thread; turn() finds loop_asked() then
 *   loop_join(&l); loop_free(&l);
 */
#ifndef ONLYONCE_LOOP_H
#define ONLYONCE_LOOP_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOOP_WATCHED 3

/* One turn; *sleep: how many ms until the next one at most. False: it was the last. */
typedef bool loop_turn(void *context, int64_t *sleep);

/* What ends the sleep beside its time: fills in at most LOOP_WATCHED, and says how many. */
typedef size_t loop_watch(void *context, struct pollfd *fds);

struct loop {
    loop_turn *turn;
    loop_watch *watch;
    void *context;
    void (*on_exit)(void *);
    void *exit_context;
    pthread_t thread;
    int wake_fd;
    _Atomic int64_t asked;
};

void loop_init(struct loop *l, loop_turn *turn, loop_watch *watch, void *context);
void loop_free(struct loop *l); /* one that never started, or was joined */

/* `name` is for people who look at threads; the kernel keeps 15 bytes of it. `on_exit` is called
 * from the thread when it ends. False: the system has no room for it. */
bool loop_start(struct loop *l, const char *name, void (*on_exit)(void *), void *context);

void loop_ask_to_stop(struct loop *l); /* from any thread */
int64_t loop_asked(struct loop *l);    /* when it was asked to, clock_now(); 0: it was not */
void loop_join(struct loop *l);

#endif
