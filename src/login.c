#include "login.h"

#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static amqp_table_entry_t text_entry(const char *key, const char *value)
{
    amqp_table_entry_t e = {.key = amqp_cstring_bytes(key)};
    e.value.kind = AMQP_FIELD_KIND_UTF8;
    e.value.value.bytes = amqp_cstring_bytes(value);
    return e;
}

static amqp_table_entry_t true_entry(const char *key)
{
    amqp_table_entry_t e = {.key = amqp_cstring_bytes(key)};
    e.value.kind = AMQP_FIELD_KIND_BOOLEAN;
    e.value.value.boolean = 1;
    return e;
}

/*
 * The broker sends basic.cancel and connection.blocked only to clients that say they understand
 * them. rabbitmq-c by itself does not say so, and such a consumer would wait for ever for a queue
 * that is gone.
 */
amqp_rpc_reply_t login_send(amqp_connection_state_t c, const struct login *login)
{
    amqp_table_entry_t can[] = {true_entry("consumer_cancel_notify"),
                                true_entry("connection.blocked"), true_entry("publisher_confirms"),
                                true_entry("basic.nack"),
                                true_entry("authentication_failure_close")};
    char name[160];
    snprintf(name, sizeof name, "onlyonce %s", login->purpose);
    amqp_table_entry_t entries[] = {text_entry("product", "onlyonce"),
                                    text_entry("version", ONLYONCE_VERSION),
                                    text_entry("connection_name", name),
                                    {.key = amqp_cstring_bytes("capabilities")}};
    entries[3].value.kind = AMQP_FIELD_KIND_TABLE;
    entries[3].value.value.table =
        (amqp_table_t){.num_entries = sizeof can / sizeof *can, .entries = can};
    amqp_table_t properties = {.num_entries = sizeof entries / sizeof *entries, .entries = entries};

    /* 0 would switch heartbeats off altogether. */
    int seconds = login->heartbeat < 1000 ? 1 : (int)(login->heartbeat / 1000);
    return amqp_login_with_properties(c, login->vhost, LOGIN_CHANNEL, LOGIN_FRAME_MAX, seconds,
                                      &properties, AMQP_SASL_METHOD_PLAIN, login->username,
                                      login->password);
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

static void copy_property(const amqp_table_t *t, const char *name, char *out, size_t size)
{
    for (int i = 0; i < t->num_entries; i++) {
        const amqp_table_entry_t *e = &t->entries[i];
        if (e->value.kind == AMQP_FIELD_KIND_UTF8 && e->key.len == strlen(name) &&
            memcmp(e->key.bytes, name, e->key.len) == 0)
            snprintf(out, size, "%.*s", (int)e->value.value.bytes.len,
                     (const char *)e->value.value.bytes.bytes);
    }
}

char *login_product(amqp_connection_state_t c, int *number)
{
    const amqp_table_t *t = amqp_get_server_properties(c);
    char product[64] = "an AMQP broker";
    char version[64] = "";
    copy_property(t, "product", product, sizeof product);
    copy_property(t, "version", version, sizeof version);
    /* Other products count their versions in their own way. */
    *number = strcmp(product, "RabbitMQ") == 0 ? version_number(version) : 0;
    return xasprintf("%s%s%s", product, *version ? " " : "", version);
}
