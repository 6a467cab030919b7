#include "refusal.h"

#include <string.h>

bool refusal_of_method(amqp_method_number_t id, const void *decoded, struct refusal *out)
{
    amqp_bytes_t text;
    out->channel = id == AMQP_CHANNEL_CLOSE_METHOD;
    if (out->channel) {
        const amqp_channel_close_t *close = decoded;
        out->code = close->reply_code;
        text = close->reply_text;
    } else if (id == AMQP_CONNECTION_CLOSE_METHOD) {
        const amqp_connection_close_t *close = decoded;
        out->code = close->reply_code;
        text = close->reply_text;
    } else {
        return false;
    }
    out->text = (struct span){text.bytes, text.len};
    return true;
}

/* RabbitMQ also uses codes that otherwise mean "never" to tell of a passing state of its own. */
static bool is_passing(struct span text)
{
    static const char *const signs[] = {"is down", "is stopped", "is reached"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (text.len && memmem(text.data, text.len, signs[i], strlen(signs[i])))
            return true;
    return false;
}

bool refusal_is_final(const struct refusal *r)
{
    switch (r->code) {
    case AMQP_ACCESS_REFUSED:
    case AMQP_NOT_FOUND:
    case AMQP_RESOURCE_LOCKED:
    case AMQP_PRECONDITION_FAILED:
    case AMQP_NOT_ALLOWED:
    case AMQP_NOT_IMPLEMENTED:
    case AMQP_COMMAND_INVALID: return !is_passing(r->text);
    default: return false;
    }
}
