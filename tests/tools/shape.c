#include "shape.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLASS_BASIC 60
#define FRAME_END 0xCE
#define FRAME_OVERHEAD 8 /* type, channel, size and end */

const char *const property_names[PROPERTIES] = {
    "content_type",   "content_encoding", "headers",    "delivery_mode", "priority",
    "correlation_id", "reply_to",         "expiration", "message_id",    "timestamp",
    "type",           "user_id",          "app_id",     "cluster_id"};

/* ---- Bytes ---- */

void bytes_add(struct bytes *b, const void *data, size_t len)
{
    if (b->len + len > b->room) {
        b->room = (b->len + len) * 2;
        b->data = realloc(b->data, b->room);
        if (b->data == NULL)
            abort();
    }
    if (len > 0)
        memcpy(b->data + b->len, data, len);
    b->len += len;
}

void bytes_add_number(struct bytes *b, uint64_t number, size_t width)
{
    for (size_t i = width; i-- > 0;)
        bytes_add(b, &(uint8_t){(uint8_t)(number >> (8 * i))}, 1);
}

bool bytes_equal(const struct bytes *a, const struct bytes *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

void bytes_free(struct bytes *b)
{
    free(b->data);
    *b = (struct bytes){0};
}

static uint64_t number_at(const uint8_t *at, size_t width)
{
    uint64_t n = 0;
    for (size_t i = 0; i < width; i++)
        n = n << 8 | at[i];
    return n;
}

/* ---- Shapes ---- */

void shape_free(struct shape *s)
{
    for (int i = 0; i < PROPERTIES; i++)
        bytes_free(&s->value[i]);
    bytes_free(&s->body);
    memset(s->present, 0, sizeof s->present);
}

void shape_set(struct shape *s, enum property property, const void *data, size_t len)
{
    s->present[property] = true;
    s->value[property].len = 0;
    bytes_add(&s->value[property], data, len);
}

void shape_add_field(struct shape *s, const char *name, size_t name_len, char type,
                     const void *value, size_t len)
{
    struct bytes *table = &s->value[HEADERS];
    s->present[HEADERS] = true;
    bytes_add_number(table, name_len, 1);
    bytes_add(table, name, name_len);
    bytes_add(table, &type, 1);
    bytes_add(table, value, len);
}

/* How wide the number is that a property consists of; 0: it is a text or a table. */
static size_t width_of(int property)
{
    switch (property) {
    case DELIVERY_MODE:
    case PRIORITY: return 1;
    case TIMESTAMP: return 8;
    default: return 0;
    }
}

/* The length of a property's length. */
static size_t length_of_length(int property)
{
    if (width_of(property) > 0)
        return 0;
    return property == HEADERS ? 4 : 1;
}

static void encode(const struct shape *s, struct bytes *out)
{
    unsigned flags = 0;
    for (int i = 0; i < PROPERTIES; i++)
        flags |= s->present[i] ? 0x8000U >> i : 0;
    bytes_add_number(out, CLASS_BASIC, 2);
    bytes_add_number(out, 0, 2);
    bytes_add_number(out, s->body.len, 8);
    bytes_add_number(out, flags, 2);
    for (int i = 0; i < PROPERTIES; i++) {
        if (!s->present[i])
            continue;
        bytes_add_number(out, s->value[i].len, length_of_length(i));
        bytes_add(out, s->value[i].data, s->value[i].len);
    }
}

/* False: that is no property list, down to the last byte. */
static bool decode(const uint8_t *at, size_t len, struct shape *s)
{
    const uint8_t *end = at + len;
    if (len < 2)
        return false;
    uint64_t flags = number_at(at, 2);
    at += 2;
    for (int i = 0; i < PROPERTIES; i++) {
        size_t prefix = length_of_length(i);
        if ((flags & (0x8000U >> i)) == 0)
            continue;
        if ((size_t)(end - at) < prefix)
            return false;
        size_t size = prefix > 0 ? (size_t)number_at(at, prefix) : width_of(i);
        at += prefix;
        if ((size_t)(end - at) < size)
            return false;
        shape_set(s, (enum property)i, at, size);
        at += size;
    }
    return at == end;
}

/* ---- Publishing ---- */

static void add_frame(struct bytes *out, uint8_t type, const uint8_t *payload, size_t len)
{
    bytes_add(out, &type, 1);
    bytes_add_number(out, CLIENT_CHANNEL, 2);
    bytes_add_number(out, len, 4);
    bytes_add(out, payload, len);
    bytes_add(out, &(uint8_t){FRAME_END}, 1);
}

static bool write_all(int fd, const struct bytes *b)
{
    size_t done = 0;
    while (done < b->len) {
        ssize_t n = write(fd, b->data + done, b->len - done);
        if (n >= 0) {
            done += (size_t)n;
        } else if (errno == EAGAIN) {
            (void)poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
        } else if (errno != EINTR) {
            fprintf(stderr, "publishing: %s\n", strerror(errno));
            return false;
        }
    }
    return true;
}

bool shape_publish(amqp_connection_state_t c, const char *queue, const struct shape *s)
{
    const size_t most = (size_t)amqp_get_frame_max(c) - FRAME_OVERHEAD;
    amqp_basic_publish_t publish = {.routing_key = amqp_cstring_bytes(queue)};
    struct bytes header = {0};
    struct bytes frames = {0};
    encode(s, &header);
    add_frame(&frames, AMQP_FRAME_HEADER, header.data, header.len);
    for (size_t done = 0; done < s->body.len;) {
        size_t part = s->body.len - done < most ? s->body.len - done : most;
        add_frame(&frames, AMQP_FRAME_BODY, s->body.data + done, part);
        done += part;
    }
    int status = amqp_send_method(c, CLIENT_CHANNEL, AMQP_BASIC_PUBLISH_METHOD, &publish);
    if (status != AMQP_STATUS_OK)
        fprintf(stderr, "publishing: %s\n", amqp_error_string2(status));
    bool ok = status == AMQP_STATUS_OK && write_all(amqp_get_sockfd(c), &frames);
    bytes_free(&header);
    bytes_free(&frames);
    return ok;
}

/* ---- Receiving ---- */

static bool wait_frame(amqp_connection_state_t c, long ms, amqp_frame_t *frame)
{
    struct timeval patience = {ms / 1000, ms % 1000 * 1000};
    int status = amqp_simple_wait_frame_noblock(c, frame, &patience);
    if (status != AMQP_STATUS_OK) {
        fprintf(stderr, "waiting for the copy: %s\n", amqp_error_string2(status));
        return false;
    }
    if (frame->frame_type == AMQP_FRAME_METHOD &&
        frame->payload.method.id != AMQP_BASIC_DELIVER_METHOD) {
        amqp_channel_close_t *close = frame->payload.method.decoded;
        bool closed = frame->payload.method.id == AMQP_CHANNEL_CLOSE_METHOD ||
                      frame->payload.method.id == AMQP_CONNECTION_CLOSE_METHOD;
        fprintf(stderr, "the broker sent method 0x%08X: %.*s\n", frame->payload.method.id,
                closed ? (int)close->reply_text.len : 0,
                closed ? (const char *)close->reply_text.bytes : "");
        return false;
    }
    return true;
}

bool shape_receive(amqp_connection_state_t c, long ms, struct shape *s)
{
    amqp_frame_t frame;
    amqp_maybe_release_buffers(c);
    if (!wait_frame(c, ms, &frame)) /* basic.deliver */
        return false;
    if (!wait_frame(c, ms, &frame))
        return false;
    if (frame.frame_type != AMQP_FRAME_HEADER ||
        !decode(frame.payload.properties.raw.bytes, frame.payload.properties.raw.len, s)) {
        fprintf(stderr, "the copy's properties cannot be read\n");
        return false;
    }
    uint64_t size = frame.payload.properties.body_size;
    while (s->body.len < size) {
        if (!wait_frame(c, ms, &frame))
            return false;
        bytes_add(&s->body, frame.payload.body_fragment.bytes, frame.payload.body_fragment.len);
    }
    return true;
}

/* ---- Fields ---- */

/* The length of a field's value, or SIZE_MAX: a type that nobody knows, or no room for its length.
 */
static size_t value_length(char type, const uint8_t *at, size_t left)
{
    switch (type) {
    case 'V': return 0;
    case 't':
    case 'b':
    case 'B': return 1;
    case 's':
    case 'u': return 2;
    case 'I':
    case 'i':
    case 'f': return 4;
    case 'D': return 5;
    case 'l':
    case 'L':
    case 'd':
    case 'T': return 8;
    case 'S':
    case 'x':
    case 'A':
    case 'F': return left < 4 ? SIZE_MAX : 4 + (size_t)number_at(at, 4);
    default: return SIZE_MAX;
    }
}

bool field_next(const uint8_t **at, const uint8_t *end, struct field *field, bool *broken)
{
    size_t left = (size_t)(end - *at);
    *broken = false;
    if (left == 0)
        return false;
    field->whole = *at;
    field->name = *at + 1;
    field->name_len = **at;
    *broken = true;
    if (left < field->name_len + 2)
        return false;
    const uint8_t *type = field->name + field->name_len;
    size_t rest = (size_t)(end - type) - 1;
    size_t length = value_length((char)*type, type + 1, rest);
    if (length > rest)
        return false;
    *broken = false;
    field->whole_len = field->name_len + 2 + length;
    *at += field->whole_len;
    return true;
}

/* ---- Writing anew ---- */

/* Fields of one name stay in their order. */
static int compare_fields(const void *a, const void *b)
{
    const struct field *x = a;
    const struct field *y = b;
    int order = memcmp(x->name, y->name, x->name_len < y->name_len ? x->name_len : y->name_len);
    if (order == 0)
        order = (x->name_len > y->name_len) - (x->name_len < y->name_len);
    return order != 0 ? order : (x->whole > y->whole) - (x->whole < y->whole);
}

static void sort_headers(struct bytes *table)
{
    const uint8_t *at = table->data;
    struct field *fields = client_allocate(table->len / 2 + 1, sizeof *fields);
    struct bytes sorted = {0};
    size_t count = 0;
    bool broken;
    while (table->len > 0 && field_next(&at, table->data + table->len, &fields[count], &broken))
        count++;
    qsort(fields, count, sizeof *fields, compare_fields);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || fields[i].name_len != fields[i - 1].name_len ||
            memcmp(fields[i].name, fields[i - 1].name, fields[i].name_len) != 0)
            bytes_add(&sorted, fields[i].whole, fields[i].whole_len);
    free(fields);
    bytes_free(table);
    *table = sorted;
}

void shape_write_anew(struct shape *s)
{
    struct bytes *expiration = &s->value[EXPIRATION];
    sort_headers(&s->value[HEADERS]);
    while (expiration->len > 1 && expiration->data[0] == '0')
        memmove(expiration->data, expiration->data + 1, --expiration->len);
}
