/*
 * The PostgreSQL store. A batch is one statement of one transaction: one round trip, one wait for
 * the server's disk. What it says is in postgres_schema.c, how steps become changes in
 * postgres_batch.c.
 *
 * An error of the server means that the transaction was rolled back, in all but one case: a
 * connection that is lost while it commits. Callers are told only that the call failed, after
 * which every outcome is unknown anyway.
 */
#include "postgres_batch.h"

#include <stdlib.h>
#include <string.h>

struct postgres_store {
    struct store common;
    struct postgres_link link;
    struct postgres_batch batch;
    struct buffer key; /* as it is stored; reused */
};

static struct postgres_store *mine(struct store *s)
{
    return (struct postgres_store *)s;
}

static struct store *postgres_create(const struct store_config *config)
{
    struct postgres_store *p = xcalloc(1, sizeof *p);
    postgres_link_init(&p->link, &p->common, config);
    return &p->common;
}

static void postgres_destroy(struct store *s)
{
    struct postgres_store *p = mine(s);
    postgres_link_free(&p->link);
    postgres_batch_free(&p->batch);
    buffer_free(&p->key);
    free(s);
}

/* ---- Opening ---- */

static bool open_and_make(struct postgres_link *l)
{
    if (!postgres_link_open(l) || !postgres_schema_look(l))
        return false;
    return (!l->missing || postgres_schema_make(l)) && postgres_schema_prepare(l);
}

static bool postgres_open(struct store *s, bool *permanent)
{
    struct postgres_link *l = &mine(s)->link;
    bool good = open_and_make(l);
    *permanent = l->refused;
    return good;
}

static bool postgres_look(struct store *s, const char **missing)
{
    struct postgres_link *l = &mine(s)->link;
    if (!postgres_link_open(l) || !postgres_schema_look(l))
        return false;
    *missing = l->missing;
    return l->missing || postgres_schema_prepare(l);
}

static void postgres_close(struct store *s)
{
    postgres_link_close(&mine(s)->link);
}

/* ---- Records ---- */

static struct span text_span(const char *text, size_t len)
{
    return (struct span){(const uint8_t *)text, len};
}

/* Binds what all statements about one key begin with. */
static void bind_key(struct postgres_store *p, struct span key)
{
    buffer_clear(&p->key);
    postgres_write_key(&p->key, key);
    postgres_bind_span(&p->link, p->common.scope);
    postgres_bind_span(&p->link, buffer_span(&p->key));
}

static void bind_record(struct postgres_store *p, const struct record *r)
{
    char text[RECORD_TEXT_MAX];
    size_t len = store_text(r, text);
    postgres_bind_span(&p->link, text_span(text, len));
}

static void add_op(struct postgres_store *p, const struct store_op *op)
{
    char text[RECORD_TEXT_MAX];
    size_t len = store_text(&op->write, text);
    postgres_batch_add(&p->batch, op->key, text_span(text, len), op->ttl);
    len = store_text(&op->expect, text);
    postgres_batch_expect(&p->batch, text_span(text, len));
}

static void take_op(struct store_op *op, bool applied, bool nothing, struct span met)
{
    op->answer = applied ? STORE_APPLIED : STORE_MET;
    if (!applied && !nothing)
        store_op_met(op, (const char *)met.data, met.len);
}

static void take_ops(const struct postgres_batch *b, struct store_op *ops)
{
    for (size_t i = 0; i < b->step_count; i++) {
        const struct postgres_step *step = &b->steps[i];
        struct store_op *op = &ops[step->order];
        if (b->fenced)
            op->answer = STORE_FENCED;
        else
            take_op(op, step->applied, step->met.at == 0, postgres_batch_span(b, step->met));
    }
}

/* The results beside records whose windows were moved live on as long as these. It is rare, so it
 * may cost a round trip of its own. */
static bool prolong_results(struct postgres_store *p, const struct store_op *ops, size_t count)
{
    size_t moved = 0;
    for (size_t i = 0; i < count; i++)
        moved += ops[i].answer == STORE_APPLIED && store_moves_result(&ops[i]);
    if (moved == 0)
        return true;
    postgres_bind_span(&p->link, p->common.scope);
    struct buffer *keys = postgres_bind_texts(&p->link, moved);
    struct buffer *ttls = postgres_bind_numbers(&p->link, moved);
    for (size_t i = 0; i < count; i++) {
        if (ops[i].answer != STORE_APPLIED || !store_moves_result(&ops[i]))
            continue;
        buffer_clear(&p->key);
        postgres_write_key(&p->key, ops[i].key);
        postgres_add_text(keys, buffer_span(&p->key));
        postgres_add_number(ttls, ops[i].ttl);
    }
    PGresult *result = postgres_ask(&p->link, PG_PROLONG);
    PQclear(result);
    return result != NULL;
}

