#include "relay.h"

#include "clock.h"
#include "headers.h"
#include "key.h"
#include "log.h"
#include "relay_inside.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHORT_TEXT_MAX 255 /* of an exchange or a routing key, by AMQP */
#define LOOK_EVERY_MS 1000
#define MOST_SLEEP_MS 1000
#define ACKS_PATIENCE_MS 100 /* confirms come in some tens of ms when the broker is busy */

/* ---- Life of a relay ---- */

struct relay *relay_new(const struct config *config, const struct route_config *route,
                        struct source *source, struct sink *sink, struct sink *replies,
                        struct store *store, struct session *session, struct route_stats *stats)
{
    struct relay *r = xcalloc(1, sizeof *r);
    r->config = config;
    r->route = route;
    r->source = source;
    r->sink = sink;
    r->replies = replies;
    r->store = store;
    r->session = session;
    r->stats = stats;
    r->policy.store_failure_holds = route->on_store_failure == STORE_FAILURE_HOLD;
    r->rules =
        (struct claim_rules){.window = route->window,
                             .window_completed = route->window_completed,
                             .hold_limit = route->hold_limit,
                             .check_dead_lettered = route->on_dead_lettered == DEAD_LETTERED_CHECK,
                             .sliding = route->sliding,
                             .on_conflict = route->on_conflict};
    r->origin = (struct delivery_origin){route->name, route->to.queue, route->to.exchange};
    for (size_t p = 0; p < PLACE_COUNT; p++)
        TAILQ_INIT(&r->places[p]);
    flight_init(&r->flight, (size_t)route->from.prefetch * 2);
    r->next_due = INT64_MAX;
    return r;
}

void relay_free(struct relay *r)
{
    if (!r)
        return;
    for (size_t p = 0; p < PLACE_COUNT; p++) {
        struct message *m;
        while ((m = TAILQ_FIRST(&r->places[p]))) {
            TAILQ_REMOVE(&r->places[p], m, link);
            message_free(m);
        }
    }
    flight_free(&r->flight);
    free(r->batch);
    free(r->ops);
    free(r);
}

size_t relay_count(const struct relay *r, enum place place)
{
    return r->counts[place];
}

int64_t relay_oldest(const struct relay *r)
{
    return r->oldest;
}

const char *relay_holding(const struct relay *r)
{
    const struct message *held = TAILQ_FIRST(&r->places[PLACE_HELD]);
    return held ? held->why : NULL;
}

/* ---- Moving messages ---- */

/* Those that need no claim are CLAIMED before those that had to ask: they are published in the
 * order of arrival all the same. */
static void enter(struct relay *r, struct message *m, enum place place)
{
    struct message *before = TAILQ_LAST(&r->places[place], message_list);
    while (place == PLACE_CLAIMED && before && before->tag > m->tag)
        before = TAILQ_PREV(before, message_list, link);
    m->place = place;
    if (before)
        TAILQ_INSERT_AFTER(&r->places[place], before, m, link);
    else
        TAILQ_INSERT_HEAD(&r->places[place], m, link);
    r->counts[place]++;
}

static void leave(struct relay *r, struct message *m)
{
    TAILQ_REMOVE(&r->places[m->place], m, link);
    r->counts[m->place]--;
    if (m->leader) {
        TAILQ_REMOVE(&m->leader->followers, m, follow);
        m->leader = NULL;
    }
}

static void wake_by(struct relay *r, int64_t due)
{
    if (due < r->next_due)
        r->next_due = due;
}

void relay_move(struct relay *r, struct message *m, enum event event)
{
    enum place next = flow_next(m->place, event, &r->policy, &m->facts);
    if (next == PLACE_IMPOSSIBLE)
        panic("message %llu of route %s is %s, and then: %s", (unsigned long long)m->tag,
              r->route->name, place_name(m->place), event_name(event));
    if (next == m->place)
        return;
    leave(r, m);
    if (next == PLACE_GONE) {
        assert(!m->facts.claim && TAILQ_EMPTY(&m->followers));
        r->bytes -= message_size(m);
        message_free(m);
        return;
    }
    enter(r, m, next);
    if (next == PLACE_HELD)
        wake_by(r, m->due);
}

