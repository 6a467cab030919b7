/*
 * The tables and the statements of the PostgreSQL store.
 *
 * In each text, @ stands for the schema. Time is the database's: statement_timestamp(), which is
 * the same throughout a statement and can be used with an index.
 */
#include "postgres_link.h"

#include <stdlib.h>
#include <string.h>

/* Of the tables; raise it with any change to them. */
#define LAYOUT 1
#define TEXT_OF(number) #number
#define LAYOUT_TEXT(number) TEXT_OF(number)

#define NOW "statement_timestamp()"
#define AFTER(ms) NOW " + " ms "::int8 * interval '1 ms'"

/* -1: it never expires. */
#define TTL                                                                                        \
    "CASE WHEN isfinite(expires)"                                                                  \
    " THEN ceil(extract(epoch FROM expires - " NOW ") * 1000)::int8 ELSE -1 END"

/* ---- Tables ---- */

/* Keys sort by their bytes, wherever the database is: the program sorts them so, too. Nearly every
 * record is changed once, soon after it was made. With half of each page left for that, and no
 * index on what changes, the indexes need not be changed as well. */
static const char *const making =
    "CREATE TABLE @.version (version int NOT NULL);"
    "CREATE TABLE @.records ("
    " scope text COLLATE \"C\" NOT NULL, key text COLLATE \"C\" NOT NULL,"
    " text text COLLATE \"C\" NOT NULL, expires timestamptz NOT NULL, PRIMARY KEY (scope, key))"
    " WITH (fillfactor = 50);"
    "CREATE TABLE @.results ("
    " scope text COLLATE \"C\" NOT NULL, key text COLLATE \"C\" NOT NULL,"
    " result bytea NOT NULL, expires timestamptz NOT NULL, PRIMARY KEY (scope, key));"
    "CREATE TABLE @.sessions ("
    " id text COLLATE \"C\" PRIMARY KEY, owner text NOT NULL, expires timestamptz NOT NULL);";

/* ---- Statements ---- */

const char *const postgres_statement_names[PG_STATEMENT_COUNT] = {
    [PG_APPLY] = "apply",
    [PG_SWEEP] = "sweep",
    [PG_COMPLETE] = "complete",
    [PG_PROLONG] = "prolong",
    [PG_GET] = "get",
    [PG_GET_RESULT] = "get_result",
    [PG_LIST] = "list",
    [PG_SESSION_SWEEP] = "session_sweep",
    [PG_SESSION_OPEN] = "session_open",
    [PG_SESSION_DROP] = "session_drop",
    [PG_SESSION_RENEW] = "session_renew",
    [PG_SESSIONS_LIVE] = "sessions_live",
};

