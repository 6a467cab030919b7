/*
 * The Redis store. A batch is one EVALSHA: one write, one round trip, atomic on the server.
 *
 * Error replies to these scripts mean "not executed" in all but one case: a batch of which one op
 * fails, as in a full memory, has done the ops before it. Callers are told only that the call
 * failed, after which every outcome is unknown anyway.
 */
#include "redis_script.h"

#include <stdlib.h>
#include <string.h>

#define SCAN_COUNT "400"

struct redis_store {
    struct store common;
    struct redis_link link;
    struct redis_scripts scripts;
};

static struct redis_store *mine(struct store *s)
{
    return (struct redis_store *)s;
}

static struct store *redis_create(const struct store_config *config)
{
    struct redis_store *r = xcalloc(1, sizeof *r);
    redis_link_init(&r->link, &r->common, config);
    r->scripts.link = &r->link;
    return &r->common;
}

static void redis_destroy(struct store *s)
{
    redis_link_free(&mine(s)->link);
    free(s);
}

static bool redis_open(struct store *s, bool *permanent)
{
    struct redis_store *r = mine(s);
    if (!redis_link_open(&r->link, permanent))
        return false;
    bool good = redis_scripts_load(&r->scripts);
    *permanent = r->link.refused;
    return good;
}

static void redis_close(struct store *s)
{
    redis_link_close(&mine(s)->link);
}

/* ---- Records ---- */

static void put_key(struct redis_store *r, struct span key)
{
    redis_put_word(&r->link, r->common.key_prefix, key);
}

static void put_session(struct redis_store *r, const char *id)
{
    redis_put_word(&r->link, r->common.session_prefix, span_of(id));
}

static void put_bytes(struct redis_store *r, const char *text, size_t len)
{
    redis_put_word(&r->link, (struct span){(const uint8_t *)text, len}, (struct span){0});
}

static void put_record(struct redis_store *r, const struct record *record)
{
    char text[RECORD_TEXT_MAX];
    put_bytes(r, text, store_text(record, text));
}

static bool take_answer(struct redis_store *r, const redisReply *reply, struct store_op *op)
{
    if (reply->type == REDIS_REPLY_STRING)
        store_op_met(op, reply->str, reply->len);
    else if (reply->type == REDIS_REPLY_NIL)
        op->answer = STORE_MET;
    else if (reply->type == REDIS_REPLY_INTEGER && reply->integer == ANSWER_APPLIED)
        op->answer = STORE_APPLIED;
    else if (reply->type == REDIS_REPLY_INTEGER && reply->integer == ANSWER_FOREIGN)
        op->answer = STORE_FOREIGN;
    else
        return redis_refuse(&r->link, "a batch", reply);
    return true;
}

static bool take_answers(struct redis_store *r, const redisReply *reply, struct store_op *ops,
                         size_t count)
{
    if (reply->type == REDIS_REPLY_STRING && strcmp(reply->str, "FENCED") == 0) {
        for (size_t i = 0; i < count; i++)
            ops[i].answer = STORE_FENCED;
        return true;
    }
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != count)
        return redis_refuse(&r->link, "a batch", reply);
    for (size_t i = 0; i < count; i++)
        if (!take_answer(r, reply->element[i], &ops[i]))
            return false;
    return true;
}

/* The results beside records whose windows were moved live on as long as these. It is rare, so it
 * may cost a round trip of its own. GT: never shorter than before. */
static bool prolong_results(struct redis_store *r, const struct store_op *ops, size_t count)
{
    size_t moved = 0;
    redis_begin(&r->link);
    for (size_t i = 0; i < count; i++) {
        if (ops[i].answer != STORE_APPLIED || !store_moves_result(&ops[i]))
            continue;
        redis_put_command(&r->link, 4);
        redis_put_text(&r->link, "PEXPIRE");
        redis_put_word(&r->link, r->common.result_prefix, ops[i].key);
        redis_put_number(&r->link, ops[i].ttl);
        redis_put_text(&r->link, "GT");
        moved++;
    }
    if (moved == 0)
        return true;
    redisReply **replies = xcalloc(moved, sizeof(redisReply *));
    bool good = redis_exchange(&r->link, replies, moved);
    for (size_t i = 0; good && i < moved; i++)
        good = replies[i]->type == REDIS_REPLY_INTEGER ||
               redis_refuse(&r->link, "PEXPIRE", replies[i]);
    redis_free_replies(replies, moved);
    free(replies);
    return good;
}

