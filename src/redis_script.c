#include "redis_script.h"

#include <string.h>

static const char *const texts[SCRIPT_COUNT] = {
    /* KEYS: the session's entry, if the batch is fenced, then one for each op.
     * ARGV: for each op what is expected (empty: nothing), what to write (empty: delete), its time
     * to live. "expect == ''" with something to write is the claim of a new key, and the one that
     * has to be fast: a single command. An empty text under a key is not "nothing". */
    [SCRIPT_APPLY] =
        "local n = #ARGV / 3\n"
        "local shift = #KEYS - n\n"
        "if shift == 1 and redis.call('EXISTS', KEYS[1]) == 0 then return 'FENCED' end\n"
        "local out = {}\n"
        "for i = 1, n do\n"
        "  local key, expect, write = KEYS[shift + i], ARGV[3 * i - 2], ARGV[3 * i - 1]\n"
        "  local done, met\n"
        "  if expect == '' and write ~= '' then\n"
        "    met = redis.pcall('SET', key, write, 'NX', 'GET', 'PX', ARGV[3 * i])\n"
        "    done = not met\n"
        "  else\n"
        "    met = redis.pcall('GET', key)\n"
        "    done = (met or '') == expect and (expect ~= '' or not met)\n"
        "    if done and write ~= '' then\n"
        "      local set = redis.pcall('SET', key, write, 'PX', ARGV[3 * i])\n"
        "      if set.err then return set end\n"
        "    elseif done and expect ~= '' then\n"
        "      local del = redis.pcall('DEL', key)\n"
        "      if type(del) == 'table' then return del end\n"
        "    end\n"
        "  end\n"
        "  if done then out[i] = 1\n"
        "  elseif type(met) ~= 'table' then out[i] = met\n"
        "  elseif string.find(met.err, '^-?WRONGTYPE') then out[i] = 2\n"
        "  else return met end\n"
        "end\n"
        "return out\n",
    /* KEYS: the record, the result. ARGV: what is expected, what to write, the time to live of
     * both, the result (empty: none). The result comes first: a server that is full refuses a
     * script's first write, and then there is neither. */
    [SCRIPT_COMPLETE] =
        "local met = redis.pcall('GET', KEYS[1])\n"
        "if type(met) == 'table' then\n"
        "  return string.find(met.err, '^-?WRONGTYPE') and {2} or met\n"
        "end\n"
        "if met ~= ARGV[1] then return {met} end\n"
        "if ARGV[4] ~= '' then redis.call('SET', KEYS[2], ARGV[4], 'PX', ARGV[3]) end\n"
        "redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])\n"
        "return {1}\n",
    /* KEYS: the new entry, the former entries, then one for each move.
     * ARGV: the entry's value, its life, the number of former sessions; then for each move its time
     * to live, the text to write, and the text with each of the former sessions. */
    [SCRIPT_SESSION] = "if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then\n"
                       "  return 'EXISTS'\n"
                       "end\n"
                       "local former = tonumber(ARGV[3])\n"
                       "local out = {}\n"
                       "for i = 1, #KEYS - 1 - former do\n"
                       "  local key, at = KEYS[1 + former + i], 4 + (i - 1) * (2 + former)\n"
                       "  local met = redis.pcall('GET', key)\n"
                       "  if type(met) == 'table' then\n"
                       "    if not string.find(met.err, '^-?WRONGTYPE') then return met end\n"
                       "    met = 2\n"
                       "  end\n"
                       "  out[i] = met\n"
                       "  for j = 1, former do\n"
                       "    if met == ARGV[at + 1 + j] then\n"
                       "      redis.call('SET', key, ARGV[at + 1], 'PX', ARGV[at])\n"
                       "      out[i] = 1\n"
                       "      break\n"
                       "    end\n"
                       "  end\n"
                       "end\n"
                       "for i = 2, 1 + former do redis.call('DEL', KEYS[i]) end\n"
                       "return out\n",
};

