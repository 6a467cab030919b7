#include "fake_redis.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct fake_redis {
    pthread_t thread;
    int listener;
    int port;
    int dribble;
    const struct fake_rule *rules;
};

static const struct fake_rule healthy[] = {
    {"ROLE", "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"},
    {"INFO", "=redis_version:7.0.15\r\nredis_mode:standalone\r\n"},
    {"TIME", "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n"},
    {"SET", "$-1\r\n"},
    {"SCRIPT", "$40\r\n0123456789012345678901234567890123456789\r\n"},
    {"EVALSHA", "*1\r\n:1\r\n"},
    {"", "+OK\r\n"},
    {NULL, NULL},
};

static const char *answer_to(const struct fake_redis *f, const char *command)
{
    const struct fake_rule *const tables[] = {f->rules, healthy};
    for (int i = 0; i < 2; i++)
        for (const struct fake_rule *rule = tables[i]; rule->command; rule++)
            if (strncmp(command, rule->command, strlen(rule->command)) == 0)
                return rule->answer;
    return NULL;
}

static void send_bytes(const struct fake_redis *f, int fd, const char *bytes)
{
    size_t len = strlen(bytes);
    size_t step = f->dribble ? 1 : len;
    struct timespec wait = {.tv_nsec = f->dribble * 1000000L};
    for (size_t at = 0; at < len; at += step) {
        if (send(fd, bytes + at, step, MSG_NOSIGNAL) <= 0)
            return;
        nanosleep(&wait, NULL);
    }
}

static void send_answer(const struct fake_redis *f, int fd, const char *answer)
{
    char bulk[512];
    if (*answer == '=')
        snprintf(bulk, sizeof bulk, "$%zu\r\n%s\r\n", strlen(answer + 1), answer + 1);
    send_bytes(f, fd, *answer == '=' ? bulk : answer);
}

/* Reads one command; its words, joined by blanks and cut to fit. */
static bool read_command(FILE *in, char *out, size_t size)
{
    char line[64];
    if (!fgets(line, sizeof line, in))
        return false;
    size_t used = 0;
    out[0] = '\0';
    for (long words = strtol(line + 1, NULL, 10); words > 0; words--) {
        if (!fgets(line, sizeof line, in))
            return false;
        size_t len = strtoul(line + 1, NULL, 10);
        char *word = calloc(1, len + 3);
        bool whole = fread(word, 1, len + 2, in) == len + 2;
        word[len] = '\0';
        if (whole && used + len + 2 < size)
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? " " : "", word);
        free(word);
        if (!whole)
            return false;
    }
    return true;
}

static void serve(const struct fake_redis *f, int fd)
{
    char command[512];
    FILE *in = fdopen(fd, "r");
    while (read_command(in, command, sizeof command)) {
        const char *answer = answer_to(f, command);
        if (answer && !*answer)
            break;
        if (answer)
            send_answer(f, fd, answer);
    }
    fclose(in);
}

static void *run(void *context)
{
    const struct fake_redis *f = context;
    for (;;) {
        int fd = accept(f->listener, NULL, NULL);
        if (fd < 0)
            return NULL;
        serve(f, fd);
    }
}

struct fake_redis *fake_redis_start(const struct fake_rule *rules, int dribble)
{
    struct fake_redis *f = calloc(1, sizeof *f);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    f->rules = rules;
    f->dribble = dribble;
    f->listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(f->listener, (struct sockaddr *)&address, size) != 0 || listen(f->listener, 8) != 0 ||
        getsockname(f->listener, (struct sockaddr *)&address, &size) != 0 ||
        pthread_create(&f->thread, NULL, run, f) != 0) {
        perror("fake_redis");
        exit(1);
    }
    f->port = ntohs(address.sin_port);
    return f;
}

int fake_redis_port(const struct fake_redis *f)
{
    return f->port;
}

/* Its connections must be closed by then. */
void fake_redis_stop(struct fake_redis *f)
{
    shutdown(f->listener, SHUT_RDWR);
    pthread_join(f->thread, NULL);
    close(f->listener);
    free(f);
}
