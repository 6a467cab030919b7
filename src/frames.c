#include "frames.h"

#include <assert.h>

#define HEAD 7 /* type, channel, size */
#define END 1
#define METHOD_MAX 2048 /* no method that we send has more than four short strings */
#define HEADERS_MOST ((size_t)4 * 1024 * 1024)
#define KEEP_MAX ((size_t)4 * 1024 * 1024) /* memory that an empty output buffer may keep */

void frames_init(struct frames *f)
{
    *f = (struct frames){0};
    init_amqp_pool(&f->pool, 1024);
}

void frames_free(struct frames *f)
{
    empty_amqp_pool(&f->pool);
    buffer_free(&f->in);
    buffer_free(&f->out);
}

void frames_reset(struct frames *f, size_t max)
{
    f->max = max;
    f->in_done = 0;
    f->out_done = 0;
    buffer_clear(&f->in);
    buffer_clear(&f->out);
}

size_t frames_room(const struct frames *f)
{
    return f->max - HEAD - END;
}

void frames_put_greeting(struct frames *f)
{
    buffer_add(&f->out, "AMQP\0\0\x09\x01", 8);
}

void frames_put(struct frames *f, uint8_t type, uint16_t channel, struct span payload)
{
    assert(payload.len <= frames_room(f));
    buffer_add_u8(&f->out, type);
    buffer_add_u16(&f->out, channel);
    buffer_add_u32(&f->out, (uint32_t)payload.len);
    buffer_add_span(&f->out, payload);
    buffer_add_u8(&f->out, AMQP_FRAME_END);
}

void frames_put_method(struct frames *f, uint16_t channel, amqp_method_number_t id, void *method)
{
    uint8_t payload[METHOD_MAX] = {(uint8_t)(id >> 24), (uint8_t)(id >> 16), (uint8_t)(id >> 8),
                                   (uint8_t)id};
    int len = amqp_encode_method(id, method, (amqp_bytes_t){sizeof payload - 4, payload + 4});
    assert(len >= 0);
    frames_put(f, AMQP_FRAME_METHOD, channel, (struct span){payload, (size_t)len + 4});
}

size_t frames_unsent(const struct frames *f)
{
    return f->out.len - f->out_done;
}

static uint32_t read_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/*
 * RabbitMQ adds headers to a message that was redelivered or dead-lettered, and does not look
 * whether its header frame still has the size agreed upon. Who gave the connection up would get the
 * same message again, and nothing behind it.
 */
static size_t most_of(const struct frames *f, uint8_t type)
{
    return type == AMQP_FRAME_HEADER ? HEADERS_MOST : frames_room(f);
}

/* Does what was read begin with a frame that is not there whole, and is no nonsense? */
static bool lacks_the_rest(const struct frames *f)
{
    struct span unread = frames_unread(f);
    if (unread.len < HEAD)
        return true;
    size_t size = read_u32(unread.data + 3);
    return size <= most_of(f, unread.data[0]) && unread.len < HEAD + size + END;
}

/* What was sent leaves the buffer only when it is half of it, so that moving the rest is cheap. */
static void forget_sent(struct frames *f, size_t sent)
{
    f->out_done += sent;
    if (f->out_done < f->out.len / 2)
        return;
    buffer_drop(&f->out, f->out_done);
    f->out_done = 0;
    if (f->out.len == 0 && f->out.size > KEEP_MAX)
        buffer_free(&f->out);
}

ssize_t frames_send(struct frames *f, struct wire *w)
{
    ssize_t n = wire_send(w, f->out.data + f->out_done, frames_unsent(f));
    if (n > 0)
        forget_sent(f, (size_t)n);
    return n;
}

bool frames_hungry(const struct frames *f)
{
    return f->in.len - f->in_done < FRAMES_READ_AT_ONCE || lacks_the_rest(f);
}

ssize_t frames_receive(struct frames *f, struct wire *w)
{
    buffer_drop(&f->in, f->in_done);
    f->in_done = 0;
    uint8_t *to = buffer_reserve(&f->in, FRAMES_READ_AT_ONCE);
    ssize_t n = wire_receive(w, to, FRAMES_READ_AT_ONCE);
    if (n > 0)
        f->in.len += (size_t)n;
    return n;
}

struct span frames_unread(const struct frames *f)
{
    if (f->in.len == f->in_done)
        return (struct span){0};
    return (struct span){f->in.data + f->in_done, f->in.len - f->in_done};
}

enum frames_found frames_next(struct frames *f, struct raw_frame *out)
{
    size_t len = f->in.len - f->in_done;
    if (len < HEAD)
        return FRAMES_NONE;
    const uint8_t *at = f->in.data + f->in_done;
    size_t size = read_u32(at + 3);
    if (size > most_of(f, at[0]))
        return FRAMES_TOO_LARGE;
    if (len < HEAD + size + END)
        return FRAMES_NONE;
    if (at[HEAD + size] != AMQP_FRAME_END)
        return FRAMES_BROKEN;
    *out = (struct raw_frame){
        .type = at[0], .channel = (uint16_t)(at[1] << 8 | at[2]), .payload = {at + HEAD, size}};
    f->in_done += HEAD + size + END;
    return FRAMES_ONE;
}

amqp_method_number_t frames_method(struct span payload)
{
    return payload.len < 4 ? 0 : read_u32(payload.data);
}

/*
 * None of these holds a table: the library of 0.11 follows nested tables by recursion, without a
 * bound, so that a broken broker could exhaust our stack.
 */
static bool is_expected(amqp_method_number_t id)
{
    switch (id) {
    case AMQP_CONNECTION_BLOCKED_METHOD:
    case AMQP_CONNECTION_UNBLOCKED_METHOD:
    case AMQP_CONNECTION_CLOSE_METHOD:
    case AMQP_CONNECTION_CLOSE_OK_METHOD:
    case AMQP_CHANNEL_OPEN_OK_METHOD:
    case AMQP_CHANNEL_CLOSE_METHOD:
    case AMQP_EXCHANGE_DECLARE_OK_METHOD:
    case AMQP_QUEUE_DECLARE_OK_METHOD:
    case AMQP_QUEUE_BIND_OK_METHOD:
    case AMQP_CONFIRM_SELECT_OK_METHOD:
    case AMQP_BASIC_QOS_OK_METHOD:
    case AMQP_BASIC_CONSUME_OK_METHOD:
    case AMQP_BASIC_CANCEL_METHOD:
    case AMQP_BASIC_CANCEL_OK_METHOD:
    case AMQP_BASIC_DELIVER_METHOD:
    case AMQP_BASIC_RETURN_METHOD:
    case AMQP_BASIC_ACK_METHOD:
    case AMQP_BASIC_NACK_METHOD: return true;
    default: return false;
    }
}

void *frames_decode(struct frames *f, struct span payload)
{
    void *decoded = NULL;
    amqp_method_number_t id = frames_method(payload);
    if (!is_expected(id))
        return NULL;

    amqp_bytes_t bytes = {payload.len - 4, f->in.data + (payload.data - f->in.data) + 4};
    recycle_amqp_pool(&f->pool);
    return amqp_decode_method(id, &f->pool, bytes, &decoded) == AMQP_STATUS_OK ? decoded : NULL;
}