static bool redis_apply(struct store *s, const char *session, struct store_op *ops, size_t count)
{
    struct redis_store *r = mine(s);
    redis_script_put(&r->scripts, SCRIPT_APPLY, count + (session ? 1 : 0), 3 * count);
    if (session)
        put_session(r, session);
    for (size_t i = 0; i < count; i++)
        put_key(r, ops[i].key);
    for (size_t i = 0; i < count; i++) {
        put_record(r, &ops[i].expect);
        put_record(r, &ops[i].write);
        redis_put_number(&r->link, ops[i].ttl > 0 ? ops[i].ttl : 0);
    }
    redisReply *reply = redis_script_run(&r->scripts, SCRIPT_APPLY);
    bool good = reply && take_answers(r, reply, ops, count);
    freeReplyObject(reply);
    return good && prolong_results(r, ops, count);
}

static bool redis_complete(struct store *s, struct store_op *op, struct span result)
{
    struct redis_store *r = mine(s);
    redis_script_put(&r->scripts, SCRIPT_COMPLETE, 2, 4);
    put_key(r, op->key);
    redis_put_word(&r->link, s->result_prefix, op->key);
    put_record(r, &op->expect);
    put_record(r, &op->write);
    redis_put_number(&r->link, op->ttl);
    redis_put_word(&r->link, result, (struct span){0});
    redisReply *reply = redis_script_run(&r->scripts, SCRIPT_COMPLETE);
    bool good = reply && take_answers(r, reply, op, 1);
    freeReplyObject(reply);
    return good;
}

static bool redis_get_result(struct store *s, struct span key, struct buffer *out)
{
    struct redis_store *r = mine(s);
    redisReply *reply = NULL;
    redis_begin(&r->link);
    redis_put_command(&r->link, 2);
    redis_put_text(&r->link, "GET");
    redis_put_word(&r->link, s->result_prefix, key);
    if (!redis_exchange(&r->link, &reply, 1))
        return false;
    if (reply->type == REDIS_REPLY_STRING)
        buffer_add(out, reply->str, reply->len);
    bool good = reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_NIL ||
                redis_refuse(&r->link, "GET", reply);
    freeReplyObject(reply);
    return good;
}

/* A reply to GET. */
static bool take_value(struct redis_store *r, const redisReply *reply, struct record *out,
                       bool *foreign)
{
    *out = (struct record){0};
    *foreign = redis_is_error(reply, "WRONGTYPE");
    if (reply->type == REDIS_REPLY_STRING)
        *foreign = !store_read(out, reply->str, reply->len);
    return *foreign || reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_NIL ||
           redis_refuse(&r->link, "GET", reply);
}

static bool take_ttl(struct redis_store *r, const redisReply *reply, int64_t *ttl)
{
    if (reply->type != REDIS_REPLY_INTEGER)
        return redis_refuse(&r->link, "PTTL", reply);
    *ttl = reply->integer == -2 ? 0 : reply->integer; /* -2: it has just expired */
    return true;
}

static void put_get(struct redis_store *r, struct span prefix, struct span key)
{
    redis_put_command(&r->link, 2);
    redis_put_text(&r->link, "GET");
    redis_put_word(&r->link, prefix, key);
    redis_put_command(&r->link, 2);
    redis_put_text(&r->link, "PTTL");
    redis_put_word(&r->link, prefix, key);
}

static bool redis_get(struct store *s, struct span key, struct record *out, int64_t *ttl,
                      bool *foreign)
{
    struct redis_store *r = mine(s);
    redisReply *replies[2];
    redis_begin(&r->link);
    put_get(r, s->key_prefix, key);
    if (!redis_exchange(&r->link, replies, 2))
        return false;
    bool good = take_value(r, replies[0], out, foreign) && take_ttl(r, replies[1], ttl);
    redis_free_replies(replies, 2);
    return good;
}

/* ---- Sessions ---- */

static bool take_move(struct redis_store *r, const redisReply *reply, struct store_move *move)
{
    struct store_op op = {.answer = STORE_MET};
    if (!take_answer(r, reply, &op))
        return false;
    move->moved = op.answer == STORE_APPLIED;
    move->met = op.met;
    return true;
}

