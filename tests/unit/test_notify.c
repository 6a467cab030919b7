/* notify.h: what arrives at a socket like a service manager's. */
#include "notify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PERIOD "20000000" /* microseconds: it is fed every 10 s */

struct manager {
    int fd;
    char folder[32];
    char name[64]; /* for NOTIFY_SOCKET */
};

static void set(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static void forget(void)
{
    set("NOTIFY_SOCKET", NULL);
    set("WATCHDOG_USEC", NULL);
    set("WATCHDOG_PID", NULL);
}

/* Listens at a path, or at an abstract name. */
static void listen_at(struct manager *m, bool abstract)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(m->folder, sizeof m->folder, "/tmp/onlyonce-notify.XXXXXX");
    assert_non_null(mkdtemp(m->folder));
    snprintf(m->name, sizeof m->name, "%s%s/socket", abstract ? "@" : "", m->folder);
    size_t length = strlen(m->name);
    memcpy(at.sun_path, m->name, length);
    if (abstract)
        at.sun_path[0] = '\0';
    m->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(m->fd >= 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    assert_int_equal(bind(m->fd, (const struct sockaddr *)&at, size), 0);
    forget();
    set("NOTIFY_SOCKET", m->name);
}

static void leave(struct manager *m)
{
    close(m->fd);
    if (m->name[0] == '/')
        unlink(m->name);
    rmdir(m->folder);
    forget();
}

/* The next datagram; "" if there is none. */
static const char *heard(const struct manager *m)
{
    static char text[1024];
    ssize_t n = recv(m->fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void all_messages(bool abstract)
{
    struct manager m;
    struct notify n;
    listen_at(&m, abstract);
    notify_init(&n);
    assert_true(notify_is_on(&n));
    assert_true(notify_ready(&n));
    assert_string_equal(heard(&m), "READY=1\n");
    notify_status(&n, "relays, routes: %d", 2);
    assert_string_equal(heard(&m), "STATUS=relays, routes: 2\n");
    notify_stopping(&n);
    assert_string_equal(heard(&m), "STOPPING=1\n");
    assert_string_equal(heard(&m), "");
    assert_string_equal(n.error, "");
    notify_free(&n);
    leave(&m);
}

static void test_path(void **state)
{
    (void)state;
    all_messages(false);
}

static void test_abstract(void **state)
{
    (void)state;
    all_messages(true);
}

static void test_reloading_says_when(void **state)
{
    (void)state;
    struct manager m;
    struct notify n;
    struct timespec now;
    long long micros;
    listen_at(&m, false);
    notify_init(&n);
    notify_reloading(&n);
    clock_gettime(CLOCK_MONOTONIC, &now);
    assert_int_equal(sscanf(heard(&m), "RELOADING=1\nMONOTONIC_USEC=%lld\n", &micros), 1);
    long long age = (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000 - micros;
    assert_in_range(age, 0, 5000000);
    notify_free(&n);
    leave(&m);
}

static void test_status_once(void **state)
{
    (void)state;
    struct manager m;
    struct notify n;
    char longest[4 * NOTIFY_TEXT_MAX];
    listen_at(&m, false);
    notify_init(&n);
    notify_status(&n, "one");
    notify_status(&n, "one");
    notify_status(&n, "two");
    assert_string_equal(heard(&m), "STATUS=one\n");
    assert_string_equal(heard(&m), "STATUS=two\n");
    assert_string_equal(heard(&m), "");
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    notify_status(&n, "%s", longest);
    assert_int_equal(strlen(heard(&m)), strlen("STATUS=\n") + NOTIFY_TEXT_MAX - 1);
    notify_free(&n);
    leave(&m);
}

static void test_watchdog(void **state)
{
    (void)state;
    struct manager m;
    struct notify n;
    char pid[24];
    listen_at(&m, false);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    set("WATCHDOG_USEC", PERIOD);
    set("WATCHDOG_PID", pid);
    notify_init(&n);
    assert_int_equal(notify_turn(&n, 1000, false), 11000);
    assert_string_equal(heard(&m), "WATCHDOG=1\n");
    assert_int_equal(notify_turn(&n, 10999, false), 11000);
    assert_string_equal(heard(&m), "");
    assert_int_equal(notify_turn(&n, 11000, false), 21000);
    assert_string_equal(heard(&m), "WATCHDOG=1\n");
    /* While it hangs nothing is sent, and as soon as it goes on, it is. */
    assert_int_equal(notify_turn(&n, 21000, true), 22000);
    assert_int_equal(notify_turn(&n, 22000, true), 23000);
    assert_string_equal(heard(&m), "");
    assert_int_equal(notify_turn(&n, 23000, false), 33000);
    assert_string_equal(heard(&m), "WATCHDOG=1\n");
    notify_free(&n);
    leave(&m);
}

static void test_watchdog_settings(void **state)
{
    (void)state;
    static const struct {
        const char *label, *micros, *pid;
        int64_t want;
        bool bad;
    } rows[] = {
        {"none", NULL, NULL, 0, false},
        {"half of it", "3000000", NULL, 1500, false},
        {"another process's", "3000000", "1", 0, false},
        {"the shortest", "2000", NULL, 1, false},
        {"too short", "1999", NULL, 0, true},
        {"no number", "soon", NULL, 0, true},
        {"empty", "", NULL, 0, true},
        {"negative", "-3000000", NULL, 0, true},
        {"more than a number", "3000000s", NULL, 0, true},
        {"too large", "99999999999999999999", NULL, 0, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct manager m;
        struct notify n;
        listen_at(&m, false);
        set("WATCHDOG_USEC", rows[i].micros);
        set("WATCHDOG_PID", rows[i].pid);
        notify_init(&n);
        if (n.watchdog != rows[i].want || (*n.error != '\0') != rows[i].bad)
            fail_msg("%s: %lld ms, \"%s\"", rows[i].label, (long long)n.watchdog, n.error);
        assert_true(notify_is_on(&n));
        notify_free(&n);
        leave(&m);
    }
}

static void test_nobody_listens(void **state)
{
    (void)state;
    struct notify n;
    forget();
    notify_init(&n);
    assert_false(notify_is_on(&n));
    assert_false(notify_ready(&n));
    notify_status(&n, "it is");
    assert_int_equal(notify_turn(&n, 1, false), INT64_MAX);
    assert_string_equal(n.error, "");
    notify_free(&n);
}

static void test_rubbish(void **state)
{
    (void)state;
    char longest[300];
    memset(longest, 'x', sizeof longest);
    longest[0] = '/';
    longest[sizeof longest - 1] = '\0';
    const char *names[] = {"rubbish", "/", "@", "vsock:2:1", " /run/x", longest};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct notify n;
        forget();
        set("NOTIFY_SOCKET", names[i]);
        notify_init(&n);
        assert_false(notify_is_on(&n));
        assert_non_null(strstr(n.error, "NOTIFY_SOCKET"));
        assert_false(notify_ready(&n));
        notify_free(&n);
    }
    forget();
}

/* Said once; and when it is heard again, all goes on. */
static void test_listener_goes(void **state)
{
    (void)state;
    struct manager m;
    struct notify n;
    listen_at(&m, false);
    set("WATCHDOG_USEC", PERIOD);
    notify_init(&n);
    unlink(m.name);
    assert_false(notify_ready(&n));
    assert_string_equal(n.error, "NOTIFY_SOCKET: No such file or directory");
    n.error[0] = '\0';
    notify_status(&n, "waits");
    assert_int_equal(notify_turn(&n, 1000, false), 2000);
    assert_string_equal(n.error, "");
    leave(&m);
    listen_at(&m, false);
    memcpy(n.to.sun_path, m.name, strlen(m.name)); /* of the same length */
    assert_true(notify_ready(&n));
    assert_string_equal(heard(&m), "READY=1\n");
    notify_status(&n, "waits");
    assert_string_equal(heard(&m), "STATUS=waits\n");
    notify_free(&n);
    leave(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_path),
        cmocka_unit_test(test_abstract),
        cmocka_unit_test(test_reloading_says_when),
        cmocka_unit_test(test_status_once),
        cmocka_unit_test(test_watchdog),
        cmocka_unit_test(test_watchdog_settings),
        cmocka_unit_test(test_nobody_listens),
        cmocka_unit_test(test_rubbish),
        cmocka_unit_test(test_listener_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
