#include "copy.h"

#include "headers.h"
#include "message.h"

#include <assert.h>
#include <string.h>

#define CLASS_BASIC 60

const char *park_reason_text(enum park_reason reason)
{
    assert(reason < PARK_REASON_COUNT);
    switch (reason) {
    case PARK_NONE: return "none";
    case PARK_LOOP: return "loop";
    case PARK_STALE: return "stale";
    case PARK_BAD_HEADER: return "bad_header";
    case PARK_DEAD_LETTERED: return "dead_lettered";
    case PARK_OTHER_ROUTE: return "other_route";
    case PARK_NO_KEY: return "no_key";
    case PARK_STORE_FAILURE: return "store_failure";
    case PARK_UNROUTABLE: return "unroutable";
    case PARK_CONFLICT: return "conflict";
    case PARK_IN_DOUBT: return "in_doubt";
    case PARK_UNKNOWN_ROUTE: return "unknown_route";
    case PARK_NOT_FOUND: return "not_found";
    case PARK_PENDING: return "pending";
    case PARK_FOREIGN: return "foreign";
    case PARK_BAD_ACTION: return "bad_action";
    case PARK_BAD_RESULT: return "bad_result";
    case PARK_REASON_COUNT: break;
    }
    return "none";
}

/* ---- Headers ---- */

static bool begins_with(struct span name, const char *prefix)
{
    size_t len = strlen(prefix);
    return name.len >= len && memcmp(name.data, prefix, len) == 0;
}

/* Headers that parking writes. */
static bool is_of_parking(struct span name)
{
    return span_is(name, "x-onlyonce-reason") || span_is(name, "x-onlyonce-exchange") ||
           span_is(name, "x-onlyonce-routing-key");
}

/* Headers that RabbitMQ acts upon or writes itself, and those that are ours to write. Before 4.0 it
 * went by an x-death that a client sent; x-acquired-count is its own from 4.3 on. */
