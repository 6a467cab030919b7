#include "postgres_link.h"

#include "clock.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OID_INT8 20
#define OID_TEXT 25

/* ---- Failing ---- */

/* What libpq or the server says, as one line: its lines that say what is wrong, joined. */
static void one_line(const char *text, char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    while (*text && len < size) {
        size_t line = strcspn(text, "\n");
        /* Indented lines go on explaining; the others are about the server's source, or advice. */
        if (line > 0 && *text != '\t' && *text != ' ' && strncmp(text, "LOCATION:", 9) != 0 &&
            strncmp(text, "HINT:", 5) != 0)
            len += (size_t)snprintf(out + len, size - len, "%s%.*s", len > 0 ? "; " : "", (int)line,
                                    text);
        text += line + (text[line] == '\n');
    }
}

bool postgres_fail_late(struct postgres_link *l)
{
    return store_fail(l->store, "PostgreSQL at %s: no answer within %lld ms", l->address,
                      (long long)l->config->timeout);
}

bool postgres_fail_connection(struct postgres_link *l)
{
    char line[sizeof l->store->error];
    one_line(PQerrorMessage(l->connection), line, sizeof line);
    return store_fail(l->store, "PostgreSQL at %s: %s", l->address, line);
}

bool postgres_odd(struct postgres_link *l, const char *what)
{
    return store_fail(l->store, "PostgreSQL at %s: the answer to %s makes no sense", l->address,
                      what);
}

bool postgres_refuse(struct postgres_link *l, const char *fmt, ...)
{
    char text[sizeof l->store->error];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    l->refused = true;
    return store_fail(l->store, "PostgreSQL at %s: %s", l->address, text);
}

/* Will this error be the same however often one tries? A login, a database, a permission, or
 * a table that is not as it has to be. */
static bool is_refusal(const char *state)
{
    static const char *const kinds[] = {"28", "3D000", "3F000", "42"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(state, kinds[i], strlen(kinds[i])) == 0)
            return true;
    return false;
}

/* A result that tells an error. */
static bool fail_result(struct postgres_link *l, const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    if (!state || !message)
        return postgres_fail_connection(l);
    char line[sizeof l->store->error];
    one_line(message, line, sizeof line);
    l->exists = strcmp(state, "23505") == 0;
    l->refused = l->refused || is_refusal(state);
    return store_fail(l->store, "PostgreSQL at %s: %s (%s)", l->address, line, state);
}

void postgres_link_free(struct postgres_link *l)
{
    postgres_link_close(l);
    PQconninfoFree(l->options);
    for (size_t i = 0; i < PG_PARAMETERS_MAX; i++)
        buffer_free(&l->parameters[i]);
    free(l->address);
    free(l->missing);
}

void postgres_link_close(struct postgres_link *l)
{
    PQfinish(l->connection);
    l->connection = NULL;
    PQfreemem(l->schema);
    l->schema = NULL;
}

/* ---- Waiting ---- */

void postgres_begin(struct postgres_link *l)
{
    l->deadline = clock_now() + l->config->timeout;
    l->exists = false;
}

bool postgres_wait(struct postgres_link *l, short events, short *met)
{
    for (;;) {
        int64_t left = l->deadline - clock_now();
        if (left <= 0)
            return postgres_fail_late(l);
        struct pollfd p = {.fd = PQsocket(l->connection), .events = events};
        int n = poll(&p, 1, (int)left);
        *met = p.revents;
        if (n > 0)
            return true;
        if (n < 0 && errno != EINTR)
            return store_fail(l->store, "PostgreSQL at %s: poll: %s", l->address, strerror(errno));
    }
}

static bool receive(struct postgres_link *l)
{
    return PQconsumeInput(l->connection) || postgres_fail_connection(l);
}

/* Sends all that was put. The server may answer before it has read everything. */
static bool send_all(struct postgres_link *l)
{
    short met = 0;
    for (;;) {
        int rest = PQflush(l->connection);
        if (rest == 0)
            return true;
        if (rest < 0)
            return postgres_fail_connection(l);
        if (!postgres_wait(l, POLLIN | POLLOUT, &met) || ((met & POLLIN) && !receive(l)))
            return false;
    }
}

/* The next result that is no error; NULL ends those of one statement. */
static bool next_result(struct postgres_link *l, PGresult **out)
{
    short met = 0;
    while (PQisBusy(l->connection))
        if (!postgres_wait(l, POLLIN, &met) || !receive(l))
            return false;
    PGresult *result = PQgetResult(l->connection);
    ExecStatusType status = PQresultStatus(result);
    bool good = !result || status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK ||
                status == PGRES_PIPELINE_SYNC || fail_result(l, result);
    if (!good)
        PQclear(result);
    *out = good ? result : NULL;
    return good;
}

/* ---- Statements ---- */

static struct buffer *bind(struct postgres_link *l, bool null)
{
    assert(l->parameter_count < PG_PARAMETERS_MAX);
    int i = l->parameter_count++;
    l->nulls[i] = null;
    buffer_clear(&l->parameters[i]);
    return &l->parameters[i];
}

