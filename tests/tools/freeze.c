/*
 * freeze - stops one thread of a process, as a loop that hangs does; the others go on.
 *
 *   freeze --allow COMMAND...   runs the command, and lets any process of the user's stop it
 *   freeze THREAD               stops the thread of this id until stdin ends
 *
 * A signal stops all threads of a process, so this is what debuggers do.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static int failed(const char *what)
{
    fprintf(stderr, "freeze: %s: %s\n", what, strerror(errno));
    return 1;
}

static int freeze(pid_t thread)
{
    if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0)
        return failed("seizing it");
    if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) != 0 || waitpid(thread, NULL, __WALL) < 0)
        return failed("stopping it");
    puts("frozen");
    fflush(stdout);
    while (getchar() != EOF)
        continue;
    if (ptrace(PTRACE_DETACH, thread, NULL, NULL) != 0)
        return failed("letting it go on");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "--allow") == 0) {
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* No matter where that is no rule. */
        execvp(argv[2], &argv[2]);
        return failed(argv[2]);
    }
    if (argc != 2 || atoi(argv[1]) <= 0) {
        fprintf(stderr, "usage: freeze THREAD, or freeze --allow COMMAND...\n");
        return 2;
    }
    return freeze(atoi(argv[1]));
}