static bool header_is_taken_out(struct span name, bool report)
{
    static const char *const names[] = {"CC", "BCC", "x-death", "x-delivery-count",
                                        "x-acquired-count"};
    static const char *const prefixes[] = {"x-first-death-", "x-last-death-"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (span_is(name, names[i]))
            return true;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (begins_with(name, prefixes[i]))
            return true;
    return report ? is_of_parking(name) : begins_with(name, "x-onlyonce-");
}

/* False: the table is broken, or has a type whose length nobody knows. */
static bool add_kept_headers(struct span table, bool report, struct buffer *out)
{
    struct header h;
    while (header_next(&table, &h))
        if (!header_is_taken_out(h.name, report))
            buffer_add_span(out, h.whole);
    return table.len == 0;
}

static void add_mark(struct buffer *out, const char *name, bool set)
{
    if (set)
        header_add_true(out, name);
}

static void add_parking_headers(const struct message *m, const struct copy *copy,
                                struct buffer *out)
{
    header_add_text(out, "x-onlyonce-reason", span_of(park_reason_text(copy->reason)));
    header_add_text(out, "x-onlyonce-exchange", m->exchange);
    header_add_text(out, "x-onlyonce-routing-key", m->routing_key);
}

static void add_own_headers(const struct message *m, const struct copy *copy, const char *route,
                            bool with_key, struct buffer *out)
{
    if (copy->report) {
        add_parking_headers(m, copy, out);
        return;
    }
    header_add_text(out, "x-onlyonce-route", span_of(route));
    if (with_key && m->key_len)
        header_add_text(out, "x-onlyonce-key", message_key(m));
    header_add_integer(out, "x-onlyonce-first-seen", copy->first_seen);
    if (copy->target == TARGET_DUPLICATES) {
        header_add_text(out, "x-onlyonce-state", span_of(copy->state));
        header_add_integer(out, "x-onlyonce-duplicates", copy->duplicates);
        return;
    }
    if (copy->attempt > 1)
        header_add_integer(out, "x-onlyonce-attempt", copy->attempt);
    add_mark(out, "x-onlyonce-in-doubt", copy->in_doubt);
    add_mark(out, "x-onlyonce-unchecked", copy->unchecked);
    add_mark(out, "x-onlyonce-no-key", copy->no_key);
    if (copy->target == TARGET_PARKING)
        add_parking_headers(m, copy, out);
}

struct span copy_body(const struct message *m, const struct copy *copy)
{
    return copy->target == TARGET_REPLY ? span_of(m->reply) : m->body;
}

/* ---- Properties ---- */

static void set_u32(uint8_t *at, size_t value)
{
    assert(value <= UINT32_MAX);
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
}

static bool add_headers(const struct message *m, const struct copy *copy, const char *route,
                        bool with_key, struct span table, struct buffer *out)
{
    size_t start = out->len;
    buffer_add_u32(out, 0);
    if (!add_kept_headers(table, copy->report, out))
        return false;
    add_own_headers(m, copy, route, with_key, out);
    set_u32(out->data + start, out->len - start - 4);
    return true;
}

static void add_property(enum property property, struct span value, struct buffer *out)
{
    bool is_number = property == PROPERTY_DELIVERY_MODE || property == PROPERTY_PRIORITY ||
                     property == PROPERTY_TIMESTAMP;
    if (!is_number)
        buffer_add_u8(out, (uint8_t)value.len);
    buffer_add_span(out, value);
}

static bool add_payload(const struct message *m, const struct copy *copy, const char *route,
                        bool with_key, const struct properties *p, struct buffer *out)
{
    unsigned flags = 0;
    for (int i = 0; i < PROPERTY_COUNT; i++)
        flags |= p->present[i] ? PROPERTY_FLAG(i) : 0;
    buffer_add_u16(out, CLASS_BASIC);
    buffer_add_u16(out, 0); /* the weight, which is always 0 */
    buffer_add_u64(out, copy_body(m, copy).len);
    buffer_add_u16(out, (uint16_t)flags);
    for (int i = 0; i < PROPERTY_COUNT; i++) {
        if (!p->present[i])
            continue;
        if (i != PROPERTY_HEADERS)
            add_property((enum property)i, p->value[i], out);
        else if (!add_headers(m, copy, route, with_key, p->value[i], out))
            return false;
    }
    return true;
}

/* ---- The whole ---- */

/* A reply has these two properties, and no headers. */
static struct properties properties_of_reply(const struct properties *p)
{
    struct properties reply = {0};
    reply.present[PROPERTY_CONTENT_TYPE] = true;
    reply.value[PROPERTY_CONTENT_TYPE] = span_of("application/json");
    reply.present[PROPERTY_CORRELATION_ID] = p->present[PROPERTY_CORRELATION_ID];
    reply.value[PROPERTY_CORRELATION_ID] = p->value[PROPERTY_CORRELATION_ID];
    return reply;
}

static enum copy_result try_write(const struct message *m, const struct copy *copy,
                                  const char *route, const char *own_user, size_t max,
                                  struct buffer *out)
{
    struct properties p;
    if (!properties_read(m->properties, &p))
        return COPY_UNREADABLE;
    p.present[PROPERTY_HEADERS] = true;
    p.present[PROPERTY_USER_ID] &= own_user && span_is(p.value[PROPERTY_USER_ID], own_user);
    if (copy->target == TARGET_REPLY)
        p = properties_of_reply(&p);

    size_t start = out->len;
    if (!add_payload(m, copy, route, true, &p, out))
        return COPY_UNREADABLE;
    if (out->len - start <= max)
        return COPY_OK;
    out->len = start;
    if (!add_payload(m, copy, route, false, &p, out))
        return COPY_UNREADABLE;
    return out->len - start <= max ? COPY_WITHOUT_KEY : COPY_TOO_LARGE;
}

enum copy_result copy_write(const struct message *m, const struct copy *copy, const char *route,
                            const char *own_user, size_t max, struct buffer *out)
{
    assert(copy->target != TARGET_PARKING || copy->reason != PARK_NONE);
    size_t start = out->len;
    enum copy_result result = try_write(m, copy, route, own_user, max, out);
    if (result == COPY_UNREADABLE || result == COPY_TOO_LARGE)
        out->len = start;
    return result;
}
