/*
 * fuzz_headers - properties and header tables of every kind, and their copies: a copy can be read,
 * has our headers once, keeps all others that need not go with their bytes and order, and the copy
 * of a copy is that copy.
 *
 * Input: two bytes of what the copy shall be, and the properties as encoded.
 */
#include "copy.h"
#include "delivery.h"
#include "fuzz.h"
#include "headers.h"

#include <assert.h>

#define ROUTE "r"
#define FIXED 12 /* class, weight, body size */

static struct span properties_of(const struct buffer *payload)
{
    return (struct span){payload->data + FIXED, payload->len - FIXED};
}

static bool begins_with(struct span name, const char *prefix)
{
    return name.len >= strlen(prefix) && memcmp(name.data, prefix, strlen(prefix)) == 0;
}

/* What docs/protocol.md says that a copy does not keep. */
static bool goes(const struct header *h)
{
    return span_is(h->name, "CC") || span_is(h->name, "BCC") || span_is(h->name, "x-death") ||
           span_is(h->name, "x-delivery-count") || span_is(h->name, "x-acquired-count") ||
           begins_with(h->name, "x-first-death-") || begins_with(h->name, "x-last-death-") ||
           begins_with(h->name, "x-onlyonce-");
}

static struct copy make_copy(uint8_t kind, uint8_t marks)
{
    struct copy c = {.target = kind & 1   ? TARGET_PARKING
                               : kind & 2 ? TARGET_DUPLICATES
                                          : TARGET_WORK,
                     .first_seen = 1782640800123,
                     .attempt = kind >> 4,
                     .state = "forwarded"};
    c.reason = c.target == TARGET_PARKING ? PARK_LOOP : PARK_NONE;
    c.in_doubt = marks & 1;
    c.unchecked = marks & 2;
    c.no_key = marks & 4;
    return c;
}

/* All that is kept stands in front, as it was; behind it ours, each once. */
static void check_headers(struct span before, struct span after)
{
    struct header was;
    struct header is;
    while (header_next(&before, &was)) {
        if (goes(&was))
            continue;
        bool there = header_next(&after, &is);
        assert(there && span_equal(was.whole, is.whole));
    }
    assert(before.len == 0);
    struct span ours = after;
    while (header_next(&after, &is)) {
        struct header first;
        assert(begins_with(is.name, "x-onlyonce-"));
        bool there = header_find(ours, is.name, &first);
        assert(there && first.whole.data == is.whole.data);
    }
    assert(after.len == 0 && ours.len > 0);
}

static void check_properties(const struct properties *before, const struct properties *after)
{
    for (int i = 0; i < PROPERTY_COUNT; i++) {
        if (i == PROPERTY_HEADERS || (i == PROPERTY_USER_ID && !after->present[i]))
            continue;
        assert(before->present[i] == after->present[i]);
        assert(span_equal(before->value[i], after->value[i]));
    }
    assert(after->present[PROPERTY_HEADERS]);
    check_headers(before->value[PROPERTY_HEADERS], after->value[PROPERTY_HEADERS]);
}

/* Less room: without the key, or not at all; never more than there is. */
static void check_limits(const struct message *m, const struct copy *copy, size_t whole)
{
    struct buffer out = {0};
    for (size_t less = 1; less <= 64 && less <= whole; less += 21) {
        buffer_clear(&out);
        enum copy_result result = copy_write(m, copy, ROUTE, "guest", whole - less, &out);
        assert(result == COPY_WITHOUT_KEY || result == COPY_TOO_LARGE);
        assert(result == COPY_WITHOUT_KEY ? out.len > FIXED && out.len <= whole - less
                                          : out.len == 0);
    }
    buffer_free(&out);
}

static void check_copy(const struct message *m, const struct copy *copy, const struct properties *p,
                       const struct buffer *out)
{
    struct properties after;
    bool readable = properties_read(properties_of(out), &after);
    assert(readable);
    check_properties(p, &after);
    check_limits(m, copy, out->len);

    struct buffer again = {0};
    struct message *back =
        build_message_parts(m->exchange, m->routing_key, properties_of(out), span_of(""));
    memcpy(back->key, m->key, sizeof back->key);
    back->key_len = m->key_len;
    enum copy_result result = copy_write(back, copy, ROUTE, "guest", SIZE_MAX, &again);
    assert(result == COPY_OK && span_equal(buffer_span(out), buffer_span(&again)));
    assert(properties_same(back->properties, properties_of(&again)));
    message_free(back);
    buffer_free(&again);
}

/* Sorted by name, the first of each name: what RabbitMQ 4 does to a table. Here: backwards. */
static void check_same(struct span encoded, const struct properties *p)
{
    struct buffer table = {0};
    struct buffer other = {0};
    struct buffer front = {0};
    struct header h;
    struct span rest = p->value[PROPERTY_HEADERS];
    while (header_next(&rest, &h)) {
        struct header twin;
        if (header_find(p->value[PROPERTY_HEADERS], h.name, &twin) &&
            twin.whole.data != h.whole.data)
            continue;
        buffer_clear(&front);
        buffer_add_span(&front, h.whole);
        buffer_add_span(&front, buffer_span(&table));
        buffer_clear(&table);
        buffer_add_span(&table, buffer_span(&front));
    }
    assert(properties_same(encoded, encoded));
    if (p->present[PROPERTY_HEADERS]) {
        const uint8_t *at = p->value[PROPERTY_HEADERS].data;
        buffer_add(&other, encoded.data, (size_t)(at - 4 - encoded.data));
        buffer_add_u32(&other, (uint32_t)table.len);
        buffer_add_span(&other, buffer_span(&table));
        at += p->value[PROPERTY_HEADERS].len;
        buffer_add(&other, at, (size_t)(encoded.data + encoded.len - at));
        assert(properties_same(encoded, buffer_span(&other)));
        assert(properties_same(buffer_span(&other), encoded));
    }
    buffer_free(&table);
    buffer_free(&other);
    buffer_free(&front);
}

static void check_message(struct message *m, const struct copy *copy)
{
    static const struct delivery_origin by_queue = {.route = ROUTE, .queue = "work"};
    static const struct delivery_origin by_exchange = {.route = ROUTE, .exchange = "work"};
    struct properties p;
    struct buffer out = {0};
    struct delivery d = delivery_read(m->properties, false, &by_queue);
    struct delivery e = delivery_read(m->properties, true, &by_exchange);
    enum copy_result result = copy_write(m, copy, ROUTE, "guest", SIZE_MAX, &out);
    assert((result == COPY_UNREADABLE) == (d.kind == DELIVERY_UNREADABLE));
    assert((result == COPY_UNREADABLE) == (e.kind == DELIVERY_UNREADABLE));
    assert(result == COPY_OK || (result == COPY_UNREADABLE && out.len == 0));
    bool readable = properties_read(m->properties, &p);
    if (result == COPY_OK) {
        assert(readable);
        check_copy(m, copy, &p, &out);
        check_same(m->properties, &p);
    }
    buffer_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span rest = {data, size};
    uint8_t kind = fuzz_byte(&rest);
    struct copy copy = make_copy(kind, fuzz_byte(&rest));
    struct message *m = build_message_parts(span_of("e"), span_of("k"), rest, span_of(""));
    if (kind & 4)
        m->key_len = (uint16_t)(stpcpy(m->key, "key") - m->key);
    check_message(m, &copy);
    message_free(m);
    return 0;
}
