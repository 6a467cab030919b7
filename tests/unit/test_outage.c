/* outage.h: what is said, when it is tried again. */
#include "outage.h"

#include "clock.h"
#include "log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the log gets while `run` runs, in `said`. */
static char said[4096];

static void capture(void (*run)(struct outage *, uint64_t *), struct outage *o, uint64_t *random)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    int saved = dup(STDERR_FILENO);
    assert_true(saved >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    run(o, random);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    said[fread(said, 1, sizeof said - 1, file)] = '\0';
    fclose(file);
}

static size_t lines(const char *with)
{
    size_t n = 0;
    for (const char *at = said; (at = strstr(at, with)); at++)
        n++;
    return n;
}

static void go_down_four_times(struct outage *o, uint64_t *random)
{
    assert_false(outage_begins(o, random, "connection refused", false));
    assert_false(outage_begins(o, random, "connection refused", false));
    assert_false(outage_begins(o, random, "the login was refused", true));
    assert_false(outage_begins(o, random, "the login was refused", true));
}

static void come_back_and_go(struct outage *o, uint64_t *random)
{
    outage_ends(o, "a server");
    outage_begins(o, random, "the login was refused", false);
}

static void each_reason_is_said_once(void **state)
{
    (void)state;
    uint64_t random = 1;
    struct outage o = {.route = "r", .link = "sink", .ever_up = true};
    capture(go_down_four_times, &o, &random);
    assert_int_equal(lines("\n"), 2);
    assert_int_equal(lines("connection lost, reconnecting"), 1);
    assert_int_equal(lines("still not connected"), 1);
    assert_int_equal(lines("the login was refused"), 1);
    /* The next outage is another one, though its reason was said before. */
    capture(come_back_and_go, &o, &random);
    assert_int_equal(lines("msg=connected"), 1);
    assert_int_equal(lines("connection lost, reconnecting"), 1);
    assert_int_equal(lines("the login was refused"), 1);
}

static void refuse(struct outage *o, uint64_t *random)
{
    assert_true(outage_begins(o, random, "no such user", true));
}

static void wait_and_come(struct outage *o, uint64_t *random)
{
    assert_false(outage_begins(o, random, "no such user", true));
    assert_false(outage_ends(o, "a server")); /* It is the first time, not again. */
}

static void a_refusal_ends_only_what_never_was_up(void **state)
{
    (void)state;
    uint64_t random = 1;
    struct outage o = {.route = "r", .link = "sink"};
    capture(refuse, &o, &random);
    assert_int_equal(lines("cannot start"), 1);
    struct outage patient = {.route = "r", .link = "sink", .patient = true};
    capture(wait_and_come, &patient, &random);
    assert_int_equal(lines("cannot connect yet, trying on"), 1);
}

static void go_down(struct outage *o, uint64_t *random)
{
    outage_begins(o, random, "away", false);
}

/* From 100 ms, doubling, to 30 s, each a random part of its upper half. */
static void delays_grow(void **state)
{
    (void)state;
    uint64_t random = 1;
    struct outage o = {.link = "store"};
    int64_t most = 100;
    for (int i = 0; i < 20; i++) {
        int64_t before = clock_now();
        capture(go_down, &o, &random);
        int64_t delay = o.next_try - before;
        assert_in_range(delay, most / 2, most + 1000);
        assert_false(outage_is_due(&o, o.next_try - 1));
        assert_true(outage_is_due(&o, o.next_try));
        most = most * 2 > 30000 ? 30000 : most * 2;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_reason_is_said_once),
        cmocka_unit_test(a_refusal_ends_only_what_never_was_up),
        cmocka_unit_test(delays_grow),
    };
    log_setup(LOG_LEVEL_INFO, LOG_FORMAT_LOGFMT);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
