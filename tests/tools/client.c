#include "client.h"

#include <amqp_tcp_socket.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAME_MAX 131072
#define HEARTBEAT 0 /* a tool may stand still, and the broker shall wait for it */

static const char *reply_text(amqp_rpc_reply_t reply, char text[256])
{
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION)
        return amqp_error_string2(reply.library_error);
    if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION && reply.reply.decoded != NULL) {
        amqp_bytes_t said = {0, NULL};
        if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD)
            said = ((amqp_channel_close_t *)reply.reply.decoded)->reply_text;
        else if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD)
            said = ((amqp_connection_close_t *)reply.reply.decoded)->reply_text;
        snprintf(text, 256, "%.*s", (int)said.len, said.len > 0 ? (const char *)said.bytes : "");
        return text;
    }
    return "no answer";
}

bool client_succeeded(amqp_connection_state_t c, const char *what)
{
    char text[256];
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(c);
    if (reply.reply_type == AMQP_RESPONSE_NORMAL)
        return true;
    fprintf(stderr, "%s: %s\n", what, reply_text(reply, text));
    return false;
}

static bool log_in(amqp_connection_state_t c, const struct amqp_connection_info *info)
{
    char text[256];
    struct timeval patience = {5, 0};
    amqp_socket_t *socket = amqp_tcp_socket_new(c);
    if (socket == NULL)
        return false;
    int status = amqp_socket_open_noblock(socket, info->host, info->port, &patience);
    if (status != AMQP_STATUS_OK) {
        fprintf(stderr, "connecting to %s:%d: %s\n", info->host, info->port,
                amqp_error_string2(status));
        return false;
    }
    amqp_rpc_reply_t reply = amqp_login(c, info->vhost, 0, FRAME_MAX, HEARTBEAT,
                                        AMQP_SASL_METHOD_PLAIN, info->user, info->password);
    if (reply.reply_type != AMQP_RESPONSE_NORMAL) {
        fprintf(stderr, "logging in as %s: %s\n", info->user, reply_text(reply, text));
        return false;
    }
    amqp_channel_open(c, CLIENT_CHANNEL);
    return client_succeeded(c, "opening a channel");
}

amqp_connection_state_t client_open(const char *url)
{
    char *copy = strdup(url); /* parsing cuts it up */
    struct amqp_connection_info info;
    amqp_connection_state_t c = amqp_new_connection();
    bool ok = copy != NULL && c != NULL;
    if (ok && amqp_parse_url(copy, &info) != AMQP_STATUS_OK) {
        fprintf(stderr, "not a broker's URL: %s\n", url);
        ok = false;
    }
    ok = ok && log_in(c, &info);
    free(copy);
    if (!ok && c != NULL) {
        amqp_destroy_connection(c);
        c = NULL;
    }
    return c;
}

void client_close(amqp_connection_state_t c)
{
    if (c == NULL)
        return;
    amqp_connection_close(c, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(c);
}

bool id_place_read(const char *text, struct id_place *place)
{
    place->header = NULL;
    if (strcmp(text, "message-id") == 0) {
        place->where = ID_IN_MESSAGE_ID;
    } else if (strcmp(text, "body") == 0) {
        place->where = ID_IN_BODY;
    } else if (strncmp(text, "header:", 7) == 0 && text[7] != '\0') {
        place->where = ID_IN_HEADER;
        place->header = text + 7;
    } else {
        return false;
    }
    return true;
}

const amqp_field_value_t *client_header(const amqp_basic_properties_t *properties, const char *name)
{
    if ((properties->_flags & AMQP_BASIC_HEADERS_FLAG) == 0)
        return NULL;
    for (int i = 0; i < properties->headers.num_entries; i++) {
        const amqp_table_entry_t *entry = &properties->headers.entries[i];
        if (entry->key.len == strlen(name) && memcmp(entry->key.bytes, name, entry->key.len) == 0)
            return &entry->value;
    }
    return NULL;
}

static bool take_text(amqp_bytes_t from, char id[CLIENT_ID_MAX])
{
    if (from.len == 0 || from.len >= CLIENT_ID_MAX)
        return false;
    memcpy(id, from.bytes, from.len);
    id[from.len] = '\0';
    return true;
}

static bool id_of_body(amqp_bytes_t body, char id[CLIENT_ID_MAX])
{
    static const char opening[] = "{\"id\":\"";
    const size_t start = sizeof opening - 1;
    if (body.len <= start || memcmp(body.bytes, opening, start) != 0)
        return false;
    amqp_bytes_t rest = {body.len - start, (char *)body.bytes + start};
    const char *end = memchr(rest.bytes, '"', rest.len);
    if (end == NULL)
        return false;
    rest.len = (size_t)(end - (const char *)rest.bytes);
    return take_text(rest, id);
}

bool id_of_message(const struct id_place *place, const amqp_basic_properties_t *properties,
                   amqp_bytes_t body, char id[CLIENT_ID_MAX])
{
    const amqp_field_value_t *value;
    switch (place->where) {
    case ID_IN_MESSAGE_ID:
        return (properties->_flags & AMQP_BASIC_MESSAGE_ID_FLAG) != 0 &&
               take_text(properties->message_id, id);
    case ID_IN_HEADER:
        value = client_header(properties, place->header);
        return value != NULL && value->kind == AMQP_FIELD_KIND_UTF8 &&
               take_text(value->value.bytes, id);
    case ID_IN_BODY: return id_of_body(body, id);
    }
    return false;
}

long client_number(const char *option, const char *text, long most)
{
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || n < 0 || n > most) {
        fprintf(stderr, "--%s: \"%s\" is not a whole number from 0 to %ld\n", option, text, most);
        exit(2);
    }
    return n;
}
