/*
 * The SQLite store. A batch is one transaction: BEGIN IMMEDIATE takes the write lock, the fence and
 * every comparison are made under it, and COMMIT returns when the log is on the disk (with
 * synchronous: normal, when the operating system has it). A call fails as a whole.
 *
 * Any number of threads and processes of one host may use the file at once. Writers wait for each
 * other, at most for the configured timeout; readers wait for nobody, and never for long keep the
 * log from being emptied: listing reads page by page.
 *
 * Time is the wall clock of this host, because the records outlive its boots. A clock that is set
 * back makes records and sessions live longer by as much; one that is set forward makes them end
 * earlier, so a step of more than a window forgets its keys. A step of more than a session's life
 * ends every session: their workers find themselves fenced, and take their claims along to the
 * next. Who comes between takes a claim over, in doubt, and its copy is marked.
 *
 * What is expired counts as missing at once, and goes a few rows at a time with each write, twice
 * as many as were written: so under a constant load the file stops growing, as SQLite writes to the
 * pages that became free.
 */
#include "sqlite_link.h"

#include "clock.h"

#include <stdlib.h>
#include <string.h>

#define SWEEP_LEAST 16
#define SWEEP_IDLE 200
#define PAGE_ROWS 200

struct sqlite_store {
    struct store common;
    struct sqlite_link link;
};

static struct sqlite_link *link_of(struct store *s)
{
    return &((struct sqlite_store *)s)->link;
}

static struct store *sqlite_create(const struct store_config *config)
{
    struct sqlite_store *q = xcalloc(1, sizeof *q);
    sqlite_link_init(&q->link, &q->common, config);
    return &q->common;
}

static void sqlite_destroy(struct store *s)
{
    free(s);
}

static bool sqlite_open(struct store *s, bool *permanent)
{
    struct sqlite_link *l = link_of(s);
    bool good = sqlite_link_open(l, s->scope);
    *permanent = !good && l->refused;
    if (good)
        store_set_clock(s, clock_wall());
    return good;
}

static bool sqlite_look(struct store *s, const char **missing)
{
    return sqlite_link_look(link_of(s), missing);
}

static void sqlite_close(struct store *s)
{
    sqlite_link_close(link_of(s));
}

/* ---- Rows ---- */

static sqlite3_stmt *use_key(struct sqlite_link *l, enum sqlite_statement which, struct span key)
{
    sqlite3_stmt *statement = sqlite_use(l, which);
    sqlite_bind_span(statement, PARAMETER_KEY, key);
    return statement;
}

static void bind_ttl(struct sqlite_link *l, sqlite3_stmt *statement, int64_t ttl)
{
    int64_t expires = ttl < INT64_MAX - l->now ? l->now + ttl : INT64_MAX;
    sqlite3_bind_int64(statement, PARAMETER_EXPIRES, expires);
}

/* Writes a record, a result or a session. */
static bool put(struct sqlite_link *l, enum sqlite_statement which, struct span key,
                struct span value, int64_t ttl)
{
    sqlite3_stmt *statement = use_key(l, which, key);
    sqlite_bind_span(statement, PARAMETER_VALUE, value);
    bind_ttl(l, statement, ttl);
    return sqlite_run(l, statement);
}

static bool put_record(struct sqlite_link *l, struct span key, const char *text, size_t len,
                       int64_t ttl)
{
    return put(l, SQL_PUT_RECORD, key, (struct span){(const uint8_t *)text, len}, ttl);
}

static bool session_lives(struct sqlite_link *l, const char *id, bool *live)
{
    sqlite3_stmt *statement = use_key(l, SQL_GET_SESSION, span_of(id));
    bool good = sqlite_step(l, statement, live);
    sqlite3_reset(statement);
    return good;
}

static bool delete_session(struct sqlite_link *l, const char *id)
{
    return sqlite_run(l, use_key(l, SQL_DELETE_SESSION, span_of(id)));
}

