/* store.h against the simulated server, with everything that a network may do to a call. */
#include "sim_store.h"
#include "clock.h"
#include "store.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

struct store {
    struct relay_process *owner;
    bool open;
    uint32_t epoch; /* of the server, when it connected */
    int64_t base;   /* the server's clock less the world's */
};

struct store *store_new(const struct store_config *config, const char *scope)
{
    (void)config;
    (void)scope;
    struct store *s = xcalloc(1, sizeof *s);
    s->owner = sim->current;
    s->base = clock_wall() - sim->now;
    return s;
}

void store_free(struct store *s)
{
    free(s);
}

static void set_clock(struct store *s)
{
    s->base = server_wall(&sim->store) - sim->now;
}

bool store_open(struct store *s, bool *permanent)
{
    *permanent = false;
    s->open = false;
    if (s->owner->dead || !world_pause(s->owner) || sim->now < sim->store.down_until)
        return false;
    s->open = true;
    s->epoch = sim->store.epoch;
    set_clock(s);
    return true;
}

void store_close(struct store *s)
{
    s->open = false;
}

bool store_is_open(const struct store *s)
{
    return s->open;
}

const char *store_error(const struct store *s)
{
    return s->open ? "" : "simulated failure of the store";
}

const char *store_describe(const struct store *s)
{
    (void)s;
    return "simulated store";
}

int64_t store_now(const struct store *s)
{
    return sim->now + s->base;
}

/* ---- What may become of a call ---- */

enum fate { FATE_ANSWERED, FATE_REPLY_LOST, FATE_LOST, FATE_LATE };

static enum fate choose_fate(struct store *s)
{
    const struct faults *f = &sim->faults;
    if (!s->open)
        return FATE_LOST;
    bool cut = s->epoch != sim->store.epoch || sim->now < sim->store.down_until;
    /* Where nothing may be in doubt, a relay must be able to keep its session. */
    bool spare = sim->class == CLASS_MANY &&
                 sim->now - s->owner->last_store_fault < 2 * sim->store_config.session;
    if (!cut && !sim->calm && !spare) {
        if (rng_chance(&sim->rng, f->lost_reply))
            return FATE_REPLY_LOST;
        if (rng_chance(&sim->rng, f->late_call))
            return FATE_LATE;
        cut = rng_chance(&sim->rng, f->lost_request);
    }
    return cut ? FATE_LOST : FATE_ANSWERED;
}

void late_call_free(struct late_call *call)
{
    free(call->call.ops);
    free(call->call.moves);
    free(call->call.keys);
    free(call);
}

static void send_later(const struct call *c)
{
    struct late_call *late = xcalloc(1, sizeof *late);
    late->call = *c;
    late->due = sim->now + rng_between(&sim->rng, 1, 8000);
    late->call.keys = NULL;
    if (c->count > 0) {
        late->call.keys = xcalloc(c->count, sizeof *c->keys);
        memcpy(late->call.keys, c->keys, c->count * sizeof *c->keys);
    }
    if (c->ops) {
        late->call.ops = xcalloc(c->count, sizeof *c->ops);
        memcpy(late->call.ops, c->ops, c->count * sizeof *c->ops);
    }
    if (c->moves) {
        late->call.moves = xcalloc(c->count, sizeof *c->moves);
        memcpy(late->call.moves, c->moves, c->count * sizeof *c->moves);
    }
    TAILQ_INSERT_TAIL(&sim->store.late, late, link);
}

/* False: the caller never gets an answer. */
static bool call_server(struct store *s, struct call *c)
{
    struct relay_process *r = s->owner;
    c->incarnation = r->incarnation;
    bool usable = s->open && !r->dead && world_pause(r);
    enum fate fate = usable ? choose_fate(s) : FATE_LOST;
    static const char *const fates[] = {"answered", "reply lost", "lost", "late"};
    static const char *const kinds[] = {"apply", "open session", "renew", "end session"};
    if (c->kind != CALL_RENEW || fate != FATE_ANSWERED)
        trace("r%d: store %s %.6s, %zu keys: %s", r->slot, kinds[c->kind], c->session, c->count,
              fates[fate]);
    if (fate == FATE_ANSWERED || fate == FATE_REPLY_LOST)
        server_apply(&sim->store, c);
    if (fate == FATE_LATE)
        send_later(c);
    bool answered = fate == FATE_ANSWERED && world_pause(r);
    if (!answered) {
        s->open = false;
        r->last_store_fault = sim->now;
    }
    return answered;
}