static bool take_moves(struct redis_store *r, const redisReply *reply, const char *id,
                       struct store_move *moves, size_t count)
{
    if (reply->type == REDIS_REPLY_STRING && strcmp(reply->str, "EXISTS") == 0)
        return store_fail(&r->common, "%s: session %s exists already", r->common.description, id);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != count)
        return redis_refuse(&r->link, "opening a session", reply);
    for (size_t i = 0; i < count; i++)
        if (!take_move(r, reply->element[i], &moves[i]))
            return false;
    return true;
}

static void put_move(struct redis_store *r, const char *id, const char *const *former,
                     size_t former_count, const struct store_move *move)
{
    char text[RECORD_TEXT_MAX];
    redis_put_number(&r->link, move->ttl);
    put_bytes(r, text, store_move_text(move, id, text));
    for (size_t i = 0; i < former_count; i++)
        put_bytes(r, text, store_move_text(move, former[i], text));
}

static bool redis_session_open(struct store *s, const char *id, int64_t life,
                               const char *const *former, size_t former_count,
                               struct store_move *moves, size_t count)
{
    struct redis_store *r = mine(s);
    redis_script_put(&r->scripts, SCRIPT_SESSION, 1 + former_count + count,
                     3 + count * (2 + former_count));
    put_session(r, id);
    for (size_t i = 0; i < former_count; i++)
        put_session(r, former[i]);
    for (size_t i = 0; i < count; i++)
        put_key(r, moves[i].key);
    redis_put_text(&r->link, s->owner);
    redis_put_number(&r->link, life);
    redis_put_number(&r->link, (int64_t)former_count);
    for (size_t i = 0; i < count; i++)
        put_move(r, id, former, former_count, &moves[i]);
    redisReply *reply = redis_script_run(&r->scripts, SCRIPT_SESSION);
    bool good = reply && take_moves(r, reply, id, moves, count);
    freeReplyObject(reply);
    return good;
}

/* With XX a lapsed session stays lapsed; TIME comes along in the same round trip. */
static bool redis_session_renew(struct store *s, const char *id, int64_t life, bool *exists)
{
    struct redis_store *r = mine(s);
    redisReply *replies[2];
    redis_begin(&r->link);
    redis_put_command(&r->link, 6);
    redis_put_text(&r->link, "SET");
    put_session(r, id);
    redis_put_text(&r->link, s->owner);
    redis_put_text(&r->link, "XX");
    redis_put_text(&r->link, "PX");
    redis_put_number(&r->link, life);
    redis_put_command(&r->link, 1);
    redis_put_text(&r->link, "TIME");
    if (!redis_exchange(&r->link, replies, 2))
        return false;
    *exists = replies[0]->type == REDIS_REPLY_STATUS;
    bool good =
        *exists || replies[0]->type == REDIS_REPLY_NIL || redis_refuse(&r->link, "SET", replies[0]);
    good = good && redis_take_time(&r->link, replies[1]);
    redis_free_replies(replies, 2);
    return good;
}

static bool redis_session_end(struct store *s, const char *id)
{
    struct redis_store *r = mine(s);
    redisReply *reply = NULL;
    redis_begin(&r->link);
    redis_put_command(&r->link, 2);
    redis_put_text(&r->link, "DEL");
    put_session(r, id);
    if (!redis_exchange(&r->link, &reply, 1))
        return false;
    bool good = reply->type == REDIS_REPLY_INTEGER || redis_refuse(&r->link, "DEL", reply);
    freeReplyObject(reply);
    return good;
}

static bool redis_sessions_live(struct store *s, const char *const *ids, size_t count, bool *live)
{
    struct redis_store *r = mine(s);
    redisReply *reply = NULL;
    redis_begin(&r->link);
    redis_put_command(&r->link, 1 + count);
    redis_put_text(&r->link, "MGET");
    for (size_t i = 0; i < count; i++)
        put_session(r, ids[i]);
    if (!redis_exchange(&r->link, &reply, 1))
        return false;
    bool good = (reply->type == REDIS_REPLY_ARRAY && reply->elements == count) ||
                redis_refuse(&r->link, "MGET", reply);
    for (size_t i = 0; good && i < count; i++)
        live[i] = reply->element[i]->type == REDIS_REPLY_STRING;
    freeReplyObject(reply);
    return good;
}

/* ---- Listing ---- */