static const char *const statements[PG_STATEMENT_COUNT] = {
    /*
     * $1 scope, $2 session or NULL, and changes, sorted by key: $3 keys, $4 what is expected under
     * each (empty: nothing), $5 what to write (empty: delete, which is to expire), $6 times to
     * live. A key may have several changes with different expectations, of which one at most fits.
     *
     * Rows: for each change (its number, what is under the key or NULL), as the statement's
     * snapshot has it; (0, key) for a record that was made; (- number, NULL) for one that was
     * changed. No rows: the session does not exist. A change that fits the snapshot, and yet was
     * not made, met somebody who was faster: nothing is known of what is there now.
     *
     * The lock on the session makes whoever drops it wait for this transaction, and this one for
     * him. Records that live are not inserted over, not even in vain, as that would lock them
     * out of order.
     */
    [PG_APPLY] =
        "WITH fence AS MATERIALIZED (SELECT FROM @.sessions"
        "  WHERE id = $2::text AND expires > " NOW " FOR KEY SHARE),"
        "t AS MATERIALIZED (SELECT c.i, c.key, c.expect, c.write, " AFTER(
            "c.ttl") " AS until,"
                     "  r.text AS met FROM unnest($3::text[], $4::text[], $5::text[], $6::int8[])"
                     "  WITH ORDINALITY AS c(key, expect, write, ttl, i) LEFT JOIN @.records r"
                     "  ON r.scope = $1::text AND r.key = c.key AND r.expires > " NOW
                     "  WHERE $2::text IS NULL OR EXISTS (SELECT FROM fence)),"
                     "made AS (INSERT INTO @.records AS r (scope, key, text, expires)"
                     "  SELECT $1::text, key, write, until FROM t"
                     "  WHERE met IS NULL AND expect = '' AND write <> '' ORDER BY i"
                     "  ON CONFLICT (scope, key) DO UPDATE SET text = excluded.text, expires = "
                     "excluded.expires"
                     "  WHERE r.expires <= " NOW " RETURNING key),"
                     "changed AS (UPDATE @.records r SET"
                     "  text = CASE t.write WHEN '' THEN r.text ELSE t.write END,"
                     "  expires = CASE t.write WHEN '' THEN '-infinity' ELSE t.until END FROM t"
                     "  WHERE t.expect <> '' AND t.met = t.expect AND r.scope = $1::text AND r.key "
                     "= t.key"
                     "  AND r.text = t.expect AND r.expires > " NOW " RETURNING t.i)"
                     "SELECT i, met FROM t UNION ALL SELECT 0, key FROM made"
                     " UNION ALL SELECT -i, NULL FROM changed",
    /* $1, $2: from that page of the records to before that one; $3, $4 of the results. How many
     * pages there are. Rows that somebody has locked are left to the next time. */
    [PG_SWEEP] = "WITH swept AS (DELETE FROM @.records WHERE ctid = ANY(ARRAY("
                 "  SELECT ctid FROM @.records WHERE ctid >= $1::tid AND ctid < $2::tid"
                 "  AND expires <= " NOW " FOR UPDATE SKIP LOCKED))),"
                 "also AS (DELETE FROM @.results WHERE ctid = ANY(ARRAY("
                 "  SELECT ctid FROM @.results WHERE ctid >= $3::tid AND ctid < $4::tid"
                 "  AND expires <= " NOW " FOR UPDATE SKIP LOCKED)))"
                 "SELECT pg_relation_size('@.records') / current_setting('block_size')::int8,"
                 " pg_relation_size('@.results') / current_setting('block_size')::int8",
    /* $1 scope, $2 key, $3 expected, $4 to write, $5 time to live, $6 result (empty: none). */
    [PG_COMPLETE] = "WITH changed AS (UPDATE @.records SET text = $4::text, expires = " AFTER(
        "$5") "  WHERE scope = $1::text AND key = $2::text AND text = $3::text AND expires > " NOW
              "  RETURNING key),"
              "kept AS (INSERT INTO @.results (scope, key, result, expires)"
              "  SELECT $1::text, $2::text, $6::bytea, " AFTER(
                  "$5") " FROM changed WHERE $6::bytea <> ''"
                        "  ON CONFLICT (scope, key) DO UPDATE"
                        "  SET result = excluded.result, expires = excluded.expires)"
                        "SELECT EXISTS (SELECT FROM changed), (SELECT text FROM @.records"
                        "  WHERE scope = $1::text AND key = $2::text AND expires > " NOW ")",
    /* $1 scope, $2 keys, $3 times to live: never shorter than before. */
    [PG_PROLONG] = "UPDATE @.results r SET expires = greatest(r.expires, " AFTER(
        "c.ttl") ")"
                 " FROM unnest($2::text[], $3::int8[]) AS c(key, ttl)"
                 " WHERE r.scope = $1::text AND r.key = c.key AND r.expires > " NOW,
    [PG_GET] = "SELECT text, " TTL " FROM @.records"
               " WHERE scope = $1::text AND key = $2::text AND expires > " NOW,
    [PG_GET_RESULT] = "SELECT result FROM @.results"
                      " WHERE scope = $1::text AND key = $2::text AND expires > " NOW,
    /* The next ones behind a key. */
    [PG_LIST] =
        "SELECT key, text, " TTL " FROM @.records"
        " WHERE scope = $1::text AND key > $2::text AND expires > " NOW " ORDER BY key LIMIT 400",
    [PG_SESSION_SWEEP] =
        "DELETE FROM @.sessions WHERE ctid = ANY(ARRAY("
        "  SELECT ctid FROM @.sessions WHERE expires <= " NOW "  FOR UPDATE SKIP LOCKED))",
    [PG_SESSION_OPEN] = "INSERT INTO @.sessions (id, owner, expires)"
                        " VALUES ($1::text, $2::text, " AFTER("$3") ")",
    [PG_SESSION_DROP] = "DELETE FROM @.sessions WHERE id = ANY($1::text[])",
    /* The lock of such an update does not wait for those of PG_APPLY, nor they for it. */
    [PG_SESSION_RENEW] = "WITH renewed AS (UPDATE @.sessions SET expires = " AFTER(
        "$2") "  WHERE id = $1::text AND expires > " NOW " RETURNING id)"
              "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::int8,"
              " EXISTS (SELECT FROM renewed)",
    [PG_SESSIONS_LIVE] = "SELECT c.i FROM unnest($1::text[]) WITH ORDINALITY AS c(id, i)"
                         " JOIN @.sessions s ON s.id = c.id AND s.expires > " NOW,
};

/* The text for this schema, to be freed. */
static char *for_schema(const struct postgres_link *l, const char *text)
{
    struct buffer out = {0};
    for (; *text; text++)
        if (*text == '@')
            buffer_add_span(&out, span_of(l->schema));
        else
            buffer_add_u8(&out, (uint8_t)*text);
    buffer_add_u8(&out, '\0');
    return (char *)out.data;
}