static int *find_keys(const struct span *first, size_t stride, size_t count)
{
    int *keys = xcalloc(count, sizeof *keys);
    const char *at = (const char *)first;
    for (size_t i = 0; i < count; i++, at += stride)
        keys[i] = key_index(*(const struct span *)(const void *)at);
    return keys;
}

bool store_session_open(struct store *s, const char *id, int64_t life, const char *const *former,
                        size_t former_count, struct store_move *moves, size_t count)
{
    struct call c = {.kind = CALL_OPEN, .life = life, .moves = moves, .count = count};
    memcpy(c.session, id, sizeof c.session);
    c.former_count = former_count;
    for (size_t i = 0; i < former_count; i++)
        memcpy(c.former[i], former[i], sizeof c.former[i]);
    c.keys = find_keys(count ? &moves->key : NULL, sizeof *moves, count);
    bool answered = call_server(s, &c);
    for (size_t i = 0; answered && i < count; i++) {
        if (!moves[i].moved)
            judge_not_moved(s->owner, c.keys[i], &moves[i].claim);
    }
    free(c.keys);
    return answered;
}

bool store_session_renew(struct store *s, const char *id, int64_t life, bool *exists)
{
    struct call c = {.kind = CALL_RENEW, .life = life};
    memcpy(c.session, id, sizeof c.session);
    bool answered = call_server(s, &c);
    *exists = answered && c.exists;
    if (answered)
        set_clock(s);
    return answered;
}

bool store_session_end(struct store *s, const char *id)
{
    struct call c = {.kind = CALL_END};
    memcpy(c.session, id, sizeof c.session);
    return call_server(s, &c);
}

bool store_sessions_live(struct store *s, const char *const *ids, size_t count, bool *live)
{
    if (!s->open || s->owner->dead || !world_pause(s->owner) || choose_fate(s) != FATE_ANSWERED) {
        s->open = false;
        s->owner->last_store_fault = sim->now;
        return false;
    }
    for (size_t i = 0; i < count; i++)
        live[i] = server_lives(&sim->store, ids[i]);
    return world_pause(s->owner);
}

bool store_apply(struct store *s, const char *session, struct store_op *ops, size_t count)
{
    struct call c = {.kind = CALL_OPS, .ops = ops, .count = count};
    if (!session)
        fail("a relay's call is not fenced by its session");
    else
        memcpy(c.session, session, sizeof c.session);
    c.keys = find_keys(count ? &ops->key : NULL, sizeof *ops, count);
    for (size_t i = 0; i < count; i++)
        ops[i].met = (struct record){0};
    bool answered = call_server(s, &c);
    for (size_t i = 0; answered && i < count; i++)
        judge_answered(s->owner, c.keys[i], &ops[i]);
    free(c.keys);
    return answered;
}

bool store_get(struct store *s, struct span key, struct record *out, int64_t *ttl, bool *foreign)
{
    *ttl = 1;
    *foreign = !server_read(&sim->store, key_index(key), out);
    return s->open;
}

bool store_get_result(struct store *s, struct span key, struct buffer *out)
{
    (void)key_index(key);
    if (!s->open || s->owner->dead || !world_pause(s->owner) || choose_fate(s) != FATE_ANSWERED) {
        s->open = false;
        s->owner->last_store_fault = sim->now;
        return false;
    }
    buffer_printf(out, "{\"done\":true}");
    return world_pause(s->owner);
}

bool store_list(struct store *s, store_each *each, void *context)
{
    (void)each;
    (void)context;
    return s->open;
}

bool store_dangers(struct store *s, struct buffer *lines)
{
    (void)lines;
    return s->open && !s->owner->dead;
}
