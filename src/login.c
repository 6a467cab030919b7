#include "login.h"

#include "headers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One line of plain text, whatever the other side says. */
static void copy_plain(struct span text, char *out, size_t size)
{
    size_t len = text.len < size ? text.len : size - 1;
    for (size_t i = 0; i < len; i++)
        out[i] = (char)(text.data[i] >= ' ' && text.data[i] < 0x7f ? text.data[i] : '?');
    out[len] = '\0';
}

/* ---- What we say ---- */

static void add_long(struct buffer *out, struct span bytes)
{
    buffer_add_u32(out, (uint32_t)bytes.len);
    buffer_add_span(out, bytes);
}

static void add_short(struct buffer *out, const char *text)
{
    buffer_add_u8(out, (uint8_t)strlen(text));
    buffer_add(out, text, strlen(text));
}

/*
 * The broker sends basic.cancel and connection.blocked only to clients that say they understand
 * them; without, a consumer would wait for ever for a queue that is gone.
 */
static void add_properties(struct buffer *out, const char *purpose)
{
    static const char *const able[] = {"consumer_cancel_notify", "connection.blocked",
                                       "publisher_confirms", "basic.nack",
                                       "authentication_failure_close"};
    struct buffer table = {0};
    struct buffer capabilities = {0};
    char name[160];
    snprintf(name, sizeof name, "onlyonce %s", purpose);
    header_add_text(&table, "product", span_of("onlyonce"));
    header_add_text(&table, "version", span_of(ONLYONCE_VERSION));
    header_add_text(&table, "connection_name", span_of(name));
    for (size_t i = 0; i < sizeof able / sizeof *able; i++)
        header_add_true(&capabilities, able[i]);
    add_short(&table, "capabilities");
    buffer_add_u8(&table, 'F');
    add_long(&table, buffer_span(&capabilities));
    add_long(out, buffer_span(&table));
    buffer_free(&table);
    buffer_free(&capabilities);
}

/* PLAIN: nobody to act for, the user, the password. EXTERNAL: the certificate has said it all. */
static void add_response(struct buffer *out, const struct login *login)
{
    struct buffer response = {0};
    if (login->username) {
        buffer_add_u8(&response, '\0');
        buffer_add_span(&response, span_of(login->username));
        buffer_add_u8(&response, '\0');
        buffer_add_span(&response, span_of(login->password));
    }
    add_long(out, buffer_span(&response));
    buffer_free(&response);
}

static bool put(struct frames *out, struct buffer *method)
{
    bool fits = method->len <= frames_room(out);
    if (fits)
        frames_put(out, AMQP_FRAME_METHOD, 0, buffer_span(method));
    buffer_free(method);
    return fits;
}

/* ---- What the broker says ---- */

/* Takes a number of network order off the front; false: there is none. */
static bool take_number(struct span *rest, size_t width, uint64_t *out)
{
    if (rest->len < width)
        return false;
    *out = bytes_number((struct span){rest->data, width});
    *rest = (struct span){rest->data + width, rest->len - width};
    return true;
}

static bool take_long(struct span *rest, struct span *out)
{
    uint64_t len;
    if (!take_number(rest, 4, &len) || len > rest->len)
        return false;
    *out = (struct span){rest->data, (size_t)len};
    *rest = (struct span){rest->data + len, rest->len - len};
    return true;
}

static void copy_text(struct span table, const char *name, char *out, size_t size)
{
    struct header h;
    if (header_find(table, span_of(name), &h) && h.type == 'S' && h.value.len)
        copy_plain(h.value, out, size);
}

static int version_number(const char *text)
{
    int version = 0;
    for (int i = 0; i < 3; i++) {
        char *end;
        unsigned long n = strtoul(text, &end, 10);
        version = version * 100 + (int)(n > 99 ? 99 : n);
        text = *end == '.' ? end + 1 : "0";
    }
    return version;
}

static void read_product(struct login *login, struct span properties)
{
    char product[64] = "an AMQP broker";
    char version[64] = "";
    copy_text(properties, "product", product, sizeof product);
    copy_text(properties, "version", version, sizeof version);
    /* Other products count their versions in their own way. */
    login->version = strcmp(product, "RabbitMQ") == 0 ? version_number(version) : 0;
    snprintf(login->product, sizeof login->product, "%s%s%s", product, *version ? " " : "",
             version);
}

/* In a list of words with one space between any two. */
static bool has_word(struct span list, const char *word)
{
    size_t len = strlen(word);
    while (list.len >= len) {
        const uint8_t *space = memchr(list.data, ' ', list.len);
        size_t one = space ? (size_t)(space - list.data) : list.len;
        if (span_is((struct span){list.data, one}, word))
            return true;
        if (!space)
            return false;
        list = (struct span){space + 1, list.len - one - 1};
    }
    return false;
}

