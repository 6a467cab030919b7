/*
 * The store's server: records and sessions with a time to live, changed by compare-and-set; calls
 * of dead connections that arrive late; a failover that forgets the newest writes.
 */
#include "sim_store.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

#define UNDO_MAX (sizeof sim->store.undo / sizeof *sim->store.undo)

void server_init(struct store_server *s)
{
    TAILQ_INIT(&s->late);
}

void server_free(struct store_server *s)
{
    struct late_call *call;
    while ((call = TAILQ_FIRST(&s->late))) {
        TAILQ_REMOVE(&s->late, call, link);
        late_call_free(call);
    }
    free(s->sessions);
}

int64_t server_wall(const struct store_server *s)
{
    return SIM_EPOCH + sim->now + s->wall_offset;
}

/* ---- What is there ---- */

static struct undo *remember(struct store_server *s)
{
    return &s->undo[s->undo_count++ % UNDO_MAX];
}

/* The entry of a key, after its time to live was looked at. */
static struct entry *entry_of(struct store_server *s, int key)
{
    struct entry *e = &s->entries[key];
    if (e->exists && sim->now >= e->expires) {
        e->exists = false;
        sim->book.keys[key].generation++;
        trace("store: k%d expires", key);
    }
    return e;
}

bool server_read(struct store_server *s, int key, struct record *out)
{
    const struct entry *e = entry_of(s, key);
    *out = (struct record){0};
    if (!e->exists)
        return true;
    if (e->foreign)
        return false;
    if (!record_read(out, e->text, strlen(e->text)))
        fail("the store holds a text that is no record: %s", e->text);
    return true;
}

void server_write(struct store_server *s, int key, const struct record *r, int64_t ttl)
{
    struct entry *e = entry_of(s, key);
    *remember(s) = (struct undo){.key = key, .entry = *e};
    e->foreign = false;
    e->exists = r->now.state != RECORD_NONE;
    if (!e->exists)
        return;
    if (ttl <= 0)
        fail("k%d written with a time to live of %lld", key, (long long)ttl);
    e->expires = sim->now + ttl;
    record_write(r, e->text);
}

static struct session_entry *find_session(struct store_server *s, const char *id)
{
    for (size_t i = s->session_count; i-- > 0;) {
        struct session_entry *e = &s->sessions[i];
        if (strcmp(e->id, id) == 0)
            return e;
    }
    return NULL;
}

static bool is_alive(const struct session_entry *e)
{
    return e && e->exists && sim->now < e->expires;
}

bool server_lives(struct store_server *s, const char *session)
{
    return is_alive(find_session(s, session));
}

uint32_t server_owner(struct store_server *s, const char *session)
{
    const struct session_entry *e = find_session(s, session);
    return e ? e->incarnation : 0;
}

int64_t server_opened(struct store_server *s, const char *session)
{
    const struct session_entry *e = find_session(s, session);
    return e ? e->opened : 0;
}

static void touch_session(struct store_server *s, struct session_entry *e, bool exists,
                          int64_t expires)
{
    *remember(s) = (struct undo){.key = -1,
                                 .session = (size_t)(e - s->sessions),
                                 .session_existed = e->exists,
                                 .session_expires = e->expires};
    e->exists = exists;
    e->expires = expires;
}

static struct session_entry *add_session(struct store_server *s, const char *id,
                                         uint32_t incarnation)
{
    if (s->session_count == s->session_size) {
        s->session_size = s->session_size ? 2 * s->session_size : 16;
        s->sessions = xrealloc(s->sessions, s->session_size * sizeof *s->sessions);
    }
    struct session_entry *e = &s->sessions[s->session_count++];
    *e = (struct session_entry){.incarnation = incarnation, .opened = sim->now};
    memcpy(e->id, id, sizeof e->id);
    return e;
}

/* ---- Calls ---- */

static void apply_op(struct store_server *s, struct call *c, struct store_op *op, int key)
{
    struct record there;
    if (!server_read(s, key, &there)) {
        op->answer = STORE_FOREIGN;
        return;
    }
    op->answer = record_equal(&there, &op->expect) ? STORE_APPLIED : STORE_MET;
    if (op->answer == STORE_MET) {
        op->met = there;
        return;
    }
    if (there.now.state == RECORD_NONE && op->write.now.state == RECORD_NONE)
        return; /* Nothing for nothing: a read. */
    bool owner_lived = there.session[0] && server_lives(s, there.session);
    server_write(s, key, &op->write, op->ttl);
    if (c->session[0])
        judge_write(c->incarnation, c->session, key, &there, &op->write, op->ttl, owner_lived);
}

