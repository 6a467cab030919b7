/*
 * The memory store: a small Redis inside the process, for trying things out and for tests. Names
 * and texts are those of the Redis backend, so both follow the same rules by the same means.
 *
 * Stores of one configured name share one world, from all threads, and a world outlives the store
 * objects: a worker that "reconnects" finds its records again. So this is the one place with
 * state of the process; one mutex guards all of it, held for one call at a time.
 */
#include "store_backend.h"

#include "clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BUCKETS 64
/* Buckets that each write looks through for what has expired. A round over all buckets takes half
 * as many writes as there are buckets, so what is dead never outweighs what is alive by much. */
#define SWEEP_STEP 2

struct entry {
    struct entry *next; /* in its bucket */
    uint64_t hash;
    int64_t expires; /* clock_now() */
    size_t name_len;
    size_t text_len;
    char bytes[]; /* the name, then the text */
};

struct world {
    struct world *next;
    char *name;
    struct entry **buckets;
    size_t bucket_count; /* a power of two */
    size_t entry_count;
    size_t sweep; /* the bucket to be swept next */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct world *worlds;

struct memory_store {
    struct store common;
    struct world *world;
    struct buffer name; /* of the entry at hand; reused */
};

static struct memory_store *mine(struct store *s)
{
    return (struct memory_store *)s;
}

/* ---- A map with times to live ---- */

/* FNV-1a. */
static uint64_t hash_of(struct span name)
{
    uint64_t hash = 14695981039346656037U;
    for (size_t i = 0; i < name.len; i++)
        hash = (hash ^ name.data[i]) * 1099511628211U;
    return hash ^ hash >> 32;
}

static struct span entry_name(const struct entry *e)
{
    return (struct span){(const uint8_t *)e->bytes, e->name_len};
}

static const char *entry_text(const struct entry *e)
{
    return e->bytes + e->name_len;
}

static void world_remove(struct world *w, struct entry **at)
{
    struct entry *e = *at;
    *at = e->next;
    free(e);
    w->entry_count--;
}

static void sweep_bucket(struct world *w, size_t bucket, int64_t now)
{
    struct entry **at = &w->buckets[bucket];
    while (*at) {
        if ((*at)->expires <= now)
            world_remove(w, at);
        else
            at = &(*at)->next;
    }
}

/* Where the living entry of that name hangs, or NULL. */
static struct entry **world_find(struct world *w, struct span name)
{
    uint64_t hash = hash_of(name);
    size_t bucket = hash & (w->bucket_count - 1);
    sweep_bucket(w, bucket, clock_now());
    for (struct entry **at = &w->buckets[bucket]; *at; at = &(*at)->next)
        if ((*at)->hash == hash && span_equal(entry_name(*at), name))
            return at;
    return NULL;
}

static void world_grow(struct world *w)
{
    size_t count = w->bucket_count * 2;
    struct entry **buckets = xcalloc(count, sizeof(struct entry *));
    for (size_t i = 0; i < w->bucket_count; i++) {
        while (w->buckets[i]) {
            struct entry *e = w->buckets[i];
            w->buckets[i] = e->next;
            e->next = buckets[e->hash & (count - 1)];
            buckets[e->hash & (count - 1)] = e;
        }
    }
    free(w->buckets);
    w->buckets = buckets;
    w->bucket_count = count;
}

static void world_drop(struct world *w, struct span name)
{
    struct entry **at = world_find(w, name);
    if (at)
        world_remove(w, at);
}

static void world_put(struct world *w, struct span name, const char *text, size_t len, int64_t ttl)
{
    world_drop(w, name);
    int64_t now = clock_now();
    for (int i = 0; i < SWEEP_STEP; i++) {
        sweep_bucket(w, w->sweep & (w->bucket_count - 1), now);
        w->sweep++;
    }
    if (w->entry_count >= w->bucket_count)
        world_grow(w);

    struct entry *e = xmalloc(sizeof *e + name.len + len);
    e->hash = hash_of(name);
    e->expires = ttl < INT64_MAX - now ? now + ttl : INT64_MAX;
    e->name_len = name.len;
    e->text_len = len;
    memcpy(e->bytes, name.data, name.len);
    memcpy(e->bytes + name.len, text, len);
    struct entry **bucket = &w->buckets[e->hash & (w->bucket_count - 1)];
    e->next = *bucket;
    *bucket = e;
    w->entry_count++;
}

/* ---- Worlds ---- */

static struct world *world_of(const char *name)
{
    for (struct world *w = worlds; w; w = w->next)
        if (strcmp(w->name, name) == 0)
            return w;
    struct world *w = xcalloc(1, sizeof *w);
    w->name = xstrdup(name);
    w->bucket_count = FIRST_BUCKETS;
    w->buckets = xcalloc(w->bucket_count, sizeof(struct entry *));
    w->next = worlds;
    worlds = w;
    return w;
}

/* ---- The backend ---- */

/* The name of an entry, valid until the next one is made. */
static struct span name_of(struct memory_store *m, struct span prefix, struct span rest)
{
    buffer_clear(&m->name);
    buffer_add_span(&m->name, prefix);
    buffer_add_span(&m->name, rest);
    return buffer_span(&m->name);
}

static struct entry **find_session(struct memory_store *m, const char *id)
{
    return world_find(m->world, name_of(m, m->common.session_prefix, span_of(id)));
}

static void put_session(struct memory_store *m, const char *id, int64_t life)
{
    world_put(m->world, name_of(m, m->common.session_prefix, span_of(id)), m->common.owner,
              strlen(m->common.owner), life);
}

static struct store *memory_create(const struct store_config *config)
{
    struct memory_store *m = xcalloc(1, sizeof *m);
    pthread_mutex_lock(&lock);
    m->world = world_of(config->name);
    pthread_mutex_unlock(&lock);
    store_set_description(&m->common, "memory of this process");
    return &m->common;
}

static void memory_destroy(struct store *s)
{
    buffer_free(&mine(s)->name);
    free(s);
}

static bool memory_open(struct store *s, bool *permanent)
{
    (void)permanent;
    store_set_clock(s, clock_wall());
    return true;
}

static void memory_close(struct store *s)
{
    (void)s;
}

static void move_record(struct memory_store *m, const char *id, const char *const *former,
                        size_t former_count, struct store_move *move)
{
    struct span name = name_of(m, m->common.key_prefix, move->key);
    struct entry **at = world_find(m->world, name);
    if (!at)
        return;
    char text[RECORD_TEXT_MAX];
    for (size_t i = 0; i < former_count && !move->moved; i++) {
        size_t len = store_move_text(move, former[i], text);
        move->moved = (*at)->text_len == len && memcmp(entry_text(*at), text, len) == 0;
    }
    if (move->moved) {
        size_t len = store_move_text(move, id, text);
        world_put(m->world, name, text, len, move->ttl);
    } else {
        (void)store_read(&move->met, entry_text(*at), (*at)->text_len);
    }
}

static bool memory_session_open(struct store *s, const char *id, int64_t life,
                                const char *const *former, size_t former_count,
                                struct store_move *moves, size_t count)
{
    struct memory_store *m = mine(s);
    pthread_mutex_lock(&lock);
    bool exists = find_session(m, id) != NULL;
    if (!exists) {
        put_session(m, id, life);
        for (size_t i = 0; i < count; i++)
            move_record(m, id, former, former_count, &moves[i]);
        for (size_t i = 0; i < former_count; i++)
            world_drop(m->world, name_of(m, s->session_prefix, span_of(former[i])));
    }
    pthread_mutex_unlock(&lock);
    return !exists || store_fail(s, "%s: session %s exists already", s->description, id);
}

static bool memory_session_renew(struct store *s, const char *id, int64_t life, bool *exists)
{
    struct memory_store *m = mine(s);
    pthread_mutex_lock(&lock);
    *exists = find_session(m, id) != NULL;
    if (*exists)
        put_session(m, id, life);
    pthread_mutex_unlock(&lock);
    store_set_clock(s, clock_wall());
    return true;
}

static bool memory_session_end(struct store *s, const char *id)
{
    struct memory_store *m = mine(s);
    pthread_mutex_lock(&lock);
    world_drop(m->world, name_of(m, s->session_prefix, span_of(id)));
    pthread_mutex_unlock(&lock);
    return true;
}

static bool memory_sessions_live(struct store *s, const char *const *ids, size_t count, bool *live)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < count; i++)
        live[i] = find_session(mine(s), ids[i]) != NULL;
    pthread_mutex_unlock(&lock);
    return true;
}