static const char *take_start(struct login *login, struct frames *out, struct span rest,
                              char error[LOGIN_ERROR_MAX])
{
    uint64_t version;
    struct span properties;
    struct span mechanisms;
    if (!take_number(&rest, 2, &version) || !take_long(&rest, &properties) ||
        !take_long(&rest, &mechanisms))
        return "broker sent a broken connection.start";
    read_product(login, properties);
    const char *mechanism = login->username ? "PLAIN" : "EXTERNAL";
    if (!has_word(mechanisms, mechanism)) {
        login->refused = true;
        char offered[80];
        copy_plain(mechanisms, offered, sizeof offered);
        snprintf(error, LOGIN_ERROR_MAX, "the broker does not offer %s (but %s): %s", mechanism,
                 offered,
                 login->username ? "allow it there, or log in by a certificate"
                                 : "enable rabbitmq_auth_mechanism_ssl there, or set a username");
        return error;
    }
    struct buffer method = {0};
    buffer_add_u32(&method, AMQP_CONNECTION_START_OK_METHOD);
    add_properties(&method, login->purpose);
    add_short(&method, mechanism);
    add_response(&method, login);
    add_short(&method, "en_US");
    return put(out, &method) ? NULL : "username and password are too long to be sent";
}

static const char *take_tune(struct login *login, struct frames *out, struct span rest,
                             char error[LOGIN_ERROR_MAX])
{
    uint64_t channels;
    uint64_t frame_max;
    uint64_t seconds;
    if (!take_number(&rest, 2, &channels) || !take_number(&rest, 4, &frame_max) ||
        !take_number(&rest, 2, &seconds))
        return "broker sent a broken connection.tune";
    if (frame_max == 0 || frame_max > LOGIN_FRAME_MAX) /* 0: no limit */
        frame_max = LOGIN_FRAME_MAX;
    if (frame_max < AMQP_FRAME_MIN_SIZE) {
        snprintf(error, LOGIN_ERROR_MAX, "broker wants frames of %d bytes, fewer than AMQP's %d",
                 (int)frame_max, AMQP_FRAME_MIN_SIZE);
        return error;
    }
    /* 0 would switch heartbeats off altogether. */
    uint64_t ours = login->heartbeat < 1000 ? 1 : (uint64_t)login->heartbeat / 1000;
    if (seconds == 0 || seconds > ours)
        seconds = ours;
    login->heartbeat = (int64_t)seconds * 1000;
    amqp_connection_tune_ok_t tune_ok = {
        .channel_max = 1, .frame_max = (uint32_t)frame_max, .heartbeat = (uint16_t)seconds};
    amqp_connection_open_t open = {.virtual_host = amqp_cstring_bytes(login->vhost)};
    frames_put_method(out, 0, AMQP_CONNECTION_TUNE_OK_METHOD, &tune_ok);
    frames_put_method(out, 0, AMQP_CONNECTION_OPEN_METHOD, &open);
    out->max = (size_t)frame_max;
    login->tuned = true;
    return NULL;
}

const char *login_take(struct login *login, struct frames *out, struct span method,
                       char error[LOGIN_ERROR_MAX])
{
    amqp_method_number_t id = frames_method(method);
    struct span rest = {0};
    if (id)
        rest = (struct span){method.data + 4, method.len - 4};
    /* Each comes once, in this order. */
    if (id == AMQP_CONNECTION_START_METHOD && !*login->product)
        return take_start(login, out, rest, error);
    if (id == AMQP_CONNECTION_TUNE_METHOD && *login->product && !login->tuned)
        return take_tune(login, out, rest, error);
    login->done = id == AMQP_CONNECTION_OPEN_OK_METHOD && login->tuned;
    if (login->done)
        return NULL;
    snprintf(error, LOGIN_ERROR_MAX, "broker sent method %u.%u during the login", id >> 16,
             id & 0xffff);
    return error;
}

const char *login_foreign(struct span first, char error[LOGIN_ERROR_MAX])
{
    if (first.data[0] == AMQP_FRAME_METHOD)
        return NULL;
    if (first.data[0] == 0x15 || first.data[0] == 0x16) /* TLS: an alert, a handshake */
        return "it speaks TLS there; write amqps://";
    if (first.len >= 8 && memcmp(first.data, "AMQP", 4) == 0) {
        snprintf(error, LOGIN_ERROR_MAX, "it speaks AMQP %u-%u-%u, not 0-9-1", first.data[5],
                 first.data[6], first.data[7]);
        return error;
    }
    char text[17];
    copy_plain(first, text, sizeof text);
    snprintf(error, LOGIN_ERROR_MAX, "it speaks no AMQP; its first bytes are \"%s\"", text);
    return error;
}
