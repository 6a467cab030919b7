/*
 * fake_redis - a server that answers as a test tells it to, for what no real server does on demand.
 *
 * By default it is a healthy Redis 7.0.15 that holds nothing. Rules change the answers to commands
 * whose first words ("SET", "SCRIPT LOAD") they begin with.
 */
#ifndef ONLYONCE_FAKE_REDIS_H
#define ONLYONCE_FAKE_REDIS_H

struct fake_rule {
    const char *command;
    const char *answer; /* RESP, or "=" and a text; NULL: silence; "": hang up */
};

struct fake_redis;

/* `dribble`: ms between the bytes of answers. `rules` end with a NULL command. */
struct fake_redis *fake_redis_start(const struct fake_rule *rules, int dribble);
int fake_redis_port(const struct fake_redis *f);
void fake_redis_stop(struct fake_redis *f);

#endif
