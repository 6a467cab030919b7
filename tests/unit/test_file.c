#include "file.h"

#include "clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <assert.h>
#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/onlyonce-test-XXXXXX";
static char path[sizeof folder + 16];

/* What is read, or the error, with a final NUL. */
static struct buffer read_it(size_t limit)
{
    char error[256];
    struct buffer out = {0};
    const char *bad = file_read(path, limit, &out, error);
    if (bad) {
        buffer_clear(&out);
        buffer_add(&out, bad, strlen(bad));
    }
    buffer_add_u8(&out, '\0');
    return out;
}

static void expect(size_t limit, const char *want)
{
    struct buffer got = read_it(limit);
    assert_string_equal((const char *)got.data, want);
    buffer_free(&got);
}

static void test_files(void **state)
{
    (void)state;
    unlink(path);
    expect(10, "cannot be read: No such file or directory");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs("0123456789", f) >= 0);
    assert_int_equal(fclose(f), 0);
    expect(10, "0123456789");
    expect(9, "is larger than 0 KiB, the most that is read");
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    expect(10, "cannot be read: Is a directory");
    rmdir(path);
}

static void make_pipe(void)
{
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
}

/* SIGHUP must not wait for ever for somebody who writes. */
static void test_a_pipe_that_nobody_writes_is_empty(void **state)
{
    (void)state;
    make_pipe();
    alarm(10);
    expect(10, "");
    alarm(0);
}

static void test_a_pipe_whose_writer_is_silent_is_given_up(void **state)
{
    (void)state;
    make_pipe();
    int writer = open(path, O_RDWR);
    assert_true(writer >= 0);
    assert_int_equal(write(writer, "part", 4), 4);
    int64_t start = clock_now();
    alarm(20);
    expect(10, "cannot be read: it has no end within 5 s");
    alarm(0);
    assert_in_range(clock_now() - start, 4900, 15000);
    close(writer);
}

static void *write_slowly(void *writer)
{
    int fd = *(int *)writer;
    for (int i = 0; i < 3; i++) {
        usleep(50000);
        assert(write(fd, "ab", 2) == 2);
    }
    close(fd);
    return NULL;
}

static void test_a_slow_writer_is_waited_for(void **state)
{
    (void)state;
    make_pipe();
    int reader = open(path, O_RDONLY | O_NONBLOCK); /* so that the writer can open it */
    int writer = open(path, O_WRONLY);
    pthread_t thread;
    assert_true(reader >= 0 && writer >= 0);
    assert_int_equal(pthread_create(&thread, NULL, write_slowly, &writer), 0);
    expect(10, "ababab");
    pthread_join(thread, NULL);
    close(reader);
}

static int set_up(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_a_pipe_that_nobody_writes_is_empty),
        cmocka_unit_test(test_a_pipe_whose_writer_is_silent_is_given_up),
        cmocka_unit_test(test_a_slow_writer_is_waited_for),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
