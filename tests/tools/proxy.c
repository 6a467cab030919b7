/*
 * proxy - a TCP proxy on loopback that breaks connections on command.
 *
 *   proxy --listen PORT --to PORT --control FIFO
 *
 * Commands, one a line, are read from the FIFO (which it makes):
 *
 *   pass          everything passes again, and what was held back goes on
 *   cut           every connection is reset, now; new ones are taken
 *   refuse        like cut, and new connections are reset at once, until "pass"
 *   mute          nothing passes in either direction; connections stay open
 *   mute-replies  only what the server says is held back: commands arrive, answers do not
 *   delay MS      whatever is read from now on passes MS later; 0: no more
 *   quit
 *
 * It says each command on stdout, in a line, once it has obeyed: who told it may wait for that.
 */
#include <argp.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PAIRS_MAX 64
#define CHUNK 65536
#define CHUNKS_MAX 64 /* held back in one direction; then the socket is not read */

struct chunk {
    int64_t due;
    size_t len;
    size_t done;
    char data[CHUNK];
};

/* One direction of a connection. */
struct flow {
    int from;
    int to;
    bool ended;
    struct chunk *chunks[CHUNKS_MAX];
    size_t count;
};

struct pair {
    bool used;
    struct flow up;   /* client to server */
    struct flow down; /* server to client */
};

struct proxy {
    int listen_port;
    int to_port;
    const char *control_path;
    int listener;
    int control;
    bool refusing;
    bool mute_up;
    bool mute_down;
    int64_t delay;
    bool quit;
    char line[128];
    size_t line_len;
    struct pair pairs[PAIRS_MAX];
};

