#include "headers.h"

#include <assert.h>
#include <stdlib.h>
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

/* ---- Comparing ---- */

/* A boolean is any byte to RabbitMQ, and L is l. */
static bool fields_same(const struct header *a, const struct header *b)
{
    if (a->type == 't' && b->type == 't')
        return !a->value.data[0] == !b->value.data[0];
    return (a->type == 'L' ? 'l' : a->type) == (b->type == 'L' ? 'l' : b->type) &&
           span_equal(a->value, b->value);
}

static int names_compare(struct span a, struct span b)
{
    int order = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

/* Fields of one name stay in their order. */
static int fields_compare(const void *a, const void *b)
{
    const struct header *x = a;
    const struct header *y = b;
    int order = names_compare(x->name, y->name);
    return order ? order : (x->whole.data > y->whole.data) - (x->whole.data < y->whole.data);
}

/* A table's fields, sorted, the first of each name; NULL if it is broken. The caller's to free. */
static struct header *sorted_fields(struct span table, size_t *count)
{
    size_t n = 0;
    struct header *fields = xcalloc(table.len / 2 + 1, sizeof *fields);
    while (header_next(&table, &fields[n]))
        n++;
    if (table.len) {
        free(fields);
        return NULL;
    }
    qsort(fields, n, sizeof *fields, fields_compare);
    *count = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || names_compare(fields[i].name, fields[*count - 1].name) != 0)
            fields[(*count)++] = fields[i];
    return fields;
}

static bool tables_same(struct span a, struct span b)
{
    size_t a_count;
    size_t b_count;
    struct header *x = sorted_fields(a, &a_count);
    struct header *y = sorted_fields(b, &b_count);
    bool same = x && y && a_count == b_count;
    for (size_t i = 0; same && i < a_count; i++)
        same = span_equal(x[i].name, y[i].name) && fields_same(&x[i], &y[i]);
    free(x);
    free(y);
    return same;
}

static struct span without_zeros(struct span digits)
{
    while (digits.len > 1 && digits.data[0] == '0')
        digits = (struct span){digits.data + 1, digits.len - 1};
    return digits;
}

bool properties_same(struct span a, struct span b)
{
    struct properties x;
    struct properties y;
    if (span_equal(a, b))
        return true;
    bool same = properties_read(a, &x) && properties_read(b, &y);
    for (int i = 0; same && i < PROPERTY_COUNT; i++) {
        if (i == PROPERTY_HEADERS || i == PROPERTY_EXPIRATION)
            continue;
        same = x.present[i] == y.present[i] && span_equal(x.value[i], y.value[i]);
    }
    return same && x.present[PROPERTY_EXPIRATION] == y.present[PROPERTY_EXPIRATION] &&
           span_equal(without_zeros(x.value[PROPERTY_EXPIRATION]),
                      without_zeros(y.value[PROPERTY_EXPIRATION])) &&
           x.present[PROPERTY_HEADERS] == y.present[PROPERTY_HEADERS] &&
           tables_same(x.value[PROPERTY_HEADERS], y.value[PROPERTY_HEADERS]);
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
