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

#include <argp.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WINDOW 1000 /* unconfirmed messages at most */
#define PATIENCE 60 /* seconds for the broker to come back, or to confirm */
#define BURST 10

enum pattern { AT_ONCE, BURSTS, LATE, MIXED };

struct options {
    const char *amqp;
    const char *exchange;
    const char *routing_key;
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
    amqp_connection_state_t c;
    struct slot *slots; /* in the order of sending */
    uint32_t total;
    uint32_t next;          /* the next slot never sent */
    uint32_t again[WINDOW]; /* slots whose confirm was lost */
    uint32_t again_count;
    uint32_t flying[WINDOW]; /* the slot of delivery tag t is flying[t % WINDOW] */
    bool settled[WINDOW];
    uint64_t sent_tag; /* the last one used on this connection */
    uint64_t done_tag; /* all up to this one are settled */
    uint64_t sent, resent, nacked, returned;
    bool refused; /* the broker closed the channel: trying again will not help */
    char *body;
};

static const struct argp_option option_table[] = {
    {"amqp", 'a', "URL", 0, "The broker", 0},
    {"exchange", 'e', "NAME", 0, "Publish to this exchange (the default one)", 0},
    {"routing-key", 'r', "KEY", 0, "With this routing key", 0},
    {"queue", 'q', "NAME", 0, "Publish to this queue, instead of the two above", 0},
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
    case 'a': o->amqp = arg; break;
    case 'e': o->exchange = arg; break;
    case 'r': o->routing_key = arg; break;
    case 'q':
        o->exchange = "";
        o->routing_key = arg;
        break;
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
    case ARGP_KEY_END:
        if (o->amqp == NULL || (o->exchange[0] == '\0' && o->routing_key[0] == '\0'))
            argp_error(state, "--amqp and one of --exchange and --queue are needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void *allocate(size_t count, size_t size)
{
    void *p = calloc(count > 0 ? count : 1, size);
    if (p == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(EXIT_FAILURE);
    }
    return p;
}

/* xorshift64*: the same numbers on every machine, from a state that is never 0. */
static uint64_t random_next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

static uint32_t random_below(uint64_t *state, uint32_t bound)
{
    return (uint32_t)((random_next(state) >> 32) % bound);
}

/* Where the n-th duplicate lies, and of which id: the place of its original, or of a later one. */
static struct slot place_duplicate(const struct options *o, uint32_t n, uint64_t *state,
                                   uint32_t *burst_id)
{
    const uint32_t count = (uint32_t)o->count;
    const bool mixed = o->pattern == MIXED;
    const enum pattern pattern = mixed ? (enum pattern)(n % MIXED) : o->pattern;
    struct slot slot;
    slot.id = random_below(state, count);
    if (pattern == BURSTS) {
        if ((mixed ? n / MIXED : n) % (BURST - 1) == 0)
            *burst_id = slot.id;
        slot.id = *burst_id;
    }
    slot.place = slot.id;
    if (pattern == LATE && slot.id + 1 < count)
        slot.place = slot.id + 1 + random_below(state, count - slot.id - 1);
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
    uint64_t state = (uint64_t)o->seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    uint32_t count = (uint32_t)o->count;
    uint32_t burst_id = 0;
    uint32_t duplicates = (uint32_t)(o->count * o->duplicates / (100 - o->duplicates));
    l->total = count + (count > 0 ? duplicates : 0);
    l->slots = allocate(l->total, sizeof *l->slots);
    for (uint32_t i = 0; i < count; i++)
        l->slots[i] = (struct slot){.place = i, .id = i};
    for (uint32_t i = count; i < l->total; i++)
        l->slots[i] = place_duplicate(o, i - count, &state, &burst_id);
    struct slot *spare = allocate(l->total, sizeof *spare);
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
    int status = amqp_basic_publish(l->c, CLIENT_CHANNEL, amqp_cstring_bytes(l->o->exchange),
                                    amqp_cstring_bytes(l->o->routing_key), 1, 0, &p, body);
    l->sent_tag++;
    l->flying[l->sent_tag % WINDOW] = slot;
    l->settled[l->sent_tag % WINDOW] = false;
    return status == AMQP_STATUS_OK;
}

static void settle(struct load *l, uint64_t tag, bool multiple)
{
    for (uint64_t t = multiple ? l->done_tag + 1 : tag; t <= tag; t++)
        l->settled[t % WINDOW] = true;
    while (l->done_tag < l->sent_tag && l->settled[(l->done_tag + 1) % WINDOW])
        l->done_tag++;
}

/* Takes one frame; `wait` is how long for. False: the connection is of no more use. */
static bool take_frame(struct load *l, struct timeval wait, bool *took)
{
    amqp_frame_t frame;
    amqp_maybe_release_buffers(l->c);
    int status = amqp_simple_wait_frame_noblock(l->c, &frame, &wait);
    *took = status == AMQP_STATUS_OK;
    if (status == AMQP_STATUS_TIMEOUT)
        return true;
    if (status != AMQP_STATUS_OK)
        return false;
    if (frame.frame_type != AMQP_FRAME_METHOD)
        return true; /* the content of a return */
    if (frame.payload.method.id == AMQP_BASIC_ACK_METHOD) {
        const amqp_basic_ack_t *ack = frame.payload.method.decoded;
        settle(l, ack->delivery_tag, ack->multiple);
    } else if (frame.payload.method.id == AMQP_BASIC_NACK_METHOD) {
        const amqp_basic_nack_t *nack = frame.payload.method.decoded;
        l->nacked += nack->multiple ? nack->delivery_tag - l->done_tag : 1;
        settle(l, nack->delivery_tag, nack->multiple);
    } else if (frame.payload.method.id == AMQP_BASIC_RETURN_METHOD) {
        l->returned++;
    } else if (frame.payload.method.id == AMQP_CHANNEL_CLOSE_METHOD) {
        const amqp_channel_close_t *close = frame.payload.method.decoded;
        fprintf(stderr, "refused: %.*s\n", (int)close->reply_text.len,
                (const char *)close->reply_text.bytes);
        l->refused = true;
        return false;
    } else {
        return false; /* the connection was closed */
    }
    return true;
}

static bool take_frames(struct load *l, bool wait)
{
    struct timeval patience = {wait ? PATIENCE : 0, 0};
    bool took = false;
    if (!take_frame(l, patience, &took) || (wait && !took))
        return false;
    while (took)
        if (!take_frame(l, (struct timeval){0, 0}, &took))
            return false;
    return true;
}

static bool connect_once(struct load *l)
{
    l->sent_tag = l->done_tag = 0;
    l->c = client_open(l->o->amqp);
    if (l->c == NULL)
        return false;
    amqp_confirm_select(l->c, CLIENT_CHANNEL);
    return client_succeeded(l->c, "confirm.select");
}

/* After a lost connection: what is unconfirmed goes again, the oldest first, from the end of
 * `again`. */
static bool reconnect(struct load *l)
{
    for (uint64_t t = l->sent_tag; t > l->done_tag; t--)
        if (!l->settled[t % WINDOW])
            l->again[l->again_count++] = l->flying[t % WINDOW];
    time_t until = time(NULL) + PATIENCE;
    do {
        if (l->c != NULL)
            amqp_destroy_connection(l->c);
        if (connect_once(l))
            return true;
        nanosleep(&(struct timespec){0, 500000000}, NULL);
    } while (time(NULL) < until);
    fprintf(stderr, "the broker did not come back within %d s\n", PATIENCE);
    return false;
}

static double seconds_since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

static void keep_rate(const struct load *l, const struct timespec *start)
{
    if (l->o->rate == 0)
        return;
    double early = (double)l->sent / (double)l->o->rate - seconds_since(start);
    if (early > 0.001) {
        struct timespec nap = {(time_t)early, (long)((early - (double)(time_t)early) * 1e9)};
        nanosleep(&nap, NULL);
    }
}

/* Sends one message, or waits for a confirm if nothing may be sent now. */
static bool step(struct load *l, const struct timespec *start)
{
    bool full = l->sent_tag - l->done_tag >= WINDOW - 1;
    if (full || (l->again_count == 0 && l->next == l->total))
        return take_frames(l, true);
    keep_rate(l, start);
    bool again = l->again_count > 0;
    uint32_t slot = again ? l->again[--l->again_count] : l->next++;
    l->sent++;
    l->resent += again;
    return publish(l, slot) && take_frames(l, false);
}

static bool run(struct load *l, const struct timespec *start)
{
    if (!connect_once(l))
        return false;
    while (l->next < l->total || l->again_count > 0 || l->done_tag < l->sent_tag)
        if (!step(l, start) && (l->refused || !reconnect(l)))
            return false;
    client_close(l->c);
    l->c = NULL;
    return true;
}

int main(int argc, char **argv)
{
    const struct argp argp = {.options = option_table,
                              .parser = take_option,
                              .doc = "Publishes known ids, some of them more than once."};
    struct options o = {.exchange = "",
                        .routing_key = "",
                        .prefix = "id-",
                        .pattern = MIXED,
                        .count = 1000,
                        .seed = 1,
                        .body_size = 64};
    argp_parse(&argp, argc, argv, 0, NULL, &o);

    struct load *l = allocate(1, sizeof *l);
    struct timespec start;
    l->o = &o;
    l->body = allocate((size_t)o.body_size + CLIENT_ID_MAX + 64, 1);
    plan(l);
    clock_gettime(CLOCK_MONOTONIC, &start);
    bool ok = run(l, &start);
    printf("load messages=%" PRIu32 " unique=%ld duplicates=%" PRIu32 " resent=%" PRIu64
           " nacked=%" PRIu64 " returned=%" PRIu64 " seconds=%.2f\n",
           l->total, o.count, l->total - (uint32_t)o.count, l->resent, l->nacked, l->returned,
           seconds_since(&start));
    ok = ok && l->nacked == 0 && l->returned == 0;
    if (l->c != NULL)
        amqp_destroy_connection(l->c);
    free(l->slots);
    free(l->body);
    free(l);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
