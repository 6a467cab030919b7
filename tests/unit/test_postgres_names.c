/*
 * Names of PostgreSQL servers, whatever the name servers do: store_postgres answers within its
 * timeout, and finds the server that there is. getaddrinfo() is this file's, for libpq, too.
 */
#include "postgres_server.h"
#include "store.h"

#include "clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_MS 1000
#define SILENCE_S 4

static char text_name[] = "test";
static char text_prefix[] = "oo";

static struct postgres_server server;
static int mute = -1; /* at 127.0.0.2: takes connections, and says nothing */

typedef int look_up(const char *host, const char *service, const struct addrinfo *hints,
                    struct addrinfo **out);

static int look_up_two(look_up *real, const char *service, const struct addrinfo *hints,
                       struct addrinfo **out)
{
    int code = real("127.0.0.2", service, hints, out);
    return code ? code : real("127.0.0.1", service, hints, &(*out)->ai_next);
}

/* The linker takes it for the C library's, which answers for what is an address. */
look_up our_getaddrinfo __asm__("getaddrinfo");

int our_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                    struct addrinfo **out)
{
    look_up *real;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    bool looks = !(hints->ai_flags & AI_NUMERICHOST) && (*host < '0' || *host > '9');
    if (looks && strcmp(host, "silent") == 0)
        nanosleep(&(struct timespec){.tv_sec = SILENCE_S}, NULL);
    if (looks && strcmp(host, "here") == 0)
        return real("127.0.0.1", service, hints, out);
    if (looks && strcmp(host, "local") == 0)
        return real("localhost", service, hints, out); /* perhaps of two addresses */
    if (looks && strcmp(host, "mute") == 0)
        return real("127.0.0.2", service, hints, out);
    if (looks && strcmp(host, "two") == 0)
        return look_up_two(real, service, hints, out);
    return looks ? EAI_NONAME : real(host, service, hints, out);
}

static int start_server(void **state)
{
    (void)state;
    postgres_server_create(&server);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)server.port)};
    inet_pton(AF_INET, "127.0.0.2", &at.sin_addr);
    mute = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return bind(mute, (struct sockaddr *)&at, sizeof at) == 0 ? listen(mute, 10) : -1;
}

static int remove_server(void **state)
{
    (void)state;
    close(mute);
    postgres_server_remove(&server);
    return 0;
}

static const struct {
    const char *hosts, *more; /* with the server's port in between */
    int tries;                /* one succeeds by then; 0: none does */
    const char *error;        /* of those that fail */
} cases[] = {
    {"here", "", 1, NULL},
    {"local", "", 1, NULL},
    {"127.0.0.1", "", 1, NULL},
    {"unknown", "", 0, "unknown: Name or service not known"},
    {"silent", "", 0, "silent: its name was not resolved in time"},
    {"unknown,here", "", 1, NULL},
    {"here", ",unknown", 1, NULL},
    {"silent,here", "", 2, "here: its name was not resolved in time"},
    {"here", ",silent", 1, NULL},
    {"here:1,here", "", 1, NULL},
    {"mute", "", 0, "no answer within"},
    {"two", "", 2, "no answer within"},
};

/* Opens it, at most three times. */
static void opens(const char *url, int tries, const char *error)
{
    struct store_config config = {.name = text_name, .prefix = text_prefix, .timeout = TIMEOUT_MS};
    bool permanent, open = false;
    config.parsed = (struct store_url){.kind = STORE_POSTGRES, .postgres = xstrdup(url)};
    struct store *s = store_new(&config, "scope");
    for (int i = 1; i <= 3 && !open; i++) {
        int64_t began = clock_now();
        open = store_open(s, &permanent);
        if (open ? tries == 0 : i == tries)
            fail_msg("%s: try %d: %s", url, i, open ? "succeeds" : store_error(s));
        if (clock_now() - began > SILENCE_S * 1000 - 500)
            fail_msg("%s: takes %d ms", url, (int)(clock_now() - began));
        if (!open && !strstr(store_error(s), error))
            fail_msg("%s: says: %s", url, store_error(s));
        if (!open && permanent)
            fail_msg("%s: a name that is not known may be known later", url);
    }
    store_free(s);
    free(config.parsed.postgres);
}

static void names(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char url[120];
        snprintf(url, sizeof url, "postgresql://onlyonce@%s:%d%s/postgres", cases[i].hosts,
                 server.port, cases[i].more);
        opens(url, cases[i].tries, cases[i].error);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names)};
    return cmocka_run_group_tests(tests, start_server, remove_server);
}
