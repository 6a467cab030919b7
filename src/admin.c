#include "admin.h"

#include "admin_inside.h"
#include "clock.h"
#include "resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MOST 64U
#define CONNECTIONS_OF_ONE_ADDRESS 32U
#define IDLE_SECONDS 10U
#define RESOLVE_MS 5000
#define ANSWER_PATIENCE_MS 3000 /* for what is being answered, at the end */
#define REQUEST_MOST_MS 20000   /* for a request to come in, and for its answer to be taken */
#define REQUEST_BYTES ((size_t)16 * 1024) /* of its line and headers */
#define BODY_MOST ((size_t)64 * 1024)     /* who sends more than this is not even told so */
#define THREAD_STACK ((size_t)256 * 1024)

/* A connection, for those who wait for too long. libmicrohttpd itself only sees the time between
 * two bytes, so a client that trickles them would keep its connection for hours. */
struct watched {
    int fd;        /* -1: this one is free */
    int64_t since; /* clock_now() when the time of the request, or of its answer, began; INT64_MAX:
                      it is being answered */
};

struct admin {
    struct admin_served served;
    struct MHD_Daemon *daemon;
    pthread_mutex_t lock; /* of what follows */
    struct watched watched[2 * CONNECTIONS_MOST];
};

/* ---- Slow clients ---- */

static void open_or_closed(void *context, struct MHD_Connection *connection, void **socket_context,
                           enum MHD_ConnectionNotificationCode what)
{
    struct admin *a = context;
    struct watched *w = *socket_context;
    pthread_mutex_lock(&a->lock);
    switch (what) {
    case MHD_CONNECTION_NOTIFY_STARTED:
        for (size_t i = 0; i < sizeof a->watched / sizeof *a->watched && !w; i++)
            w = a->watched[i].fd < 0 ? &a->watched[i] : NULL;
        if (w)
            *w = (struct watched){
                .fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)
                          ->connect_fd,
                .since = clock_now()};
        *socket_context = w;
        break;
    case MHD_CONNECTION_NOTIFY_CLOSED: /* Its descriptor is closed after this. */
        if (w)
            w->fd = -1;
        break;
    }
    pthread_mutex_unlock(&a->lock);
}

static void set_since(struct admin *a, struct MHD_Connection *connection, int64_t since)
{
    struct watched *w =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    pthread_mutex_lock(&a->lock);
    if (w)
        w->since = since;
    pthread_mutex_unlock(&a->lock);
}

void admin_watch(struct admin *a)
{
    if (!a)
        return;
    int64_t now = clock_now();
    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < sizeof a->watched / sizeof *a->watched; i++)
        if (a->watched[i].fd >= 0 && now - a->watched[i].since > REQUEST_MOST_MS)
            shutdown(a->watched[i].fd, SHUT_RDWR);
    pthread_mutex_unlock(&a->lock);
}

/* ---- Requests ---- */

/* What came of a request's body so far. */
struct upload {
    struct buffer body;
    size_t len; /* of all that came */
};

static enum MHD_Result add_header(struct MHD_Response *response, const char *name,
                                  const char *value)
{
    return value ? MHD_add_response_header(response, name, value) : MHD_YES;
}

static enum MHD_Result send_answer(struct MHD_Connection *connection, struct admin_answer *answer)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(answer->body.len, answer->body.data, MHD_RESPMEM_MUST_COPY);
    if (!response)
        return MHD_NO;
    const char *challenge = answer->wrong_token
                                ? "Bearer realm=\"onlyonce\", error=\"invalid_token\""
                                : "Bearer realm=\"onlyonce\"";
    bool ok = add_header(response, "Content-Type", answer->content_type) &&
              add_header(response, "Allow", answer->allow) &&
              add_header(response, "WWW-Authenticate", answer->challenge ? challenge : NULL) &&
              add_header(response, "Content-Security-Policy", answer->policy) &&
              add_header(response, "Cache-Control", answer->policy ? "no-cache" : "no-store") &&
              add_header(response, "Referrer-Policy", "no-referrer") &&
              add_header(response, "X-Content-Type-Options", "nosniff");
    enum MHD_Result result = ok ? MHD_queue_response(connection, answer->status, response) : MHD_NO;
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result find_stray(void *context, enum MHD_ValueKind kind, const char *name,
                                  const char *value)
{
    (void)kind;
    const char **stray = context;
    if (!value || (strcmp(name, "force") != 0 && strcmp(name, "first_seen") != 0))
        *stray = name;
    return MHD_YES;
}

static enum MHD_Result answer(struct admin *a, struct MHD_Connection *connection, const char *path,
                              const char *method, const struct upload *upload)
{
    struct admin_request request = {
        .method = method,
        .path = path,
        .authorization = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization"),
        .host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host"),
        .force = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "force"),
        .first_seen = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "first_seen"),
        .body = buffer_span(&upload->body),
        .body_too_large = upload->len > STORE_RESULT_MAX,
    };
    MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, find_stray, &request.stray);
    struct admin_answer out;
    set_since(a, connection, INT64_MAX);
    admin_answer(&a->served, &request, &out);
    set_since(a, connection, clock_now());
    enum MHD_Result result = send_answer(connection, &out);
    buffer_free(&out.body);
    return result;
}

