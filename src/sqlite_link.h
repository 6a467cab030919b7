/*
 * sqlite_link - one connection to one SQLite database: opening, its tables, prepared statements,
 * waiting for locks, and what errors mean. Internal to the SQLite store.
 *
 * A call begins with sqlite_begin_read() or sqlite_begin_write(), which set its deadline and its
 * time; a write ends with sqlite_commit(). After any failure the connection is to be closed, which
 * also rolls back.
 */
#ifndef ONLYONCE_SQLITE_LINK_H
#define ONLYONCE_SQLITE_LINK_H

#include "store_backend.h"

#include <sqlite3.h>

/* What the parameters of all statements mean. The scope is bound once for all. */
enum sqlite_parameter {
    PARAMETER_SCOPE = 1,
    PARAMETER_KEY, /* or a session's id */
    PARAMETER_VALUE,
    PARAMETER_EXPIRES, /* ms since 1970 */
    PARAMETER_NOW,     /* bound by sqlite_use() */
    PARAMETER_MOST     /* rows */
};

enum sqlite_statement {
    SQL_BEGIN,
    SQL_COMMIT,
    SQL_GET_RECORD, /* text, expires */
    SQL_PUT_RECORD,
    SQL_DELETE_RECORD,
    SQL_SWEEP_RECORDS,
    SQL_LIST_RECORDS, /* key, text, expires: those behind PARAMETER_KEY */
    SQL_GET_RESULT,   /* text */
    SQL_PUT_RESULT,
    SQL_PROLONG_RESULT,
    SQL_SWEEP_RESULTS,
    SQL_GET_SESSION,
    SQL_PUT_SESSION,
    SQL_RENEW_SESSION,
    SQL_DELETE_SESSION,
    SQL_SWEEP_SESSIONS,
    SQL_STATEMENT_COUNT
};

struct sqlite_link {
    struct store *store;
    const struct store_config *config;
    sqlite3 *db;
    sqlite3_stmt *statements[SQL_STATEMENT_COUNT];
    int64_t deadline;  /* clock_now() */
    int64_t now;       /* of the call at hand: ms since 1970 */
    int checkpoint_at; /* pages of the log */
    bool refused;      /* the last failure will be the same however often one tries */
};

void sqlite_link_init(struct sqlite_link *l, struct store *store,
                      const struct store_config *config);
/* Opens the file, and makes it and its tables where they are missing. `scope` goes on existing. */
bool sqlite_link_open(struct sqlite_link *l, struct span scope);
/* Opens it for sqlite_dangers() only, and changes nothing. *missing: what sqlite_link_open() would
 * make, if anything. */
bool sqlite_link_look(struct sqlite_link *l, const char **missing);
void sqlite_link_close(struct sqlite_link *l);

void sqlite_begin_read(struct sqlite_link *l);
/* Waits for the write lock, until the deadline. */
bool sqlite_begin_write(struct sqlite_link *l);
/* False: what was written may be there, or not, or come back after a crash. */
bool sqlite_commit(struct sqlite_link *l);

/* That statement, to have its other parameters bound. Bindings stay, but need not be valid after
 * the statement ran. */
sqlite3_stmt *sqlite_use(struct sqlite_link *l, enum sqlite_statement which);
void sqlite_bind_span(sqlite3_stmt *statement, enum sqlite_parameter parameter, struct span text);

/* Runs a statement that has no rows. */
bool sqlite_run(struct sqlite_link *l, sqlite3_stmt *statement);
/* The next row of one that has; *row is false behind the last one. sqlite3_reset() it before then.
 */
bool sqlite_step(struct sqlite_link *l, sqlite3_stmt *statement, bool *row);
/* A column of the row; valid until the statement is stepped or reset. */
struct span sqlite_column_span(sqlite3_stmt *statement, int column);

/* The folder that the file is in, to be freed. */
char *sqlite_folder(const struct sqlite_link *l);

/* What endangers records in that file. */
bool sqlite_dangers(struct sqlite_link *l, struct buffer *lines);

#endif
