/*
 * Metrics: what is written of counters, workers and histograms.
 */
#include "metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NOW 1000000

/* One route with two workers. */
struct bench {
    struct config config;
    struct route_config route;
    struct route_stats stats;
    struct route_stats *all_stats; /* a list of one */
    struct report_stats reports;
    struct buffer out;
};

static int set_up(void **state)
{
    static char a[] = "a = message_id";
    static char other[] = "b = type";
    static char again[] = "a = app_id";
    char *lines[] = {a, other, again};
    static char name[] = "pay";
    struct bench *b = calloc(1, sizeof *b);
    size_t bad;
    char error[256];
    b->route.name = name;
    b->route.key_rule = key_compile(lines, 3, &bad, error);
    assert_non_null(b->route.key_rule);
    b->config = (struct config){.routes = &b->route, .route_count = 1};
    stats_init(&b->stats, 2);
    b->all_stats = &b->stats;
    vitals_init(&b->reports.vitals);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    key_rule_free(b->route.key_rule);
    stats_free(&b->stats);
    vitals_free(&b->reports.vitals);
    buffer_free(&b->out);
    free(b);
    return 0;
}

static const char *write_all(struct bench *b)
{
    buffer_clear(&b->out);
    metrics_write(&b->config, &b->all_stats, &b->reports, NOW, &b->out);
    buffer_add_u8(&b->out, '\0');
    return (const char *)b->out.data;
}

static void has_line(struct bench *b, const char *line)
{
    char whole[256];
    snprintf(whole, sizeof whole, "\n%s\n", line);
    if (!strstr(write_all(b), whole))
        fail_msg("no line \"%s\" in:\n%s", line, (const char *)b->out.data);
}