int64_t relay_backoff(uint32_t tries, int64_t first, int64_t most)
{
    int64_t delay = first;
    while (tries-- > 0 && delay < most)
        delay *= 2;
    return delay < most ? delay : most;
}

void relay_hold(struct relay *r, struct message *m, enum event event, const char *why,
                int64_t delay)
{
    m->why = why;
    m->due = delay == INT64_MAX ? INT64_MAX : r->now + delay;
    m->tries++;
    relay_move(r, m, event);
}

struct claim_rules relay_rules(const struct relay *r, const struct message *m)
{
    struct claim_rules rules = r->rules;
    rules.window = m->window;
    return rules;
}

void relay_not_forwarded(struct relay *r, const struct message *m, const char *what,
                         const char *why, int64_t first_seen)
{
    struct recent_message entry = {
        .at = store_now(r->store), .first_seen = first_seen, .what = what, .why = why};
    memcpy(entry.key, m->key, m->key_len);
    recent_add(&r->stats->recent, &entry);
}

void relay_park(struct relay *r, struct message *m, enum park_reason reason)
{
    m->copy.target = TARGET_PARKING;
    m->copy.reason = reason;
    relay_move(r, m, EVENT_UNCLAIMED);
}

/* A message whose leader is done: by what is on record now it is a duplicate, or waits, or tries.
 */
static void lead_follower(struct relay *r, struct message *m, const struct record *known)
{
    if (known && known->now.state != RECORD_NONE) {
        struct claim_rules rules = relay_rules(r, m);
        struct decision d =
            claim_decide(&m->delivery, known, true, r->session->id, 0, store_now(r->store), &rules);
        if (d.verdict == VERDICT_DUPLICATE) {
            relay_duplicate(r, m, known, d.conflict);
            return;
        }
        if (d.verdict == VERDICT_WAIT) {
            m->due = r->now + relay_backoff(m->tries, RELAY_BUSY_FIRST_MS, RELAY_BUSY_MOST_MS);
            wake_by(r, m->due);
            return;
        }
    }
    relay_move(r, m, EVENT_DUE);
}

void relay_unclaim(struct relay *r, struct message *m, const struct record *known)
{
    if (!m->facts.claim)
        return;
    m->facts.claim = false;
    flight_remove(&r->flight, m);
    struct message *follower;
    while ((follower = TAILQ_FIRST(&m->followers))) {
        TAILQ_REMOVE(&m->followers, follower, follow);
        follower->leader = NULL;
        lead_follower(r, follower, known);
    }
}

/* ---- Pull ---- */

bool relay_reads(const struct relay *r)
{
    return !r->stopping && r->bytes < (size_t)r->route->from.buffer;
}

static void count_key(struct relay *r, const struct message *m)
{
    int at = m->alternative < 0 ? STATS_ALTERNATIVES - 1 : m->alternative;
    stats_count(&r->stats->alternatives[at]);
}

/* The window that the message itself asks for, or the route's. */
static int64_t window_of(struct relay *r, const struct message *m)
{
    const struct route_config *route = r->route;
    struct properties p;
    struct header h;
    if (!route->window_header || !properties_read(m->properties, &p) ||
        !header_find(p.value[PROPERTY_HEADERS], span_of(route->window_header), &h))
        return route->window;
    int64_t ms;
    if (!header_integer(&h, &ms) || ms <= 0) {
        stats_add(r->stats, STAT_WINDOWS_IGNORED, 1);
        return route->window;
    }
    return ms < route->max_window ? ms : route->max_window;
}

static void read_content(struct relay *r, struct message *m)
{
    const struct route_config *route = r->route;
    m->window = window_of(r, m);
    if (route->fingerprint != FINGERPRINT_NONE)
        m->delivery.fingerprint =
            key_fingerprint(route->key_rule, route->fingerprint == FINGERPRINT_BODY_JSON, m->body);
}

static void take_origin(struct span table, const char *name, struct span *out)
{
    struct header h;
    if (header_find(table, span_of(name), &h) && (h.type == 'S' || h.type == 'x') &&
        h.value.len <= SHORT_TEXT_MAX)
        *out = h.value;
}

/* However a parked message was put back: it is what it was, for its key, and for where its copy
 * goes. */
