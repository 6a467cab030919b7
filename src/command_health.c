/*
 * command_health - asks the running process whether it is healthy, for containers' health checks.
 * One request of HTTP/1.0, so that the answer ends where the connection does.
 */
#include "command.h"

#include "clock.h"
#include "memory.h"
#include "resolve.h"

#include <argp.h>
#include <cjson/cJSON.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_MS 5000
#define ANSWER_MOST ((size_t)64 * 1024)

/* ---- The connection ---- */

/* Waits until the socket is ready; false, and errno: it is not in time. */
static bool wait_for(int fd, short events, int64_t until)
{
    struct pollfd p = {.fd = fd, .events = events};
    int64_t left = until - clock_now();
    int ready = left > 0 ? poll(&p, 1, (int)left) : 0;
    if (ready == 0)
        errno = ETIMEDOUT;
    return ready > 0;
}

static bool connect_socket(int fd, const struct addrinfo *to, int64_t until)
{
    int error = 0;
    socklen_t len = sizeof error;
    if (connect(fd, to->ai_addr, to->ai_addrlen) == 0)
        return true;
    if (errno != EINPROGRESS || !wait_for(fd, POLLOUT, until))
        return false;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0)
        return true;
    errno = error;
    return false;
}

/* Who listens everywhere listens at loopback, too. */
static const char *host_to_ask(const char *host)
{
    if (strcmp(host, "0.0.0.0") == 0)
        return "127.0.0.1";
    return strcmp(host, "::") == 0 ? "::1" : host;
}

/* A connection to any of the addresses of the name; -1, and why: to none. */
static int connect_to(const struct host_port *at, int64_t until, char why[RESOLVE_ERROR_MAX])
{
    struct addrinfo *found;
    int fd = -1;
    if (!resolve_host(host_to_ask(at->host), at->port, until, &found, why))
        return -1;
    for (const struct addrinfo *i = found; i && fd < 0; i = i->ai_next) {
        fd = socket(i->ai_family, i->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, i->ai_protocol);
        if (fd >= 0 && connect_socket(fd, i, until))
            break;
        snprintf(why, RESOLVE_ERROR_MAX, "%s", strerror(errno));
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

/* ---- The question ---- */

static bool read_all(int fd, int64_t until, struct buffer *out)
{
    while (out->len < ANSWER_MOST && wait_for(fd, POLLIN, until)) {
        uint8_t *at = buffer_reserve(out, 4096);
        ssize_t got = recv(fd, at, 4096, 0);
        if (got == 0)
            return true;
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        out->len += got > 0 ? (size_t)got : 0;
    }
    return false;
}

/* What the server answered, with a NUL behind it. False, and why. */
static bool ask(const struct host_port *at, struct buffer *out, char why[RESOLVE_ERROR_MAX])
{
    static const char question[] = "GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n";
    int64_t until = clock_now() + PATIENCE_MS;
    int fd = connect_to(at, until, why);
    if (fd < 0)
        return false;
    /* A new connection has room for so few bytes. */
    bool ok = send(fd, question, strlen(question), MSG_NOSIGNAL) == (ssize_t)strlen(question) &&
              read_all(fd, until, out);
    if (!ok)
        snprintf(why, RESOLVE_ERROR_MAX, "%s", strerror(errno));
    close(fd);
    buffer_add_u8(out, '\0');
    return ok;
}

/* ---- The answer ---- */

static int status_of(const char *answer)
{
    int status = 0;
    return sscanf(answer, "HTTP/1.%*1d %3d", &status) == 1 ? status : 0;
}

/* Prints what is the matter, in the server's own words if it has some. */
static void say_ill(const struct admin_config *config, const char *answer)
{
    const char *body = strstr(answer, "\r\n\r\n");
    cJSON *problem = body ? cJSON_Parse(body + 4) : NULL;
    const cJSON *detail = cJSON_GetObjectItem(problem, "detail");
    if (cJSON_IsString(detail))
        command_error("not healthy: %s", detail->valuestring);
    else
        command_error("not healthy: what answers at %s is not onlyonce", config->listen);
    cJSON_Delete(problem);
}

static int ask_for_health(const struct config *config)
{
    const struct admin_config *admin = &config->admin;
    if (!admin->listen) {
        command_error("%s has no admin.listen, so nobody can be asked; set it to 127.0.0.1:8080",
                      config->file);
        return EXIT_USAGE;
    }
    char why[RESOLVE_ERROR_MAX] = "";
    struct buffer answer = {0};
    int code = EXIT_NOT;
    if (!ask(&admin->at, &answer, why)) {
        command_error("not healthy: %s: %s", admin->listen, why);
    } else if (status_of((const char *)answer.data) == 200) {
        puts("healthy");
        code = EXIT_OK;
    } else {
        say_ill(admin, (const char *)answer.data);
    }
    buffer_free(&answer);
    return code;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    if (key == ARGP_KEY_INIT)
        state->child_inputs[0] = state->input;
    if (key == ARGP_KEY_ARG)
        argp_error(state, "\"%s\" is too much: health takes no arguments; a file is named by -c",
                   arg);
    return key == ARGP_KEY_INIT || key == ARGP_KEY_ARG ? 0 : ARGP_ERR_UNKNOWN;
}

int command_health(int argc, char **argv)
{
    static const struct argp_child children[] = {{&command_config_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .parser = parse,
        .doc = "Asks the running process at admin.listen whether it is healthy, for containers."
               "\v"
               "Exits with 0 if it is, 1 if it is not, or does not answer within 5 s.",
        .children = children};
    const char *file = NULL;
    argp_parse(&argp, argc, argv, 0, NULL, &file);
    struct config *config = command_config(file);
    int code = config ? ask_for_health(config) : EXIT_USAGE;
    config_free(config);
    return code;
}
