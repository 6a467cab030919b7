/*
 * account - empties the work, parking and inbound queues, and accounts for every id that was sent.
 *
 * An id is in order if it was forwarded once, or parked, or forwarded more often with a mark on
 * all copies but one. It exits with 0 only if none is missing, none was forwarded twice without a
 * mark, no strange id turned up, and the inbound queue was empty.
 */
#include "client.h"

#include <argp.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 10 /* ids at most that are named for each fault */

struct options {
    struct client_options client;
    const char *work;
    const char *park;
    const char *in;
    const char *prefix;
    struct id_place place;
    long count;
    long first;
    long idle; /* milliseconds without a message after which a queue is empty */
    long max_marked;
    long max_parked;
    long max_unmarked;
    bool allow_left;
    bool allow_missing;
    bool allow_strange;
};

/* What became of an id; counts stop at 255. */
struct fate {
    uint8_t copies;
    uint8_t marked;
    uint8_t parked;
    uint8_t left;
};

struct totals {
    uint64_t once, marked, unmarked, parked, both, missing, left, strange, reordered, messages;
};

struct account {
    const struct options *o;
    struct fate *fates;
    long newest; /* the highest id whose first copy was seen: to notice another order */
    struct totals totals;
};

enum where { WORK, PARK, IN };

enum option_key {
    MAX_MARKED = 1000,
    MAX_PARKED,
    MAX_UNMARKED,
    ALLOW_LEFT,
    ALLOW_MISSING,
    ALLOW_STRANGE
};

static const struct argp_option option_table[] = {
    {"work", 'w', "QUEUE", 0, "The work queue", 0},
    {"park", 'p', "QUEUE", 0, "The parking queue", 0},
    {"in", 'q', "QUEUE", 0, "The inbound queue", 0},
    {"count", 'n', "N", 0, "So many ids were sent (1000)", 0},
    {"first", 'f', "N", 0, "The number of the first id (0)", 0},
    {"prefix", 'x', "TEXT", 0, "Begins every id (id-)", 0},
    {"id-in", 'i', "PLACE", 0, "message-id, header:NAME or body (message-id)", 0},
    {"idle", 't', "MS", 0, "A queue is empty after so long without a message (1000)", 0},
    {"max-marked", MAX_MARKED, "N", 0, "More ids forwarded twice and marked are a fault", 1},
    {"max-parked", MAX_PARKED, "N", 0, "More parked ids are a fault", 1},
    {"max-unmarked", MAX_UNMARKED, "N", 0, "More ids twice and unmarked are a fault (0)", 1},
    {"allow-left", ALLOW_LEFT, NULL, 0, "The inbound queue need not be empty", 1},
    {"allow-missing", ALLOW_MISSING, NULL, 0, "Ids may be missing", 1},
    {"allow-strange", ALLOW_STRANGE, NULL, 0, "Other messages may be in the queues", 1},
    {0},
};