static bool postgres_apply(struct store *s, const char *session, struct store_op *ops, size_t count)
{
    struct postgres_store *p = mine(s);
    postgres_begin(&p->link);
    postgres_batch_clear(&p->batch);
    for (size_t i = 0; i < count; i++)
        add_op(p, &ops[i]);
    if (!postgres_batch_run(&p->batch, &p->link, session, 0))
        return false;
    take_ops(&p->batch, ops);
    return prolong_results(p, ops, count);
}

/* One try. *raced: the record was what it had to be, and somebody else was faster. */
static bool try_complete(struct postgres_store *p, struct store_op *op, struct span result,
                         bool *raced)
{
    char expect[RECORD_TEXT_MAX];
    size_t len = store_text(&op->expect, expect);
    bind_key(p, op->key);
    bind_record(p, &op->expect);
    bind_record(p, &op->write);
    postgres_bind_number(&p->link, op->ttl);
    postgres_bind_span(&p->link, result);
    PGresult *row = postgres_ask(&p->link, PG_COMPLETE);
    if (!row)
        return false;
    bool applied = *PQgetvalue(row, 0, 0) == 't';
    struct span met = postgres_span(row, 0, 1);
    take_op(op, applied, PQgetisnull(row, 0, 1), met);
    *raced = !applied && span_equal(met, text_span(expect, len));
    PQclear(row);
    return true;
}

static bool postgres_complete(struct store *s, struct store_op *op, struct span result)
{
    struct postgres_store *p = mine(s);
    bool raced = true;
    postgres_begin(&p->link);
    while (raced)
        if (!try_complete(p, op, result, &raced))
            return false;
    return true;
}

static bool postgres_get_result(struct store *s, struct span key, struct buffer *out)
{
    struct postgres_store *p = mine(s);
    postgres_begin(&p->link);
    bind_key(p, key);
    PGresult *rows = postgres_ask(&p->link, PG_GET_RESULT);
    if (!rows)
        return false;
    if (PQntuples(rows) > 0)
        buffer_add_span(out, postgres_span(rows, 0, 0));
    PQclear(rows);
    return true;
}

static bool postgres_get(struct store *s, struct span key, struct record *out, int64_t *ttl,
                         bool *foreign)
{
    struct postgres_store *p = mine(s);
    postgres_begin(&p->link);
    bind_key(p, key);
    PGresult *rows = postgres_ask(&p->link, PG_GET);
    if (!rows)
        return false;
    if (PQntuples(rows) > 0) {
        *foreign = !store_read(out, PQgetvalue(rows, 0, 0), (size_t)PQgetlength(rows, 0, 0));
        *ttl = postgres_number(rows, 0, 1);
    }
    PQclear(rows);
    return true;
}

/* ---- Sessions ---- */

static void add_move(struct postgres_store *p, const char *id, const char *const *former,
                     size_t former_count, const struct store_move *move)
{
    char text[RECORD_TEXT_MAX];
    size_t len = store_move_text(move, id, text);
    postgres_batch_add(&p->batch, move->key, text_span(text, len), move->ttl);
    for (size_t i = 0; i < former_count; i++) {
        len = store_move_text(move, former[i], text);
        postgres_batch_expect(&p->batch, text_span(text, len));
    }
}

static void take_moves(const struct postgres_batch *b, struct store_move *moves)
{
    for (size_t i = 0; i < b->step_count; i++) {
        const struct postgres_step *step = &b->steps[i];
        struct store_move *move = &moves[step->order];
        struct span met = postgres_batch_span(b, step->met);
        move->moved = step->applied;
        if (!step->applied && step->met.at != 0)
            (void)store_read(&move->met, (const char *)met.data, met.len);
    }
}

/* Puts what comes before the moves; how many statements it is, or 0. The former sessions are
 * dropped first: that waits for transactions that began under them, and the moves, which are
 * statements of their own, see what these have done. */
static size_t put_session(struct postgres_link *l, const char *id, int64_t life,
                          const char *const *former, size_t former_count)
{
    if (!postgres_put(l, PG_SESSION_SWEEP))
        return 0;
    postgres_bind_text(l, id);
    postgres_bind_text(l, l->store->owner);
    postgres_bind_number(l, life);
    if (!postgres_put(l, PG_SESSION_OPEN))
        return 0;
    struct buffer *ids = postgres_bind_texts(l, former_count);
    for (size_t i = 0; i < former_count; i++)
        postgres_add_text(ids, span_of(former[i]));
    return postgres_put(l, PG_SESSION_DROP) ? 3 : 0;
}

static bool run_alone(struct postgres_link *l, size_t count)
{
    PGresult *results[PG_BATCH_MAX];
    if (!postgres_exchange(l, results, count))
        return false;
    for (size_t i = 0; i < count; i++)
        PQclear(results[i]);
    return true;
}

