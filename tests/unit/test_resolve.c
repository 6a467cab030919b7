/* resolve.h: within a time, whatever the name servers do. getaddrinfo() is this file's. */
#include "resolve.h"

#include "clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static atomic_int ended;   /* lookups that took their time */
static atomic_bool let_go; /* those that are held up may end */

static void pause_ms(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static struct addrinfo *one_address(const char *text)
{
    struct addrinfo *a = calloc(1, sizeof *a);
    struct sockaddr_in *in = calloc(1, sizeof *in);
    in->sin_family = AF_INET;
    inet_pton(AF_INET, text, &in->sin_addr);
    a->ai_addr = (struct sockaddr *)in;
    a->ai_addrlen = sizeof *in;
    return a;
}

/* The linker takes these for the C library's. */
void our_freeaddrinfo(struct addrinfo *a) __asm__("freeaddrinfo");
int our_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                    struct addrinfo **out) __asm__("getaddrinfo");

void our_freeaddrinfo(struct addrinfo *a)
{
    free(a->ai_addr);
    free(a);
}

int our_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                    struct addrinfo **out)
{
    (void)service;
    bool numeric = host[0] >= '0' && host[0] <= '9';
    if (hints->ai_flags & AI_NUMERICHOST && !numeric)
        return EAI_NONAME;
    if (strcmp(host, "unknown") == 0)
        return EAI_NONAME;
    if (strcmp(host, "broken") == 0) {
        errno = ECONNREFUSED;
        return EAI_SYSTEM;
    }
    if (strcmp(host, "slow") == 0) {
        pause_ms(700);
    }
    if (strcmp(host, "held up") == 0) {
        while (!atomic_load(&let_go))
            pause_ms(10);
        atomic_fetch_add(&ended, 1);
    }
    *out = one_address(numeric ? host : "192.0.2.7");
    return 0;
}

static void finds(const char *host, const char *want)
{
    struct addrinfo *found;
    char error[RESOLVE_ERROR_MAX] = "";
    char text[64];
    if (!resolve_host(host, 80, clock_now() + 5000, &found, error))
        fail_msg("%s: %s", host, error);
    assert_non_null(found);
    assert_int_equal(
        getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST),
        0);
    assert_string_equal(text, want);
    freeaddrinfo(found);
}

static void names_and_addresses(void **state)
{
    (void)state;
    finds("127.0.0.1", "127.0.0.1");
    finds("a-name", "192.0.2.7");
    finds("slow", "192.0.2.7"); /* but in time */
}

static void what_fails_is_said(void **state)
{
    static const struct {
        const char *host, *want;
    } cases[] = {{"unknown", "Name or service not known"}, {"broken", "Connection refused"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct addrinfo *found;
        char error[RESOLVE_ERROR_MAX] = "";
        assert_false(resolve_host(cases[i].host, 80, clock_now() + 5000, &found, error));
        assert_string_equal(error, cases[i].want);
    }
}

static void a_slow_name_server_holds_up_nobody(void **state)
{
    (void)state;
    struct addrinfo *found;
    char error[RESOLVE_ERROR_MAX] = "";
    int before = atomic_load(&ended);
    int64_t began = clock_now();
    assert_false(resolve_host("held up", 80, began + 100, &found, error));
    assert_true(clock_now() - began >= 90);
    assert_string_equal(error, "its name was not resolved in time");
    assert_int_equal(atomic_load(&ended), before);
    /* It ends by itself, and frees what it has. */
    atomic_store(&let_go, true);
    for (int i = 0; i < 1000 && atomic_load(&ended) == before; i++)
        pause_ms(10);
    assert_int_equal(atomic_load(&ended), before + 1);
    pause_ms(50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_addresses),
        cmocka_unit_test(what_fails_is_said),
        cmocka_unit_test(a_slow_name_server_holds_up_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
