#include "sqlite_link.h"

#include "clock.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define VERSION 1

/* In all of these $ stands for the prefix. STRICT needs SQLite 3.37. */
static const char make_tables[] =
    "CREATE TABLE IF NOT EXISTS \"$_records\" (scope TEXT NOT NULL, key TEXT NOT NULL,"
    " text TEXT NOT NULL, expires INTEGER NOT NULL, PRIMARY KEY (scope, key))"
    " STRICT, WITHOUT ROWID;"
    "CREATE INDEX IF NOT EXISTS \"$_records_expire\" ON \"$_records\" (expires);"
    "CREATE TABLE IF NOT EXISTS \"$_results\" (scope TEXT NOT NULL, key TEXT NOT NULL,"
    " text TEXT NOT NULL, expires INTEGER NOT NULL, PRIMARY KEY (scope, key))"
    " STRICT, WITHOUT ROWID;"
    "CREATE INDEX IF NOT EXISTS \"$_results_expire\" ON \"$_results\" (expires);"
    "CREATE TABLE IF NOT EXISTS \"$_sessions\" (id TEXT NOT NULL PRIMARY KEY,"
    " owner TEXT NOT NULL, expires INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS \"$_version\" (version INTEGER NOT NULL) STRICT;"
    "INSERT INTO \"$_version\" SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM \"$_version\");";

/* The name as it was written when the table was made: SQLite takes A and a for the same. */
static const char find_tables[] = "SELECT name FROM sqlite_master WHERE type = 'table' AND"
                                  " name = '$_version' COLLATE NOCASE";

/* What is expired counts as missing, and is overwritten, until it is swept. */
static const char *const statements[SQL_STATEMENT_COUNT] = {
    [SQL_BEGIN] = "BEGIN IMMEDIATE",
    [SQL_COMMIT] = "COMMIT",
    [SQL_GET_RECORD] = "SELECT text, expires FROM \"$_records\""
                       " WHERE scope = ?1 AND key = ?2 AND expires > ?5",
    [SQL_PUT_RECORD] = "INSERT INTO \"$_records\" VALUES (?1, ?2, ?3, ?4)"
                       " ON CONFLICT DO UPDATE SET text = ?3, expires = ?4",
    [SQL_DELETE_RECORD] = "DELETE FROM \"$_records\" WHERE scope = ?1 AND key = ?2",
    [SQL_SWEEP_RECORDS] = "DELETE FROM \"$_records\" WHERE (scope, key) IN"
                          " (SELECT scope, key FROM \"$_records\" WHERE expires <= ?5"
                          " ORDER BY expires LIMIT ?6)",
    [SQL_LIST_RECORDS] = "SELECT key, text, expires FROM \"$_records\""
                         " WHERE scope = ?1 AND key > ?2 AND expires > ?5 ORDER BY key LIMIT ?6",
    [SQL_GET_RESULT] = "SELECT text FROM \"$_results\""
                       " WHERE scope = ?1 AND key = ?2 AND expires > ?5",
    [SQL_PUT_RESULT] = "INSERT INTO \"$_results\" VALUES (?1, ?2, ?3, ?4)"
                       " ON CONFLICT DO UPDATE SET text = ?3, expires = ?4",
    [SQL_PROLONG_RESULT] = "UPDATE \"$_results\" SET expires = ?4"
                           " WHERE scope = ?1 AND key = ?2 AND expires > ?5 AND expires < ?4",
    [SQL_SWEEP_RESULTS] = "DELETE FROM \"$_results\" WHERE (scope, key) IN"
                          " (SELECT scope, key FROM \"$_results\" WHERE expires <= ?5"
                          " ORDER BY expires LIMIT ?6)",
    [SQL_GET_SESSION] = "SELECT 1 FROM \"$_sessions\" WHERE id = ?2 AND expires > ?5",
    [SQL_PUT_SESSION] = "INSERT INTO \"$_sessions\" VALUES (?2, ?3, ?4)"
                        " ON CONFLICT DO UPDATE SET owner = ?3, expires = ?4",
    [SQL_RENEW_SESSION] = "UPDATE \"$_sessions\" SET expires = ?4 WHERE id = ?2 AND expires > ?5",
    [SQL_DELETE_SESSION] = "DELETE FROM \"$_sessions\" WHERE id = ?2",
    [SQL_SWEEP_SESSIONS] = "DELETE FROM \"$_sessions\" WHERE expires <= ?5",
};