void postgres_bind_span(struct postgres_link *l, struct span bytes)
{
    buffer_add_span(bind(l, false), bytes);
}

void postgres_bind_text(struct postgres_link *l, const char *text)
{
    buffer_add_span(bind(l, !text), text ? span_of(text) : (struct span){0});
}

void postgres_bind_number(struct postgres_link *l, int64_t number)
{
    buffer_add_u64(bind(l, false), (uint64_t)number);
}

void postgres_bind_page(struct postgres_link *l, int64_t page)
{
    struct buffer *tid = bind(l, false);
    buffer_add_u32(tid, page < UINT32_MAX ? (uint32_t)page : UINT32_MAX);
    buffer_add_u16(tid, 0);
}

/* An array in PostgreSQL's binary form: dimensions, "has NULLs", type; for the dimension its size
 * and first index; then each element behind its length. */
static struct buffer *bind_array(struct postgres_link *l, uint32_t type, size_t count)
{
    struct buffer *array = bind(l, false);
    buffer_add_u32(array, count > 0);
    buffer_add_u32(array, 0);
    buffer_add_u32(array, type);
    if (count > 0) {
        buffer_add_u32(array, (uint32_t)count);
        buffer_add_u32(array, 1);
    }
    return array;
}

struct buffer *postgres_bind_texts(struct postgres_link *l, size_t count)
{
    return bind_array(l, OID_TEXT, count);
}

struct buffer *postgres_bind_numbers(struct postgres_link *l, size_t count)
{
    return bind_array(l, OID_INT8, count);
}

void postgres_add_text(struct buffer *array, struct span text)
{
    buffer_add_u32(array, (uint32_t)text.len);
    buffer_add_span(array, text);
}

void postgres_add_number(struct buffer *array, int64_t number)
{
    buffer_add_u32(array, sizeof number);
    buffer_add_u64(array, (uint64_t)number);
}

bool postgres_put(struct postgres_link *l, enum postgres_statement statement)
{
    static const int formats[PG_PARAMETERS_MAX] = {1, 1, 1, 1, 1, 1}; /* binary */
    const char *values[PG_PARAMETERS_MAX];
    int lengths[PG_PARAMETERS_MAX];
    for (int i = 0; i < l->parameter_count; i++) {
        const struct buffer *b = &l->parameters[i];
        values[i] = l->nulls[i] ? NULL : b->len > 0 ? (const char *)b->data : "";
        lengths[i] = (int)b->len;
    }
    int count = l->parameter_count;
    l->parameter_count = 0;
    return (PQenterPipelineMode(l->connection) &&
            PQsendQueryPrepared(l->connection, postgres_statement_names[statement], count, values,
                                lengths, formats, statement == PG_GET_RESULT)) ||
           postgres_fail_connection(l);
}

/* Reads up to the sync, which says that the transaction is committed. */
static bool take_results(struct postgres_link *l, PGresult **results, size_t count, size_t *taken)
{
    bool ended = false; /* a NULL was met, and no result since */
    for (;;) {
        PGresult *result;
        if (!next_result(l, &result))
            return false;
        bool synced = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
        bool odd = synced ? *taken < count : result ? *taken == count : ended;
        ended = !result;
        if (result && !synced && !odd)
            results[(*taken)++] = result;
        else
            PQclear(result);
        if (odd)
            return postgres_odd(l, "a statement");
        if (synced)
            return true;
    }
}

bool postgres_exchange(struct postgres_link *l, PGresult **results, size_t count)
{
    size_t taken = 0;
    bool good = (PQpipelineSync(l->connection) || postgres_fail_connection(l)) && send_all(l) &&
                take_results(l, results, count, &taken) &&
                (PQexitPipelineMode(l->connection) || postgres_fail_connection(l));
    for (size_t i = 0; !good && i < taken; i++)
        PQclear(results[i]);
    return good;
}

PGresult *postgres_ask(struct postgres_link *l, enum postgres_statement statement)
{
    PGresult *result = NULL;
    bool good = postgres_put(l, statement) && postgres_exchange(l, &result, 1);
    return good ? result : NULL;
}

PGresult *postgres_script(struct postgres_link *l, const char *sql)
{
    PGresult *last = NULL;
    if (!PQsendQuery(l->connection, sql)) {
        postgres_fail_connection(l);
        return NULL;
    }
    if (!send_all(l))
        return NULL;
    for (;;) {
        PGresult *result;
        if (!next_result(l, &result)) {
            PQclear(last);
            return NULL;
        }
        if (!result)
            return last;
        PQclear(last);
        last = result;
    }
}

int64_t postgres_number(const PGresult *result, int row, int column)
{
    return strtoll(PQgetvalue(result, row, column), NULL, 10);
}

struct span postgres_span(const PGresult *result, int row, int column)
{
    return (struct span){(const uint8_t *)PQgetvalue(result, row, column),
                         (size_t)PQgetlength(result, row, column)};
}
