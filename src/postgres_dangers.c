/*
 * What a PostgreSQL server's settings say about records that may be forgotten: a crash of its
 * machine, a failover. Each makes duplicates possible, none a loss.
 */
#include "postgres_link.h"

#include <string.h>

enum setting { FSYNC, FULL_PAGE_WRITES, SYNCHRONOUS_COMMIT, SYNCHRONOUS_STANDBYS, STANDBYS };

static const char *const asking =
    "SELECT current_setting('fsync'), current_setting('full_page_writes'),"
    " current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),"
    " (SELECT count(*) FROM pg_stat_replication WHERE state IS DISTINCT FROM 'backup')";

static bool is(const PGresult *result, enum setting setting, const char *value)
{
    return strcmp(PQgetvalue(result, 0, (int)setting), value) == 0;
}

static void judge(const PGresult *result, struct buffer *lines)
{
    const char *commit = PQgetvalue(result, 0, SYNCHRONOUS_COMMIT);
    bool waits_for_standbys = !is(result, SYNCHRONOUS_STANDBYS, "");
    if (is(result, FSYNC, "off"))
        buffer_printf(lines,
                      "fsync is off: a crash of the server's machine may forget every key; on "
                      "is safe\n");
    if (is(result, FULL_PAGE_WRITES, "off"))
        buffer_printf(lines, "full_page_writes is off: a crash of the server's machine may damage "
                             "records; on is safe\n");
    if (is(result, SYNCHRONOUS_COMMIT, "off"))
        buffer_printf(lines, "synchronous_commit is off: a crash of the server forgets the last "
                             "moments; on is safe\n");
    else if (waits_for_standbys && is(result, SYNCHRONOUS_COMMIT, "local"))
        buffer_printf(lines,
                      "synchronous_commit is %s: a failover forgets what had not reached the "
                      "new primary; on is safe\n",
                      commit);
    if (!waits_for_standbys && !is(result, STANDBYS, "0"))
        buffer_printf(lines,
                      "there are standbys (%s), and synchronous_standby_names is empty: a failover "
                      "forgets what had not reached the new primary\n",
                      PQgetvalue(result, 0, STANDBYS));
}

bool postgres_dangers(struct postgres_link *l, struct buffer *lines)
{
    postgres_begin(l);
    PGresult *result = postgres_script(l, asking);
    if (!result)
        return false;
    judge(result, lines);
    PQclear(result);
    return true;
}
