#include "delivery.h"

#include "headers.h"

#include <assert.h>

/* The headers of a delivery that matter here; a type of 0: it has none of that name. */
struct past {
    struct header route;
    struct header attempt;
    struct header first_seen;
    struct header reason;
    struct header death;
};

/* Of headers with the same name the first counts, as everywhere. False: the table is unreadable. */
static bool past_read(struct span table, struct past *past)
{
    struct {
        const char *name;
        struct header *to;
    } const wanted[] = {
        {"x-onlyonce-route", &past->route},
        {"x-onlyonce-attempt", &past->attempt},
        {"x-onlyonce-first-seen", &past->first_seen},
        {"x-onlyonce-reason", &past->reason},
        {"x-death", &past->death},
    };
    struct header h;
    while (header_next(&table, &h))
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
            if (wanted[i].to->type == 0 && span_is(h.name, wanted[i].name))
                *wanted[i].to = h;
    return table.len == 0;
}

static bool is_text(const struct header *h)
{
    return h->type == 'S' || h->type == 'x';
}

static bool entry_is(struct span entry, const char *name, const char *text)
{
    struct header h;
    return header_find(entry, span_of(name), &h) && is_text(&h) && span_is(h.value, text);
}

/* One x-death entry: was it this route's destination that the message died in? */
static bool died_at(struct span entry, const struct delivery_origin *origin)
{
    if (origin->queue)
        return entry_is(entry, "exchange", "") && entry_is(entry, "queue", origin->queue);
    return entry_is(entry, "exchange", origin->exchange);
}

/* Has it an x-death entry, of this origin or (NULL) of any? */
static bool has_died(const struct past *past, const struct delivery_origin *origin)
{
    if (past->death.type != 'A')
        return false;
    struct span rest = past->death.value;
    struct header entry;
    bool found = false;
    while (array_next(&rest, &entry))
        found |= entry.type == 'F' && (!origin || died_at(entry.value, origin));
    return found && rest.len == 0;
}

/* What the copy that came back says of its record. False: it makes no sense. */
static bool read_life(const struct past *past, int64_t *attempt, int64_t *first_seen)
{
    *attempt = 1;
    if (past->attempt.type && !header_integer(&past->attempt, attempt))
        return false;
    if (!header_integer(&past->first_seen, first_seen)) /* nor is one that is not there */
        return false;
    return *attempt >= 1 && *attempt <= UINT32_MAX && *first_seen >= 1;
}

/* A delivery that bears this route's own mark. */
static void read_own(const struct past *past, const struct delivery_origin *origin,
                     struct delivery *d)
{
    int64_t attempt;
    int64_t first_seen;
    if (!read_life(past, &attempt, &first_seen)) {
        d->kind = DELIVERY_BAD_HEADER;
        return;
    }
    d->attempt = (uint32_t)attempt;
    d->first_seen = first_seen;
    if (past->reason.type)
        d->kind = DELIVERY_PUT_BACK;
    else if (has_died(past, origin))
        d->kind = DELIVERY_RETRY;
    else
        d->kind = DELIVERY_LOOP;
}

struct delivery delivery_read(struct span properties, bool redelivered,
                              const struct delivery_origin *origin)
{
    assert(!origin->queue != !origin->exchange);
    struct delivery d = {.kind = DELIVERY_PLAIN, .redelivered = redelivered};
    struct properties p;
    struct past past = {0};
    if (!properties_read(properties, &p) || !past_read(p.value[PROPERTY_HEADERS], &past)) {
        d.kind = DELIVERY_UNREADABLE;
        return d;
    }
    if (!is_text(&past.route))
        return d;
    if (span_is(past.route.value, origin->route))
        read_own(&past, origin, &d);
    else
        d.other_route = has_died(&past, NULL);
    return d;
}
