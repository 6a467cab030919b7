/*
 * pace - how fast a queue fills: waits until it has had FROM messages and then TO of them, and
 * prints how many seconds lay between.
 *
 *   pace --amqp URL QUEUE FROM TO [SECONDS]
 *
 * It asks every few milliseconds, which costs the broker next to nothing. It gives up, with exit
 * code 1, once SECONDS (120) are over.
 */
#include "client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVERY_MS 5

/* Looks until the queue has `count` messages: so many or more, or, falling, so many or fewer. When
 * it was, and how many it had; false: not in time. */
static bool wait_for(amqp_connection_state_t c, const char *queue, long count, bool falling,
                     double until, double *at, long *had)
{
    while (client_now() < until) {
        amqp_queue_declare_ok_t *ok = amqp_queue_declare(
            c, CLIENT_CHANNEL, amqp_cstring_bytes(queue), 1, 0, 0, 0, amqp_empty_table);
        if (!ok) {
            (void)client_succeeded(c, queue);
            return false;
        }
        *at = client_now();
        *had = (long)ok->message_count;
        amqp_maybe_release_buffers(c);
        if (falling ? *had <= count : *had >= count)
            return true;
        client_nap(EVERY_MS);
    }
    fprintf(stderr, "%s has %ld messages, not %ld\n", queue, *had, count);
    return false;
}

int main(int argc, char **argv)
{
    if (argc < 6 || strcmp(argv[1], "--amqp") != 0) {
        fprintf(stderr, "usage: pace --amqp URL QUEUE FROM TO [SECONDS]\n");
        return 2;
    }
    amqp_connection_state_t c = client_open(argv[2]);
    if (!c)
        return EXIT_FAILURE;
    double until = client_now() + (argc > 6 ? atof(argv[6]) : 120);
    double began = 0, ended = 0;
    long had_first = 0, had_last = 0;
    long from = atol(argv[4]);
    long to = atol(argv[5]);
    bool ok = wait_for(c, argv[3], from, to < from, until, &began, &had_first) &&
              wait_for(c, argv[3], to, to < from, until, &ended, &had_last);
    client_close(c);
    if (!ok || ended <= began)
        return EXIT_FAILURE;
    /* Messages and seconds between the two looks. */
    printf("%ld %.4f\n", labs(had_last - had_first), ended - began);
    return EXIT_SUCCESS;
}