/* The result of the key at hand, or NULL. */
static struct entry **find_result(struct memory_store *m, struct span key)
{
    return world_find(m->world, name_of(m, m->common.result_prefix, key));
}

/* The result lives at least as long as what was written beside it. */
static void prolong_result(struct memory_store *m, const struct store_op *op)
{
    struct entry **result = find_result(m, op->key);
    int64_t expires = clock_now() + op->ttl;
    if (result && (*result)->expires < expires)
        (*result)->expires = expires;
}

static void apply_op(struct memory_store *m, struct store_op *op)
{
    char text[RECORD_TEXT_MAX];
    size_t len = store_text(&op->expect, text);
    struct span name = name_of(m, m->common.key_prefix, op->key);
    struct entry **at = world_find(m->world, name);
    bool same = at ? len > 0 && (*at)->text_len == len && memcmp(entry_text(*at), text, len) == 0
                   : len == 0;
    if (!same && at) {
        store_op_met(op, entry_text(*at), (*at)->text_len);
        return;
    }
    op->answer = same ? STORE_APPLIED : STORE_MET;
    if (!same)
        return;
    len = store_text(&op->write, text);
    if (len > 0)
        world_put(m->world, name, text, len, op->ttl);
    else if (at)
        world_remove(m->world, at);
    if (store_moves_result(op))
        prolong_result(m, op);
}