/* SCAN's pattern for all keys of the scope: what prefix and scope contain is meant literally. */
static void put_pattern(struct redis_store *r, struct span prefix)
{
    struct buffer pattern = {0};
    for (size_t i = 0; i < prefix.len; i++) {
        if (strchr("*?[]\\^-", prefix.data[i]))
            buffer_add_u8(&pattern, '\\');
        buffer_add_u8(&pattern, prefix.data[i]);
    }
    buffer_add_u8(&pattern, '*');
    redis_put_word(&r->link, buffer_span(&pattern), (struct span){0});
    buffer_free(&pattern);
}

static redisReply *scan(struct redis_store *r, const char *cursor)
{
    redisReply *reply = NULL;
    redis_begin(&r->link);
    redis_put_command(&r->link, 6);
    redis_put_text(&r->link, "SCAN");
    redis_put_text(&r->link, cursor);
    redis_put_text(&r->link, "MATCH");
    put_pattern(r, r->common.key_prefix);
    redis_put_text(&r->link, "COUNT");
    redis_put_text(&r->link, SCAN_COUNT);
    if (!redis_exchange(&r->link, &reply, 1))
        return NULL;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
        reply->element[0]->type == REDIS_REPLY_STRING &&
        reply->element[1]->type == REDIS_REPLY_ARRAY)
        return reply;
    redis_refuse(&r->link, "SCAN", reply);
    freeReplyObject(reply);
    return NULL;
}

static struct span reply_span(const redisReply *reply)
{
    return (struct span){(const uint8_t *)reply->str, reply->len};
}

/* Tells one key of a page, unless it went away since SCAN saw it. */
static bool tell(struct redis_store *r, const redisReply *name, redisReply *const *replies,
                 store_each *each, void *context, bool *go_on)
{
    struct record record;
    bool foreign;
    int64_t ttl = 0;
    if (!take_value(r, replies[0], &record, &foreign) || !take_ttl(r, replies[1], &ttl))
        return false;
    if (!foreign && record.now.state == RECORD_NONE)
        return true;
    struct span key = reply_span(name);
    key.data += r->common.key_prefix.len;
    key.len -= r->common.key_prefix.len;
    *go_on = each(context, key, foreign ? NULL : &record, ttl);
    return true;
}

/* All replies are read before the first is told, so that the callback may use the store. */
static bool tell_page(struct redis_store *r, const redisReply *names, store_each *each,
                      void *context, bool *go_on)
{
    size_t count = names->elements;
    redisReply **replies = xcalloc(2 * count, sizeof(redisReply *));
    redis_begin(&r->link);
    for (size_t i = 0; i < count; i++)
        put_get(r, reply_span(names->element[i]), (struct span){0});
    bool good = redis_exchange(&r->link, replies, 2 * count);
    for (size_t i = 0; good && *go_on && i < count; i++)
        good = tell(r, names->element[i], replies + 2 * i, each, context, go_on);
    redis_free_replies(replies, 2 * count);
    free(replies);
    return good;
}

static bool redis_list(struct store *s, store_each *each, void *context)
{
    struct redis_store *r = mine(s);
    char cursor[24] = "0";
    bool go_on = true;
    do {
        redisReply *page = scan(r, cursor);
        if (!page)
            return false;
        snprintf(cursor, sizeof cursor, "%s", page->element[0]->str);
        bool good = page->element[1]->elements == 0 ||
                    tell_page(r, page->element[1], each, context, &go_on);
        freeReplyObject(page);
        if (!good || !s->open)
            return false;
    } while (go_on && strcmp(cursor, "0") != 0);
    return true;
}

static bool redis_store_dangers(struct store *s, struct buffer *lines)
{
    return redis_dangers(&mine(s)->link, lines);
}

static const char *redis_promises(const struct store_config *config)
{
    return config->wait_replicas > 0
               ? "shared by relays on any host; what counts is on so many replicas as "
                 "wait_replicas "
                 "says, so a failover keeps it; times are the server's clock"
               : "shared by relays on any host; a failover forgets what no replica had "
                 "(wait_replicas); times are the server's clock";
}

const struct store_backend store_redis_backend = {
    .create = redis_create,
    .destroy = redis_destroy,
    .open = redis_open,
    .close = redis_close,
    .session_open = redis_session_open,
    .session_renew = redis_session_renew,
    .session_end = redis_session_end,
    .sessions_live = redis_sessions_live,
    .apply = redis_apply,
    .complete = redis_complete,
    .get_result = redis_get_result,
    .get = redis_get,
    .list = redis_list,
    .dangers = redis_store_dangers,
    .promises = redis_promises,
};
