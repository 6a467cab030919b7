#include "source.h"

#include "amqp.h"
#include "clock.h"
#include "content.h"
#include "topology.h"

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LAST_READS 1000 /* each takes what the kernel has, up to some 256 KiB */

struct open_tag {
    uint64_t tag;
    bool settled; /* to be acknowledged */
};

struct source {
    const struct route_config *route;
    struct link *link;
    uint32_t epoch;
    bool consuming;
    bool dead_letters;
    bool limited; /* see topology_dead_letters() */
    char consumer[256];

    /* The delivery that is arriving. */
    struct content content;
    uint64_t tag;
    bool redelivered;

    /* Deliveries of this epoch that the broker still counts as ours, in the order of their tags. */
    struct open_tag *open;
    size_t open_count;
    size_t open_size;
    uint64_t last_tag;
    size_t looks;       /* questions for the parking queue that have no answer yet */
    size_t settled;     /* how many of them are to be acknowledged */
    int64_t settled_by; /* when that has to be done at the latest; 0: nothing waits */
};

struct source *source_new(const struct config *config, const struct route_config *route)
{
    struct source *s = xcalloc(1, sizeof *s);
    char *purpose = xasprintf("%s source", route->name);
    s->route = route;
    s->link = link_new(&config->broker, purpose);
    free(purpose);
    return s;
}

void source_free(struct source *s)
{
    if (!s)
        return;
    content_reset(&s->content);
    link_free(s->link);
    free(s->open);
    free(s);
}

bool source_is_up(const struct source *s)
{
    return link_is_up(s->link) && s->consuming;
}

const char *source_error(const struct source *s)
{
    return link_error(s->link);
}

const char *source_describe(const struct source *s)
{
    return link_describe(s->link);
}

bool source_dead_letters(const struct source *s)
{
    return s->dead_letters;
}

const char *source_warning(const struct source *s)
{
    /* RabbitMQ 4.0 or newer: see topology_dead_letters(). */
    return s->limited
               ? "the inbound queue was made without x-delivery-limit -1, so what comes back "
                 "more than 20 times is dead-lettered, unless a policy says otherwise"
               : NULL;
}

/* ---- Frames ---- */

static void begin_delivery(struct source *s, const amqp_basic_deliver_t *d)
{
    /* Joining acknowledgements relies on this order. */
    if (d->delivery_tag <= s->last_tag) {
        link_fail(s->link, "broker sent delivery tag %llu after %llu",
                  (unsigned long long)d->delivery_tag, (unsigned long long)s->last_tag);
        return;
    }
    s->last_tag = s->tag = d->delivery_tag;
    s->redelivered = d->redelivered;
    content_begin(&s->content, d->exchange, d->routing_key);
}

static void take_method(struct source *s, const struct link_frame *f)
{
    if (s->content.begun)
        link_fail(s->link, "broker sent a method in the middle of a message");
    else if (f->method == AMQP_BASIC_DELIVER_METHOD)
        begin_delivery(s, f->decoded);
    else if (f->method == AMQP_BASIC_CANCEL_METHOD)
        /* Before RabbitMQ 4.3 a consumer timeout closed the channel instead. */
        link_fail(s->link,
                  "the broker cancelled the consumer (was queue '%s' deleted, or its consumer "
                  "timeout over?)",
                  s->route->from.queue);
    else if (f->method == AMQP_QUEUE_DECLARE_OK_METHOD && s->looks > 0)
        s->looks--;
    else if (f->method != AMQP_BASIC_CANCEL_OK_METHOD)
        link_fail(s->link, "broker sent method %u.%u to a consumer", f->method >> 16,
                  f->method & 0xffff);
}

static void remember_open(struct source *s, uint64_t tag)
{
    if (s->open_count == s->open_size) {
        s->open_size = s->open_size ? s->open_size * 2 : 256;
        s->open = xrealloc(s->open, s->open_size * sizeof *s->open);
    }
    s->open[s->open_count++] = (struct open_tag){.tag = tag};
}

