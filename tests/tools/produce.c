/*
 * produce - publishes ids, again and again some of them, until SIGTERM, and keeps a journal.
 *
 *   produce --amqp URL --queue NAME --journal FILE [--prefix TEXT] [--rate N] [--seed N]
 *
 * It lives through restarts of the broker. What it did with an id is in the journal:
 *
 *   p ID     is about to be published; once for every time
 *   c ID     the broker confirmed one of them: from now on the id must not be lost
 *
 * Ids are PREFIX0, PREFIX1, ..., in the body and as message_id; those of PREFIXn0, PREFIXn1, ...
 * have no message_id and are published once. Of the others some come twice at once, some ten times
 * in a row, and many again later. After a lost connection half of the ids whose confirm was not
 * seen are published again: the other half may have arrived or not.
 *
 * On SIGTERM it waits for the confirms that are due; it exits with 0 only if all came, and no
 * message was ever returned.
 */
#include "client.h"

#include <argp.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WINDOW 2000 /* unconfirmed messages at most */
#define PATIENCE 90 /* seconds without a confirm after which a connection is given up */
#define BURST 10
#define RECENT 2000

/* In per cent of the turns. */
#define KEYLESS 5
#define AT_ONCE 8
#define BURSTS 1
#define LATE 25

static volatile sig_atomic_t stopping;

struct options {
    const char *amqp;
    const char *queue;
    const char *journal;
    const char *prefix;
    long rate;
    long seed;
};

struct message {
    uint32_t number;
    bool keyless;
    bool settled;
};

struct produce {
    const struct options *o;
    amqp_connection_state_t c;
    FILE *journal;
    uint64_t random;
    uint32_t keyed, keyless;       /* the next numbers */
    struct message flying[WINDOW]; /* that of delivery tag t is at t % WINDOW */
    uint64_t sent_tag;             /* the last one used on this connection */
    uint64_t done_tag;             /* all up to this one are settled */
    struct message again[WINDOW];  /* to be published before anything else */
    uint32_t again_count;
    uint64_t sent, nacked, returned;
    double started, last_news;
};

static const struct argp_option option_table[] = {
    {"amqp", 'a', "URL", 0, "The broker", 0},
    {"queue", 'q', "NAME", 0, "Publish to this queue", 0},
    {"journal", 'j', "FILE", 0, "Append to this file", 0},
    {"prefix", 'x', "TEXT", 0, "Begins every id (id-)", 0},
    {"rate", 'R', "N", 0, "So many messages a second (100)", 0},
    {"seed", 's', "N", 0, "Another order (1)", 0},
    {0},
};

