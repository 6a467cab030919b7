/*
 * load - publishes known ids, a share of them more than once, and waits for every confirm.
 *
 * It behaves as a careful producer: persistent, mandatory, confirmed; after a lost connection it
 * sends again whatever was not confirmed. The order depends on the seed alone.
 *
 * How the duplicates lie among the ids (--pattern):
 *   at-once  right behind the message that they repeat
 *   burst    ten copies of one id in a row
 *   late     anywhere behind the message that they repeat
 *   mixed    each of the three in turn
 */
#include "client.h"
#include "unconfirmed.h"

#include <argp.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 1000 /* unconfirmed messages at most */
#define PATIENCE 60 /* seconds for the broker to come back, or to confirm */
#define BURST 10

enum pattern { AT_ONCE, BURSTS, LATE, MIXED };

struct options {
    struct client_options client;
    const char *prefix;
    struct id_place place;
    enum pattern pattern;
    long count;
    long first;
    long duplicates; /* per cent of all messages */
    long rate;       /* a second; 0: as fast as it goes */
    long seed;
    long body_size;
};

/* A message to send: which id, and where it goes in the order. */
struct slot {
    uint32_t place;
    uint32_t id;
};

struct load {
    const struct options *o;
    struct unconfirmed sent;
    struct slot *slots; /* in the order of sending */
    uint32_t total;
    uint32_t next;          /* the next slot never sent */
    uint32_t again[WINDOW]; /* slots whose confirm was lost */
    uint32_t again_count;
    uint32_t flying[UNCONFIRMED_MOST]; /* the slots of tags */
    uint64_t count, resent;
    double started;
    char *body;
};

static const struct argp_option option_table[] = {
    {"count", 'n', "N", 0, "So many different ids (1000)", 0},
    {"first", 'f', "N", 0, "The number of the first id (0)", 0},
    {"duplicates", 'd', "PERCENT", 0, "The duplicates' share of all messages (0)", 0},
    {"pattern", 'p', "PATTERN", 0, "at-once, burst, late or mixed (mixed)", 0},
    {"rate", 'R', "N", 0, "So many messages a second (as fast as it goes)", 0},
    {"id-in", 'i', "PLACE", 0, "message-id, header:NAME or body (message-id)", 0},
    {"seed", 's', "N", 0, "Another order of the duplicates (1)", 0},
    {"body-size", 'b', "BYTES", 0, "Pad bodies to this size (64)", 0},
    {"prefix", 'x', "TEXT", 0, "Begins every id (id-)", 0},
    {0},
};

static enum pattern read_pattern(const char *text, struct argp_state *state)
{
    static const char *const names[] = {"at-once", "burst", "late", "mixed"};
    for (int i = 0; i < 4; i++)
        if (strcmp(text, names[i]) == 0)
            return (enum pattern)i;
    argp_error(state, "--pattern: \"%s\" is none of at-once, burst, late and mixed", text);
    return MIXED;
}

static error_t take_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 'n': o->count = client_number("count", arg, 100000000); break;
    case 'f': o->first = client_number("first", arg, 1000000000); break;
    case 'd': o->duplicates = client_number("duplicates", arg, 99); break;
    case 'p': o->pattern = read_pattern(arg, state); break;
    case 'R': o->rate = client_number("rate", arg, 1000000); break;
    case 'i':
        if (!id_place_read(arg, &o->place))
            argp_error(state, "--id-in: \"%s\" is none of message-id, header:NAME and body", arg);
        break;
    case 's': o->seed = client_number("seed", arg, 1000000000); break;
    case 'b': o->body_size = client_number("body-size", arg, 64L * 1024 * 1024); break;
    case 'x':
        if (strlen(arg) > 100 || strpbrk(arg, "\"\\") != NULL)
            argp_error(state, "--prefix: at most 100 bytes, without quotes and backslashes");
        o->prefix = arg;
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* Where the n-th duplicate lies, and of which id: the place of its original, or of a later one. */
static struct slot place_duplicate(const struct options *o, uint32_t n, uint64_t *state,
                                   uint32_t *burst_id)
{
    const uint32_t count = (uint32_t)o->count;
    const bool mixed = o->pattern == MIXED;
    const enum pattern pattern = mixed ? (enum pattern)(n % MIXED) : o->pattern;
    struct slot slot;
    slot.id = client_random_below(state, count);
    if (pattern == BURSTS) {
        if ((mixed ? n / MIXED : n) % (BURST - 1) == 0)
            *burst_id = slot.id;
        slot.id = *burst_id;
    }
    slot.place = slot.id;
    if (pattern == LATE && slot.id + 1 < count)
        slot.place = slot.id + 1 + client_random_below(state, count - slot.id - 1);
    return slot;
}

