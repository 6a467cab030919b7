/*
 * url - broker and store URLs, read strictly.
 *
 * amqp_parse_url() of rabbitmq-c is not used: it turns "amqp://h/" into an empty vhost and "u@h"
 * into the password guest. Here, percent-encoding is decoded, "amqp://h", "amqp://h/" and
 * "amqp://h/%2f" all mean the vhost "/" ("amqp://h//" too: people write it), and whatever is not
 * understood is an error whose text says how to write it.
 *
 * Errors are a sentence fragment for "FILE:LINE: FIELD: <fragment>"; they never contain a password.
 */
#ifndef ONLYONCE_URL_H
#define ONLYONCE_URL_H

#include <stdbool.h>
#include <stddef.h>

struct host_port {
    char *host; /* a name or an address, IPv6 without its brackets */
    int port;
};

struct broker_url {
    char *host; /* a name or an address, IPv6 without its brackets */
    int port;
    char *vhost;
    char
        *username; /* NULL: the URL has none; in a configuration: the client certificate is shown */
    char *password;
    bool tls; /* amqps:// */
};

enum store_kind { STORE_REDIS, STORE_SQLITE, STORE_POSTGRES, STORE_MEMORY };

#define URL_SENTINELS_MAX 16

struct store_url {
    enum store_kind kind;
    /* STORE_REDIS */
    bool tls;   /* rediss://, rediss+sentinel:// */
    char *host; /* NULL: the Sentinels know it */
    int port;
    int database;
    char *username;
    char *password;
    struct host_port sentinels[URL_SENTINELS_MAX];
    size_t sentinel_count;
    char *master; /* what the Sentinels call the master */
    /* STORE_SQLITE: an absolute path */
    char *path;
    /* STORE_POSTGRES: the URL as it is, which libpq has understood; it may hold a password */
    char *postgres;
};

/* NULL if `text` was understood, else what is wrong with it (static or owned by `error`). */
const char *url_read_broker(const char *text, struct broker_url *out, char error[256]);
const char *url_read_store(const char *text, struct store_url *out, char error[256]);
/* "ADDRESS:PORT" to listen on. */
const char *url_read_listen(const char *text, struct host_port *out);
void url_free_broker(struct broker_url *url);
void url_free_store(struct store_url *url);

#endif
