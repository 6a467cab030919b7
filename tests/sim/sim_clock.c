/*
 * What else the world replaces: the clocks, the log, and the kernel's random numbers, so that
 * a seed decides everything.
 */
#include "clock.h"
#include "log.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

int64_t clock_now(void)
{
    return sim->now;
}

int64_t clock_micros(void)
{
    return sim->now * 1000;
}

int64_t clock_wall(void)
{
    return SIM_EPOCH + sim->now + sim->wall_offset;
}

/* Libraries ask, too, when they are loaded: before there is a world. */
ssize_t getrandom(void *buffer, size_t length, unsigned flags)
{
    if (!sim)
        return syscall(SYS_getrandom, buffer, length, flags);
    for (size_t i = 0; i < length; i++)
        ((unsigned char *)buffer)[i] = (unsigned char)rng_next(&sim->ids);
    return (ssize_t)length;
}

void log_setup(enum log_level least, enum log_format format)
{
    (void)least;
    (void)format;
}

int log_wants(enum log_level level)
{
    (void)level;
    return sim->tracing;
}

/* A relay's log lines are part of the trace. */
void log_line(enum log_level level, const char *event, ...)
{
    if (!sim->tracing)
        return;
    char line[512];
    size_t at = (size_t)snprintf(line, sizeof line, "log %d: %s", (int)level, event);
    va_list args;
    va_start(args, event);
    const char *name;
    while ((name = va_arg(args, const char *))) {
        const char *value = va_arg(args, const char *);
        if (value && at < sizeof line)
            at += (size_t)snprintf(line + at, sizeof line - at, " %s=%s", name, value);
    }
    va_end(args);
    trace("%s", line);
}

void panic(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "seed %llu: panic: ", (unsigned long long)sim->seed);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}
