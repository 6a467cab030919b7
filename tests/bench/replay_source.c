#include "replay.h"
#include "source.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#define BODY_SIZE 256 /* bytes */

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
