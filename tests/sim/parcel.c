/* Messages as the broker holds them: their bytes, and how people and brokers change these. */
#include "headers.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parcel *parcel_new(struct broker *b, enum parcel_kind kind)
{
    struct parcel *p = xcalloc(1, sizeof *p);
    p->serial = ++b->next_serial;
    p->kind = kind;
    p->key = SIM_NO_KEY;
    return p;
}

void parcel_free(struct parcel *p)
{
    if (!p)
        return;
    buffer_free(&p->properties);
    buffer_free(&p->body);
    free(p);
}

struct parcel *parcel_copy(struct broker *b, const struct parcel *from)
{
    struct parcel *p = parcel_new(b, from->kind);
    p->key = from->key;
    p->content = from->content;
    p->attempt = from->attempt;
    p->first_seen = from->first_seen;
    buffer_add_span(&p->properties, buffer_span(&from->properties));
    buffer_add_span(&p->body, buffer_span(&from->body));
    return p;
}

static bool is_short_text(int property)
{
    return property != PROPERTY_HEADERS && property != PROPERTY_DELIVERY_MODE &&
           property != PROPERTY_PRIORITY && property != PROPERTY_TIMESTAMP;
}

static void encode(struct buffer *out, const struct properties *p)
{
    uint16_t flags = 0;
    for (int i = 0; i < PROPERTY_COUNT; i++) {
        if (p->present[i])
            flags = (uint16_t)(flags | 1U << (15 - i));
    }
    buffer_add_u16(out, flags);
    for (int i = 0; i < PROPERTY_COUNT; i++) {
        if (!p->present[i])
            continue;
        if (is_short_text(i))
            buffer_add_u8(out, (uint8_t)p->value[i].len);
        else if (i == PROPERTY_HEADERS)
            buffer_add_u32(out, (uint32_t)p->value[i].len);
        buffer_add_span(out, p->value[i]);
    }
}

static void set_property(struct properties *p, enum property property, struct span value)
{
    p->present[property] = true;
    p->value[property] = value;
}

/* The parcel's properties with another header table. */
static void replace_headers(struct parcel *p, const struct buffer *table)
{
    struct properties properties;
    if (!properties_read(buffer_span(&p->properties), &properties)) {
        fail("the properties of parcel %llu cannot be read", (unsigned long long)p->serial);
        return;
    }
    set_property(&properties, PROPERTY_HEADERS, buffer_span(table));
    struct buffer out = {0};
    encode(&out, &properties);
    buffer_free(&p->properties);
    p->properties = out;
}

/* Copies the header table, less `without` (NULL: all of it). */
static void copy_headers(const struct parcel *p, const char *without, struct buffer *table)
{
    struct properties properties;
    if (!properties_read(buffer_span(&p->properties), &properties) ||
        !properties.present[PROPERTY_HEADERS])
        return;
    struct span rest = properties.value[PROPERTY_HEADERS];
    struct header h;
    while (header_next(&rest, &h)) {
        if (!without || !span_is(h.name, without))
            buffer_add_span(table, h.whole);
    }
}

void content_write(int content, char out[SIM_BODY_MAX])
{
    bool json = sim->route.fingerprint == FINGERPRINT_BODY_JSON && content > 0;
    snprintf(out, SIM_BODY_MAX, json ? "{\"order\":%d}" : "order %d", content);
}

/* Without fingerprints no two bodies are the same; JSON is spelled in several ways. */
static void write_body(struct parcel *p)
{
    char text[SIM_BODY_MAX];
    content_write(p->content, text);
    if (sim->route.fingerprint == FINGERPRINT_NONE)
        snprintf(text, sizeof text, "%llu", (unsigned long long)p->serial);
    else if (text[0] == '{' && p->serial % 2 == 0)
        snprintf(text, sizeof text, "{ \"order\" : %d.0 }", p->content);
    buffer_add(&p->body, text, strlen(text));
}

void parcel_write_plain(struct parcel *p, int key, int content)
{
    static const uint8_t persistent = 2, zeros[SIM_FRAME_ROOM];
    char id[24];
    struct properties properties = {0};
    struct buffer table = {0};
    p->content = content;
    p->key = key;
    header_add_text(&table, "x-shop", span_of("north"));
    if (p->kind == PARCEL_UNREADABLE)
        buffer_add(&table, "\3odd?", 5); /* a field type that nobody knows */
    if (p->kind == PARCEL_TOO_LARGE)
        header_add_text(&table, "x-long", (struct span){zeros, sizeof zeros});
    set_property(&properties, PROPERTY_HEADERS, buffer_span(&table));
    set_property(&properties, PROPERTY_DELIVERY_MODE, (struct span){&persistent, 1});
    if (key != SIM_NO_KEY) {
        snprintf(id, sizeof id, "k%d", key);
        set_property(&properties, PROPERTY_MESSAGE_ID, span_of(id));
    }
    if (p->serial % 3 == 0)
        set_property(&properties, PROPERTY_REPLY_TO, span_of("answers"));
    encode(&p->properties, &properties);
    write_body(p);
    buffer_free(&table);
}

static void add_long_text(struct buffer *table, const char *name, const char *text)
{
    header_add_text(table, name, span_of(text));
}

static void add_death(struct buffer *array, const char *queue, const char *exchange,
                      const char *reason)
{
    struct buffer entry = {0};
    header_add_integer(&entry, "count", 1);
    add_long_text(&entry, "reason", reason);
    add_long_text(&entry, "queue", queue);
    add_long_text(&entry, "exchange", exchange);
    buffer_add_u8(array, 'F');
    buffer_add_u32(array, (uint32_t)entry.len);
    buffer_add_span(array, buffer_span(&entry));
    buffer_free(&entry);
}

void parcel_add_death(struct parcel *p, const char *queue, const char *exchange, bool delayed)
{
    struct buffer table = {0}, array = {0};
    copy_headers(p, "x-death", &table);
    if (delayed)
        add_death(&array, "delay", "delays", "expired");
    add_death(&array, queue, exchange, "rejected");
    buffer_add_u8(&table, (uint8_t)strlen("x-death"));
    buffer_add(&table, "x-death", strlen("x-death"));
    buffer_add_u8(&table, 'A');
    buffer_add_u32(&table, (uint32_t)array.len);
    buffer_add_span(&table, buffer_span(&array));
    add_long_text(&table, "x-first-death-queue", delayed ? "delay" : queue);
    replace_headers(p, &table);
    buffer_free(&table);
    buffer_free(&array);
}

void parcel_spoil_attempt(struct parcel *p)
{
    struct buffer table = {0};
    copy_headers(p, "x-onlyonce-attempt", &table);
    add_long_text(&table, "x-onlyonce-attempt", "-1");
    replace_headers(p, &table);
    buffer_free(&table);
}

void parcel_bear_other_route(struct parcel *p)
{
    struct buffer table = {0};
    copy_headers(p, NULL, &table);
    add_long_text(&table, "x-onlyonce-route", "upstream");
    add_long_text(&table, "x-onlyonce-first-seen", "1782640000000");
    replace_headers(p, &table);
    buffer_free(&table);
    parcel_add_death(p, "upstream.work", "", false);
}