static bool load_script(struct redis_scripts *s, enum redis_script script)
{
    redisReply *reply = redis_ask(s->link, "SCRIPT LOAD %s", texts[script]);
    if (!reply)
        return false;
    bool good = reply->type == REDIS_REPLY_STRING && reply->len == SCRIPT_SHA_LEN;
    if (good)
        memcpy(s->sha[script], reply->str, SCRIPT_SHA_LEN + 1);
    else
        redis_refuse(s->link, "SCRIPT LOAD", reply);
    freeReplyObject(reply);
    return good;
}

bool redis_scripts_load(struct redis_scripts *s)
{
    for (int i = 0; i < SCRIPT_COUNT; i++)
        if (!load_script(s, (enum redis_script)i))
            return false;
    return true;
}

void redis_script_put(struct redis_scripts *s, enum redis_script script, size_t keys,
                      size_t arguments)
{
    redis_begin(s->link);
    redis_put_command(s->link, 3 + keys + arguments);
    redis_put_text(s->link, "EVALSHA");
    redis_put_text(s->link, s->sha[script]);
    redis_put_number(s->link, (int64_t)keys);
}

/*
 * wait_replicas: what a script answers counts only when so many replicas have all that was written
 * before. One WAIT behind the script, in the same write, is enough for a batch.
 *
 * Every script waits, not claims alone. A claim that a failover forgets is made again: two copies
 * and no mark. A recording: the key is pending again, and its next message goes out, marked. A
 * release or a completion: somebody was told so in vain. The next session: its claims are in doubt
 * for nothing; and as no session begins without replicas, a route does not consume what it could
 * not claim. docs/protocol.md has the whole list.
 *
 * What a script only reads waits, too: a master that was replaced while it stood still believes in
 * itself for some seconds, and would call a key that was released meanwhile a duplicate. But its
 * replicas did have all that it wrote until then; so there is a write before each WAIT.
 */
#define WAIT_REPLIES 3 /* the script's, the write's and WAIT's */

static void put_wait(struct redis_scripts *s)
{
    struct redis_link *l = s->link;
    redis_put_command(l, 5);
    redis_put_text(l, "SET");
    redis_put_word(l, span_of(l->config->prefix), span_of(":probe"));
    redis_put_text(l, "1");
    redis_put_text(l, "PX");
    redis_put_text(l, "100");
    redis_put_command(l, 3);
    redis_put_text(l, "WAIT");
    redis_put_number(l, l->config->wait_replicas);
    redis_put_number(l, l->config->timeout * 3 / 4 + 1); /* within the call's; 0 is for ever */
}

static bool take_wait(struct redis_scripts *s, const redisReply *reply)
{
    const struct redis_link *l = s->link;
    if (reply->type != REDIS_REPLY_INTEGER)
        return redis_refuse(s->link, "WAIT", reply);
    return reply->integer >= l->config->wait_replicas ||
           store_fail(s->link->store,
                      "Redis at %s: %lld of the %lld replicas that wait_replicas asks for have "
                      "the last writes",
                      l->address, reply->integer, (long long)l->config->wait_replicas);
}

/* Sends the script that is in the command buffer; its reply, or NULL. */
static redisReply *send_script(struct redis_scripts *s)
{
    redisReply *replies[WAIT_REPLIES] = {NULL};
    size_t count = s->link->config->wait_replicas > 0 ? WAIT_REPLIES : 1;
    if (!redis_exchange(s->link, replies, count))
        return NULL;
    /* A script that failed has nothing to wait for, and is the reason to tell. A full memory, which
     * refuses the write, lets scripts release. */
    bool good = count == 1 || replies[0]->type == REDIS_REPLY_ERROR ||
                take_wait(s, replies[WAIT_REPLIES - 1]);
    redis_free_replies(replies + 1, count - 1);
    if (!good)
        redis_free_replies(replies, 1);
    return replies[0];
}

/* A server that was restarted or flushed has forgotten the script, and then has done nothing: it is
 * told again, once. */
redisReply *redis_script_run(struct redis_scripts *s, enum redis_script script)
{
    if (s->link->config->wait_replicas > 0)
        put_wait(s);
    redisReply *reply = send_script(s);
    if (!reply || !redis_is_error(reply, "NOSCRIPT"))
        return reply;
    freeReplyObject(reply);
    return load_script(s, script) ? send_script(s) : NULL;
}
