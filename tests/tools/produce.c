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
#include "unconfirmed.h"

#include <argp.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE 90 /* seconds without a confirm after which a connection is given up */
#define BURST 10
#define RECENT 2000

/* In per cent of the turns. */
#define KEYLESS 5
#define AT_ONCE 8
#define BURSTS 1
#define LATE 25

struct options {
    struct client_options client;
    const char *journal;
    const char *prefix;
    long rate;
    long seed;
};

struct message {
    uint32_t number;
    bool keyless;
};

struct produce {
    const struct options *o;
    struct unconfirmed sent;
    FILE *journal;
    uint64_t random;
    uint32_t keyed, keyless;                 /* the next numbers */
    struct message flying[UNCONFIRMED_MOST]; /* by their tags */
    struct message again[UNCONFIRMED_MOST];  /* to be published before anything else */
    uint32_t again_count;
    uint64_t count;
    uint64_t done_tag; /* when it was last looked at */
    double started, last_news;
};

static const struct argp_option option_table[] = {
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
    case 'j': o->journal = arg; break;
    case 'x':
        if (strlen(arg) > 64 || strpbrk(arg, "\"\\ ") != NULL)
            argp_error(state, "--prefix: at most 64 bytes, without quotes, backslashes and spaces");
        o->prefix = arg;
        break;
    case 'R': o->rate = client_number("rate", arg, 100000); break;
    case 's': o->seed = client_number("seed", arg, 1000000000); break;
    case ARGP_KEY_END:
        if (o->journal == NULL || o->rate == 0)
            argp_error(state, "--journal and a rate are needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
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
    p->count++;
    bool ok = unconfirmed_publish(&p->sent, p->o->client.exchange, p->o->client.routing_key,
                                  &properties, amqp_cstring_bytes(body));
    p->flying[p->sent.sent_tag % UNCONFIRMED_MOST] = m;
    return ok;
}

static void confirmed(void *context, uint64_t tag)
{
    struct produce *p = context;
    note(p, 'c', &p->flying[tag % UNCONFIRMED_MOST]);
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
    if (client_random_below(&p->random, 2) == 0 && span > RECENT)
        span = RECENT;
    return p->keyed - 1 - client_random_below(&p->random, span);
}

/* Fills `again` with what comes next: a new id, its copies, or an old one. */
static void plan_next(struct produce *p)
{
    uint32_t draw = client_random_below(&p->random, 100);
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
    for (uint64_t t = p->sent.sent_tag; t > p->sent.done_tag; t--) {
        const struct message *m = &p->flying[t % UNCONFIRMED_MOST];
        bool room = p->again_count < UNCONFIRMED_MOST - BURST;
        if (unconfirmed_is_open(&p->sent, t) && !m->keyless && room &&
            client_random_below(&p->random, 2) == 0)
            plan(p, *m, 1);
    }
}

/* However long it takes: whoever started this program stops it. */
static void reconnect(struct produce *p)
{
    forget_flying(p);
    (void)unconfirmed_reopen(&p->sent, p->o->client.amqp, 0);
    p->done_tag = 0;
    p->last_news = client_now();
}

/* One message, or a wait for confirms or for the time to send the next one. */
static bool step(struct produce *p)
{
    struct unconfirmed *u = &p->sent;
    double early = p->started + (double)p->count / (double)p->o->rate - client_now();
    bool full = unconfirmed_is_full(u, UNCONFIRMED_MOST - 1);
    bool took;
    if (u->done_tag > p->done_tag || u->done_tag == u->sent_tag)
        p->last_news = client_now();
    p->done_tag = u->done_tag;
    if (client_now() - p->last_news > PATIENCE) {
        fprintf(stderr, "no confirm for %d s\n", PATIENCE);
        return false;
    }
    if (client_stopping() || full || early > 0.001)
        return unconfirmed_take(u, early < 0.2 && !full && !client_stopping() ? early : 0.2, &took);
    if (p->again_count == 0)
        plan_next(p);
    return publish(p, p->again[--p->again_count]) && unconfirmed_take(u, 0, &took);
}

int main(int argc, char **argv)
{
    const struct argp argp = {.options = option_table,
                              .parser = take_option,
                              .doc = "Publishes ids until SIGTERM, and keeps a journal."};
    struct options o = {.prefix = "id-", .rate = 100, .seed = 1};
    client_parse(&argp, CLIENT_DESTINATION, argc, argv, &o.client);
    client_stop_on_sigterm();
    signal(SIGPIPE, SIG_IGN);

    FILE *journal = fopen(o.journal, "a");
    if (journal == NULL) {
        perror(o.journal);
        exit(EXIT_FAILURE);
    }
    struct produce *p = client_allocate(1, sizeof *p);
    p->o = &o;
    p->random = client_seed(o.seed);
    p->sent.on_confirm = confirmed;
    p->sent.context = p;
    p->journal = journal;
    p->started = client_now();
    reconnect(p);
    const struct unconfirmed *u = &p->sent;
    while (u->returned == 0 && (!client_stopping() || u->done_tag < u->sent_tag))
        if (!step(p))
            reconnect(p);
    bool ok = fclose(p->journal) == 0 && u->returned == 0;
    printf("produce sent=%" PRIu64 " ids=%" PRIu32 " nacked=%" PRIu64 " returned=%" PRIu64 "\n",
           p->count, p->keyed + p->keyless, u->nacked, u->returned);
    unconfirmed_close(&p->sent);
    free(p);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
