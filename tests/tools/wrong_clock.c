/*
 * wrong_clock - gives a program a wall clock of its own.
 *
 *   LD_PRELOAD=.../tests/wrong_clock.so WRONG_CLOCK=FILE program
 *
 * The file holds one line: the seconds to be added to the machine's wall clock. Whoever writes
 * other ones into it, in place, sets the clock of every program that has it. Clocks that only tell
 * how time passes are left alone, and so are timers.
 *
 * It is called before the program's own allocator is ready, and for each time that somebody asks
 * for: so it allocates nothing, and maps the file once.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define FILE_SIZE 32 /* of the file, which is filled up with spaces */

static const volatile char *mapped;

/* Two threads may map it twice at the very start, which does no harm. */
static const volatile char *offset_file(void)
{
    const char *name = getenv("WRONG_CLOCK");
    if (!mapped && name) {
        int fd = open(name, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return NULL;
        void *at = mmap(NULL, FILE_SIZE, PROT_READ, MAP_SHARED, fd, 0);
        close(fd);
        if (at != MAP_FAILED)
            mapped = at;
    }
    return mapped;
}

static time_t offset(void)
{
    const volatile char *at = offset_file();
    time_t sum = 0;
    if (!at)
        return 0;
    for (size_t i = 1; i < FILE_SIZE && at[i] >= '0' && at[i] <= '9'; i++)
        sum = sum * 10 + (at[i] - '0');
    return at[0] == '-' ? -sum : sum;
}

/* Their names in the headers are reserved.
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */
int clock_gettime(clockid_t id, struct timespec *t)
{
    long failed = syscall(SYS_clock_gettime, id, t);
    if (failed == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        t->tv_sec += offset();
    return (int)failed;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *t)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    if (t)
        *t = now.tv_sec;
    return now.tv_sec;
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