static error_t take_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 'a': o->amqp = arg; break;
    case 'q': o->queue = arg; break;
    case 'j': o->journal = arg; break;
    case 'x':
        if (strlen(arg) > 64 || strpbrk(arg, "\"\\ ") != NULL)
            argp_error(state, "--prefix: at most 64 bytes, without quotes, backslashes and spaces");
        o->prefix = arg;
        break;
    case 'R': o->rate = client_number("rate", arg, 100000); break;
    case 's': o->seed = client_number("seed", arg, 1000000000); break;
    case ARGP_KEY_END:
        if (o->amqp == NULL || o->queue == NULL || o->journal == NULL || o->rate == 0)
            argp_error(state, "--amqp, --queue, --journal and a rate are needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void stop(int number)
{
    (void)number;
    stopping = 1;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* xorshift64*, from a state that is never 0. */
static uint32_t random_below(struct produce *p, uint32_t bound)
{
    p->random ^= p->random >> 12;
    p->random ^= p->random << 25;
    p->random ^= p->random >> 27;
    return (uint32_t)((p->random * UINT64_C(2685821657736338717) >> 32) % bound);
}

static void note(struct produce *p, char what, const struct message *m)
{
    fprintf(p->journal, "%c %s%s%" PRIu32 "\n", what, p->o->prefix, m->keyless ? "n" : "",
            m->number);
    if (fflush(p->journal) != 0) {
        perror(p->o->journal);
        exit(EXIT_FAILURE);
    }
}

/* False: the connection is of no more use. */
static bool publish(struct produce *p, struct message m)
{
    char id[CLIENT_ID_MAX], body[CLIENT_ID_MAX + 32];
    snprintf(id, sizeof id, "%s%s%" PRIu32, p->o->prefix, m.keyless ? "n" : "", m.number);
    snprintf(body, sizeof body, "{\"id\":\"%s\"}", id);
    amqp_basic_properties_t properties = {0};
    properties._flags = AMQP_BASIC_DELIVERY_MODE_FLAG;
    properties.delivery_mode = 2;
    if (!m.keyless) {
        properties._flags |= AMQP_BASIC_MESSAGE_ID_FLAG;
        properties.message_id = amqp_cstring_bytes(id);
    }
    note(p, 'p', &m);
    p->sent++;
    p->sent_tag++;
    m.settled = false;
    p->flying[p->sent_tag % WINDOW] = m;
    return amqp_basic_publish(p->c, CLIENT_CHANNEL, amqp_empty_bytes,
                              amqp_cstring_bytes(p->o->queue), 1, 0, &properties,
                              amqp_cstring_bytes(body)) == AMQP_STATUS_OK;
}

static void settle(struct produce *p, uint64_t tag, bool multiple, bool confirmed)
{
    for (uint64_t t = multiple ? p->done_tag + 1 : tag; t <= tag; t++) {
        struct message *m = &p->flying[t % WINDOW];
        if (confirmed && !m->settled)
            note(p, 'c', m);
        m->settled = true;
    }
    while (p->done_tag < p->sent_tag && p->flying[(p->done_tag + 1) % WINDOW].settled)
        p->done_tag++;
    p->last_news = now();
}

static bool take_method(struct produce *p, const amqp_method_t *method)
{
    if (method->id == AMQP_BASIC_ACK_METHOD) {
        const amqp_basic_ack_t *ack = method->decoded;
        settle(p, ack->delivery_tag, ack->multiple, true);
    } else if (method->id == AMQP_BASIC_NACK_METHOD) {
        const amqp_basic_nack_t *nack = method->decoded;
        p->nacked++;
        settle(p, nack->delivery_tag, nack->multiple, false);
    } else if (method->id == AMQP_BASIC_RETURN_METHOD) {
        p->returned++;
    } else {
        return false; /* the channel or the connection was closed */
    }
    return true;
}

/* Takes frames for so long. False: the connection is of no more use. */
static bool take_frames(struct produce *p, double seconds)
{
    double until = now() + seconds;
    do {
        amqp_frame_t frame;
        double left = until - now();
        struct timeval wait = {0, left > 0 ? (suseconds_t)(left * 1e6) : 0};
        amqp_maybe_release_buffers(p->c);
        int status = amqp_simple_wait_frame_noblock(p->c, &frame, &wait);
        if (status == AMQP_STATUS_TIMEOUT)
            return true;
        if (status != AMQP_STATUS_OK)
            return false;
        if (frame.frame_type == AMQP_FRAME_METHOD && !take_method(p, &frame.payload.method))
            return false;
    } while (now() < until);
    return true;
}

/* ---- What to publish ---- */

static void plan(struct produce *p, struct message m, uint32_t copies)
{
    for (uint32_t i = 0; i < copies; i++)
        p->again[p->again_count++] = m;
}

static uint32_t earlier(struct produce *p)
{
    uint32_t span = p->keyed;
    if (random_below(p, 2) == 0 && span > RECENT)
        span = RECENT;
    return p->keyed - 1 - random_below(p, span);
}

/* Fills `again` with what comes next: a new id, its copies, or an old one. */
static void plan_next(struct produce *p)
{
    uint32_t draw = random_below(p, 100);
    if (draw < KEYLESS)
        plan(p, (struct message){.number = p->keyless++, .keyless = true}, 1);
    else if (draw < KEYLESS + LATE && p->keyed > 0)
        plan(p, (struct message){.number = earlier(p)}, 1);
    else if (draw < KEYLESS + LATE + BURSTS)
        plan(p, (struct message){.number = p->keyed++}, BURST);
    else if (draw < KEYLESS + LATE + BURSTS + AT_ONCE)
        plan(p, (struct message){.number = p->keyed++}, 2);
    else
        plan(p, (struct message){.number = p->keyed++}, 1);
}

/* ---- The connection ---- */

static void forget_flying(struct produce *p)
{
    for (uint64_t t = p->sent_tag; t > p->done_tag; t--) {
        const struct message *m = &p->flying[t % WINDOW];
        bool room = p->again_count < WINDOW - BURST;
        if (!m->settled && !m->keyless && room && random_below(p, 2) == 0)
            plan(p, *m, 1);
    }
    p->sent_tag = p->done_tag = 0;
}

static bool connect_once(struct produce *p)
{
    p->c = client_open(p->o->amqp);
    if (p->c == NULL)
        return false;
    amqp_confirm_select(p->c, CLIENT_CHANNEL);
    return client_succeeded(p->c, "confirm.select");
}

/* However long it takes: whoever started this program stops it. */
static void reconnect(struct produce *p)
{
    forget_flying(p);
    do {
        if (p->c != NULL)
            amqp_destroy_connection(p->c);
        nanosleep(&(struct timespec){0, 300000000}, NULL);
    } while (!connect_once(p));
    p->last_news = now();
}

/* One message, or a wait for confirms or for the time to send the next one. */
static bool step(struct produce *p)
{
    double early = p->started + (double)p->sent / (double)p->o->rate - now();
    bool full = p->sent_tag - p->done_tag >= WINDOW - 1;
    if (p->sent_tag > p->done_tag && now() - p->last_news > PATIENCE) {
        fprintf(stderr, "no confirm for %d s\n", PATIENCE);
        return false;
    }
    if (stopping || full || early > 0.001)
        return take_frames(p, early < 0.2 && !full && !stopping ? early : 0.2);
    if (p->again_count == 0)
        plan_next(p);
    if (p->sent_tag == p->done_tag)
        p->last_news = now();
    return publish(p, p->again[--p->again_count]) && take_frames(p, 0);
}

int main(int argc, char **argv)
{
    const struct argp argp = {.options = option_table,
                              .parser = take_option,
                              .doc = "Publishes ids until SIGTERM, and keeps a journal."};
    const struct sigaction on_stop = {.sa_handler = stop};
    struct options o = {.prefix = "id-", .rate = 100, .seed = 1};
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    sigaction(SIGTERM, &on_stop, NULL);
    signal(SIGPIPE, SIG_IGN);

    FILE *journal = fopen(o.journal, "a");
    struct produce *p = calloc(1, sizeof *p);
    if (journal == NULL || p == NULL) {
        perror(o.journal);
        exit(EXIT_FAILURE);
    }
    p->o = &o;
    p->random = (uint64_t)o.seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    p->journal = journal;
    p->started = now();
    reconnect(p);
    while (p->returned == 0 && (!stopping || p->done_tag < p->sent_tag))
        if (!step(p))
            reconnect(p);
    bool ok = fclose(p->journal) == 0 && p->returned == 0;
    printf("produce sent=%" PRIu64 " ids=%" PRIu32 " nacked=%" PRIu64 " returned=%" PRIu64 "\n",
           p->sent, p->keyed + p->keyless, p->nacked, p->returned);
    client_close(p->c);
    free(p);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
