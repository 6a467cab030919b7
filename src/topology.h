/*
 * topology - the queues and exchanges of a route: looked for, made where missing, used as they are.
 *
 * `declare: true` looks first, passively: what exists is used as it is, what is missing is made,
 * durable. `declare: false` only looks. The parking queue belongs to the inbound one and follows
 * its `declare`; an exchange to publish to is only looked for. All of them ask the
 * broker by link_rpc(); false: the link is down, and its error names the queue or exchange.
 */
#ifndef ONLYONCE_TOPOLOGY_H
#define ONLYONCE_TOPOLOGY_H

#include "amqp.h"
#include "config.h"

/* The inbound queue (and its exchange and bindings), and the parking queue, which comes first, as a
 * quorum inbound queue that we make dead-letters to it. */
bool topology_source(struct link *l, const struct route_config *route)
    __attribute__((warn_unused_result));

/*
 * Does the inbound queue dead-letter to the parking queue? Known if it is as we would make it, now
 * or with a broker before 4.0, which the broker tells by taking our declaration; of any other queue
 * nothing is known: false. And *limited: is it a quorum queue without our delivery limit, of a
 * broker that then has one of its own (of 20, from 4.0 on)? A policy may have lifted it, which
 * nobody tells.
 *
 * The answer also tells of a stream, if that is all that differs, and takes the link down: to
 * consume from one would lose what is published while nobody does.
 */
bool topology_dead_letters(struct link *l, const struct route_config *route, bool *dead_letters,
                           bool *limited) __attribute__((warn_unused_result));

/*
 * Does a nack tell that the work queue did not store the copy? A quorum queue's does. A classic
 * queue's does not: when its node dies, RabbitMQ refuses all that it had not confirmed, and some of
 * that is on its disk. Behind an exchange, another queue may have stored it. That a queue is a
 * quorum queue the broker tells by taking our declaration; of one that it does not take, or that is
 * not ours to declare, it is known only if the configuration says so, and not by default.
 */
bool topology_certain(struct link *l, const struct route_config *route, bool *certain)
    __attribute__((warn_unused_result));

/* Looks for a queue (or an exchange) and makes nothing, for `onlyonce check`. */
bool topology_look(struct link *l, bool is_queue, const char *name, bool *exists)
    __attribute__((warn_unused_result));

/* May we publish to the default exchange, through which all queues are published to? If not,
 * link_refusal() says why. It publishes a message that no queue gets, for `onlyonce check`: in an
 * alarm the broker is silent from then on. */
bool topology_may_publish(struct link *l, bool *may) __attribute__((warn_unused_result));

/* The work queue or exchange, and the parking queue. */
bool topology_sink(struct link *l, const struct route_config *route)
    __attribute__((warn_unused_result));

#endif