struct message *source_pull(struct source *s)
{
    struct link_frame f;
    while (link_next(s->link, &f)) {
        if (f.type == AMQP_FRAME_METHOD) {
            take_method(s, &f);
            continue;
        }
        struct message *m = content_add(&s->content, s->link, &f);
        if (!m)
            continue;
        m->tag = s->tag;
        m->epoch = s->epoch;
        m->redelivered = s->redelivered;
        remember_open(s, m->tag);
        return m;
    }
    return NULL;
}

/* ---- Opening and closing ---- */

static bool set_prefetch(struct source *s)
{
    unsigned refused;
    amqp_basic_qos_t qos = {.prefetch_count = (uint16_t)s->route->from.prefetch};
    struct link_rpc rpc = {.doing = "setting the prefetch",
                           .id = AMQP_BASIC_QOS_METHOD,
                           .method = &qos,
                           .reply = AMQP_BASIC_QOS_OK_METHOD};
    return link_rpc(s->link, &rpc, &refused);
}

static bool consume(struct source *s)
{
    unsigned refused;
    char host[65] = "";
    char doing[640];
    gethostname(host, sizeof host - 1);
    snprintf(s->consumer, sizeof s->consumer, "onlyonce-%s-%s-%ld-%u", s->route->name, host,
             (long)getpid(), s->epoch);
    snprintf(doing, sizeof doing, "consuming from queue '%s' as %s", s->route->from.queue,
             link_whom(s->link));
    amqp_basic_consume_t method = {.queue = amqp_cstring_bytes(s->route->from.queue),
                                   .consumer_tag = amqp_cstring_bytes(s->consumer)};
    struct link_rpc rpc = {.doing = doing,
                           .id = AMQP_BASIC_CONSUME_METHOD,
                           .method = &method,
                           .reply = AMQP_BASIC_CONSUME_OK_METHOD};
    s->consuming = link_rpc(s->link, &rpc, &refused);
    return s->consuming;
}

static void begin_epoch(struct source *s)
{
    s->epoch++;
    s->consuming = false;
    s->open_count = 0;
    s->last_tag = 0;
    s->looks = 0;
    s->settled = 0;
    s->settled_by = 0;
    content_reset(&s->content);
}

bool source_open(struct source *s, bool *permanent)
{
    begin_epoch(s);
    if (link_open(s->link) && topology_source(s->link, s->route) &&
        topology_dead_letters(s->link, s->route, &s->dead_letters, &s->limited) &&
        set_prefetch(s) && consume(s))
        return true;
    *permanent = link_how_failed(s->link) == LINK_REFUSED;
    link_close(s->link, 0);
    return false;
}

void source_cancel(struct source *s)
{
    amqp_basic_cancel_t cancel = {.consumer_tag = amqp_cstring_bytes(s->consumer)};
    if (source_is_up(s))
        link_put_method(s->link, AMQP_BASIC_CANCEL_METHOD, &cancel);
}

/* ---- Acknowledging ---- */

static struct open_tag *find_open(struct source *s, uint64_t tag)
{
    size_t from = 0;
    size_t to = s->open_count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (s->open[middle].tag < tag)
            from = middle + 1;
        else
            to = middle;
    }
    assert(from < s->open_count && s->open[from].tag == tag && !s->open[from].settled);
    return &s->open[from];
}

void source_ack(struct source *s, const struct message *m)
{
    if (m->epoch != s->epoch || !link_is_up(s->link))
        return;
    find_open(s, m->tag)->settled = true;
    s->settled++;
}

/*
 * What is rejected while the parking queue is gone would be gone, too. So the broker is asked for
 * it first: if it is not there, it closes the channel, and does not look at what comes behind the
 * question. The message is delivered again, once opening has made the queue anew.
 */
