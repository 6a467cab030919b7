#include "replay.h"
#include "store.h"

struct store {
    bool open;
};

static struct store the_store;

struct store *store_new(const struct store_config *config, const char *scope)
{
    (void)config;
    (void)scope;
    return &the_store;
}

void store_free(struct store *s)
{
    (void)s;
}

bool store_open(struct store *s, bool *permanent)
{
    *permanent = false;
    s->open = true;
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
    (void)s;
    return "";
}

const char *store_describe(const struct store *s)
{
    (void)s;
    return "replay";
}

int64_t store_now(const struct store *s)
{
    (void)s;
    return NOW + world.now;
}

bool store_session_open(struct store *s, const char *id, int64_t life, const char *const *former,
                        size_t former_count, struct store_move *moves, size_t count)
{
    (void)s;
    (void)id;
    (void)life;
    (void)former;
    (void)former_count;
    (void)moves;
    return count == 0;
}

bool store_session_renew(struct store *s, const char *id, int64_t life, bool *exists)
{
    (void)s;
    (void)id;
    (void)life;
    *exists = true;
    return true;
}

bool store_session_end(struct store *s, const char *id)
{
    (void)s;
    (void)id;
    return true;
}

bool store_sessions_live(struct store *s, const char *const *ids, size_t count, bool *live)
{
    (void)s;
    (void)ids;
    for (size_t i = 0; i < count; i++)
        live[i] = true;
    return true;
}

/* A claim of a new key meets a record that was forwarded, if all are to be duplicates. The texts
 * are written and read, as they are for a real store. */
bool store_apply(struct store *s, const char *session, struct store_op *ops, size_t count)
{
    (void)s;
    (void)session;
    char text[RECORD_TEXT_MAX];
    for (size_t i = 0; i < count; i++) {
        (void)record_write(&ops[i].write, text);
        bool claims = ops[i].expect.now.state == RECORD_NONE;
        ops[i].answer = STORE_APPLIED;
        ops[i].met = (struct record){0};
        if (!claims || !world.duplicates)
            continue;
        struct record first = ops[i].write;
        first.now.state = RECORD_FORWARDED;
        first.now.ends = NOW + 86400000;
        first.session[0] = '\0';
        first.claim = 0;
        size_t len = record_write(&first, text);
        if (!record_read(&ops[i].met, text, len))
            die("a record cannot be read");
        ops[i].answer = STORE_MET;
    }
    return true;
}

bool store_complete(struct store *s, struct store_op *op, struct span result)
{
    (void)s;
    (void)op;
    (void)result;
    return false;
}

bool store_get_result(struct store *s, struct span key, struct buffer *out)
{
    (void)s;
    (void)key;
    (void)out;
    return true;
}

bool store_get(struct store *s, struct span key, struct record *out, int64_t *ttl, bool *foreign)
{
    (void)s;
    (void)key;
    *out = (struct record){0};
    *ttl = 0;
    *foreign = false;
    return true;
}

bool store_list(struct store *s, store_each *each, void *context)
{
    (void)s;
    (void)each;
    (void)context;
    return true;
}

bool store_dangers(struct store *s, struct buffer *lines)
{
    (void)s;
    (void)lines;
    return true;
}
