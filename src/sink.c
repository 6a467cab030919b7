#include "sink.h"

#include "amqp.h"
#include "content.h"
#include "headers.h"
#include "topology.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define UNSENT_MAX ((size_t)1024 * 1024) /* above it nothing more is published for now */

struct sent {
    uint64_t sequence;
    struct message *message;
    bool returned;
    bool answered;
    enum sink_answer answer;
};

struct sink {
    const struct route_config *route;
    enum sink_use use;
    struct link *link;
    bool nack_is_certain; /* see topology_certain() */
    uint64_t gone_at;     /* the last copy to a work queue that was not there; 0: it was */
    bool look_again;      /* it is there again, and may be of another type */
    size_t body_max;      /* as the broker told when it refused a larger one; SIZE_MAX: not known */

    struct content content; /* a return that is arriving */
    uint64_t next_sequence;

    /* Copies in flight, in the order of their sequence numbers. Between two sweeps answered ones
     * stay. */
    struct sent *sent;
    size_t sent_count;
    size_t sent_max;

    /* Answers that sink_next() has not yet handed out. */
    struct sent *answers;
    size_t answer_next;
    size_t answer_count;
    size_t answer_size;

    struct buffer header; /* scratch */
};

struct sink *sink_new(const struct config *config, const struct route_config *route,
                      enum sink_use use)
{
    struct sink *s = xcalloc(1, sizeof *s);
    char *purpose = xasprintf("%s sink", route->name);
    s->route = route;
    s->use = use;
    s->link = link_new(&config->broker, purpose);
    free(purpose);
    s->body_max = SIZE_MAX;
    s->sent_max = (size_t)route->to.unconfirmed;
    s->sent = xcalloc(s->sent_max, sizeof *s->sent);
    return s;
}

void sink_free(struct sink *s)
{
    if (!s)
        return;
    content_reset(&s->content);
    buffer_free(&s->header);
    link_free(s->link);
    free(s->sent);
    free(s->answers);
    free(s);
}

bool sink_is_up(const struct sink *s)
{
    return link_is_up(s->link);
}

const char *sink_error(const struct sink *s)
{
    return link_error(s->link);
}

const char *sink_describe(const struct sink *s)
{
    return link_describe(s->link);
}

bool sink_nack_is_certain(const struct sink *s)
{
    return s->nack_is_certain;
}

bool sink_blocked(const struct sink *s, const char **reason)
{
    return link_blocked(s->link, reason);
}

/* ---- Publishing ---- */

size_t sink_room(const struct sink *s)
{
    if (!link_is_up(s->link) || link_blocked(s->link, NULL) || link_unsent(s->link) > UNSENT_MAX)
        return 0;
    return s->sent_max - s->sent_count;
}

static struct span exchange_of(const struct sink *s, const struct message *m)
{
    switch (m->copy.target) {
    case TARGET_WORK: return span_of(s->route->to.exchange ? s->route->to.exchange : "");
    case TARGET_DUPLICATES: return span_of(s->route->duplicates.exchange);
    case TARGET_PARKING:
    case TARGET_REPLY: break;
    }
    return span_of("");
}

static struct span span_or(const char *text, struct span otherwise)
{
    return text ? span_of(text) : otherwise;
}

static struct span routing_key_of(const struct sink *s, const struct message *m)
{
    switch (m->copy.target) {
    case TARGET_WORK:
        return span_or(s->route->to.queue, span_or(s->route->to.routing_key, m->routing_key));
    case TARGET_PARKING: return span_of(s->route->park.queue);
    case TARGET_DUPLICATES: return span_or(s->route->duplicates.routing_key, m->routing_key);
    case TARGET_REPLY: break;
    }
    return m->reply_to;
}

/* The broker hands an answer to a direct reply-to address straight to its client, and calls it not
 * routed if it is asked to return what it cannot route. */
static bool is_mandatory(const struct message *m)
{
    static const char direct[] = SINK_DIRECT_REPLY ".";
    size_t len = sizeof direct - 1;
    return m->copy.target != TARGET_REPLY || m->reply_to.len < len ||
           memcmp(m->reply_to.data, direct, len) != 0;
}

static bool write_header(struct sink *s, const struct message *m, enum copy_result *result)
{
    buffer_clear(&s->header);
    *result = copy_write(m, &m->copy, s->route->name, link_user(s->link), link_frame_room(s->link),
                         &s->header);
    return *result == COPY_OK || *result == COPY_WITHOUT_KEY;
}

static bool is_expiration(struct span text)
{
    uint64_t ms = 0;
    for (size_t i = 0; i < text.len && ms <= UINT32_MAX; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        ms = ms * 10 + (uint64_t)(text.data[i] - '0');
    }
    return text.len > 0 && ms <= UINT32_MAX;
}

/*
 * The broker closes the channel, with all its copies in flight, at these properties. It refuses
 * them of every publisher, but other protocols and plugins may bring them into a queue.
 */