static void look_for_parking(struct source *s)
{
    amqp_queue_declare_t look = {.queue = amqp_cstring_bytes(s->route->park.queue), .passive = 1};
    link_put_method(s->link, AMQP_QUEUE_DECLARE_METHOD, &look);
    s->looks++;
}

void source_reject(struct source *s, const struct message *m)
{
    if (m->epoch != s->epoch || !link_is_up(s->link))
        return;
    struct open_tag *open = find_open(s, m->tag);
    size_t behind = s->open_count - (size_t)(open - s->open) - 1;
    memmove(open, open + 1, behind * sizeof *open);
    s->open_count--;
    look_for_parking(s);
    amqp_basic_reject_t reject = {.delivery_tag = m->tag, .requeue = 0};
    link_put_method(s->link, AMQP_BASIC_REJECT_METHOD, &reject);
}

static void put_ack(struct source *s, uint64_t tag, bool multiple)
{
    amqp_basic_ack_t ack = {.delivery_tag = tag, .multiple = multiple};
    link_put_method(s->link, AMQP_BASIC_ACK_METHOD, &ack);
}

/* Acknowledges what is settled, up to the first open tag in one, and what lies behind it, too, if
 * `behind`. Whether there was anything. */
static bool put_acks(struct source *s, bool behind)
{
    if (!s->settled || (!behind && !s->open[0].settled))
        return false;
    size_t kept = 0;
    size_t joined = 0;
    bool contiguous = true; /* nothing else is open up to here: one acknowledgement says it all */
    uint64_t last = 0;
    s->settled = 0;
    for (size_t i = 0; i < s->open_count; i++) {
        struct open_tag open = s->open[i];
        contiguous &= open.settled;
        if (contiguous) {
            last = open.tag;
            joined++;
        } else if (open.settled && behind) {
            put_ack(s, open.tag, false);
        } else {
            s->open[kept++] = open;
            s->settled += open.settled;
        }
    }
    if (joined)
        put_ack(s, last, joined > 1);
    s->open_count = kept;
    return true;
}

/* Does what is settled take up too much of what the broker still sends? */
static bool is_crowded(const struct source *s)
{
    size_t prefetch = (size_t)s->route->from.prefetch;
    size_t unsettled = s->open_count - s->settled;
    return unsettled >= prefetch || s->settled > (prefetch - unsettled) / 4;
}

void source_flush(struct source *s, int64_t now, int64_t patience)
{
    bool late = s->settled_by && now >= s->settled_by;
    if (put_acks(s, patience == 0 || late || is_crowded(s)))
        s->settled_by = 0;
    if (s->settled && !s->settled_by)
        s->settled_by = now + patience;
    link_flush(s->link, now);
}

void source_close(struct source *s, int patience)
{
    put_acks(s, true);
    link_close(s->link, patience);
    s->consuming = false;
}

/* ---- Polling ---- */

int source_fd(const struct source *s)
{
    return link_fd(s->link);
}

short source_events(const struct source *s, bool read)
{
    return (short)((read ? POLLIN : 0) | (link_wants_write(s->link) ? POLLOUT : 0));
}

/*
 * The broker has hung up, so it gives all that it delivered here to others. What of that is still
 * unread would be taken for ours, and for new: after a long stop it is old, and may have been done
 * by now. So it is read for its last word alone.
 */
static void read_last_word(struct source *s, int64_t now)
{
    struct link_frame f;
    for (int reads = 0; reads < LAST_READS && link_is_up(s->link); reads++) {
        while (link_next(s->link, &f))
            continue;
        link_read(s->link, now);
    }
    link_fail(s->link, "broker closed the connection without a word");
}

void source_read(struct source *s, bool read, int64_t now)
{
    if (link_is_left(s->link))
        read_last_word(s, now);
    else if (read)
        link_read(s->link, now);
    else
        link_rest(s->link, now);
}

int64_t source_deadline(const struct source *s)
{
    int64_t link = link_deadline(s->link);
    return s->settled_by && s->settled_by < link ? s->settled_by : link;
}