/* The log is copied into the database when it has so many pages (16 MiB), and begins anew. */
#define LOG_PAGES 4000
#define CHECKPOINT_WAIT_MS 100

static const char settings[] = "PRAGMA journal_size_limit = 16777216;"
                               "PRAGMA cache_size = -16384;" /* KiB */
                               "PRAGMA temp_store = MEMORY;";

void sqlite_link_init(struct sqlite_link *l, struct store *store, const struct store_config *config)
{
    assert(sqlite3_threadsafe());
    assert(!strpbrk(config->prefix, "\"'"));
    l->store = store;
    l->config = config;
    store_set_description(store, "SQLite %s at %s", sqlite3_libversion(), config->parsed.path);
}

/* What is not finished is rolled back. */
void sqlite_link_close(struct sqlite_link *l)
{
    for (int i = 0; i < SQL_STATEMENT_COUNT; i++)
        sqlite3_finalize(l->statements[i]);
    memset(l->statements, 0, sizeof l->statements);
    int code = sqlite3_close(l->db);
    assert(code == SQLITE_OK);
    l->db = NULL;
}

/* ---- Failing ---- */

static const char *path_of(const struct sqlite_link *l)
{
    return l->config->parsed.path;
}

/* What the operating system will say again. */
static bool is_final(int error)
{
    return error == ENOENT || error == ENOTDIR || error == EISDIR || error == EACCES ||
           error == EPERM || error == EROFS || error == ELOOP || error == ENAMETOOLONG;
}

static const char writable[] = "; the file and its folder have to be writable";

static bool fail_system(struct sqlite_link *l, const char *what, int error)
{
    const char *hint = "";
    if (error == ENOENT)
        hint = "; its folder has to exist";
    else if (error == EACCES || error == EPERM)
        hint = writable;
    l->refused = is_final(error);
    return store_fail(l->store, "SQLite at %s: %s: %s%s", path_of(l), what, strerror(error), hint);
}

/* Fails as SQLite just did, and because of errno where that is why. */
static bool fail(struct sqlite_link *l)
{
    int code = sqlite3_errcode(l->db) & 0xff;
    int error = code == SQLITE_CANTOPEN ? sqlite3_system_errno(l->db) : errno;
    if (code == SQLITE_BUSY)
        return store_fail(l->store,
                          "SQLite at %s: no answer within %lld ms: another process holds the lock",
                          path_of(l), (long long)l->config->timeout);
    if ((code == SQLITE_CANTOPEN || code == SQLITE_IOERR) && error)
        return fail_system(l, sqlite3_errmsg(l->db), error);
    l->refused = code == SQLITE_NOTADB || code == SQLITE_CORRUPT || code == SQLITE_READONLY ||
                 code == SQLITE_CANTOPEN || code == SQLITE_ERROR;
    return store_fail(l->store, "SQLite at %s: %s%s", path_of(l), sqlite3_errmsg(l->db),
                      code == SQLITE_READONLY ? writable : "");
}

/* SQLite calls it when another one has the lock. Whether to try again. Who waits has no place in a
 * queue: the longer the pauses, the likelier is the lock gone again after each. */
static int wait_for_lock(void *context, int times)
{
    const struct sqlite_link *l = context;
    const struct timespec pause = {.tv_nsec = 1000000};
    (void)times;
    if (clock_now() >= l->deadline)
        return 0;
    nanosleep(&pause, NULL);
    return 1;
}

/* ---- Plain SQL ---- */

/* In `b`, which holds it: the text with the prefix for each $. */
static const char *with_prefix(const struct sqlite_link *l, const char *sql, struct buffer *b)
{
    buffer_clear(b);
    for (; *sql; sql++) {
        if (*sql == '$')
            buffer_add_span(b, span_of(l->config->prefix));
        else
            buffer_add_u8(b, (uint8_t)*sql);
    }
    buffer_add_u8(b, '\0');
    return (const char *)b->data;
}

static bool execute(struct sqlite_link *l, const char *sql)
{
    struct buffer b = {0};
    errno = 0;
    int code = sqlite3_exec(l->db, with_prefix(l, sql, &b), NULL, NULL, NULL);
    buffer_free(&b);
    return code == SQLITE_OK || fail(l);
}

static bool prepare(struct sqlite_link *l, const char *sql, sqlite3_stmt **out)
{
    struct buffer b = {0};
    int code = sqlite3_prepare_v3(l->db, with_prefix(l, sql, &b), -1, SQLITE_PREPARE_PERSISTENT,
                                  out, NULL);
    buffer_free(&b);
    return code == SQLITE_OK || fail(l);
}