static void die(const char *what)
{
    fprintf(stderr, "proxy: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
}

static void listen_on(struct proxy *p)
{
    struct sockaddr_in a = loopback(p->listen_port);
    int on = 1;
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(p->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(p->listener, (const struct sockaddr *)&a, sizeof a) != 0 ||
        listen(p->listener, 64) != 0)
        die("cannot listen");
    if (mkfifo(p->control_path, 0600) != 0 && errno != EEXIST)
        die("cannot make the control FIFO");
    /* Open for writing too, so that it never ends. */
    p->control = open(p->control_path, O_RDWR | O_NONBLOCK);
    if (p->control < 0)
        die("cannot open the control FIFO");
}

/* With a reset, as a dying host or a firewall does it. */
static void reset_socket(int fd)
{
    struct linger hard = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(fd);
}

static void drop_flow(struct flow *f)
{
    for (size_t i = 0; i < f->count; i++)
        free(f->chunks[i]);
    f->count = 0;
}

static void drop_pair(struct pair *pair)
{
    reset_socket(pair->up.from);
    reset_socket(pair->up.to);
    drop_flow(&pair->up);
    drop_flow(&pair->down);
    *pair = (struct pair){0};
}

static void cut(struct proxy *p)
{
    for (size_t i = 0; i < PAIRS_MAX; i++)
        if (p->pairs[i].used)
            drop_pair(&p->pairs[i]);
}

static void accept_one(struct proxy *p)
{
    int client = accept4(p->listener, NULL, NULL, SOCK_NONBLOCK);
    if (client < 0)
        return;
    struct sockaddr_in a = loopback(p->to_port);
    int server = socket(AF_INET, SOCK_STREAM, 0);
    struct pair *pair = NULL;
    for (size_t i = 0; i < PAIRS_MAX && !pair; i++)
        if (!p->pairs[i].used)
            pair = &p->pairs[i];
    if (p->refusing || !pair || connect(server, (const struct sockaddr *)&a, sizeof a) != 0) {
        reset_socket(client);
        close(server);
        return;
    }
    fcntl(server, F_SETFL, O_NONBLOCK);
    *pair = (struct pair){.used = true};
    pair->up = (struct flow){.from = client, .to = server};
    pair->down = (struct flow){.from = server, .to = client};
}

/* False: the connection is broken. */
static bool read_flow(const struct proxy *p, struct flow *f)
{
    if (f->count == CHUNKS_MAX || f->ended)
        return true;
    struct chunk *c = malloc(sizeof *c);
    if (!c)
        die("memory");
    ssize_t n = recv(f->from, c->data, CHUNK, 0);
    if (n > 0) {
        c->len = (size_t)n;
        c->done = 0;
        c->due = now_ms() + p->delay;
        f->chunks[f->count++] = c;
        return true;
    }
    free(c);
    if (n == 0)
        f->ended = true;
    return n == 0 || errno == EAGAIN || errno == EINTR;
}

static bool write_flow(struct flow *f, bool muted, int64_t now)
{
    while (!muted && f->count > 0 && f->chunks[0]->due <= now) {
        struct chunk *c = f->chunks[0];
        ssize_t n = send(f->to, c->data + c->done, c->len - c->done, MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        c->done += (size_t)n;
        if (c->done < c->len)
            return true;
        free(c);
        f->count--;
        memmove(f->chunks, f->chunks + 1, f->count * sizeof(struct chunk *));
    }
    if (f->ended && f->count == 0 && !muted)
        shutdown(f->to, SHUT_WR);
    return true;
}

static void obey(struct proxy *p, const char *line)
{
    bool pass = strcmp(line, "pass") == 0;
    if (pass || strcmp(line, "cut") == 0 || strcmp(line, "refuse") == 0) {
        p->refusing = strcmp(line, "refuse") == 0;
        if (!pass)
            cut(p);
        p->mute_up = p->mute_down = false;
        if (pass)
            p->delay = 0;
    } else if (strcmp(line, "mute") == 0) {
        p->mute_up = p->mute_down = true;
    } else if (strcmp(line, "mute-replies") == 0) {
        p->mute_down = true;
    } else if (strncmp(line, "delay ", 6) == 0) {
        p->delay = strtol(line + 6, NULL, 10);
    } else if (strcmp(line, "quit") == 0) {
        p->quit = true;
    } else {
        fprintf(stderr, "proxy: \"%s\" is no command\n", line);
        return;
    }
    puts(line);
    fflush(stdout);
}

static void read_control(struct proxy *p)
{
    char c;
    while (read(p->control, &c, 1) == 1) {
        if (c != '\n') {
            if (p->line_len < sizeof p->line - 1)
                p->line[p->line_len++] = c;
            continue;
        }
        p->line[p->line_len] = '\0';
        p->line_len = 0;
        obey(p, p->line);
    }
}

static short wanted(const struct flow *reads, const struct flow *writes, bool muted)
{
    bool room = reads->count < CHUNKS_MAX && !reads->ended;
    bool waits = writes->count > 0 && !muted;
    return (short)((room ? POLLIN : 0) | (waits ? POLLOUT : 0));
}

static void turn(struct proxy *p)
{
    struct pollfd fds[2 + 2 * PAIRS_MAX] = {{.fd = p->listener, .events = POLLIN},
                                            {.fd = p->control, .events = POLLIN}};
    for (size_t i = 0; i < PAIRS_MAX; i++) {
        struct pair *pair = &p->pairs[i];
        struct pollfd *client = &fds[2 + 2 * i];
        client[0].fd = pair->used ? pair->up.from : -1;
        client[0].events = wanted(&pair->up, &pair->down, p->mute_down);
        client[1].fd = pair->used ? pair->up.to : -1;
        client[1].events = wanted(&pair->down, &pair->up, p->mute_up);
    }
    (void)poll(fds, sizeof fds / sizeof *fds, p->delay > 0 ? 2 : 100);
    read_control(p);
    if (fds[0].revents)
        accept_one(p);
    int64_t now = now_ms();
    for (size_t i = 0; i < PAIRS_MAX; i++) {
        struct pair *pair = &p->pairs[i];
        if (!pair->used)
            continue;
        bool good = read_flow(p, &pair->up) && read_flow(p, &pair->down) &&
                    write_flow(&pair->up, p->mute_up, now) &&
                    write_flow(&pair->down, p->mute_down, now);
        bool over = pair->up.ended && pair->down.ended && !pair->up.count && !pair->down.count;
        if (!good || over)
            drop_pair(pair);
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct proxy *p = state->input;
    switch (key) {
    case 'l': p->listen_port = atoi(arg); return 0;
    case 't': p->to_port = atoi(arg); return 0;
    case 'c': p->control_path = arg; return 0;
    case ARGP_KEY_END:
        if (!p->listen_port || !p->to_port || !p->control_path)
            argp_error(state, "--listen, --to and --control are needed");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"listen", 'l', "PORT", 0, "Port to listen on, on loopback", 0},
        {"to", 't', "PORT", 0, "Port to connect to, on loopback", 0},
        {"control", 'c', "FIFO", 0, "Where commands are read from", 0},
        {0}};
    static const struct argp argp = {
        .options = options, .parser = parse, .doc = "A TCP proxy that breaks connections."};
    struct proxy p = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &p);
    signal(SIGPIPE, SIG_IGN);
    listen_on(&p);
    while (!p.quit)
        turn(&p);
    cut(&p);
    unlink(p.control_path);
    return 0;
}
