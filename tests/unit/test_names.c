/*
 * A name of two addresses, of which the first takes connections and says nothing: store_redis, the
 * wire and the link to a broker come to the other one. getaddrinfo() is this file's.
 */
#include "amqp.h"
#include "peer.h"
#include "redis_server.h"
#include "resolve.h"
#include "store.h"
#include "wire.h"

#include "clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char text_name[] = "test";
static char text_prefix[] = "oo";
static char text_two[] = "two";

static struct redis_server server;
static int mute; /* at 127.0.0.2, with the server's port */

typedef int look_up(const char *host, const char *service, const struct addrinfo *hints,
                    struct addrinfo **out);

/* The linker takes it for the C library's, which answers for what is an address. */
look_up our_getaddrinfo __asm__("getaddrinfo");

int our_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                    struct addrinfo **out)
{
    look_up *real;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (strcmp(host, text_two) != 0)
        return real(host, service, hints, out);
    if (hints->ai_flags & AI_NUMERICHOST)
        return EAI_NONAME;
    int code = real("127.0.0.2", service, hints, out);
    return code ? code : real("127.0.0.1", service, hints, &(*out)->ai_next);
}

/* At 127.0.0.2. */
static int listen_mutely(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    inet_pton(AF_INET, "127.0.0.2", &at.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 10) == 0)
        return fd;
    close(fd);
    return -1;
}

static int start_servers(void **state)
{
    (void)state;
    redis_server_create(&server);
    redis_server_start(&server, NULL);
    mute = listen_mutely(server.port);
    return mute < 0;
}

static int stop_servers(void **state)
{
    (void)state;
    close(mute);
    redis_server_remove(&server);
    return 0;
}

static void a_store_of_two_addresses(void **state)
{
    struct store_config config = {.name = text_name, .prefix = text_prefix, .timeout = 500};
    bool permanent;
    (void)state;
    config.parsed = (struct store_url){.kind = STORE_REDIS, .host = text_two, .port = server.port};
    struct store *s = store_new(&config, "scope");
    bool first = store_open(s, &permanent);
    bool said = !first && strstr(store_error(s), "no answer within") != NULL;
    bool second = store_open(s, &permanent);
    bool again = store_open(s, &permanent);
    store_free(s);
    assert_true(said && second && again);
}

static void connects_to(size_t turn, const char *want)
{
    struct wire w;
    struct sockaddr_in peer;
    socklen_t size = sizeof peer;
    char text[INET_ADDRSTRLEN];
    assert_true(wire_open(&w, text_two, server.port, NULL, turn, clock_now() + 5000));
    assert_int_equal(getpeername(w.fd, (struct sockaddr *)&peer, &size), 0);
    inet_ntop(AF_INET, &peer.sin_addr, text, sizeof text);
    wire_close(&w);
    assert_string_equal(text, want);
}

static void a_wire_to_two_addresses(void **state)
{
    (void)state;
    connects_to(0, "127.0.0.2");
    connects_to(1, "127.0.0.1");
    connects_to(2, "127.0.0.2");
    connects_to(SIZE_MAX, "127.0.0.1");
}

static void a_link_to_two_addresses(void **state)
{
    struct peer peer;
    peer_open(&peer);
    peer.url.host = text_two;
    int silent = listen_mutely(peer.url.port);
    struct link *l = link_new(&peer.config.broker, "test");
    assert_false(link_open(l));
    assert_non_null(strstr(link_error(l), "no answer in time"));
    link_close(l, 0);
    peer_serve(&peer);
    if (!link_open(l))
        fail_msg("%s", link_error(l));
    peer_served(&peer);
    link_free(l);
    peer_close(&peer);
    close(silent);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_of_two_addresses),
        cmocka_unit_test(a_wire_to_two_addresses),
        cmocka_unit_test(a_link_to_two_addresses),
    };
    return cmocka_run_group_tests(tests, start_servers, stop_servers);
}
