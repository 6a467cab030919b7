/*
 * postgres_link - one connection to a PostgreSQL server, for store_postgres.c. Calls block.
 *
 * Every call of the store has one deadline, begun by postgres_begin(), over all its round trips;
 * libpq itself never blocks, as it is given addresses. (A host that a service file or the
 * environment names is the exception: libpq looks it up itself, and nobody bounds that.) Errors go
 * to the store's store_error(). After any of them the connection is to be closed, which also rolls
 * back what was not committed.
 *
 * Statements are prepared once, by postgres_schema_prepare(), and sent in libpq's pipeline mode:
 * postgres_put() each, then postgres_exchange(), which is one round trip and one transaction.
 * DANGER: a statement's rows arrive before its transaction is committed. Only after
 * postgres_exchange() answered true do they count.
 *
 * Names in the database:
 *   version    the layout of the others
 *   records    scope, key, text (the record's), expires
 *   results    scope, key, result (bytes), expires
 *   sessions   id, owner, expires
 * What has expired is not there, for every statement, though its row may be until it is swept.
 * A key is text: a byte that is no printable ASCII, or a backslash, is written \ooo in octal.
 * (Keys of messages have no such byte.)
 */
#ifndef ONLYONCE_POSTGRES_LINK_H
#define ONLYONCE_POSTGRES_LINK_H

#include "store_backend.h"

#include <libpq-fe.h>

enum postgres_statement {
    PG_APPLY,
    PG_SWEEP,
    PG_COMPLETE,
    PG_PROLONG,
    PG_GET,
    PG_GET_RESULT,
    PG_LIST,
    PG_SESSION_SWEEP,
    PG_SESSION_OPEN,
    PG_SESSION_DROP,
    PG_SESSION_RENEW,
    PG_SESSIONS_LIVE
};
#define PG_STATEMENT_COUNT 12

#define PG_PARAMETERS_MAX 6
#define PG_BATCH_MAX 5 /* statements of one exchange */

/* Where the next sweep of a table begins. */
struct postgres_sweep {
    int64_t next;  /* page */
    int64_t pages; /* of the table; 0: not known yet */
};

struct postgres_link {
    struct store *store; /* whose errors, clock and description these are */
    const struct store_config *config;
    PQconninfoOption *options; /* the URL's */
    PGconn *connection;        /* NULL: not connected */
    char *address;             /* where it goes, for people */
    char *schema;              /* its name, quoted for SQL */
    char *missing;             /* what postgres_schema_look() found missing, or NULL */
    int64_t deadline;          /* clock_now() */
    size_t failures;           /* to connect; where the next attempt begins */
    bool refused;              /* an error that trying again will not cure */
    bool exists;               /* 23505: what was to be made exists already */
    struct postgres_sweep records;
    struct postgres_sweep results;
    /* Of the statement that is put together; the memory is used again. */
    struct buffer parameters[PG_PARAMETERS_MAX];
    bool nulls[PG_PARAMETERS_MAX];
    int parameter_count;
};

void postgres_link_init(struct postgres_link *l, struct store *store,
                        const struct store_config *config);
void postgres_link_free(struct postgres_link *l);

void postgres_link_close(struct postgres_link *l);

/* A call begins: its deadline. */
void postgres_begin(struct postgres_link *l);

/* ---- Statements ---- */

/* Parameters, in their order, of the statement that postgres_put() sends next. */
void postgres_bind_text(struct postgres_link *l, const char *text);  /* NULL: SQL's NULL */
void postgres_bind_span(struct postgres_link *l, struct span bytes); /* text or bytes */
void postgres_bind_number(struct postgres_link *l, int64_t number);
void postgres_bind_page(struct postgres_link *l, int64_t page); /* a tid: the page's start */

/* An array, whose elements are added before anything else is bound. */
struct buffer *postgres_bind_texts(struct postgres_link *l, size_t count);
struct buffer *postgres_bind_numbers(struct postgres_link *l, size_t count);
void postgres_add_text(struct buffer *array, struct span text);
void postgres_add_number(struct buffer *array, int64_t number);

/* Adds a prepared statement to the next exchange. */
bool postgres_put(struct postgres_link *l, enum postgres_statement statement)
    __attribute__((warn_unused_result));

/* Ends the transaction, sends it, and waits for one result for each of its statements, which are
 * then the caller's. On false there are none. */
bool postgres_exchange(struct postgres_link *l, PGresult **results, size_t count)
    __attribute__((warn_unused_result));

/* Both, for one statement without a transaction around it: its result, or NULL. */
PGresult *postgres_ask(struct postgres_link *l, enum postgres_statement statement)
    __attribute__((warn_unused_result));

/* Statements in one text, before any is prepared: the last one's result, or NULL. */
PGresult *postgres_script(struct postgres_link *l, const char *sql)
    __attribute__((warn_unused_result));

int64_t postgres_number(const PGresult *result, int row, int column);
struct span postgres_span(const PGresult *result, int row, int column);

/* Fails: the answer to `what` is none that the statement can give. */
bool postgres_odd(struct postgres_link *l, const char *what);

/* Fails, and trying again will not help. */
bool postgres_refuse(struct postgres_link *l, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- postgres_open.c and what it needs ---- */

/* Connects, sets what the connection is to have, and looks whether it is a server of version 14 or
 * newer that takes writes. Sets the store's clock and description. */
bool postgres_link_open(struct postgres_link *l) __attribute__((warn_unused_result));

/* Waits for events of poll() until the deadline, and says which were met. */
bool postgres_wait(struct postgres_link *l, short events, short *met)
    __attribute__((warn_unused_result));

/* Fail: with what libpq says, or because the deadline is over. */
bool postgres_fail_connection(struct postgres_link *l);
bool postgres_fail_late(struct postgres_link *l);

/* ---- postgres_schema.c ---- */

extern const char *const postgres_statement_names[PG_STATEMENT_COUNT];

/* Are the tables there, of this version, and to be used? If not, l->missing says what is missing.
 */
bool postgres_schema_look(struct postgres_link *l) __attribute__((warn_unused_result));

/* Makes the tables if they are missing; any number of relays may do so at once. */
bool postgres_schema_make(struct postgres_link *l) __attribute__((warn_unused_result));
bool postgres_schema_prepare(struct postgres_link *l) __attribute__((warn_unused_result));

/* ---- postgres_sweep.c: removing what has expired ---- */

/* Adds a sweep to the next exchange, of which `written` records are written; and takes its result.
 */
bool postgres_put_sweep(struct postgres_link *l, size_t written)
    __attribute__((warn_unused_result));
void postgres_take_sweep(struct postgres_link *l, const PGresult *result);

/* ---- postgres_dangers.c: store_dangers() ---- */

bool postgres_dangers(struct postgres_link *l, struct buffer *lines)
    __attribute__((warn_unused_result));

#endif
