#include "stats.h"

#include "memory.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    const char *help;
} rows[STAT_COUNT] = {
#define ROW(id, name, help) {name, help},
    STATS_ROWS(ROW)
#undef ROW
};

const char *stats_name(enum stat stat)
{
    return rows[stat].name;
}

const char *stats_help(enum stat stat)
{
    return rows[stat].help;
}

static void free_workers(struct route_stats *s)
{
    for (size_t i = 0; i < s->worker_count; i++)
        vitals_free(&s->workers[i]);
    free(s->workers);
}

void stats_set_workers(struct route_stats *s, size_t workers)
{
    free_workers(s);
    s->workers = xcalloc(workers, sizeof *s->workers);
    s->worker_count = workers;
    for (size_t i = 0; i < workers; i++)
        vitals_init(&s->workers[i]);
}

void stats_init(struct route_stats *s, size_t workers)
{
    memset(s, 0, sizeof *s);
    recent_init(&s->recent);
    history_init(&s->history);
    stats_set_workers(s, workers);
}

void stats_free(struct route_stats *s)
{
    recent_free(&s->recent);
    history_free(&s->history);
    free_workers(s);
}

void stats_sample(struct route_stats *s, int64_t now)
{
    const struct history_sample sample = {.at = now,
                                          .forwarded = stats_get(s, STAT_FORWARDED),
                                          .duplicates = stats_get(s, STAT_DUPLICATES)};
    history_add(&s->history, &sample);
}
