/*
 * replay - the relay's own work a message, without servers: the real worker, relay, key, copy and
 * records, between a source that is never empty, a sink that confirms at once, and a store that
 * finds every key new (or every key a duplicate).
 *
 *   replay COUNT unique|duplicate
 *
 * Run twice under callgrind with two counts, the difference tells the instructions a message. It
 * does not depend on the machine, so a test can compare it with a recorded figure.
 */
#include "replay.h"

#include "clock.h"
#include "worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct world world;

void die(const char *why)
{
    fprintf(stderr, "replay: %s\n", why);
    exit(EXIT_FAILURE);
}

/* ---- clock ---- */

int64_t clock_now(void)
{
    return world.now;
}

int64_t clock_micros(void)
{
    return world.now * 1000;
}

int64_t clock_wall(void)
{
    return NOW + world.now;
}

/* ---- The run ---- */

static struct config *load(void)
{
    static const char text[] = "broker: {urls: ['amqp://h']}\n"
                               "stores: [{name: s, url: 'memory:'}]\n"
                               "routes: [{name: r, from: {queue: i}, to: {queue: w}, key: "
                               "[message_id], window: 24h}]\n";
    char file[] = "/tmp/onlyonce-replay-XXXXXX";
    struct buffer errors = {0};
    int fd = mkstemp(file);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        die("cannot write its configuration");
    struct config *config = config_load(file, &errors);
    remove(file);
    if (!config)
        fprintf(stderr, "%.*s", (int)errors.len, (const char *)errors.data);
    buffer_free(&errors);
    return config;
}

int main(int argc, char **argv)
{
    if (argc != 3 || (world.left = strtoull(argv[1], NULL, 10)) == 0)
        die("usage: replay COUNT unique|duplicate");
    world.duplicates = strcmp(argv[2], "duplicate") == 0;
    uint64_t count = world.left;
    struct config *config = load();
    if (!config)
        return EXIT_FAILURE;
    log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT);
    struct route_stats *stats = xcalloc(1, sizeof *stats);
    stats_init(stats, 1);
    struct worker *w = worker_new(config, &config->routes[0], 0, stats);
    while (world.acked < count) {
        (void)worker_turn(w);
        world.now++;
    }
    uint64_t forwarded = stats_get(stats, STAT_FORWARDED);
    uint64_t duplicates = stats_get(stats, STAT_DUPLICATES);
    printf("replay messages=%llu forwarded=%llu duplicates=%llu turns=%lld\n",
           (unsigned long long)count, (unsigned long long)forwarded, (unsigned long long)duplicates,
           (long long)world.now);
    worker_free(w);
    stats_free(stats);
    free(stats);
    config_free(config);
    buffer_free(&world.header);
    return (world.duplicates ? duplicates : forwarded) == count ? EXIT_SUCCESS : EXIT_FAILURE;
}
