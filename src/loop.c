#include "loop.h"

#include "clock.h"

#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

void loop_init(struct loop *l, loop_turn *turn, loop_watch *watch, void *context)
{
    *l = (struct loop){.turn = turn, .watch = watch, .context = context, .wake_fd = -1};
}

void loop_free(struct loop *l)
{
    if (l->wake_fd >= 0)
        close(l->wake_fd);
    l->wake_fd = -1;
}

static void sleep_for(struct loop *l, int64_t ms)
{
    struct pollfd fds[1 + LOOP_WATCHED] = {{.fd = l->wake_fd, .events = POLLIN}};
    size_t count = 1 + l->watch(l->context, fds + 1);
    (void)poll(fds, count, ms > INT32_MAX ? INT32_MAX : (int)ms);
    uint64_t asked;
    ssize_t taken = read(l->wake_fd, &asked, sizeof asked); /* Else it would stay readable. */
    (void)taken;
}

static void *run(void *arg)
{
    struct loop *l = arg;
    int64_t ms;
    while (l->turn(l->context, &ms))
        sleep_for(l, ms);
    l->on_exit(l->exit_context);
    return NULL;
}

bool loop_start(struct loop *l, const char *name, void (*on_exit)(void *), void *context)
{
    char kept[16];
    l->on_exit = on_exit;
    l->exit_context = context;
    l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->wake_fd < 0 || pthread_create(&l->thread, NULL, run, l) != 0)
        return false;
    snprintf(kept, sizeof kept, "%s", name);
    pthread_setname_np(l->thread, kept);
    return true;
}

void loop_ask_to_stop(struct loop *l)
{
    uint64_t one = 1;
    atomic_store(&l->asked, clock_now());
    ssize_t written = write(l->wake_fd, &one, sizeof one);
    (void)written;
}

int64_t loop_asked(struct loop *l)
{
    return atomic_load(&l->asked);
}

void loop_join(struct loop *l)
{
    pthread_join(l->thread, NULL);
}