/* The first column of the first row; "": there is none. */
static bool ask(struct sqlite_link *l, const char *sql, char out[80])
{
    sqlite3_stmt *statement;
    bool row;
    out[0] = '\0';
    if (!prepare(l, sql, &statement))
        return false;
    bool good = sqlite_step(l, statement, &row);
    if (good && row)
        snprintf(out, 80, "%s", (const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    return good;
}

/* ---- Opening ---- */

char *sqlite_folder(const struct sqlite_link *l)
{
    char *folder = xstrdup(path_of(l));
    char *slash = strrchr(folder, '/');
    slash[slash == folder] = '\0';
    return folder;
}

/* Where root looks before the relay ever ran, the file is to be the relay's all the same: who owns
 * the folder shall own the file. SQLite treats the files beside it likewise. */
static bool give_to_owner(const struct sqlite_link *l)
{
    struct stat found;
    char *folder = sqlite_folder(l);
    bool good = stat(folder, &found) == 0 && lchown(path_of(l), found.st_uid, found.st_gid) == 0;
    free(folder);
    return good;
}

/* An empty file is an empty database. It is not made by open(), because the close() after that
 * would drop the locks that other threads may have on it by then. */
static bool make_file(struct sqlite_link *l)
{
    if (mknod(path_of(l), S_IFREG | S_IRUSR | S_IWUSR, 0) != 0)
        return errno == EEXIST || fail_system(l, "cannot be made", errno);
    return geteuid() != 0 || give_to_owner(l) ||
           fail_system(l, "cannot be given to its folder's owner", errno);
}

/* SQLite calls it after each commit. By itself it would never begin the log anew while one writer
 * follows the other without a gap; so this keeps them out for a moment. Where a reader stays it is
 * no use, and is not tried again soon. Whatever comes of it, the commit is done. */
static int keep_log_short(void *context, sqlite3 *db, const char *name, int pages)
{
    struct sqlite_link *l = context;
    if (pages < LOG_PAGES)
        l->checkpoint_at = LOG_PAGES;
    if (pages < l->checkpoint_at)
        return SQLITE_OK;
    l->deadline = clock_now() + CHECKPOINT_WAIT_MS;
    int code = sqlite3_wal_checkpoint_v2(db, name, SQLITE_CHECKPOINT_RESTART, NULL, NULL);
    l->checkpoint_at = code == SQLITE_OK ? LOG_PAGES : pages + LOG_PAGES;
    return SQLITE_OK;
}

static bool open_file(struct sqlite_link *l)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(path_of(l), &l->db, flags, NULL) != SQLITE_OK)
        return fail(l);
    if (sqlite3_db_readonly(l->db, "main"))
        return fail_system(l, "cannot be written", EACCES);
    sqlite3_busy_handler(l->db, wait_for_lock, l);
    sqlite3_wal_hook(l->db, keep_log_short, l);
    l->checkpoint_at = LOG_PAGES;
    return true;
}

/* A database keeps its mode. To change it the file has to be nobody else's for a moment, which
 * SQLite does not wait for by itself. */
static bool want_log(struct sqlite_link *l)
{
    char mode[80];
    while (!ask(l, "PRAGMA journal_mode = WAL", mode)) {
        if (sqlite3_errcode(l->db) != SQLITE_BUSY || !wait_for_lock(l, 0))
            return false;
    }
    if (strcmp(mode, "wal") == 0)
        return true;
    l->refused = true;
    return store_fail(l->store, "SQLite at %s: a write-ahead log is not possible there",
                      path_of(l));
}

/* Could the file be made? */
static bool can_make_file(struct sqlite_link *l)
{
    char *folder = sqlite_folder(l);
    bool good = access(folder, W_OK | X_OK) == 0 || fail_system(l, "cannot be made", errno);
    free(folder);
    return good;
}

static bool make(struct sqlite_link *l)
{
    return execute(l, "BEGIN IMMEDIATE") && execute(l, make_tables) && execute(l, "COMMIT");
}

static bool is_ours(struct sqlite_link *l, const char *found)
{
    char wanted[80];
    snprintf(wanted, sizeof wanted, "%s_version", l->config->prefix);
    if (strcmp(found, wanted) == 0)
        return true;
    l->refused = true;
    return store_fail(l->store,
                      "SQLite at %s: its table %s is another store's, and prefixes that differ in "
                      "case only cannot share a file",
                      path_of(l), found);
}

