#include "store_backend.h"

#include "clock.h"
#include "visible.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct store_backend *const BACKENDS[] = {
    [STORE_REDIS] = &store_redis_backend,
    [STORE_SQLITE] = &store_sqlite_backend,
    [STORE_POSTGRES] = &store_postgres_backend,
    [STORE_MEMORY] = &store_memory_backend,
};

/* ---- What backends share ---- */

bool store_fail(struct store *s, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(s->error, sizeof s->error, fmt, args);
    va_end(args);
    visible_make(s->error); /* it may repeat what a server said */
    return false;
}

void store_set_clock(struct store *s, int64_t now)
{
    s->clock_offset = now - clock_now();
}

void store_set_description(struct store *s, const char *fmt, ...)
{
    char line[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    free(s->description);
    s->description = xstrdup(line);
}

size_t store_text(const struct record *r, char out[RECORD_TEXT_MAX])
{
    return r->now.state == RECORD_NONE ? 0 : record_write(r, out);
}

size_t store_move_text(const struct store_move *move, const char *session,
                       char out[RECORD_TEXT_MAX])
{
    struct record r = move->claim;
    snprintf(r.session, sizeof r.session, "%s", session);
    return record_write(&r, out);
}

bool store_read(struct record *r, const char *text, size_t len)
{
    bool ours = record_read(r, text, len);
    if (!ours)
        *r = (struct record){0};
    return ours;
}

void store_op_met(struct store_op *op, const char *text, size_t len)
{
    op->answer = store_read(&op->met, text, len) ? STORE_MET : STORE_FOREIGN;
}

bool store_moves_result(const struct store_op *op)
{
    return op->write.now.has_result && op->write.now.ends != op->expect.now.ends;
}

/* ---- The interface ---- */

/* "host/pid" of this process. */
static char *owner_text(void)
{
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) != 0)
        strcpy(host, "unknown");
    return xasprintf("%s/%ld", host, (long)getpid());
}

struct store *store_new(const struct store_config *config, const char *scope)
{
    assert(config->timeout > 0);
    const struct store_backend *backend = BACKENDS[config->parsed.kind];
    struct store *s = backend->create(config);
    s->backend = backend;
    s->config = config;
    const char *prefix = config->prefix;
    s->names =
        xasprintf("%s:key:%s:%s:result:%s:%s:session:", prefix, scope, prefix, scope, prefix);
    size_t key_len = strlen(prefix) + strlen(":key:") + strlen(scope) + strlen(":");
    size_t result_len = key_len + strlen("result") - strlen("key");
    s->key_prefix = (struct span){(const uint8_t *)s->names, key_len};
    s->result_prefix = (struct span){s->key_prefix.data + key_len, result_len};
    s->session_prefix = span_of(s->names + key_len + result_len);
    s->scope = (struct span){s->key_prefix.data + strlen(prefix) + strlen(":key:"), strlen(scope)};
    s->owner = owner_text();
    s->clock_offset = clock_wall() - clock_now();
    return s;
}

void store_free(struct store *s)
{
    if (!s)
        return;
    store_close(s);
    free(s->names);
    free(s->owner);
    free(s->description);
    s->backend->destroy(s);
}

bool store_open(struct store *s, bool *permanent)
{
    store_close(s);
    *permanent = false;
    s->error[0] = '\0';
    s->open = s->backend->open(s, permanent);
    if (!s->open)
        s->backend->close(s);
    return s->open;
}

bool store_look(struct store *s, const char **missing)
{
    bool permanent;
    *missing = NULL;
    if (!s->backend->look)
        return store_open(s, &permanent);
    store_close(s);
    s->error[0] = '\0';
    s->open = s->backend->look(s, missing);
    if (!s->open)
        s->backend->close(s);
    return s->open;
}

void store_close(struct store *s)
{
    s->backend->close(s);
    s->open = false;
}

bool store_is_open(const struct store *s)
{
    return s->open;
}

const char *store_error(const struct store *s)
{
    return s->error;
}

const char *store_promises(const struct store *s)
{
    return s->backend->promises(s->config);
}

const char *store_describe(const struct store *s)
{
    return s->description;
}

int64_t store_now(const struct store *s)
{
    return clock_now() + s->clock_offset;
}

/* May a call begin? If not, the error that closed the store remains the one to tell. */
static bool is_usable(struct store *s)
{
    return s->open || (s->error[0] ? false : store_fail(s, "%s: not open", s->description));
}

/* Ends a call. After a failure nothing is known of what the connection still carries. */
static bool finish(struct store *s, bool done)
{
    if (!done)
        store_close(s);
    return done;
}

bool store_session_open(struct store *s, const char *id, int64_t life, const char *const *former,
                        size_t former_count, struct store_move *moves, size_t count)
{
    assert(*id && strlen(id) <= SESSION_ID_LEN && life > 0 && former_count <= STORE_FORMER_MAX);
    for (size_t i = 0; i < count; i++) {
        assert(moves[i].claim.now.state == RECORD_PENDING && moves[i].ttl > 0);
        moves[i].moved = false;
        moves[i].met = (struct record){0};
    }
    return is_usable(s) &&
           finish(s, s->backend->session_open(s, id, life, former, former_count, moves, count));
}

bool store_session_renew(struct store *s, const char *id, int64_t life, bool *exists)
{
    assert(life > 0);
    *exists = false;
    return is_usable(s) && finish(s, s->backend->session_renew(s, id, life, exists));
}

bool store_session_end(struct store *s, const char *id)
{
    return is_usable(s) && finish(s, s->backend->session_end(s, id));
}

bool store_sessions_live(struct store *s, const char *const *ids, size_t count, bool *live)
{
    for (size_t i = 0; i < count; i++)
        live[i] = false;
    return is_usable(s) &&
           (count == 0 || finish(s, s->backend->sessions_live(s, ids, count, live)));
}

bool store_apply(struct store *s, const char *session, struct store_op *ops, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        /* A record without a time to live would block its key for ever. */
        assert(ops[i].write.now.state == RECORD_NONE || ops[i].ttl > 0);
        assert(ops[i].key.len > 0);
        ops[i].met = (struct record){0};
    }
    return is_usable(s) && (count == 0 || finish(s, s->backend->apply(s, session, ops, count)));
}

bool store_complete(struct store *s, struct store_op *op, struct span result)
{
    assert(op->expect.now.state != RECORD_NONE && op->write.now.state != RECORD_NONE);
    assert(op->key.len > 0 && op->ttl > 0 && result.len <= STORE_RESULT_MAX);
    op->met = (struct record){0};
    return is_usable(s) && finish(s, s->backend->complete(s, op, result));
}

bool store_get_result(struct store *s, struct span key, struct buffer *out)
{
    return is_usable(s) && finish(s, s->backend->get_result(s, key, out));
}

bool store_get(struct store *s, struct span key, struct record *out, int64_t *ttl, bool *foreign)
{
    *out = (struct record){0};
    *ttl = 0;
    *foreign = false;
    return is_usable(s) && finish(s, s->backend->get(s, key, out, ttl, foreign));
}

bool store_list(struct store *s, store_each *each, void *context)
{
    return is_usable(s) && finish(s, s->backend->list(s, each, context));
}

bool store_dangers(struct store *s, struct buffer *lines)
{
    return is_usable(s) && finish(s, s->backend->dangers(s, lines));
}