static void apply_ops(struct store_server *s, struct call *c)
{
    bool fenced = c->session[0] && !server_lives(s, c->session);
    if (fenced)
        trace("store: fenced, session %.6s", c->session);
    for (size_t i = 0; i < c->count; i++) {
        if (fenced)
            c->ops[i].answer = STORE_FENCED;
        else
            apply_op(s, c, &c->ops[i], c->keys[i]);
    }
}

static void apply_move(struct store_server *s, struct call *c, struct store_move *m, int key)
{
    struct record there, want = m->claim;
    m->moved = false;
    m->met = (struct record){0};
    if (!server_read(s, key, &there))
        return;
    for (size_t i = 0; i < c->former_count && !m->moved; i++) {
        memcpy(want.session, c->former[i], sizeof want.session);
        m->moved = record_equal(&there, &want);
    }
    if (!m->moved) {
        m->met = there;
        return;
    }
    memcpy(want.session, c->session, sizeof want.session);
    server_write(s, key, &want, m->ttl);
    judge_moved(c->incarnation, key, &want, m->ttl);
}

static void open_session(struct store_server *s, struct call *c)
{
    if (find_session(s, c->session)) {
        fail("session %s was used before", c->session);
        return;
    }
    struct session_entry *e = add_session(s, c->session, c->incarnation);
    touch_session(s, e, true, sim->now + c->life);
    for (size_t i = 0; i < c->count; i++)
        apply_move(s, c, &c->moves[i], c->keys[i]);
    for (size_t i = 0; i < c->former_count; i++) {
        struct session_entry *former = find_session(s, c->former[i]);
        if (former)
            touch_session(s, former, false, 0);
    }
}

void server_apply(struct store_server *s, struct call *c)
{
    struct session_entry *e;
    switch (c->kind) {
    case CALL_OPS: apply_ops(s, c); break;
    case CALL_OPEN: open_session(s, c); break;
    case CALL_RENEW:
        e = find_session(s, c->session);
        c->exists = is_alive(e);
        if (c->exists)
            touch_session(s, e, true, sim->now + c->life);
        break;
    case CALL_END:
        e = find_session(s, c->session);
        if (e)
            touch_session(s, e, false, 0);
        break;
    }
}

void server_apply_late(struct store_server *s, bool all)
{
    struct late_call *call, *next;
    for (call = TAILQ_FIRST(&s->late); call; call = next) {
        next = TAILQ_NEXT(call, link);
        if (sim->now < call->due && !all)
            continue;
        TAILQ_REMOVE(&s->late, call, link);
        trace("store: a late call of incarnation %u arrives", call->call.incarnation);
        server_apply(s, &call->call);
        late_call_free(call);
    }
}

/* ---- Forgetting ---- */

/* Another server takes over, which had not got the newest writes. Nothing sent to the old one
 * counts. */
void server_failover(struct store_server *s)
{
    struct late_call *call;
    s->epoch++;
    s->wall_offset += rng_between(&sim->rng, -20, 20);
    while ((call = TAILQ_FIRST(&s->late))) {
        TAILQ_REMOVE(&s->late, call, link);
        late_call_free(call);
    }
    size_t kept = s->undo_count < UNDO_MAX ? s->undo_count : UNDO_MAX;
    size_t lost = rng_below(&sim->rng, (uint32_t)kept + 1);
    trace("store: failover, loses %zu writes", lost);
    for (; lost > 0; lost--) {
        const struct undo *u = &s->undo[--s->undo_count % UNDO_MAX];
        if (u->key < 0) {
            s->sessions[u->session].exists = u->session_existed;
            s->sessions[u->session].expires = u->session_expires;
        } else {
            s->entries[u->key] = u->entry;
            sim->book.keys[u->key].generation++;
            sim->book.keys[u->key].blurred = true;
        }
    }
    s->undo_count = 0;
}

void server_flush(struct store_server *s)
{
    trace("store: flushed");
    for (int key = 0; key < SIM_KEYS; key++) {
        s->entries[key].exists = false;
        sim->book.keys[key].generation++;
    }
    for (size_t i = 0; i < s->session_count; i++)
        s->sessions[i].exists = false;
    s->undo_count = 0;
}
