/*
 * bench - a source and a sink at a real RabbitMQ of their own at $ONLYONCE_TEST_AMQP
 * (amqp://user:password@host:port/vhost), in which queues are made and deleted. Tests that use it
 * do not run at the same time.
 */
#ifndef ONLYONCE_TESTS_BENCH_H
#define ONLYONCE_TESTS_BENCH_H

#include "config.h"
#include "sink.h"
#include "source.h"

#include <amqp.h>

#define LOOP "onlyonce-test-loop" /* source and sink on one queue: what is published comes back */
#define PARKED "onlyonce-test-loop.parked"
#define EXCHANGE "onlyonce-test-exchange"
#define PATIENCE 20000
#define FRAME_ROOM 131064

struct bench {
    struct config config;
    struct broker_url url;
    struct route_config route;
    struct source *source;
    struct sink *sink;
    amqp_connection_state_t admin; /* a plain connection, to prepare and to look */
};

/* Fills in a route from LOOP to LOOP, which a test may change until it opens them. */
void bench_set_up(struct bench *b);
void bench_open_source(struct bench *b);
void bench_open_sink(struct bench *b); /* made late, because it looks at the configuration then */
void bench_open_both(struct bench *b);
void bench_tear_down(struct bench *b);

/* One turn of a loop, as a worker turns it. */
void bench_turn(struct bench *b);

struct message *bench_await_message(struct bench *b);
struct message *bench_await_answer(struct bench *b, enum sink_answer *answer);
void bench_expect_nothing(struct bench *b);

/* A message as if it had been delivered, to be published. */
struct message *bench_message(const char *routing_key, struct span properties, size_t body);
uint8_t bench_body_byte(size_t i); /* of its body */
extern const struct span bench_no_properties;

/* A header table of every field type, two of them with others inside, and one nested deeper than
 * anybody follows. An L that went through a queue is an l: RabbitMQ writes it so. And properties
 * with those headers. */
void bench_add_every_type(struct buffer *table, char l);
struct buffer bench_properties_of_every_type(void);

struct message *bench_publish(struct bench *b, struct message *m);

/* The broker's version, before its first dot. */
int bench_broker_major(const struct bench *b);

uint32_t bench_depth(struct bench *b, const char *queue);
void bench_await_depth(struct bench *b, const char *queue, uint32_t depth);

/* LOOP, with room for one message; it refuses the others. */
void bench_make_full_queue(struct bench *b);

extern char bench_exchange[]; /* EXCHANGE */

#endif