static bool is_refused(const struct message *m)
{
    struct properties p;
    if (!properties_read(m->properties, &p))
        return false;
    return (p.present[PROPERTY_REPLY_TO] &&
            span_is(p.value[PROPERTY_REPLY_TO], SINK_DIRECT_REPLY)) ||
           (p.present[PROPERTY_EXPIRATION] && !is_expiration(p.value[PROPERTY_EXPIRATION]));
}

enum sink_result sink_publish(struct sink *s, struct message *m)
{
    assert(link_is_up(s->link) && s->sent_count < s->sent_max);
    if (copy_body(m, &m->copy).len > s->body_max)
        return SINK_TOO_LARGE;
    enum copy_result result;
    if (m->copy.target != TARGET_REPLY && is_refused(m))
        return SINK_UNREADABLE;
    if (!write_header(s, m, &result))
        return result == COPY_TOO_LARGE ? SINK_TOO_LARGE : SINK_UNREADABLE;
    m->copy.key_left_out = result == COPY_WITHOUT_KEY;
    amqp_basic_publish_t publish = {.exchange = link_bytes(exchange_of(s, m)),
                                    .routing_key = link_bytes(routing_key_of(s, m)),
                                    .mandatory = is_mandatory(m)};
    link_put_method(s->link, AMQP_BASIC_PUBLISH_METHOD, &publish);
    link_put_content(s->link, buffer_span(&s->header), copy_body(m, &m->copy));
    m->sequence = s->next_sequence++;
    s->sent[s->sent_count++] = (struct sent){.sequence = m->sequence, .message = m};
    return SINK_PUBLISHED;
}

/* ---- Answers ---- */

static size_t find_sent(const struct sink *s, uint64_t sequence)
{
    size_t from = 0;
    size_t to = s->sent_count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (s->sent[middle].sequence < sequence)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static void answer(struct sent *sent, enum sink_answer answer)
{
    if (sent->answered)
        return;
    sent->answered = true;
    sent->answer = sent->returned ? SINK_RETURNED : answer;
}

static void take_confirm(struct sink *s, uint64_t sequence, bool multiple, enum sink_answer is)
{
    size_t at = find_sent(s, sequence);
    bool there = at < s->sent_count && s->sent[at].sequence == sequence;
    if (sequence == 0 || sequence >= s->next_sequence || (!there && !multiple)) {
        link_fail(s->link, "broker confirmed publish %llu, which waits for no confirm",
                  (unsigned long long)sequence);
        return;
    }
    if (there)
        answer(&s->sent[at], is);
    for (size_t i = 0; multiple && i < at; i++)
        answer(&s->sent[i], is);
}

static bool is_alike(const struct sink *s, const struct message *back, const struct message *m)
{
    return span_equal(back->routing_key, routing_key_of(s, m)) &&
           span_equal(back->exchange, exchange_of(s, m)) &&
           span_equal(back->body, copy_body(m, &m->copy));
}

static bool has_properties_of(struct sink *s, const struct message *back, const struct message *m)
{
    enum copy_result result;
    if (!write_header(s, m, &result))
        return false;
    /* Class, weight and body size come before the properties. */
    struct span header = buffer_span(&s->header);
    return properties_same(back->properties, (struct span){header.data + 12, header.len - 12});
}

/* The work queue was deleted: what takes its place need not be a quorum queue. */
static void take_returned(struct sink *s, struct sent *sent)
{
    sent->returned = true;
    if (sent->message->copy.target != TARGET_WORK || !(s->nack_is_certain || s->gone_at))
        return;
    s->nack_is_certain = false;
    s->gone_at = sent->sequence;
}

/*
 * Returns come in the order of publishing, so the first copy that is the same is it; of two such
 * copies it makes no difference which one is taken. A broker whose message interceptors
 * write into the properties returns no such copy: then it is known only if just one is alike in all
 * else. What is left cannot be told, and the link goes down: all that is in flight is in doubt.
 */
static void take_return(struct sink *s, const struct message *back)
{
    struct sent *alike = NULL;
    size_t count = 0;
    for (size_t i = 0; i < s->sent_count; i++) {
        struct sent *sent = &s->sent[i];
        if (sent->answered || sent->returned || !is_alike(s, back, sent->message))
            continue;
        if (has_properties_of(s, back, sent->message)) {
            take_returned(s, sent);
            return;
        }
        alike = sent;
        count++;
    }
    if (count == 1)
        take_returned(s, alike);
    else
        link_fail(s->link, "broker returned a message that is no copy in flight");
}

static void take_method(struct sink *s, const struct link_frame *f)
{
    if (s->content.begun) {
        link_fail(s->link, "broker sent a method in the middle of a message");
    } else if (f->method == AMQP_BASIC_ACK_METHOD) {
        const amqp_basic_ack_t *ack = f->decoded;
        take_confirm(s, ack->delivery_tag, ack->multiple, SINK_CONFIRMED);
    } else if (f->method == AMQP_BASIC_NACK_METHOD) {
        const amqp_basic_nack_t *nack = f->decoded;
        take_confirm(s, nack->delivery_tag, nack->multiple, SINK_NACKED);
    } else if (f->method == AMQP_BASIC_RETURN_METHOD) {
        const amqp_basic_return_t *back = f->decoded;
        content_begin(&s->content, back->exchange, back->routing_key);
    } else {
        link_fail(s->link, "broker sent method %u.%u to a publisher", f->method >> 16,
                  f->method & 0xffff);
    }
}

static void take_frame(struct sink *s, const struct link_frame *f)
{
    if (f->type == AMQP_FRAME_METHOD) {
        take_method(s, f);
        return;
    }
    struct message *returned = content_add(&s->content, s->link, f);
    if (returned)
        take_return(s, returned);
    message_free(returned);
}

static void take_frames(struct sink *s)
{
    struct link_frame f;
    while (link_next(s->link, &f))
        take_frame(s, &f);
}

/* Moves what has been answered over to the answers. */
static void sweep(struct sink *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->sent_count; i++) {
        if (!s->sent[i].answered) {
            s->sent[kept++] = s->sent[i];
            continue;
        }
        if (s->answer_count == s->answer_size) {
            s->answer_size = s->answer_size ? s->answer_size * 2 : 256;
            s->answers = xrealloc(s->answers, s->answer_size * sizeof *s->answers);
        }
        s->answers[s->answer_count++] = s->sent[i];
        s->look_again |= s->gone_at && s->sent[i].sequence > s->gone_at &&
                         s->sent[i].answer == SINK_CONFIRMED &&
                         s->sent[i].message->copy.target == TARGET_WORK;
    }
    s->sent_count = kept;
}