static bool memory_apply(struct store *s, const char *session, struct store_op *ops, size_t count)
{
    struct memory_store *m = mine(s);
    pthread_mutex_lock(&lock);
    bool fenced = session && !find_session(m, session);
    for (size_t i = 0; i < count; i++) {
        if (fenced)
            ops[i].answer = STORE_FENCED;
        else
            apply_op(m, &ops[i]);
    }
    pthread_mutex_unlock(&lock);
    return true;
}

static bool memory_complete(struct store *s, struct store_op *op, struct span result)
{
    struct memory_store *m = mine(s);
    pthread_mutex_lock(&lock);
    apply_op(m, op);
    if (op->answer == STORE_APPLIED && result.len > 0)
        world_put(m->world, name_of(m, s->result_prefix, op->key), (const char *)result.data,
                  result.len, op->ttl);
    pthread_mutex_unlock(&lock);
    return true;
}

static bool memory_get_result(struct store *s, struct span key, struct buffer *out)
{
    struct memory_store *m = mine(s);
    pthread_mutex_lock(&lock);
    struct entry **at = find_result(m, key);
    if (at)
        buffer_add(out, entry_text(*at), (*at)->text_len);
    pthread_mutex_unlock(&lock);
    return true;
}

static bool memory_get(struct store *s, struct span key, struct record *out, int64_t *ttl,
                       bool *foreign)
{
    struct memory_store *m = mine(s);
    pthread_mutex_lock(&lock);
    struct entry **at = world_find(m->world, name_of(m, s->key_prefix, key));
    if (at) {
        *ttl = (*at)->expires - clock_now();
        *foreign = !store_read(out, entry_text(*at), (*at)->text_len);
    }
    pthread_mutex_unlock(&lock);
    return true;
}