static error_t take_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 'w': o->work = arg; break;
    case 'p': o->park = arg; break;
    case 'q': o->in = arg; break;
    case 'n': o->count = client_number("count", arg, 100000000); break;
    case 'f': o->first = client_number("first", arg, 1000000000); break;
    case 'x': o->prefix = arg; break;
    case 'i':
        if (!id_place_read(arg, &o->place))
            argp_error(state, "--id-in: \"%s\" is none of message-id, header:NAME and body", arg);
        break;
    case 't': o->idle = client_number("idle", arg, 600000); break;
    case MAX_MARKED: o->max_marked = client_number("max-marked", arg, 100000000); break;
    case MAX_PARKED: o->max_parked = client_number("max-parked", arg, 100000000); break;
    case MAX_UNMARKED: o->max_unmarked = client_number("max-unmarked", arg, 100000000); break;
    case ALLOW_LEFT: o->allow_left = true; break;
    case ALLOW_MISSING: o->allow_missing = true; break;
    case ALLOW_STRANGE: o->allow_strange = true; break;
    case ARGP_KEY_END:
        if (o->work == NULL)
            argp_error(state, "--work is needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void count_up(uint8_t *n)
{
    if (*n < UINT8_MAX)
        ++*n;
}

static bool is_marked(const amqp_basic_properties_t *p)
{
    return client_header(p, "x-onlyonce-in-doubt") != NULL ||
           client_header(p, "x-onlyonce-unchecked") != NULL ||
           client_header(p, "x-onlyonce-attempt") != NULL;
}

/* The place of an id among the expected ones, or -1. */
static long number_of(const struct options *o, const char *id)
{
    size_t n = strlen(o->prefix);
    char *end;
    if (strncmp(id, o->prefix, n) != 0 || id[n] < '0' || id[n] > '9')
        return -1;
    long number = strtol(id + n, &end, 10) - o->first;
    return *end == '\0' && number >= 0 && number < o->count ? number : -1;
}

static void take_copy(struct account *a, long number, bool marked)
{
    struct fate *f = &a->fates[number];
    if (f->copies == 0) {
        if (number < a->newest)
            a->totals.reordered++;
        else
            a->newest = number;
    }
    count_up(&f->copies);
    if (marked)
        count_up(&f->marked);
}

static void take(struct account *a, enum where where, const amqp_message_t *message)
{
    char id[CLIENT_ID_MAX] = "?";
    bool known = id_of_message(&a->o->place, &message->properties, message->body, id);
    long number = known ? number_of(a->o, id) : -1;
    if (where == IN)
        a->totals.left++;
    if (where == WORK)
        a->totals.messages++;
    if (number < 0) {
        if (++a->totals.strange <= SHOWN)
            printf("strange: %s\n", id);
        return;
    }
    switch (where) {
    case WORK: take_copy(a, number, is_marked(&message->properties)); break;
    case PARK: count_up(&a->fates[number].parked); break;
    case IN: count_up(&a->fates[number].left); break;
    }
}

static bool is_empty(amqp_connection_state_t c, const char *queue)
{
    amqp_queue_declare_ok_t *ok = amqp_queue_declare(c, CLIENT_CHANNEL, amqp_cstring_bytes(queue),
                                                     1, 0, 0, 0, amqp_empty_table);
    return ok == NULL || ok->message_count == 0;
}

/* Takes everything out of a queue. */
static bool drain(struct account *a, enum where where, const char *queue)
{
    if (queue == NULL)
        return true;
    amqp_connection_state_t c = client_open(a->o->client.amqp);
    if (c == NULL)
        return false;
    bool ok = client_consume(c, queue, "", 0);
    while (ok) {
        amqp_envelope_t envelope;
        struct timeval idle = {a->o->idle / 1000, a->o->idle % 1000 * 1000};
        amqp_maybe_release_buffers(c);
        amqp_rpc_reply_t reply = amqp_consume_message(c, &envelope, &idle, 0);
        if (reply.library_error == AMQP_STATUS_TIMEOUT && !is_empty(c, queue))
            continue; /* The broker is slow. */
        if (reply.reply_type != AMQP_RESPONSE_NORMAL) {
            ok = reply.library_error == AMQP_STATUS_TIMEOUT;
            if (!ok)
                fprintf(stderr, "%s: %s\n", queue, amqp_error_string2(reply.library_error));
            break;
        }
        take(a, where, &envelope.message);
        amqp_destroy_envelope(&envelope);
    }
    client_close(c);
    return ok;
}

static void show(const struct account *a, const char *fault, uint64_t so_far, long number)
{
    if (so_far <= SHOWN)
        printf("%s: %s%ld\n", fault, a->o->prefix, a->o->first + number);
}

static void judge(struct account *a)
{
    struct totals *t = &a->totals;
    for (long i = 0; i < a->o->count; i++) {
        const struct fate *f = &a->fates[i];
        if (f->copies > 0 && f->parked > 0)
            t->both++;
        if (f->copies == 1)
            t->once++;
        else if (f->copies > 1 && f->marked + 1 >= f->copies)
            t->marked++;
        else if (f->copies > 1)
            show(a, "twice and unmarked", ++t->unmarked, i);
        else if (f->parked > 0)
            t->parked++;
        else if (f->left == 0 || !a->o->allow_left)
            show(a, "missing", ++t->missing, i);
    }
}

static void print(const struct totals *t)
{
    printf("forwarded once        %10" PRIu64 "\n", t->once);
    printf("twice and marked      %10" PRIu64 "\n", t->marked);
    printf("twice and unmarked    %10" PRIu64 "\n", t->unmarked);
    printf("parked only           %10" PRIu64 "\n", t->parked);
    printf("forwarded and parked  %10" PRIu64 "\n", t->both);
    printf("missing               %10" PRIu64 "\n", t->missing);
    printf("left in the inbound   %10" PRIu64 "\n", t->left);
    printf("strange               %10" PRIu64 "\n", t->strange);
    printf("out of order          %10" PRIu64 "\n", t->reordered);
    printf("account once=%" PRIu64 " marked=%" PRIu64 " unmarked=%" PRIu64 " parked=%" PRIu64
           " both=%" PRIu64 " missing=%" PRIu64 " left=%" PRIu64 " strange=%" PRIu64
           " reordered=%" PRIu64 " work=%" PRIu64 "\n",
           t->once, t->marked, t->unmarked, t->parked, t->both, t->missing, t->left, t->strange,
           t->reordered, t->messages);
}

static bool in_order(const struct options *o, const struct totals *t)
{
    return (t->missing == 0 || o->allow_missing) && (t->left == 0 || o->allow_left) &&
           (t->strange == 0 || o->allow_strange) && t->unmarked <= (uint64_t)o->max_unmarked &&
           t->marked <= (uint64_t)o->max_marked && t->parked + t->both <= (uint64_t)o->max_parked;
}

int main(int argc, char **argv)
{
    const struct argp argp = {.options = option_table,
                              .parser = take_option,
                              .doc = "Empties the queues and accounts for every id."};
    struct options o = {.prefix = "id-",
                        .count = 1000,
                        .idle = 1000,
                        .max_marked = INT32_MAX,
                        .max_parked = INT32_MAX};
    client_parse(&argp, CLIENT_BROKER, argc, argv, &o.client);

    struct account a = {.o = &o};
    a.fates = client_allocate((size_t)o.count, sizeof *a.fates);
    bool ok = drain(&a, WORK, o.work) && drain(&a, PARK, o.park) && drain(&a, IN, o.in);
    if (ok) {
        judge(&a);
        print(&a.totals);
        ok = in_order(&o, &a.totals);
    }
    free(a.fates);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
