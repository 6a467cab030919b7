#include "stats.h"

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