static int by_place(const void *a, const void *b)
{
    const struct slot *x = a, *y = b;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* Sorts by place; merging is stable where qsort need not be, so originals stay first. */
static void sort_slots(struct slot *slots, uint32_t from, uint32_t to, struct slot *spare)
{
    if (to - from < 2)
        return;
    uint32_t middle = from + (to - from) / 2;
    sort_slots(slots, from, middle, spare);
    sort_slots(slots, middle, to, spare);
    uint32_t left = from, right = middle;
    for (uint32_t i = from; i < to; i++) {
        bool take_left =
            right == to || (left < middle && by_place(&slots[left], &slots[right]) <= 0);
        spare[i] = take_left ? slots[left++] : slots[right++];
    }
    memcpy(slots + from, spare + from, (to - from) * sizeof *slots);
}

static void plan(struct load *l)
{
    const struct options *o = l->o;
    uint64_t state = client_seed(o->seed);
    uint32_t count = (uint32_t)o->count;
    uint32_t burst_id = 0;
    uint32_t duplicates = (uint32_t)(o->count * o->duplicates / (100 - o->duplicates));
    l->total = count + (count > 0 ? duplicates : 0);
    l->slots = client_allocate(l->total, sizeof *l->slots);
    for (uint32_t i = 0; i < count; i++)
        l->slots[i] = (struct slot){.place = i, .id = i};
    for (uint32_t i = count; i < l->total; i++)
        l->slots[i] = place_duplicate(o, i - count, &state, &burst_id);
    struct slot *spare = client_allocate(l->total, sizeof *spare);
    sort_slots(l->slots, 0, l->total, spare);
    free(spare);
}

/* The message's body, padded; how long it is. */
static size_t write_body(struct load *l, const char *id)
{
    size_t room = (size_t)l->o->body_size + CLIENT_ID_MAX + 64;
    size_t n = (size_t)snprintf(l->body, room, "{\"id\":\"%s\",\"padding\":\"", id);
    while (n + 2 < (size_t)l->o->body_size)
        l->body[n++] = '.';
    l->body[n++] = '"';
    l->body[n++] = '}';
    return n;
}

static bool publish(struct load *l, uint32_t slot)
{
    char id[CLIENT_ID_MAX];
    snprintf(id, sizeof id, "%s%lu", l->o->prefix, (unsigned long)l->o->first + l->slots[slot].id);
    amqp_basic_properties_t p = {0};
    p._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_CONTENT_TYPE_FLAG;
    p.delivery_mode = 2;
    p.content_type = amqp_cstring_bytes("application/json");
    amqp_table_entry_t header = {0};
    if (l->o->place.where == ID_IN_MESSAGE_ID) {
        p._flags |= AMQP_BASIC_MESSAGE_ID_FLAG;
        p.message_id = amqp_cstring_bytes(id);
    } else if (l->o->place.where == ID_IN_HEADER) {
        header.key = amqp_cstring_bytes(l->o->place.header);
        header.value.kind = AMQP_FIELD_KIND_UTF8;
        header.value.value.bytes = amqp_cstring_bytes(id);
        p._flags |= AMQP_BASIC_HEADERS_FLAG;
        p.headers.num_entries = 1;
        p.headers.entries = &header;
    }
    amqp_bytes_t body = {write_body(l, id), l->body};
    bool ok =
        unconfirmed_publish(&l->sent, l->o->client.exchange, l->o->client.routing_key, &p, body);
    l->flying[l->sent.sent_tag % UNCONFIRMED_MOST] = slot;
    return ok;
}

/* After a lost connection: what is unconfirmed goes again, the oldest first, from the end of
 * `again`. */
static bool reconnect(struct load *l)
{
    const struct unconfirmed *u = &l->sent;
    for (uint64_t t = u->sent_tag; t > u->done_tag; t--)
        if (unconfirmed_is_open(u, t))
            l->again[l->again_count++] = l->flying[t % UNCONFIRMED_MOST];
    return unconfirmed_reopen(&l->sent, l->o->client.amqp, PATIENCE);
}

static void keep_rate(const struct load *l)
{
    if (l->o->rate == 0)
        return;
    double early = l->started + (double)l->count / (double)l->o->rate - client_now();
    if (early > 0.001)
        client_nap((long)(early * 1000));
}

/* Sends one message, or waits for a confirm if nothing may be sent now. */
static bool step(struct load *l)
{
    struct unconfirmed *u = &l->sent;
    bool took;
    if (unconfirmed_is_full(u, WINDOW - 1) || (l->again_count == 0 && l->next == l->total))
        return unconfirmed_take(u, PATIENCE, &took) && took;
    keep_rate(l);
    bool again = l->again_count > 0;
    uint32_t slot = again ? l->again[--l->again_count] : l->next++;
    l->count++;
    l->resent += again;
    return publish(l, slot) && unconfirmed_take(u, 0, &took);
}

static bool run(struct load *l)
{
    struct unconfirmed *u = &l->sent;
    if (!unconfirmed_open(u, l->o->client.amqp))
        return false;
    while (l->next < l->total || l->again_count > 0 || u->done_tag < u->sent_tag)
        if (!step(l) && (u->refused || !reconnect(l)))
            return false;
    unconfirmed_close(u);
    return true;
}

int main(int argc, char **argv)
{
    const struct argp argp = {.options = option_table,
                              .parser = take_option,
                              .doc = "Publishes known ids, some of them more than once."};
    struct options o = {
        .prefix = "id-", .pattern = MIXED, .count = 1000, .seed = 1, .body_size = 64};
    client_parse(&argp, CLIENT_DESTINATION, argc, argv, &o.client);

    struct load *l = client_allocate(1, sizeof *l);
    l->o = &o;
    l->body = client_allocate((size_t)o.body_size + CLIENT_ID_MAX + 64, 1);
    plan(l);
    l->started = client_now();
    bool ok = run(l);
    printf("load messages=%" PRIu32 " unique=%ld duplicates=%" PRIu32 " resent=%" PRIu64
           " nacked=%" PRIu64 " returned=%" PRIu64 " seconds=%.2f\n",
           l->total, o.count, l->total - (uint32_t)o.count, l->resent, l->sent.nacked,
           l->sent.returned, client_now() - l->started);
    ok = ok && l->sent.nacked == 0 && l->sent.returned == 0;
    unconfirmed_drop(&l->sent);
    free(l->slots);
    free(l->body);
    free(l);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
