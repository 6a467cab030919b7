/* sink.h against the simulated broker. */
#include "copy.h"
#include "sink.h"
#include "world.h"

#include <poll.h>
#include <stdlib.h>

#define HEADER_START 12 /* class, weight and body size, which are no properties */

struct sink {
    struct relay_process *owner;
    struct channel *channel; /* NULL: closed, or the broker gave it up */
    bool up;                 /* as far as the client knows */
    bool blocked;
    size_t in_flight;
    struct publishes unsent;
    struct publishes answered; /* read, to be handed out */
};

struct sink *sink_new(const struct config *config, const struct route_config *route,
                      enum sink_use use)
{
    (void)config;
    (void)route;
    (void)use;
    struct sink *s = xcalloc(1, sizeof *s);
    s->owner = sim->current;
    if (s->owner->sink)
        s->owner->replies = s;
    else
        s->owner->sink = s;
    TAILQ_INIT(&s->unsent);
    TAILQ_INIT(&s->answered);
    return s;
}

void sink_free(struct sink *s)
{
    if (!s)
        return;
    sink_close(s, 0);
    free(s);
}

bool sink_open(struct sink *s, bool *permanent)
{
    *permanent = false;
    sink_close(s, 0);
    if (s->owner->dead || !world_pause(s->owner) || broker_is_down(&sim->broker))
        return false;
    s->channel = xcalloc(1, sizeof *s->channel);
    s->channel->client = s;
    s->channel->owner = s->owner;
    TAILQ_INIT(&s->channel->wire);
    TAILQ_INIT(&s->channel->answers);
    TAILQ_INIT(&s->channel->arrived);
    TAILQ_INSERT_TAIL(&sim->broker.channels, s->channel, link);
    s->up = true;
    s->blocked = false;
    trace("r%d: sink open", s->owner->slot);
    return true;
}

static void forget(struct publishes *list)
{
    struct publish *p;
    while ((p = TAILQ_FIRST(list))) {
        TAILQ_REMOVE(list, p, link);
        broker_drop_publish(p);
    }
}

static void detach(struct publishes *list)
{
    struct publish *p;
    TAILQ_FOREACH(p, list, link)
    p->message = NULL;
}

/* Polite or not, no answer is waited for; only a polite close sends what is unsent. */
void sink_close(struct sink *s, int patience)
{
    struct channel *c = s->channel;
    if (s->up)
        trace("r%d: sink closed", s->owner->slot);
    if (c && !c->cut && patience > 0 && !s->owner->dead)
        sink_flush(s, sim->now);
    s->up = false;
    s->channel = NULL;
    s->in_flight = 0;
    forget(&s->unsent);
    forget(&s->answered);
    if (!c)
        return;
    c->client = NULL;
    detach(&c->wire);
    detach(&c->answers);
    detach(&c->arrived);
    broker_cut_channel(&sim->broker, c);
}

/* The broker's end is cut; the client notices later. */
void sink_lose(struct sink *s)
{
    struct channel *c = s->channel;
    s->channel = NULL;
    c->client = NULL;
    detach(&c->wire);
}

bool sink_is_up(const struct sink *s)
{
    return s->up;
}

const char *sink_error(const struct sink *s)
{
    return s->up ? "" : "simulated loss of the sink";
}

const char *sink_describe(const struct sink *s)
{
    (void)s;
    return "simulated broker";
}

bool sink_nack_is_certain(const struct sink *s)
{
    (void)s;
    return world_nack_is_certain(sim);
}

bool sink_blocked(const struct sink *s, const char **reason)
{
    if (s->blocked && reason)
        *reason = "simulated alarm";
    return s->blocked;
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
    (void)now;
    if (!s->up || s->owner->dead)
        return;
    if (!s->channel) {
        if (sim->calm || rng_chance(&sim->rng, 500)) {
            s->up = false;
            trace("r%d: sink found lost", s->owner->slot);
        }
        return;
    }
    s->blocked = sim->now < sim->broker.alarm_until;
    struct publish *p;
    while ((p = TAILQ_FIRST(&s->channel->arrived)) && (sim->calm || rng_chance(&sim->rng, 800))) {
        TAILQ_REMOVE(&s->channel->arrived, p, link);
        TAILQ_INSERT_TAIL(&s->answered, p, link);
    }
}

size_t sink_room(const struct sink *s)
{
    size_t most = (size_t)sim->route.to.unconfirmed;
    return !s->up || s->blocked || s->in_flight >= most ? 0 : most - s->in_flight;
}

/* Stored as the broker will store it: the copy's properties, and the body. */
static struct parcel *make_parcel(const struct message *m, const struct buffer *header, int key)
{
    struct parcel *p = parcel_new(&sim->broker, PARCEL_COPY);
    p->key = key;
    p->attempt = m->copy.attempt > 1 ? m->copy.attempt : 1;
    p->first_seen = m->copy.first_seen;
    buffer_add(&p->properties, header->data + HEADER_START, header->len - HEADER_START);
    buffer_add_span(&p->body, copy_body(m, &m->copy));
    return p;
}

enum sink_result sink_publish(struct sink *s, struct message *m)
{
    if (s->owner->dead)
        return SINK_PUBLISHED;
    if (sink_room(s) == 0)
        fail("published without room in the sink");
    struct buffer header = {0};
    enum copy_result result =
        copy_write(m, &m->copy, sim->route.name, "relay", SIM_FRAME_ROOM, &header);
    if (result == COPY_UNREADABLE || result == COPY_TOO_LARGE) {
        buffer_free(&header);
        return result == COPY_UNREADABLE ? SINK_UNREADABLE : SINK_TOO_LARGE;
    }
    struct publish *p = xcalloc(1, sizeof *p);
    p->message = m;
    p->sequence = m->sequence = ++sim->broker.next_sequence;
    p->tag = m->tag;
    p->key = m->key_len ? key_index(message_key(m)) : SIM_NO_KEY;
    p->copy = m->copy;
    p->parcel = make_parcel(m, &header, p->key);
    judge_publish(s->owner, m, p);
    TAILQ_INSERT_TAIL(&s->unsent, p, link);
    s->in_flight++;
    buffer_free(&header);
    return SINK_PUBLISHED;
}

struct message *sink_next(struct sink *s, enum sink_answer *answer)
{
    struct publish *p = TAILQ_FIRST(&s->answered);
    if (!p || s->owner->dead)
        return NULL;
    struct message *m = p->message;
    *answer = (enum sink_answer)p->answer;
    if (m->sequence != p->sequence)
        fail("a message was changed while it was with the sink");
    judge_answer(s->owner, p);
    TAILQ_REMOVE(&s->answered, p, link);
    s->in_flight--;
    broker_drop_publish(p);
    return m;
}

void sink_flush(struct sink *s, int64_t now)
{
    (void)now;
    struct publish *p;
    if (!s->up || s->owner->dead)
        return;
    while ((p = TAILQ_FIRST(&s->unsent))) {
        TAILQ_REMOVE(&s->unsent, p, link);
        if (s->channel)
            TAILQ_INSERT_TAIL(&s->channel->wire, p, link);
        else
            broker_drop_publish(p);
    }
}

int64_t sink_deadline(const struct sink *s)
{
    (void)s;
    return INT64_MAX;
}

bool sink_has_input(const struct sink *s)
{
    if (!s->up)
        return false;
    bool blocked = sim->now < sim->broker.alarm_until;
    return !s->channel || !TAILQ_EMPTY(&s->channel->arrived) || blocked != s->blocked;
}
