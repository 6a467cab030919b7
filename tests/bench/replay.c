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
#include "clock.h"
#include "copy.h"
#include "memory.h"
#include "message.h"
#include "sink.h"
#include "source.h"
#include "store.h"
#include "worker.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 100     /* messages that arrive, and copies that are confirmed, in one turn */
#define BODY_SIZE 256 /* bytes */
#define FRAME_ROOM 131064
#define NOW INT64_C(1750000000000)

static struct {
    uint64_t left;    /* messages that are still to come */
    uint64_t in_turn; /* of this turn */
    uint64_t made;    /* so far */
    uint64_t acked;
    bool duplicates; /* every key is on record */
    struct message *sent[BATCH * 2];
    size_t sent_count;
    size_t sent_next;
    int64_t now;
    struct buffer header;
} world;

static void die(const char *why)
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

/* ---- source ---- */

struct source {
    int nothing;
};

static struct source the_source;

struct source *source_new(const struct config *config, const struct route_config *route)
{
    (void)config;
    (void)route;
    return &the_source;
}

void source_free(struct source *s)
{
    (void)s;
}

bool source_open(struct source *s, bool *permanent)
{
    (void)s;
    *permanent = false;
    return true;
}

void source_close(struct source *s, int patience)
{
    (void)s;
    (void)patience;
}

bool source_is_up(const struct source *s)
{
    (void)s;
    return true;
}

const char *source_error(const struct source *s)
{
    (void)s;
    return "";
}

const char *source_describe(const struct source *s)
{
    (void)s;
    return "replay";
}

int source_fd(const struct source *s)
{
    (void)s;
    return -1;
}

short source_events(const struct source *s, bool read)
{
    (void)s;
    (void)read;
    return POLLIN;
}

void source_read(struct source *s, bool read, int64_t now)
{
    (void)s;
    (void)now;
    world.in_turn = read ? BATCH : 0;
}

/* Flags and list as on the wire: content type, delivery mode, message id. */
static size_t write_properties(uint8_t out[128], uint64_t number)
{
    static const uint8_t head[] = "\x90\x80\x10"
                                  "application/json\x02";
    char id[40];
    int len =
        snprintf(id, sizeof id, "6b1d8f1e-0000-4000-8000-%012llx", (unsigned long long)number);
    memcpy(out, head, sizeof head - 1);
    out[sizeof head - 1] = (uint8_t)len;
    memcpy(out + sizeof head, id, (size_t)len);
    return sizeof head + (size_t)len;
}

struct message *source_pull(struct source *s)
{
    (void)s;
    if (world.left == 0 || world.in_turn == 0)
        return NULL;
    world.left--;
    world.in_turn--;
    uint8_t properties[128];
    size_t len = write_properties(properties, world.made);
    struct message *m = message_new(0, 2, len, BODY_SIZE);
    memcpy((void *)(uintptr_t)m->routing_key.data, "in", 2);
    memcpy((void *)(uintptr_t)m->properties.data, properties, len);
    memset((void *)(uintptr_t)m->body.data, 'x', BODY_SIZE);
    m->tag = ++world.made;
    m->epoch = 1;
    return m;
}

void source_ack(struct source *s, const struct message *m)
{
    (void)s;
    (void)m;
    world.acked++;
}

void source_reject(struct source *s, const struct message *m)
{
    (void)s;
    (void)m;
    die("a message was rejected");
}

bool source_dead_letters(const struct source *s)
{
    (void)s;
    return true;
}

const char *source_warning(const struct source *s)
{
    (void)s;
    return NULL;
}

void source_cancel(struct source *s)
{
    (void)s;
}

void source_flush(struct source *s, int64_t now, int64_t patience)
{
    (void)s;
    (void)now;
    (void)patience;
}

int64_t source_deadline(const struct source *s)
{
    (void)s;
    return INT64_MAX;
}

/* ---- sink ---- */

struct sink {
    int nothing;
};

static struct sink the_sink;

struct sink *sink_new(const struct config *config, const struct route_config *route,
                      enum sink_use use)
{
    (void)config;
    (void)route;
    (void)use;
    return &the_sink;
}

void sink_free(struct sink *s)
{
    (void)s;
}

bool sink_open(struct sink *s, bool *permanent)
{
    (void)s;
    *permanent = false;
    return true;
}

void sink_close(struct sink *s, int patience)
{
    (void)s;
    (void)patience;
}

bool sink_is_up(const struct sink *s)
{
    (void)s;
    return true;
}

const char *sink_error(const struct sink *s)
{
    (void)s;
    return "";
}

const char *sink_describe(const struct sink *s)
{
    (void)s;
    return "replay";
}

bool sink_nack_is_certain(const struct sink *s)
{
    (void)s;
    return true;
}

bool sink_blocked(const struct sink *s, const char **reason)
{
    (void)s;
    (void)reason;
    return false;
}

int sink_fd(const struct sink *s)
{
    (void)s;
    return -1;
}

short sink_events(const struct sink *s)
{
    (void)s;
    return POLLIN;
}

void sink_read(struct sink *s, int64_t now)
{
    (void)s;
    (void)now;
}

size_t sink_room(const struct sink *s)
{
    (void)s;
    return sizeof world.sent / sizeof world.sent[0] - world.sent_count;
}

/* The copy's header is the relay's work; sending it is the broker connection's. */
enum sink_result sink_publish(struct sink *s, struct message *m)
{
    (void)s;
    buffer_clear(&world.header);
    if (copy_write(m, &m->copy, "route", "relay", FRAME_ROOM, &world.header) != COPY_OK)
        die("a copy cannot be written");
    world.sent[world.sent_count++] = m;
    return SINK_PUBLISHED;
}

struct message *sink_next(struct sink *s, enum sink_answer *answer)
{
    (void)s;
    *answer = SINK_CONFIRMED;
    if (world.sent_next == world.sent_count) {
        world.sent_next = world.sent_count = 0;
        return NULL;
    }
    return world.sent[world.sent_next++];
}

void sink_flush(struct sink *s, int64_t now)
{
    (void)s;
    (void)now;
}

int64_t sink_deadline(const struct sink *s)
{
    (void)s;
    return INT64_MAX;
}

/* ---- store ---- */

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