/* Copies of the entries in that bucket whose names begin with `prefix`; false: there is no such
 * bucket. The map may grow between two calls: an entry of bucket i then goes to i or to a higher
 * one, so none is missed. */
static bool copy_bucket(struct world *w, size_t bucket, struct span prefix, struct entry **out)
{
    pthread_mutex_lock(&lock);
    bool exists = bucket < w->bucket_count;
    if (exists)
        sweep_bucket(w, bucket, clock_now());
    for (struct entry *e = exists ? w->buckets[bucket] : NULL; e; e = e->next) {
        if (e->name_len < prefix.len || memcmp(e->bytes, prefix.data, prefix.len) != 0)
            continue;
        size_t size = sizeof *e + e->name_len + e->text_len;
        struct entry *copy = memcpy(xmalloc(size), e, size);
        copy->next = *out;
        *out = copy;
    }
    pthread_mutex_unlock(&lock);
    return exists;
}

static bool tell_entry(const struct entry *e, size_t prefix_len, store_each *each, void *context)
{
    struct span key = {(const uint8_t *)e->bytes + prefix_len, e->name_len - prefix_len};
    struct record r;
    bool ours = store_read(&r, entry_text(e), e->text_len);
    return each(context, key, ours ? &r : NULL, e->expires - clock_now());
}

/* The callback runs without the lock, so that it may use the store. */
static bool memory_list(struct store *s, store_each *each, void *context)
{
    bool go_on = true;
    struct entry *copies = NULL;
    for (size_t i = 0; go_on && copy_bucket(mine(s)->world, i, s->key_prefix, &copies); i++) {
        while (copies) {
            struct entry *e = copies;
            copies = e->next;
            go_on = go_on && tell_entry(e, s->key_prefix.len, each, context);
            free(e);
        }
    }
    return true;
}

static bool memory_dangers(struct store *s, struct buffer *lines)
{
    (void)s;
    buffer_printf(lines, "records are kept in the memory of this process alone: a restart forgets "
                         "every key, and no other process sees them\n");
    return true;
}

/* ---- For tests ---- */

void store_memory_put(struct store *s, struct span key, const char *text, int64_t ttl)
{
    struct memory_store *m = mine(s);
    pthread_mutex_lock(&lock);
    world_put(m->world, name_of(m, s->key_prefix, key), text, strlen(text), ttl);
    pthread_mutex_unlock(&lock);
}

/* The worlds stay, as store objects point to them. */
void store_memory_reset(void)
{
    pthread_mutex_lock(&lock);
    for (struct world *w = worlds; w; w = w->next) {
        for (size_t i = 0; i < w->bucket_count; i++)
            sweep_bucket(w, i, INT64_MAX);
        w->bucket_count = FIRST_BUCKETS;
    }
    pthread_mutex_unlock(&lock);
}

size_t store_memory_size(void)
{
    size_t size = 0;
    pthread_mutex_lock(&lock);
    for (struct world *w = worlds; w; w = w->next)
        size += w->entry_count;
    pthread_mutex_unlock(&lock);
    return size;
}

static const char *memory_promises(const struct store_config *config)
{
    (void)config;
    return "shared by nobody, and gone when the program ends: for trying out";
}

const struct store_backend store_memory_backend = {
    .create = memory_create,
    .destroy = memory_destroy,
    .open = memory_open,
    .close = memory_close,
    .session_open = memory_session_open,
    .session_renew = memory_session_renew,
    .session_end = memory_session_end,
    .sessions_live = memory_sessions_live,
    .apply = memory_apply,
    .complete = memory_complete,
    .get_result = memory_get_result,
    .get = memory_get,
    .list = memory_list,
    .dangers = memory_dangers,
    .promises = memory_promises,
};
