/*
 * link_bench - a link to a peer (peer.h) that does what no broker should do, or what none does on
 * demand.
 */
#ifndef ONLYONCE_TESTS_LINK_BENCH_H
#define ONLYONCE_TESTS_LINK_BENCH_H

#include "amqp.h"
#include "peer.h"

/* Bytes with NULs among them, and how many they are. */
#define BYTES(text) (text), sizeof(text) - 1

struct link_bench {
    struct peer peer;
    struct link *link;
};

/* The peer, which lets everybody in unless the test changes what it says first. */
void link_bench_set_up(struct link_bench *b);
void link_bench_tear_down(struct link_bench *b);

/* The link opens, or the test fails. */
void open_link(struct link_bench *b);

/* The peer serves once, and the link does not open. */
void open_in_vain(struct link_bench *b);

/* Reads from the link until it has a frame or is down. */
bool next_frame(struct link_bench *b, struct link_frame *f);

#endif
