#include "headers.h"

#include <assert.h>
#include <string.h>

/* ---- Taking bytes off the front of a span ---- */

static bool take(struct span *rest, size_t len, struct span *out)
{
    if (rest->len < len)
        return false;
    *out = (struct span){rest->data, len};
    rest->data += len;
    rest->len -= len;
    return true;
}

/* What follows a length of `width` bytes. */
static bool take_counted(struct span *rest, size_t width, struct span *out)
{
    struct span len;
    return take(rest, width, &len) && take(rest, bytes_number(len), out);
}

uint64_t bytes_number(struct span bytes)
{
    assert(bytes.len <= 8);
    uint64_t n = 0;
    for (size_t i = 0; i < bytes.len; i++)
        n = n << 8 | bytes.data[i];
    return n;
}

/* ---- Properties ---- */

static bool property_take(struct span *rest, enum property property, struct span *out)
{
    switch (property) {
    case PROPERTY_HEADERS: return take_counted(rest, 4, out);
    case PROPERTY_DELIVERY_MODE:
    case PROPERTY_PRIORITY: return take(rest, 1, out);
    case PROPERTY_TIMESTAMP: return take(rest, 8, out);
    case PROPERTY_CONTENT_TYPE:
    case PROPERTY_CONTENT_ENCODING:
    case PROPERTY_CORRELATION_ID:
    case PROPERTY_REPLY_TO:
    case PROPERTY_EXPIRATION:
    case PROPERTY_MESSAGE_ID:
    case PROPERTY_TYPE:
    case PROPERTY_USER_ID:
    case PROPERTY_APP_ID:
    case PROPERTY_CLUSTER_ID: return take_counted(rest, 1, out);
    case PROPERTY_COUNT: break;
    }
    return false;
}

bool properties_read(struct span encoded, struct properties *out)
{
    *out = (struct properties){0};
    struct span rest = encoded;
    struct span word;
    if (!take(&rest, 2, &word))
        return false;
    uint64_t flags = bytes_number(word);
    for (int i = 0; i < PROPERTY_COUNT; i++) {
        if (!(flags & PROPERTY_FLAG(i)))
            continue;
        if (!property_take(&rest, (enum property)i, &out->value[i]))
            return false;
        out->present[i] = true;
        flags &= ~(uint64_t)PROPERTY_FLAG(i);
    }
    /* What is left is the flag of more flags, one that has no meaning, or bytes of nothing. */
    return flags == 0 && rest.len == 0;
}

/* ---- Tables and arrays ---- */

static bool value_take(struct span *rest, uint8_t type, struct span *out)
{
    switch (type) {
    case 'V': return take(rest, 0, out);
    case 't':
    case 'b':
    case 'B': return take(rest, 1, out);
    case 's':
    case 'u': return take(rest, 2, out);
    case 'I':
    case 'i':
    case 'f': return take(rest, 4, out);
    case 'D': return take(rest, 5, out);
    case 'l':
    case 'L':
    case 'd':
    case 'T': return take(rest, 8, out);
    case 'S':
    case 'x':
    case 'A':
    case 'F': return take_counted(rest, 4, out);
    default: return false;
    }
}

/* Type and value of a field whose name is taken already; `start` is where the field begins. */
static bool field_finish(struct span *rest, struct span left, const uint8_t *start,
                         struct header *out)
{
    struct span type;
    if (!take(&left, 1, &type) || !value_take(&left, type.data[0], &out->value))
        return false;
    out->type = type.data[0];
    out->whole = (struct span){start, (size_t)(left.data - start)};
    *rest = left;
    return true;
}

bool header_next(struct span *rest, struct header *out)
{
    struct span left = *rest;
    return take_counted(&left, 1, &out->name) && field_finish(rest, left, rest->data, out);
}

bool array_next(struct span *rest, struct header *out)
{
    out->name = (struct span){rest->data, 0};
    return field_finish(rest, *rest, rest->data, out);
}

bool header_find(struct span table, struct span name, struct header *out)
{
    while (header_next(&table, out))
        if (span_equal(out->name, name))
            return true;
    return false;
}

/* ---- Integers ---- */

static bool digits_number(struct span text, int64_t *out)
{
    int64_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        int digit = text.data[i] - '0';
        if (digit < 0 || digit > 9)
            return false;
        if (n > (INT64_MAX - digit) / 10)
            return false;
        n = n * 10 + digit;
    }
    *out = n;
    return text.len > 0;
}

static int64_t signed_number(struct span bytes)
{
    assert(bytes.len > 0);
    uint64_t n = bytes_number(bytes);
    uint64_t sign = (uint64_t)1 << (bytes.len * 8 - 1);
    return (int64_t)((n ^ sign) - sign);
}

bool header_integer(const struct header *h, int64_t *out)
{
    switch (h->type) {
    case 'b':
    case 's':
    case 'I':
    case 'l':
    case 'L': /* RabbitMQ reads it as signed, and so do we. */
        *out = signed_number(h->value);
        return true;
    case 'B':
    case 'u':
    case 'i':
    case 'T': *out = (int64_t)bytes_number(h->value); return *out >= 0;
    case 'S':
    case 'x': return digits_number(h->value, out);
    default: return false;
    }
}

/* ---- Writing ---- */

static void field_begin(struct buffer *table, const char *name, uint8_t type)
{
    size_t len = strlen(name);
    assert(len <= UINT8_MAX);
    buffer_add_u8(table, (uint8_t)len);
    buffer_add(table, name, len);
    buffer_add_u8(table, type);
}

void header_add_text(struct buffer *table, const char *name, struct span text)
{
    assert(text.len <= UINT32_MAX);
    field_begin(table, name, 'S');
    buffer_add_u32(table, (uint32_t)text.len);
    buffer_add_span(table, text);
}

void header_add_integer(struct buffer *table, const char *name, int64_t value)
{
    field_begin(table, name, 'l');
    buffer_add_u64(table, (uint64_t)value);
}

void header_add_true(struct buffer *table, const char *name)
{
    field_begin(table, name, 't');
    buffer_add_u8(table, 1);
}