/* A broker's limit (16 MiB from RabbitMQ 4.0 on, before 128 MiB) is in its configuration, which
 * nobody tells but this refusal. */
static void learn_body_max(struct sink *s)
{
    const char *told = strstr(link_error(s->link), "max size ");
    unsigned long long max = told ? strtoull(told + strlen("max size "), NULL, 10) : 0;
    if (max > 0)
        s->body_max = (size_t)max;
}

/* Once nothing is on its way, opening again asks of the queue that took the place of another. */
static void look_again(struct sink *s)
{
    if (s->look_again && s->sent_count == 0 && s->answer_next == s->answer_count)
        link_fail(s->link, "queue '%s' was made anew: looking at it", s->route->to.queue);
}

void sink_read(struct sink *s, int64_t now)
{
    look_again(s);
    if (!link_is_up(s->link))
        return;
    link_read(s->link, now);
    take_frames(s);
    sweep(s);
    if (!link_is_up(s->link))
        learn_body_max(s);
}

struct message *sink_next(struct sink *s, enum sink_answer *answer)
{
    if (s->answer_next == s->answer_count) {
        s->answer_next = 0;
        s->answer_count = 0;
        return NULL;
    }
    struct sent *next = &s->answers[s->answer_next++];
    *answer = next->answer;
    return next->message;
}

/* ---- Opening and closing ---- */

static void forget_all(struct sink *s)
{
    content_reset(&s->content);
    s->next_sequence = 1;
    s->gone_at = 0;
    s->look_again = false;
    s->sent_count = 0;
    s->answer_next = 0;
    s->answer_count = 0;
}

static bool select_confirms(struct sink *s)
{
    unsigned refused;
    amqp_confirm_select_t method = {0};
    struct link_rpc rpc = {.doing = "asking for publisher confirms",
                           .id = AMQP_CONFIRM_SELECT_METHOD,
                           .method = &method,
                           .reply = AMQP_CONFIRM_SELECT_OK_METHOD};
    return link_rpc(s->link, &rpc, &refused);
}

static bool ask_of_nacks(struct sink *s)
{
    return s->use != SINK_COPIES || topology_certain(s->link, s->route, &s->nack_is_certain);
}

bool sink_open(struct sink *s, bool *permanent)
{
    forget_all(s);
    if (link_open(s->link) && topology_sink(s->link, s->route) && ask_of_nacks(s) &&
        select_confirms(s))
        take_frames(s); /* what came behind the answers is not announced by the socket again */
    if (link_is_up(s->link))
        return true;
    *permanent = link_how_failed(s->link) == LINK_REFUSED;
    link_close(s->link, 0);
    return false;
}

void sink_close(struct sink *s, int patience)
{
    link_close(s->link, patience);
    forget_all(s);
}

/* ---- Polling ---- */

int sink_fd(const struct sink *s)
{
    return link_fd(s->link);
}

short sink_events(const struct sink *s)
{
    return (short)(POLLIN | (link_wants_write(s->link) ? POLLOUT : 0));
}

void sink_flush(struct sink *s, int64_t now)
{
    link_flush(s->link, now);
}

int64_t sink_deadline(const struct sink *s)
{
    return link_deadline(s->link);
}