/* What the client announces, before it sends it; 0: nothing. */
static size_t announced(struct MHD_Connection *connection)
{
    const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
    return length ? (size_t)strtoull(length, NULL, 10) : 0;
}

/* Called once for the headers, then for each piece of the body, and for the end. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
                                  const char *path, const char *method, const char *version,
                                  const char *data, size_t *size, void **request_context)
{
    (void)version;
    struct upload *upload = *request_context;
    if (!upload) {
        *request_context = upload = xcalloc(1, sizeof *upload);
        upload->len = announced(connection);
        if (upload->len > STORE_RESULT_MAX)
            return answer(context, connection, path, method, upload);
        upload->len = 0;
        return MHD_YES;
    }
    if (*size == 0)
        return answer(context, connection, path, method, upload);
    upload->len += *size;
    if (upload->len <= STORE_RESULT_MAX)
        buffer_add(&upload->body, data, *size);
    *size = 0;
    return upload->len <= BODY_MOST ? MHD_YES : MHD_NO;
}

static void on_end(void *context, struct MHD_Connection *connection, void **request_context,
                   enum MHD_RequestTerminationCode code)
{
    (void)code;
    struct upload *upload = *request_context;
    if (upload)
        buffer_free(&upload->body);
    free(upload);
    *request_context = NULL;
    set_since(context, connection, clock_now());
}

/* Percent encoding is undone by admin_answer.c, once it knows what is a segment. */
static size_t leave_encoded(void *context, struct MHD_Connection *connection, char *text)
{
    (void)context;
    (void)connection;
    return strlen(text);
}

/* ---- Listening ---- */

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof in);
        return ntohl(in.sin_addr.s_addr) >> 24 == 127;
    }
    struct sockaddr_in6 in6;
    memcpy(&in6, address, sizeof in6);
    return IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr);
}

static int listen_at(const struct addrinfo *at)
{
    const int on = 1;
    int fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

/* The listening socket, at the first address of that name that can be had; -1: none. */
static int open_socket(const struct host_port *at, bool *loopback, char error[ADMIN_ERROR_MAX])
{
    struct addrinfo *found;
    char why[RESOLVE_ERROR_MAX];
    int fd = -1;
    if (!resolve_host(at->host, at->port, clock_now() + RESOLVE_MS, &found, why)) {
        snprintf(error, ADMIN_ERROR_MAX, "%s", why);
        return -1;
    }
    for (const struct addrinfo *i = found; i && fd < 0; i = i->ai_next) {
        fd = listen_at(i);
        *loopback = is_loopback(i->ai_addr);
    }
    if (fd < 0)
        snprintf(error, ADMIN_ERROR_MAX, "%s", strerror(errno));
    freeaddrinfo(found);
    return fd;
}

/* ---- Life ---- */

static struct MHD_Daemon *start_daemon(struct admin *a, int fd)
{
    return MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL |
            MHD_USE_ITC,
        0, NULL, NULL, on_request, a, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
        CONNECTIONS_MOST, MHD_OPTION_PER_IP_CONNECTION_LIMIT, CONNECTIONS_OF_ONE_ADDRESS,
        MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        REQUEST_BYTES, MHD_OPTION_THREAD_STACK_SIZE, THREAD_STACK, MHD_OPTION_UNESCAPE_CALLBACK,
        leave_encoded, NULL, MHD_OPTION_NOTIFY_COMPLETED, on_end, a, MHD_OPTION_NOTIFY_CONNECTION,
        open_or_closed, a, MHD_OPTION_END);
}

struct admin *admin_start(const struct config *config, struct route_stats *const *stats,
                          struct report_stats *reports, char error[ADMIN_ERROR_MAX])
{
    bool loopback = false;
    int fd = open_socket(&config->admin.at, &loopback, error);
    if (fd < 0)
        return NULL;
    struct admin *a = xcalloc(1, sizeof *a);
    pthread_mutex_init(&a->lock, NULL);
    for (size_t i = 0; i < sizeof a->watched / sizeof *a->watched; i++)
        a->watched[i].fd = -1;
    admin_served_init(&a->served, config, stats, reports, loopback);
    a->daemon = start_daemon(a, fd);
    if (a->daemon)
        return a;
    snprintf(error, ADMIN_ERROR_MAX, "no thread for it can be started: %s", strerror(errno));
    close(fd);
    admin_stop(a);
    return NULL;
}

static bool is_answering(struct admin *a)
{
    bool answering = false;
    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < sizeof a->watched / sizeof *a->watched; i++)
        answering = answering || (a->watched[i].fd >= 0 && a->watched[i].since == INT64_MAX);
    pthread_mutex_unlock(&a->lock);
    return answering;
}

/* The library would cut off requests that are being answered, and a client would not know whether
 * its key was released. */
static void end_daemon(struct admin *a)
{
    int64_t until = clock_now() + ANSWER_PATIENCE_MS;
    int fd = MHD_quiesce_daemon(a->daemon);
    while (is_answering(a) && clock_now() < until)
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    if (clock_now() < until) /* The last answer is still to be written. */
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    MHD_stop_daemon(a->daemon);
    if (fd >= 0)
        close(fd);
}

void admin_stop(struct admin *a)
{
    if (!a)
        return;
    if (a->daemon)
        end_daemon(a);
    admin_served_free(&a->served);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

void admin_stopping(struct admin *a)
{
    if (a)
        atomic_store(&a->served.stopping, true);
}