static bool postgres_session_open(struct store *s, const char *id, int64_t life,
                                  const char *const *former, size_t former_count,
                                  struct store_move *moves, size_t count)
{
    struct postgres_store *p = mine(s);
    struct postgres_link *l = &p->link;
    postgres_begin(l);
    postgres_batch_clear(&p->batch);
    for (size_t i = 0; i < count; i++)
        add_move(p, id, former, former_count, &moves[i]);
    size_t before = put_session(l, id, life, former, former_count);
    bool good = before > 0 &&
                (count > 0 ? postgres_batch_run(&p->batch, l, NULL, before) : run_alone(l, before));
    if (!good && l->exists)
        return store_fail(s, "%s: session %s exists already", s->description, id);
    if (good)
        take_moves(&p->batch, moves);
    return good;
}

static bool postgres_session_renew(struct store *s, const char *id, int64_t life, bool *exists)
{
    struct postgres_link *l = &mine(s)->link;
    postgres_begin(l);
    postgres_bind_text(l, id);
    postgres_bind_number(l, life);
    PGresult *row = postgres_ask(l, PG_SESSION_RENEW);
    if (!row)
        return false;
    store_set_clock(s, postgres_number(row, 0, 0));
    *exists = *PQgetvalue(row, 0, 1) == 't';
    PQclear(row);
    return true;
}

static bool postgres_session_end(struct store *s, const char *id)
{
    struct postgres_link *l = &mine(s)->link;
    postgres_begin(l);
    postgres_add_text(postgres_bind_texts(l, 1), span_of(id));
    PGresult *result = postgres_ask(l, PG_SESSION_DROP);
    PQclear(result);
    return result != NULL;
}

static bool postgres_sessions_live(struct store *s, const char *const *ids, size_t count,
                                   bool *live)
{
    struct postgres_link *l = &mine(s)->link;
    postgres_begin(l);
    struct buffer *array = postgres_bind_texts(l, count);
    for (size_t i = 0; i < count; i++)
        postgres_add_text(array, span_of(ids[i]));
    PGresult *rows = postgres_ask(l, PG_SESSIONS_LIVE);
    if (!rows)
        return false;
    bool good = true;
    for (int i = 0; good && i < PQntuples(rows); i++) {
        int64_t number = postgres_number(rows, i, 0);
        good = number >= 1 && number <= (int64_t)count;
        if (good)
            live[number - 1] = true;
    }
    PQclear(rows);
    return good || postgres_odd(l, "sessions");
}

/* ---- Listing ---- */

/* The next page, or NULL. */
static PGresult *next_page(struct postgres_store *p, struct span behind)
{
    postgres_begin(&p->link);
    postgres_bind_span(&p->link, p->common.scope);
    postgres_bind_span(&p->link, behind);
    return postgres_ask(&p->link, PG_LIST);
}

static bool tell(const PGresult *page, int row, store_each *each, void *context)
{
    struct buffer key = {0};
    struct record record;
    postgres_read_key(&key, postgres_span(page, row, 0));
    struct span text = postgres_span(page, row, 1);
    bool ours = store_read(&record, (const char *)text.data, text.len);
    bool go_on =
        each(context, buffer_span(&key), ours ? &record : NULL, postgres_number(page, row, 2));
    buffer_free(&key);
    return go_on;
}

/* Pages are read whole, so that the callback may use the store. */
static bool postgres_list(struct store *s, store_each *each, void *context)
{
    PGresult *page = next_page(mine(s), (struct span){0});
    while (page && PQntuples(page) > 0) {
        int rows = PQntuples(page);
        bool go_on = true;
        for (int i = 0; go_on && i < rows; i++)
            go_on = tell(page, i, each, context);
        PGresult *next = NULL;
        if (go_on && s->open)
            next = next_page(mine(s), postgres_span(page, rows - 1, 0));
        PQclear(page);
        if (!go_on)
            return true;
        page = next;
    }
    PQclear(page);
    return page != NULL;
}

static bool postgres_store_dangers(struct store *s, struct buffer *lines)
{
    return postgres_dangers(&mine(s)->link, lines);
}

static const char *postgres_promises(const struct store_config *config)
{
    (void)config;
    return "shared by relays on any host; a failover to another host of the URL is followed, and "
           "forgets what was not replicated; times are the database's clock";
}

const struct store_backend store_postgres_backend = {
    .create = postgres_create,
    .destroy = postgres_destroy,
    .open = postgres_open,
    .look = postgres_look,
    .close = postgres_close,
    .session_open = postgres_session_open,
    .session_renew = postgres_session_renew,
    .session_end = postgres_session_end,
    .sessions_live = postgres_sessions_live,
    .apply = postgres_apply,
    .complete = postgres_complete,
    .get_result = postgres_get_result,
    .get = postgres_get,
    .list = postgres_list,
    .dangers = postgres_store_dangers,
    .promises = postgres_promises,
};