static void every_series_is_there_from_the_beginning(void **state)
{
    struct bench *b = *state;
    static const char *const lines[] = {
        "onlyonce_deliveries_total{route=\"pay\"} 0",
        "onlyonce_outcomes_total{route=\"pay\",outcome=\"conflict\"} 0",
        "onlyonce_parked_total{route=\"pay\",reason=\"in_doubt\"} 0",
        "onlyonce_marks_total{route=\"pay\",mark=\"unchecked\"} 0",
        "onlyonce_keys_total{route=\"pay\",alternative=\"b\"} 0",
        "onlyonce_messages{route=\"pay\",place=\"held\"} 0",
        "onlyonce_oldest_message_seconds{route=\"pay\"} 0.000",
        "onlyonce_connection_up{route=\"pay\",link=\"store\"} 0",
        "onlyonce_blocked{route=\"pay\"} 0",
        "onlyonce_claim_duration_seconds_bucket{route=\"pay\",le=\"+Inf\"} 0",
        "onlyonce_duplicate_age_seconds_count{route=\"pay\"} 0",
        "onlyonce_reports_total{answer=\"completed\"} 0",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        has_line(b, lines[i]);
    assert_null(strstr(write_all(b), "reason=\"bad_result\""));
    assert_null(strstr(write_all(b), "link=\"replies\""));
}

static void counters_are_what_was_counted(void **state)
{
    struct bench *b = *state;
    stats_add(&b->stats, STAT_DELIVERIES, UINT64_C(12345678901234567));
    stats_add(&b->stats, STAT_CONFLICTS, 5);
    stats_add(&b->stats, STAT_CONFLICTS_DROPPED, 2);
    stats_count(&b->stats.parked[PARK_LOOP]);
    stats_count(&b->stats.reconnects[LINK_SINK]);
    stats_count(&b->reports.released);
    has_line(b, "onlyonce_deliveries_total{route=\"pay\"} 12345678901234567");
    has_line(b, "onlyonce_outcomes_total{route=\"pay\",outcome=\"conflict\"} 2");
    has_line(b, "onlyonce_events_total{route=\"pay\",event=\"conflicts\"} 5");
    has_line(b, "onlyonce_parked_total{route=\"pay\",reason=\"loop\"} 1");
    has_line(b, "onlyonce_reconnects_total{route=\"pay\",link=\"sink\"} 1");
    has_line(b, "onlyonce_reports_total{answer=\"released\"} 1");
}

/* Two series of the same labels would be none. */
static void alternatives_of_one_name_are_one_series(void **state)
{
    struct bench *b = *state;
    for (int i = 0; i < 3; i++)
        stats_count(&b->stats.alternatives[i]);
    stats_count(&b->stats.alternatives[STATS_ALTERNATIVES - 1]);
    has_line(b, "onlyonce_keys_total{route=\"pay\",alternative=\"a\"} 2");
    has_line(b, "onlyonce_keys_total{route=\"pay\",alternative=\"b\"} 1");
    has_line(b, "onlyonce_keys_total{route=\"pay\",alternative=\"(none)\"} 1");
    const char *first = strstr(write_all(b), "alternative=\"a\"");
    assert_null(strstr(first + 1, "alternative=\"a\""));
}

static void workers_are_added_up_or_the_worst_counts(void **state)
{
    struct bench *b = *state;
    struct vitals *w = b->stats.workers;
    atomic_store(&w[0].messages[PLACE_HELD], 3);
    atomic_store(&w[1].messages[PLACE_HELD], 4);
    atomic_store(&w[0].oldest, NOW - 1500);
    atomic_store(&w[1].oldest, NOW - 500);
    atomic_store(&w[0].up[LINK_STORE], true);
    atomic_store(&w[1].up[LINK_STORE], true);
    atomic_store(&w[0].up[LINK_SINK], true);
    atomic_store(&w[1].blocked, true);
    atomic_store(&w[0].endangered, true);
    has_line(b, "onlyonce_messages{route=\"pay\",place=\"held\"} 7");
    has_line(b, "onlyonce_oldest_message_seconds{route=\"pay\"} 1.500");
    has_line(b, "onlyonce_connection_up{route=\"pay\",link=\"store\"} 1");
    has_line(b, "onlyonce_connection_up{route=\"pay\",link=\"sink\"} 0");
    has_line(b, "onlyonce_blocked{route=\"pay\"} 1");
    has_line(b, "onlyonce_store_endangered{route=\"pay\"} 1");
}

static void histograms_add_up(void **state)
{
    struct bench *b = *state;
    static const int64_t us[] = {-5, 0, 500, 501, 1000, 30000000, 30000001, 90000000};
    for (size_t i = 0; i < sizeof us / sizeof *us; i++)
        histogram_add(&b->stats.claims, histogram_short, us[i]);
    histogram_add(&b->stats.duplicate_age, histogram_long, INT64_C(90) * 86400 * 1000000);
    histogram_add(&b->stats.duplicate_age, histogram_long, INT64_C(30) * 86400 * 1000000);
    has_line(b, "onlyonce_claim_duration_seconds_bucket{route=\"pay\",le=\"0.0005\"} 3");
    has_line(b, "onlyonce_claim_duration_seconds_bucket{route=\"pay\",le=\"0.001\"} 5");
    has_line(b, "onlyonce_claim_duration_seconds_bucket{route=\"pay\",le=\"10\"} 5");
    has_line(b, "onlyonce_claim_duration_seconds_bucket{route=\"pay\",le=\"30\"} 6");
    has_line(b, "onlyonce_claim_duration_seconds_bucket{route=\"pay\",le=\"+Inf\"} 8");
    has_line(b, "onlyonce_claim_duration_seconds_count{route=\"pay\"} 8");
    has_line(b, "onlyonce_claim_duration_seconds_sum{route=\"pay\"} 150.002002");
    has_line(b, "onlyonce_duplicate_age_seconds_bucket{route=\"pay\",le=\"2592000\"} 1");
    has_line(b, "onlyonce_duplicate_age_seconds_bucket{route=\"pay\",le=\"+Inf\"} 2");
}

static void labels_are_escaped(void **state)
{
    struct bench *b = *state;
    static char odd[] = "a\"b\\c\nd";
    b->route.name = odd;
    has_line(b, "onlyonce_deliveries_total{route=\"a\\\"b\\\\c\\nd\"} 0");
}

static void without_reports_nothing_is_said_of_them(void **state)
{
    struct bench *b = *state;
    metrics_write(&b->config, &b->all_stats, NULL, NOW, &b->out);
    buffer_add_u8(&b->out, '\0');
    assert_null(strstr((const char *)b->out.data, "onlyonce_reports_total"));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(every_series_is_there_from_the_beginning),
        TEST(counters_are_what_was_counted),
        TEST(alternatives_of_one_name_are_one_series),
        TEST(workers_are_added_up_or_the_worst_counts),
        TEST(histograms_add_up),
        TEST(labels_are_escaped),
        TEST(without_reports_nothing_is_said_of_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