/* Removes at most so many expired records, and results. */
static bool sweep(struct sqlite_link *l, size_t most)
{
    static const enum sqlite_statement sweeps[] = {SQL_SWEEP_RECORDS, SQL_SWEEP_RESULTS};
    for (size_t i = 0; i < sizeof sweeps / sizeof *sweeps; i++) {
        sqlite3_stmt *statement = sqlite_use(l, sweeps[i]);
        sqlite3_bind_int64(statement, PARAMETER_MOST, (sqlite3_int64)most);
        if (!sqlite_run(l, statement))
            return false;
    }
    return true;
}

/* ---- Records ---- */

/* Answers an op as if what it expects were all that it is about. A text that is there and empty is
 * foreign, and not "nothing". */
static bool compare(struct sqlite_link *l, struct store_op *op)
{
    char expect[RECORD_TEXT_MAX];
    size_t len = store_text(&op->expect, expect);
    bool row;
    sqlite3_stmt *statement = use_key(l, SQL_GET_RECORD, op->key);
    if (!sqlite_step(l, statement, &row))
        return false;
    struct span met = row ? sqlite_column_span(statement, 0) : (struct span){0};
    op->answer = len == 0 ? STORE_APPLIED : STORE_MET;
    if (row && len > 0 && met.len == len && memcmp(met.data, expect, len) == 0)
        op->answer = STORE_APPLIED;
    else if (row)
        store_op_met(op, (const char *)met.data, met.len);
    sqlite3_reset(statement);
    return true;
}

/* Nothing there: *out stays as it is. */
static bool read_record(struct sqlite_link *l, struct span key, struct record *out, int64_t *ttl,
                        bool *foreign)
{
    bool row;
    sqlite3_stmt *statement = use_key(l, SQL_GET_RECORD, key);
    bool good = sqlite_step(l, statement, &row);
    if (row) {
        struct span text = sqlite_column_span(statement, 0);
        *foreign = !store_read(out, (const char *)text.data, text.len);
        *ttl = sqlite3_column_int64(statement, 1) - l->now;
    }
    sqlite3_reset(statement);
    return good;
}

static bool write_record(struct sqlite_link *l, const struct store_op *op)
{
    char text[RECORD_TEXT_MAX];
    size_t len = store_text(&op->write, text);
    if (len == 0)
        return op->expect.now.state == RECORD_NONE ||
               sqlite_run(l, use_key(l, SQL_DELETE_RECORD, op->key));
    return put_record(l, op->key, text, len, op->ttl);
}

/* The result lives at least as long as what was written beside it. */
static bool prolong_result(struct sqlite_link *l, const struct store_op *op)
{
    sqlite3_stmt *statement = use_key(l, SQL_PROLONG_RESULT, op->key);
    bind_ttl(l, statement, op->ttl);
    return sqlite_run(l, statement);
}

static bool apply_op(struct sqlite_link *l, struct store_op *op)
{
    return compare(l, op) &&
           (op->answer != STORE_APPLIED ||
            (write_record(l, op) && (!store_moves_result(op) || prolong_result(l, op))));
}

static bool apply_all(struct sqlite_link *l, struct store_op *ops, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!apply_op(l, &ops[i]))
            return false;
    return sweep(l, SWEEP_LEAST + 2 * count);
}

static bool sqlite_apply(struct store *s, const char *session, struct store_op *ops, size_t count)
{
    struct sqlite_link *l = link_of(s);
    bool live = true;
    if (!sqlite_begin_write(l) || (session && !session_lives(l, session, &live)))
        return false;
    for (size_t i = 0; !live && i < count; i++)
        ops[i].answer = STORE_FENCED;
    return (!live || apply_all(l, ops, count)) && sqlite_commit(l);
}