static PGresult *run(struct postgres_link *l, const char *text)
{
    char *sql = for_schema(l, text);
    PGresult *result = postgres_script(l, sql);
    free(sql);
    return result;
}

static bool run_quietly(struct postgres_link *l, const char *text)
{
    PGresult *result = run(l, text);
    PQclear(result);
    return result != NULL;
}

bool postgres_schema_prepare(struct postgres_link *l)
{
    PGresult *results[PG_STATEMENT_COUNT];
    bool good = PQenterPipelineMode(l->connection);
    for (size_t i = 0; good && i < PG_STATEMENT_COUNT; i++) {
        char *sql = for_schema(l, statements[i]);
        good = PQsendPrepare(l->connection, postgres_statement_names[i], sql, 0, NULL);
        free(sql);
    }
    if (!good)
        return postgres_fail_connection(l);
    good = postgres_exchange(l, results, PG_STATEMENT_COUNT);
    for (size_t i = 0; good && i < PG_STATEMENT_COUNT; i++)
        PQclear(results[i]);
    return good;
}

/* ---- Looking and making ---- */

/* Is the schema there, and in it the table that says how the others are laid out? The catalogue is
 * asked, not to_regclass(), which after waiting for a lock may still answer from its cache. */
static bool look(struct postgres_link *l, const char *before, bool *schema, bool *version)
{
    const char *prefix = l->config->prefix;
    char *name = PQescapeLiteral(l->connection, prefix, strlen(prefix));
    if (!name)
        return postgres_fail_connection(l);
    char *sql = xasprintf("%s SELECT count(DISTINCT n.oid), count(c.oid) FROM pg_namespace n"
                          " LEFT JOIN pg_class c ON c.relnamespace = n.oid"
                          " AND c.relname = 'version' WHERE n.nspname = %s",
                          before, name);
    PGresult *result = postgres_script(l, sql);
    free(sql);
    PQfreemem(name);
    if (!result)
        return false;
    *schema = postgres_number(result, 0, 0) > 0;
    *version = postgres_number(result, 0, 1) > 0;
    PQclear(result);
    return true;
}

/* What this user may not do to the tables, or nothing. */
#define LACKING                                                                                    \
    "SELECT string_agg(p || ' on ' || t, ', ') FROM unnest(ARRAY['records', 'results', "           \
    "'sessions']) t, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) p"                      \
    " WHERE NOT has_table_privilege("

static bool judge_tables(struct postgres_link *l, const PGresult *result)
{
    const char *prefix = l->config->prefix;
    if (PQntuples(result) != 1)
        return postgres_refuse(l, "schema %s is not onlyonce's: its table version has %d rows",
                               prefix, PQntuples(result));
    int64_t layout = postgres_number(result, 0, 0);
    if (layout != LAYOUT)
        return postgres_refuse(l,
                               "schema %s has layout %lld, and this program knows %d; run the "
                               "version of onlyonce that belongs to it, or give another prefix",
                               prefix, (long long)layout, LAYOUT);
    return PQgetisnull(result, 0, 1) ||
           postgres_refuse(l, "user %s lacks permissions in schema %s: %s; grant them",
                           PQuser(l->connection), prefix, PQgetvalue(result, 0, 1));
}

static bool check_tables(struct postgres_link *l)
{
    char *name = PQescapeLiteral(l->connection, l->schema, strlen(l->schema));
    if (!name)
        return postgres_fail_connection(l);
    char *sql =
        xasprintf("SELECT v.version, (" LACKING "%s || '.' || t, p)) FROM @.version v", name);
    PGresult *result = run(l, sql);
    bool good = result && judge_tables(l, result);
    PQclear(result);
    free(sql);
    PQfreemem(name);
    return good;
}

bool postgres_schema_look(struct postgres_link *l)
{
    bool schema = false;
    bool version = false;
    free(l->missing);
    l->missing = NULL;
    if (!look(l, "", &schema, &version))
        return false;
    if (version)
        return check_tables(l);
    l->missing = xasprintf(schema ? "schema %s has no tables of onlyonce" : "schema %s is missing",
                           l->config->prefix);
    return true;
}

/* Under a lock, as several relays may start at once: whoever comes second finds it all made. A
 * schema that exists is used, for whoever may not create any. */
bool postgres_schema_make(struct postgres_link *l)
{
    bool schema = false;
    bool version = false;
    if (!look(l, "BEGIN; SELECT pg_advisory_xact_lock(hashtext('onlyonce'), 0);", &schema,
              &version))
        return false;
    return (version ||
            ((schema || run_quietly(l, "CREATE SCHEMA @")) && run_quietly(l, making) &&
             run_quietly(l, "INSERT INTO @.version VALUES (" LAYOUT_TEXT(LAYOUT) ")"))) &&
           run_quietly(l, "COMMIT") && check_tables(l);
}