/* Looking first, so that who only reads need not wait for who writes. */
static bool want_tables(struct sqlite_link *l)
{
    char found[80];
    if (!ask(l, find_tables, found) || (!*found && (!make(l) || !ask(l, find_tables, found))))
        return false;
    return is_ours(l, found);
}

static bool check_version(struct sqlite_link *l)
{
    char version[80];
    if (!ask(l, "SELECT version FROM \"$_version\"", version))
        return false;
    if (strtoll(version, NULL, 10) == VERSION)
        return true;
    l->refused = true;
    return store_fail(l->store,
                      "SQLite at %s: its tables are of version \"%s\", and this program knows %d "
                      "only; run the onlyonce that made them, or write another file",
                      path_of(l), version, VERSION);
}

static bool prepare_all(struct sqlite_link *l, struct span scope)
{
    for (int i = 0; i < SQL_STATEMENT_COUNT; i++) {
        if (!prepare(l, statements[i], &l->statements[i]))
            return false;
        if (sqlite3_bind_parameter_count(l->statements[i]) > 0)
            sqlite_bind_span(l->statements[i], PARAMETER_SCOPE, scope);
    }
    return true;
}

bool sqlite_link_open(struct sqlite_link *l, struct span scope)
{
    bool full = l->config->synchronous == SYNCHRONOUS_FULL;
    l->refused = false;
    sqlite_begin_read(l);
    return make_file(l) && open_file(l) && want_log(l) && execute(l, settings) &&
           execute(l, full ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL") &&
           want_tables(l) && check_version(l) && prepare_all(l, scope);
}

bool sqlite_link_look(struct sqlite_link *l, const char **missing)
{
    char found[80];
    l->refused = false;
    sqlite_begin_read(l);
    if (access(path_of(l), F_OK) != 0 && errno == ENOENT) {
        *missing = "its file is missing";
        return can_make_file(l);
    }
    if (!open_file(l) || !ask(l, find_tables, found))
        return false;
    if (!*found)
        *missing = "its tables are missing";
    return !*found || (is_ours(l, found) && check_version(l));
}

/* ---- Calls ---- */

void sqlite_begin_read(struct sqlite_link *l)
{
    l->deadline = clock_now() + l->config->timeout;
    l->now = clock_wall();
}

/* Is the file still the one under that name? Otherwise others may be using another one. */
static bool is_in_place(struct sqlite_link *l)
{
    int moved = 0;
    sqlite3_file_control(l->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    return !moved ||
           store_fail(l->store, "SQLite at %s: the file was deleted or replaced", path_of(l));
}

bool sqlite_begin_write(struct sqlite_link *l)
{
    sqlite_begin_read(l);
    if (!sqlite_run(l, sqlite_use(l, SQL_BEGIN)) || !is_in_place(l))
        return false;
    l->now = clock_wall(); /* It may have waited. */
    return true;
}

bool sqlite_commit(struct sqlite_link *l)
{
    return sqlite_run(l, sqlite_use(l, SQL_COMMIT));
}

sqlite3_stmt *sqlite_use(struct sqlite_link *l, enum sqlite_statement which)
{
    sqlite3_stmt *statement = l->statements[which];
    if (sqlite3_bind_parameter_count(statement) >= PARAMETER_NOW)
        sqlite3_bind_int64(statement, PARAMETER_NOW, l->now);
    return statement;
}

void sqlite_bind_span(sqlite3_stmt *statement, enum sqlite_parameter parameter, struct span text)
{
    int code = sqlite3_bind_text(statement, (int)parameter, (const char *)text.data, (int)text.len,
                                 SQLITE_STATIC);
    assert(code == SQLITE_OK);
}

bool sqlite_step(struct sqlite_link *l, sqlite3_stmt *statement, bool *row)
{
    errno = 0;
    int code = sqlite3_step(statement);
    *row = code == SQLITE_ROW;
    if (*row)
        return true;
    sqlite3_reset(statement);
    return code == SQLITE_DONE || fail(l);
}

bool sqlite_run(struct sqlite_link *l, sqlite3_stmt *statement)
{
    bool row;
    bool good = sqlite_step(l, statement, &row);
    assert(!row);
    return good;
}

struct span sqlite_column_span(sqlite3_stmt *statement, int column)
{
    const unsigned char *text = sqlite3_column_text(statement, column);
    return (struct span){text, (size_t)sqlite3_column_bytes(statement, column)};
}
