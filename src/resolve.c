#include "resolve.h"

#include "clock.h"
#include "memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Shared by who asks and by the thread; who comes last frees it. */
struct job {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
    bool abandoned;
    char *host;
    char service[16];
    int code; /* getaddrinfo()'s */
    int system_error;
    struct addrinfo *found;
};

static void look_up(struct job *j, int flags)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
    j->code = getaddrinfo(j->host, j->service, &hints, &j->found);
    j->system_error = errno;
}

static void free_job(struct job *j)
{
    if (j->found)
        freeaddrinfo(j->found);
    pthread_mutex_destroy(&j->lock);
    pthread_cond_destroy(&j->changed);
    free(j->host);
    free(j);
}

static void *run(void *arg)
{
    struct job *j = arg;
    look_up(j, 0);
    pthread_mutex_lock(&j->lock);
    j->done = true;
    bool abandoned = j->abandoned;
    pthread_cond_signal(&j->changed);
    pthread_mutex_unlock(&j->lock);
    if (abandoned)
        free_job(j);
    return NULL;
}

static struct job *new_job(const char *host, int port)
{
    struct job *j = xcalloc(1, sizeof *j);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&j->lock, NULL);
    pthread_cond_init(&j->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    j->host = xstrdup(host);
    snprintf(j->service, sizeof j->service, "%d", port);
    return j;
}

static struct timespec in_ms(int64_t ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += ms % 1000 * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

/* False: it is not done in time, and belongs to its thread from now on. */
static bool wait_for(struct job *j, int64_t until)
{
    int64_t left = until - clock_now();
    struct timespec deadline = in_ms(left > 0 ? left : 0);
    pthread_mutex_lock(&j->lock);
    while (!j->done && pthread_cond_timedwait(&j->changed, &j->lock, &deadline) == 0)
        continue;
    j->abandoned = !j->done;
    bool done = j->done;
    pthread_mutex_unlock(&j->lock);
    return done;
}

static bool take(struct job *j, struct addrinfo **out, char error[RESOLVE_ERROR_MAX])
{
    char text[RESOLVE_ERROR_MAX];
    if (j->code == EAI_SYSTEM)
        snprintf(error, RESOLVE_ERROR_MAX, "%s", strerror_r(j->system_error, text, sizeof text));
    else if (j->code)
        snprintf(error, RESOLVE_ERROR_MAX, "%s", gai_strerror(j->code));
    *out = j->code ? NULL : j->found;
    bool found = *out != NULL;
    if (found)
        j->found = NULL;
    free_job(j);
    return found;
}

bool resolve_host(const char *host, int port, int64_t until, struct addrinfo **out,
                  char error[RESOLVE_ERROR_MAX])
{
    pthread_t thread;
    struct job *j = new_job(host, port);
    *out = NULL;
    look_up(j, AI_NUMERICHOST);
    if (j->code != EAI_NONAME)
        return take(j, out, error);
    int bad = pthread_create(&thread, NULL, run, j);
    if (bad) {
        j->code = EAI_SYSTEM;
        j->system_error = bad;
        return take(j, out, error);
    }
    pthread_detach(thread);
    if (wait_for(j, until))
        return take(j, out, error);
    snprintf(error, RESOLVE_ERROR_MAX, "its name was not resolved in time");
    return false;
}

void resolve_rotate(struct addrinfo **addresses, size_t turn)
{
    size_t count = 1;
    struct addrinfo *last = *addresses;
    for (; last->ai_next; last = last->ai_next)
        count++;
    for (turn %= count; turn > 0; turn--) {
        struct addrinfo *first = *addresses;
        *addresses = first->ai_next;
        first->ai_next = NULL;
        last->ai_next = first;
        last = first;
    }
}