static void restore_origin(struct message *m)
{
    struct properties p;
    if (m->delivery.kind != DELIVERY_PUT_BACK || !properties_read(m->properties, &p))
        return;
    take_origin(p.value[PROPERTY_HEADERS], "x-onlyonce-exchange", &m->exchange);
    take_origin(p.value[PROPERTY_HEADERS], "x-onlyonce-routing-key", &m->routing_key);
}

/* What headers and properties alone decide. What is left undecided is claimed. */
static void admit(struct relay *r, struct message *m)
{
    m->arrived = r->now;
    m->first_seen = store_now(r->store);
    m->facts.rejectable = source_dead_letters(r->source);
    m->attempt = 1;
    m->delivery = delivery_read(m->properties, m->redelivered, &r->origin);
    restore_origin(m);
    read_content(r, m);
    r->bytes += message_size(m);
    enter(r, m, PLACE_FRESH);
    stats_add(r->stats, STAT_DELIVERIES, 1);
    bool has_key = key_find(r->route->key_rule, m);
    count_key(r, m);
    switch (m->delivery.kind) {
    case DELIVERY_UNREADABLE: m->facts.unwritable = true; return;
    case DELIVERY_LOOP: m->copy.reason = PARK_LOOP; return;
    case DELIVERY_BAD_HEADER: m->copy.reason = PARK_BAD_HEADER; return;
    case DELIVERY_PLAIN:
    case DELIVERY_RETRY:
    case DELIVERY_PUT_BACK: break;
    }
    if (has_key)
        return;
    if (r->route->on_missing_key == MISSING_KEY_PARK)
        m->copy.reason = PARK_NO_KEY;
    else
        m->copy.no_key = true;
}

static void pull(struct relay *r)
{
    struct message *m;
    while (relay_reads(r) && (m = source_pull(r->source)))
        admit(r, m);
}

static void wake(struct relay *r)
{
    if (r->now < r->next_due)
        return;
    r->next_due = INT64_MAX;
    struct message *m, *next;
    for (m = TAILQ_FIRST(&r->places[PLACE_HELD]); m; m = next) {
        next = TAILQ_NEXT(m, link);
        if (m->due <= r->now)
            relay_move(r, m, EVENT_DUE);
        else
            wake_by(r, m->due);
    }
}

/* ---- Acknowledging ---- */

static bool was_forwarded(const struct message *m)
{
    return m->copy.target == TARGET_WORK && !m->is_duplicate && !m->facts.unwritable;
}

static void settle(struct relay *r)
{
    struct message *m;
    while ((m = TAILQ_FIRST(&r->places[PLACE_SETTLE]))) {
        if (was_forwarded(m))
            histogram_add(&r->stats->relays, histogram_short, (r->now - m->arrived) * 1000);
        if (m->facts.unwritable)
            source_reject(r->source, m);
        else
            source_ack(r->source, m);
        relay_move(r, m, EVENT_ACKED);
    }
}

/* ---- Losing links, and stopping ---- */

/* Tells every message of a place. HELD comes first where several places are told: with it the
 * followers are gone, so that telling one message moves no other. */
static void tell_place(struct relay *r, enum place place, enum event event)
{
    struct message *m, *next;
    for (m = TAILQ_FIRST(&r->places[place]); m; m = next) {
        next = TAILQ_NEXT(m, link);
        if (event == EVENT_SOURCE_LOST)
            m->facts.orphan = true;
        relay_move(r, m, event);
    }
}

void relay_source_lost(struct relay *r)
{
    static const enum place order[] = {PLACE_HELD,      PLACE_FRESH,  PLACE_CLAIMED, PLACE_SENT,
                                       PLACE_CONFIRMED, PLACE_UNWIND, PLACE_SETTLE};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        tell_place(r, order[i], EVENT_SOURCE_LOST);
    r->wishes.give_back = false;
}

static void lose_copy(struct relay *r, struct message *m, const char *why)
{
    if (m->copy.target != TARGET_REPLY)
        relay_hold(r, m, EVENT_SINK_LOST, why, 0);
}

