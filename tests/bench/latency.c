/*
 * latency - how long messages take from being published to arriving in a queue.
 *
 *   latency --amqp URL --to QUEUE --from QUEUE [--rate N] [--seconds N] [--body-size BYTES]
 *
 * One thread publishes to one queue at an even rate, each message with the time of its sending in
 * it, another consumes from the other queue (which may be the same). It prints the median, the 99th
 * and the 99.9th percentile and the most, in microseconds, of all but the first second's.
 */
#include "client.h"

#include <argp.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATIENCE_MS 10000

struct options {
    struct client_options client;
    const char *to;
    const char *from;
    long rate;
    long seconds;
    long body_size;
};

static const struct argp_option option_table[] = {
    {"to", 't', "QUEUE", 0, "Publish to this queue", 0},
    {"from", 'f', "QUEUE", 0, "Consume from this one", 0},
    {"rate", 'R', "N", 0, "Messages a second (1000)", 0},
    {"seconds", 's', "N", 0, "For so long (10)", 0},
    {"body-size", 'b', "BYTES", 0, "Bytes of a body (256)", 0},
    {0},
};

static error_t take_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 't': o->to = arg; break;
    case 'f': o->from = arg; break;
    case 'R': o->rate = client_number("rate", arg, 100000); break;
    case 's': o->seconds = client_number("seconds", arg, 600); break;
    case 'b': o->body_size = client_number("body-size", arg, 1000000); break;
    case ARGP_KEY_END:
        if (!o->to || !o->from || o->rate < 1 || o->seconds < 2)
            argp_error(state, "--to and --from are needed, and at least two seconds");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void sleep_until(int64_t at)
{
    struct timespec t = {at / 1000000000, at % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* ---- Publishing ---- */

static bool publish(amqp_connection_state_t c, const struct options *o, char *body, long number)
{
    char id[64];
    size_t len = (size_t)(o->body_size > 24 ? o->body_size : 24);
    snprintf(id, sizeof id, "latency-%" PRId64 "-%ld", now_ns(), number);
    memset(body, '.', len);
    snprintf(body, 24, "%" PRId64, now_ns());
    amqp_basic_properties_t p = {0};
    p._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG;
    p.delivery_mode = 2;
    p.message_id = amqp_cstring_bytes(id);
    return amqp_basic_publish(c, CLIENT_CHANNEL, amqp_cstring_bytes(""), amqp_cstring_bytes(o->to),
                              0, 0, &p, (amqp_bytes_t){len, body}) == AMQP_STATUS_OK;
}

static void *produce(void *arg)
{
    const struct options *o = arg;
    amqp_connection_state_t c = client_open(o->client.amqp);
    char *body = malloc((size_t)o->body_size + 64);
    int64_t began = now_ns();
    bool ok = c && body;
    for (long i = 0; ok && i < o->rate * o->seconds; i++) {
        sleep_until(began + i * (1000000000 / o->rate));
        ok = publish(c, o, body, i);
    }
    free(body);
    if (c)
        client_close(c);
    return ok ? arg : NULL;
}

/* ---- Consuming ---- */

static int by_size(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static bool consume(amqp_connection_state_t c, int64_t *took, long count)
{
    for (long i = 0; i < count; i++) {
        amqp_envelope_t e;
        bool came;
        if (!client_take(c, PATIENCE_MS, &e, &came) || !came) {
            fprintf(stderr, "%ld messages of %ld arrived\n", i, count);
            return false;
        }
        char sent[24] = "";
        memcpy(sent, e.message.body.bytes, e.message.body.len < 23 ? e.message.body.len : 23);
        took[i] = now_ns() - strtoll(sent, NULL, 10);
        amqp_destroy_envelope(&e);
    }
    return true;
}

static void print(int64_t *took, long count)
{
    qsort(took, (size_t)count, sizeof *took, by_size);
    printf("latency_us median=%" PRId64 " p99=%" PRId64 " p999=%" PRId64 " most=%" PRId64 "\n",
           took[count / 2] / 1000, took[count * 99 / 100] / 1000, took[count * 999 / 1000] / 1000,
           took[count - 1] / 1000);
}

int main(int argc, char **argv)
{
    const struct argp argp = {.options = option_table,
                              .parser = take_option,
                              .doc = "How long messages take from one queue to another."};
    struct options o = {.rate = 1000, .seconds = 10, .body_size = 256};
    client_parse(&argp, CLIENT_BROKER, argc, argv, &o.client);

    amqp_connection_state_t c = client_open(o.client.amqp);
    if (!c)
        return EXIT_FAILURE;
    if (!client_consume(c, o.from, "latency", 0))
        return EXIT_FAILURE;

    long count = o.rate * o.seconds;
    int64_t *took = client_allocate((size_t)count, sizeof *took);
    pthread_t producer;
    if (pthread_create(&producer, NULL, produce, &o) != 0)
        return EXIT_FAILURE;
    bool ok = consume(c, took, count);
    void *produced;
    pthread_join(producer, &produced);
    if (ok && produced)
        print(took + o.rate, count - o.rate); /* The first second warms up. */
    free(took);
    client_close(c);
    return ok && produced ? EXIT_SUCCESS : EXIT_FAILURE;
}
