#include "stats.h"

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

void stats_init(struct route_stats *s)
{
    memset(s, 0, sizeof *s);
    recent_init(&s->recent);
}

void stats_free(struct route_stats *s)
{
    recent_free(&s->recent);
}