void relay_replies_lost(struct relay *r)
{
    struct message *m, *next;
    for (m = TAILQ_FIRST(&r->places[PLACE_SENT]); m; m = next) {
        next = TAILQ_NEXT(m, link);
        if (m->copy.target == TARGET_REPLY)
            relay_replied(r, m, false);
    }
}

void relay_sink_lost(struct relay *r)
{
    struct message *m, *next;
    for (m = TAILQ_FIRST(&r->places[PLACE_SENT]); m; m = next) {
        next = TAILQ_NEXT(m, link);
        /* Rule 6: the copy may have arrived. Any other is only parked, or published, again. */
        m->in_doubt = m->in_doubt || m->copy.target == TARGET_WORK;
        lose_copy(r, m, "its confirm was lost with the connection");
    }
    for (m = TAILQ_FIRST(&r->places[PLACE_CLAIMED]); m; m = next) {
        next = TAILQ_NEXT(m, link);
        lose_copy(r, m, "the broker is away");
    }
}

void relay_stop(struct relay *r)
{
    r->stopping = true;
}

static void drop_unpublished(struct relay *r)
{
    tell_place(r, PLACE_HELD, EVENT_STOPPING);
    tell_place(r, PLACE_FRESH, EVENT_STOPPING);
    tell_place(r, PLACE_CLAIMED, EVENT_STOPPING);
}

bool relay_is_drained(const struct relay *r)
{
    return r->counts[PLACE_CLAIMED] + r->counts[PLACE_SENT] + r->counts[PLACE_CONFIRMED] +
               r->counts[PLACE_UNWIND] + r->counts[PLACE_SETTLE] ==
           0;
}

/* ---- The tick ---- */

/* hold_limit: the broker's own limit would close the channel, and more than this. */
static void look_for_old(struct relay *r)
{
    if (r->now < r->next_look)
        return;
    r->next_look = r->now + LOOK_EVERY_MS;
    r->oldest = 0;
    for (size_t p = 0; p < PLACE_COUNT; p++) {
        const struct message *m;
        TAILQ_FOREACH(m, &r->places[p], link)
        {
            if (m->facts.orphan)
                continue;
            if (r->now - m->arrived > r->route->hold_limit)
                r->wishes.give_back = true;
            if (!r->oldest || m->arrived < r->oldest)
                r->oldest = m->arrived;
        }
    }
}

size_t relay_room(const struct relay *r)
{
    size_t room = sink_room(r->sink);
    size_t unrecorded = r->session->open ? r->counts[PLACE_CONFIRMED] : 0;
    return room > unrecorded ? room - unrecorded : 0;
}

static int64_t sleep_ms(const struct relay *r)
{
    if (r->replies_wait)
        return 0;
    bool store_goes = r->session->open || !r->policy.store_failure_holds;
    if (r->counts[PLACE_FRESH] > 0 && store_goes && relay_room(r) > r->counts[PLACE_CLAIMED])
        return 0;
    if ((r->counts[PLACE_CONFIRMED] > 0 || r->counts[PLACE_UNWIND] > 0) && r->session->open)
        return 0;
    int64_t wait = r->next_due == INT64_MAX ? MOST_SLEEP_MS : r->next_due - r->now;
    if (wait < 0)
        wait = 0;
    return wait < MOST_SLEEP_MS ? wait : MOST_SLEEP_MS;
}

struct relay_wishes relay_wishes(const struct relay *r)
{
    return r->wishes;
}

int64_t relay_tick(struct relay *r, int64_t now)
{
    r->now = now;
    r->wishes.store_failed = false;
    r->wishes.session_lost = false;
    relay_confirm(r);
    /* Before there are new claims: so no more than `unconfirmed` are ever in doubt after a crash.
     */
    relay_record(r);
    if (r->stopping)
        drop_unpublished(r);
    relay_release(r);
    pull(r);
    bool full = !relay_reads(r);
    wake(r);
    relay_claim(r);
    relay_look(r);
    relay_count_duplicates(r);
    relay_publish(r);
    settle(r);
    look_for_old(r);
    sink_flush(r->sink, now);
    if (r->replies)
        sink_flush(r->replies, now);
    source_flush(r->source, now, ACKS_PATIENCE_MS);
    return full && relay_reads(r) ? 0 : sleep_ms(r);
}
