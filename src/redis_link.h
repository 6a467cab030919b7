/*
 * redis_link - one connection to a Redis server, for store_redis.c, or to a Sentinel, for
 * redis_sentinel.c. Calls block.
 *
 * Every call of the store has one deadline, begun by redis_begin(), over all its round trips. The
 * socket itself never blocks: hiredis' own timeouts are for single reads and writes, and with them
 * a server that dribbles could hold a call for as long as it likes.
 * (Looking up a host name is the exception: the C library bounds that, not we.) After any error of
 * the connection it is freed and made anew, as hiredis demands; a command without a reply has an
 * unknown outcome. Errors go to the store's store_error().
 *
 * DANGER: hiredis writes without MSG_NOSIGNAL, so a process that uses this must ignore SIGPIPE.
 * main does; this module leaves the process's signals alone.
 *
 * Commands are built as RESP in one reusable buffer, which costs a small part of what hiredis'
 * formatting does, and leave with one write, however many they are.
 */
#ifndef ONLYONCE_REDIS_LINK_H
#define ONLYONCE_REDIS_LINK_H

#include "store_backend.h"

#include <hiredis/hiredis.h>

struct tls;

struct redis_link {
    struct store *store; /* whose errors, clock and description these are */
    const struct store_config *config;
    redisContext *context; /* NULL: not connected */
    struct tls *tls;       /* its session, or NULL */
    const char *kind;      /* "Redis" or "Sentinel", for people */
    char *host;            /* where it goes; with Sentinels, where they said */
    int port;
    char *address;         /* "host:port", for people */
    char server[80];       /* "Redis 7.0.15", once it has said so */
    struct buffer command; /* what redis_exchange() will send */
    int64_t allowed;       /* ms that the call may take, until the deadline */
    int64_t deadline;      /* clock_now() */
    bool refused;          /* an error that trying again will not cure */
    long long evicted;     /* evicted_keys, as last seen */
    size_t sentinel;       /* the one to ask first */
    size_t failures;       /* to open; another address of the name comes first after each */
};

void redis_link_init(struct redis_link *l, struct store *store, const struct store_config *config);
void redis_link_free(struct redis_link *l);

/* Finds the master, if Sentinels know it; connects, logs in, and looks whether the server can do
 * what is needed: a master of version 7.0 or newer, or Valkey, no cluster. Sets the store's clock
 * and description. */
bool redis_link_open(struct redis_link *l, bool *permanent);
void redis_link_close(struct redis_link *l);

/* ---- The parts of opening ---- */

void redis_set_address(struct redis_link *l, const char *host, int port);

/* Connects to its address, with TLS if the store's URL says so. */
bool redis_connect(struct redis_link *l);

/* NULL: without a user name, without a password. */
bool redis_log_in(struct redis_link *l, const char *username, const char *password);

/* Asks the Sentinels, in turn, for the address of the master, and sets it. */
bool redis_find_master(struct redis_link *l);

/* ---- Calls ---- */

/* A call begins: its deadline, and an empty command buffer. */
void redis_begin(struct redis_link *l);

/* A command is an array of its words. A word may be given in two halves. */
void redis_put_command(struct redis_link *l, size_t words);
void redis_put_word(struct redis_link *l, struct span first, struct span second);
void redis_put_text(struct redis_link *l, const char *text);
void redis_put_number(struct redis_link *l, int64_t number);

/* Sends the command buffer and waits for `count` replies, which are then the caller's. What it
 * sent stays in the buffer, to be sent once more or cleared. On false there are no replies. */
bool redis_exchange(struct redis_link *l, redisReply **replies, size_t count)
    __attribute__((warn_unused_result));
void redis_free_replies(redisReply **replies, size_t count);

/* One command in printf's manner and its reply, or NULL. An error is a reply too. */
redisReply *redis_ask(struct redis_link *l, const char *fmt, ...)
    __attribute__((warn_unused_result));

/* Frees a reply, or none, that had to be OK: a failure, if it was not. */
bool redis_take_ok(struct redis_link *l, const char *what, redisReply *reply);

/* Is it an error of that kind, such as "NOSCRIPT"? */
bool redis_is_error(const redisReply *reply, const char *kind);

/* Fails: with what the server said, or because its reply to `what` makes no sense. */
bool redis_refuse(struct redis_link *l, const char *what, const redisReply *reply);

/* Sets the store's clock by a reply to TIME. */
bool redis_take_time(struct redis_link *l, const redisReply *reply);

/* store_dangers(). */
bool redis_dangers(struct redis_link *l, struct buffer *lines);

/* A field of INFO's text; false, and an empty text, if it is not there. */
bool redis_info_field(const redisReply *info, const char *name, char *out, size_t size);

#endif