static bool sqlite_complete(struct store *s, struct store_op *op, struct span result)
{
    struct sqlite_link *l = link_of(s);
    if (!sqlite_begin_write(l) || !apply_all(l, op, 1))
        return false;
    bool writes = op->answer == STORE_APPLIED && result.len > 0;
    return (!writes || put(l, SQL_PUT_RESULT, op->key, result, op->ttl)) && sqlite_commit(l);
}

static bool sqlite_get_result(struct store *s, struct span key, struct buffer *out)
{
    struct sqlite_link *l = link_of(s);
    bool row;
    sqlite_begin_read(l);
    sqlite3_stmt *statement = use_key(l, SQL_GET_RESULT, key);
    bool good = sqlite_step(l, statement, &row);
    if (row)
        buffer_add_span(out, sqlite_column_span(statement, 0));
    sqlite3_reset(statement);
    return good;
}

static bool sqlite_get(struct store *s, struct span key, struct record *out, int64_t *ttl,
                       bool *foreign)
{
    sqlite_begin_read(link_of(s));
    return read_record(link_of(s), key, out, ttl, foreign);
}

/* ---- Sessions ---- */

static bool is_former(const struct store_move *move, const char *session, const struct record *met)
{
    char want[RECORD_TEXT_MAX];
    char got[RECORD_TEXT_MAX];
    size_t len = store_move_text(move, session, want);
    return store_text(met, got) == len && memcmp(got, want, len) == 0;
}

static bool move_record(struct sqlite_link *l, const char *id, const char *const *former,
                        size_t former_count, struct store_move *move)
{
    char text[RECORD_TEXT_MAX];
    int64_t ttl;
    bool foreign;
    if (!read_record(l, move->key, &move->met, &ttl, &foreign))
        return false;
    for (size_t i = 0; i < former_count && !move->moved; i++)
        move->moved = is_former(move, former[i], &move->met);
    if (!move->moved)
        return true;
    move->met = (struct record){0};
    return put_record(l, move->key, text, store_move_text(move, id, text), move->ttl);
}

static bool move_all(struct sqlite_link *l, const char *id, const char *const *former,
                     size_t former_count, struct store_move *moves, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!move_record(l, id, former, former_count, &moves[i]))
            return false;
    for (size_t i = 0; i < former_count; i++)
        if (!delete_session(l, former[i]))
            return false;
    return true;
}

static bool sqlite_session_open(struct store *s, const char *id, int64_t life,
                                const char *const *former, size_t former_count,
                                struct store_move *moves, size_t count)
{
    struct sqlite_link *l = link_of(s);
    bool exists;
    if (!sqlite_begin_write(l) || !session_lives(l, id, &exists))
        return false;
    if (exists)
        return store_fail(s, "%s: session %s exists already", s->description, id);
    return put(l, SQL_PUT_SESSION, span_of(id), span_of(s->owner), life) &&
           move_all(l, id, former, former_count, moves, count) &&
           sqlite_run(l, sqlite_use(l, SQL_SWEEP_SESSIONS)) && sqlite_commit(l);
}

/* A lapsed session stays lapsed. Sweeping here too empties the file of a relay that is idle. */
static bool sqlite_session_renew(struct store *s, const char *id, int64_t life, bool *exists)
{
    struct sqlite_link *l = link_of(s);
    if (!sqlite_begin_write(l))
        return false;
    sqlite3_stmt *statement = use_key(l, SQL_RENEW_SESSION, span_of(id));
    bind_ttl(l, statement, life);
    if (!sqlite_run(l, statement))
        return false;
    *exists = sqlite3_changes(l->db) == 1;
    if (!sweep(l, SWEEP_IDLE) || !sqlite_commit(l))
        return false;
    store_set_clock(s, l->now);
    return true;
}

static bool sqlite_session_end(struct store *s, const char *id)
{
    struct sqlite_link *l = link_of(s);
    return sqlite_begin_write(l) && delete_session(l, id) && sqlite_commit(l);
}

