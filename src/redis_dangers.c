/*
 * What a Redis server's settings and its past say about records that may be forgotten: eviction,
 * persistence, replication. Each makes duplicates possible, none a loss.
 */
#include "redis_link.h"

#include <stdlib.h>
#include <string.h>

enum setting { POLICY, SAVE, APPENDONLY, APPENDFSYNC, MIN_REPLICAS };
#define SETTING_COUNT 5
#define REPLY_COUNT (SETTING_COUNT + 1) /* INFO's comes last */

static const char *const setting_names[SETTING_COUNT] = {
    [POLICY] = "maxmemory-policy",
    [SAVE] = "save",
    [APPENDONLY] = "appendonly",
    [APPENDFSYNC] = "appendfsync",
    [MIN_REPLICAS] = "min-replicas-to-write",
};

/* The value in a reply to CONFIG GET, or NULL: managed servers forbid the command or hide some. */
static const char *setting_value(const redisReply *reply)
{
    bool there = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
                 reply->element[1]->type == REDIS_REPLY_STRING;
    return there ? reply->element[1]->str : NULL;
}

static void judge_eviction(struct redis_link *l, const redisReply *policy, const redisReply *info,
                           struct buffer *lines)
{
    char text[64];
    const char *value = setting_value(policy);
    if (!value && redis_info_field(info, "maxmemory_policy", text, sizeof text))
        value = text;
    if (value && strcmp(value, "noeviction") != 0)
        buffer_printf(lines,
                      "maxmemory-policy is %s: short of memory, the server forgets records, and "
                      "their keys are forwarded again; noeviction is safe\n",
                      value);
    redis_info_field(info, "evicted_keys", text, sizeof text);
    long long evicted = strtoll(text, NULL, 10);
    /* A smaller number than before is that of a server started since. */
    long long more = evicted < l->evicted ? evicted : evicted - l->evicted;
    if (more > 0)
        buffer_printf(lines,
                      "the server has evicted %lld keys%s: if records were among them, their keys "
                      "are forwarded again\n",
                      more, l->evicted ? " more" : "");
    l->evicted = evicted;
}

static void judge_log(const char *fsync, struct buffer *lines)
{
    if (fsync && strcmp(fsync, "always") != 0)
        buffer_printf(
            lines, "appendfsync is %s: a crash of the server forgets %s; always is safe\n", fsync,
            strcmp(fsync, "everysec") == 0 ? "the last second"
                                           : "what its operating system had not written yet");
}

static void judge_persistence(const char *appendonly, const char *fsync, const char *save,
                              const redisReply *info, struct buffer *lines)
{
    char aof[8];
    redis_info_field(info, "aof_enabled", aof, sizeof aof);
    if (appendonly ? strcmp(appendonly, "yes") == 0 : strcmp(aof, "1") == 0)
        judge_log(fsync, lines);
    else if (save && *save)
        buffer_printf(lines,
                      "appendonly is no: a crash of the server forgets what came after its last "
                      "snapshot (save %s); yes is safe\n",
                      save);
    else if (save)
        buffer_printf(lines, "nothing is persisted (appendonly is no, save is empty): a restart of "
                             "the server forgets every key; appendonly yes is safe\n");
    else if (*aof || appendonly)
        buffer_printf(lines, "appendonly is no: a crash of the server forgets what came after its "
                             "last snapshot, and every key if it makes none; yes is safe\n");
}

static void judge_replication(struct redis_link *l, const char *least, const redisReply *info,
                              struct buffer *lines)
{
    char text[24];
    long wanted = (long)l->config->wait_replicas;
    if (!redis_info_field(info, "connected_slaves", text, sizeof text))
        return;
    long replicas = strtol(text, NULL, 10);
    if (replicas < wanted)
        buffer_printf(lines,
                      "there are %ld replicas, and wait_replicas is %ld: nothing is claimed until "
                      "there are enough\n",
                      replicas, wanted);
    else if (replicas > 0 && wanted == 0 && least && strcmp(least, "0") == 0)
        buffer_printf(lines,
                      "there are replicas (%ld), and wait_replicas and min-replicas-to-write are "
                      "0: a failover forgets what had not reached the new master; with "
                      "wait_replicas: 1 a claim counts only when a replica has it\n",
                      replicas);
    else if (replicas > wanted && wanted > 0)
        buffer_printf(lines,
                      "there are %ld replicas, and wait_replicas is %ld: a master that is replaced "
                      "while it runs may count what only the replicas left to it have, and that is "
                      "forgotten; with wait_replicas: %ld nothing is\n",
                      replicas, wanted, replicas);
}

static void judge(struct redis_link *l, redisReply *const *replies, struct buffer *lines)
{
    const redisReply *info = replies[SETTING_COUNT];
    judge_eviction(l, replies[POLICY], info, lines);
    judge_persistence(setting_value(replies[APPENDONLY]), setting_value(replies[APPENDFSYNC]),
                      setting_value(replies[SAVE]), info, lines);
    judge_replication(l, setting_value(replies[MIN_REPLICAS]), info, lines);

    bool hidden = info->type != REDIS_REPLY_STRING;
    for (int i = 0; i < SETTING_COUNT; i++)
        hidden = hidden || !setting_value(replies[i]);
    if (hidden)
        buffer_printf(lines, "the server does not tell all of its settings (CONFIG GET, INFO), so "
                             "how safe its records are is not fully known\n");
}

bool redis_dangers(struct redis_link *l, struct buffer *lines)
{
    redisReply *replies[REPLY_COUNT];
    redis_begin(l);
    for (int i = 0; i < SETTING_COUNT; i++) {
        redis_put_command(l, 3);
        redis_put_text(l, "CONFIG");
        redis_put_text(l, "GET");
        redis_put_text(l, setting_names[i]);
    }
    redis_put_command(l, 1);
    redis_put_text(l, "INFO");
    if (!redis_exchange(l, replies, REPLY_COUNT))
        return false;
    const redisReply *info = replies[SETTING_COUNT];
    bool good = info->type == REDIS_REPLY_STRING || redis_is_error(info, "NOPERM") ||
                redis_refuse(l, "INFO", info);
    if (good)
        judge(l, replies, lines);
    redis_free_replies(replies, REPLY_COUNT);
    return good;
}
