/*
 * redis_script - the scripts of the Redis store, and how they are run. For store_redis.c.
 *
 * What each takes and answers is said beside its text, in redis_script.c. They run in Redis'
 * compatible mode, without a "#!lua" line: with one, a server that is out of memory would refuse
 * them all, and so also releases, which free memory.
 */
#ifndef ONLYONCE_REDIS_SCRIPT_H
#define ONLYONCE_REDIS_SCRIPT_H

#include "redis_link.h"

/* What the scripts answer where it is no text that was met. */
#define ANSWER_APPLIED 1
#define ANSWER_FOREIGN 2

enum redis_script { SCRIPT_APPLY, SCRIPT_COMPLETE, SCRIPT_SESSION };
#define SCRIPT_COUNT 3
#define SCRIPT_SHA_LEN 40

/* What the server calls them. */
struct redis_scripts {
    struct redis_link *link;
    char sha[SCRIPT_COUNT][SCRIPT_SHA_LEN + 1];
};

/* After each connect. */
bool redis_scripts_load(struct redis_scripts *s);

/* A call begins: so many keys and then arguments have to be put behind this. */
void redis_script_put(struct redis_scripts *s, enum redis_script script, size_t keys,
                      size_t arguments);

/* Runs the script that is in the link's command buffer; its reply, or NULL. With wait_replicas the
 * reply counts: so many replicas have what was written. */
redisReply *redis_script_run(struct redis_scripts *s, enum redis_script script)
    __attribute__((warn_unused_result));

#endif
