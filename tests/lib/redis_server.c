#include "redis_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORDS_MOST 40
#define TRIES 500
#define TRY_MS 10

static void die(const char *what)
{
    fprintf(stderr, "redis_server: %s: %s\n", what, strerror(errno));
    exit(1);
}

static struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

int free_port(void)
{
    struct sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        die("no free port");
    close(fd);
    return ntohs(address.sin_port);
}

void redis_server_create(struct redis_server *s)
{
    *s = (struct redis_server){.port = free_port()};
    strcpy(s->folder, "/tmp/onlyonce-redis.XXXXXX");
    if (!mkdtemp(s->folder))
        die(s->folder);
}

static void become_server(const struct redis_server *s, const char *const *settings)
{
    char port[16];
    const char *const ours[] = {"--port", port,           "--bind", "127.0.0.1", "--save",
                                "",       "--appendonly", "no",     "--dir",     s->folder};
    const char *other = getenv("RIG_REDIS_SERVER");
    const char *words[WORDS_MOST] = {other ? other : "redis-server"};
    size_t count = 1;
    if (settings && **settings == '/')
        words[count++] = *settings++;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        words[count++] = ours[i];
    for (; settings && *settings && count < WORDS_MOST - 1; settings++)
        words[count++] = *settings;
    snprintf(port, sizeof port, "%d", s->port);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that crashes leaves no server behind */
    int quiet = open("/dev/null", O_WRONLY);
    dup2(quiet, STDOUT_FILENO);
    execvp(words[0], (char *const *)(uintptr_t)words);
    _exit(127);
}

static bool answers(int port)
{
    struct sockaddr_in address = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool connected = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return connected;
}

void redis_server_start(struct redis_server *s, const char *const *settings)
{
    struct timespec wait = {.tv_nsec = TRY_MS * 1000000L};
    s->pid = fork();
    if (s->pid < 0)
        die("fork");
    if (s->pid == 0)
        become_server(s, settings);
    for (int tries = 0; tries < TRIES; tries++) {
        if (answers(s->port))
            return;
        nanosleep(&wait, NULL);
    }
    die("redis-server does not start");
}

void redis_server_kill(struct redis_server *s)
{
    kill(s->pid, SIGKILL);
    waitpid(s->pid, NULL, 0);
    s->pid = 0;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

void redis_server_remove(struct redis_server *s)
{
    if (s->pid)
        redis_server_kill(s);
    if (s->folder[0])
        nftw(s->folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}