static bool sqlite_sessions_live(struct store *s, const char *const *ids, size_t count, bool *live)
{
    struct sqlite_link *l = link_of(s);
    sqlite_begin_read(l);
    for (size_t i = 0; i < count; i++)
        if (!session_lives(l, ids[i], &live[i]))
            return false;
    return true;
}

/* ---- Listing ---- */

struct row {
    size_t key_at; /* in the page's keys */
    size_t key_len;
    bool ours;
    struct record record;
    int64_t ttl;
};

struct page {
    struct row rows[PAGE_ROWS];
    size_t count;
    struct buffer keys;
};

static void take_row(struct page *p, sqlite3_stmt *statement, int64_t now)
{
    struct row *row = &p->rows[p->count++];
    struct span key = sqlite_column_span(statement, 0);
    struct span text = sqlite_column_span(statement, 1);
    row->key_at = p->keys.len;
    row->key_len = key.len;
    row->ours = store_read(&row->record, (const char *)text.data, text.len);
    row->ttl = sqlite3_column_int64(statement, 2) - now;
    buffer_add_span(&p->keys, key);
}

static struct span row_key(const struct page *p, const struct row *row)
{
    return (struct span){p->keys.data + row->key_at, row->key_len};
}

/* Reads the rows behind `after`; one short transaction. */
static bool read_page(struct sqlite_link *l, struct span after, struct page *p)
{
    bool row;
    p->count = 0;
    buffer_clear(&p->keys);
    sqlite_begin_read(l);
    sqlite3_stmt *statement = use_key(l, SQL_LIST_RECORDS, after);
    sqlite3_bind_int64(statement, PARAMETER_MOST, PAGE_ROWS);
    while (sqlite_step(l, statement, &row)) {
        if (!row)
            return true;
        take_row(p, statement, l->now);
    }
    return false;
}

/* The callback may use the store, as the page is read by then; and may lose it. */
static bool list_pages(struct store *s, struct page *p, struct buffer *after, store_each *each,
                       void *context)
{
    for (;;) {
        if (!read_page(link_of(s), buffer_span(after), p))
            return false;
        for (size_t i = 0; i < p->count; i++) {
            const struct row *row = &p->rows[i];
            if (!each(context, row_key(p, row), row->ours ? &row->record : NULL, row->ttl))
                return true;
        }
        if (p->count < PAGE_ROWS)
            return true;
        if (!s->open)
            return false;
        buffer_clear(after);
        buffer_add_span(after, row_key(p, &p->rows[PAGE_ROWS - 1]));
    }
}

static bool sqlite_list(struct store *s, store_each *each, void *context)
{
    struct page *p = xcalloc(1, sizeof *p);
    struct buffer after = {0};
    buffer_reserve(&after, 1); /* Nothing, but not NULL. */
    bool good = list_pages(s, p, &after, each, context);
    buffer_free(&after);
    buffer_free(&p->keys);
    free(p);
    return good;
}

static bool sqlite_store_dangers(struct store *s, struct buffer *lines)
{
    return sqlite_dangers(link_of(s), lines);
}

static const char *sqlite_promises(const struct store_config *config)
{
    (void)config;
    return "shared by relays of this host alone; no failover: the records are where the disk is; "
           "times are this host's clock";
}

const struct store_backend store_sqlite_backend = {
    .create = sqlite_create,
    .destroy = sqlite_destroy,
    .open = sqlite_open,
    .look = sqlite_look,
    .close = sqlite_close,
    .session_open = sqlite_session_open,
    .session_renew = sqlite_session_renew,
    .session_end = sqlite_session_end,
    .sessions_live = sqlite_sessions_live,
    .apply = sqlite_apply,
    .complete = sqlite_complete,
    .get_result = sqlite_get_result,
    .get = sqlite_get,
    .list = sqlite_list,
    .dangers = sqlite_store_dangers,
    .promises = sqlite_promises,
};
