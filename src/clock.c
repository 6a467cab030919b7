#include "clock.h"

#include <time.h>

static int64_t read_us(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t clock_now(void)
{
    return read_us(CLOCK_BOOTTIME) / 1000;
}

int64_t clock_micros(void)
{
    return read_us(CLOCK_BOOTTIME);
}

int64_t clock_wall(void)
{
    return read_us(CLOCK_REALTIME) / 1000;
}
