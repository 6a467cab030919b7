/*
 * store_speed - how many keys a second a store takes: each is claimed and recorded as forwarded, in
 * batches as a worker makes them, by one connection or by several at once. One line on stdout.
 */
#include "store.h"

#include "clock.h"

#include <argp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_SIZE 64

struct options {
    struct store_config config;
    size_t keys;
    size_t batch;
    size_t workers;
    int64_t window;
    const char *name;
};

/* One connection, and its share of the keys. */
struct worker {
    pthread_t thread;
    const struct options *options;
    struct store *store;
    char session[SESSION_ID_LEN + 1];
    size_t index;
    struct store_op *ops;
    char (*keys)[KEY_SIZE];
    int64_t longest; /* ms, of a call */
    bool failed;
};

static const struct argp_option option_table[] = {
    {"keys", 'k', "COUNT", 0, "How many keys (50000)", 0},
    {"batch", 'b', "COUNT", 0, "Keys in a call (500)", 0},
    {"workers", 'w', "COUNT", 0, "Connections at once, each a thread (1)", 0},
    {"window", 'W', "MS", 0, "How long a key stays (24 hours)", 0},
    {"name", 'n', "TEXT", 0, "What the keys begin with (key)", 0},
    {"replicas", 'r', "COUNT", 0, "Redis: wait_replicas (0)", 0},
    {"normal", 'N', NULL, 0, "SQLite: synchronous: normal", 0},
    {0},
};

static size_t read_count(const char *text, struct argp_state *state)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    if (*end || n == 0 || n > 1000000000)
        argp_error(state, "\"%s\" is no count; write 1 to 1000000000", text);
    return n;
}

static error_t take_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    char error[256];
    const char *bad = NULL;
    switch (key) {
    case 'k': o->keys = read_count(arg, state); break;
    case 'b': o->batch = read_count(arg, state); break;
    case 'w': o->workers = read_count(arg, state); break;
    case 'W': o->window = (int64_t)read_count(arg, state); break;
    case 'n': o->name = arg; break;
    case 'r': o->config.wait_replicas = (int64_t)read_count(arg, state); break;
    case 'N': o->config.synchronous = SYNCHRONOUS_NORMAL; break;
    case ARGP_KEY_ARG:
        if (o->config.url)
            argp_error(state, "one URL only");
        o->config.url = arg;
        bad = url_read_store(arg, &o->config.parsed, error);
        if (bad)
            argp_error(state, "the URL %s", bad);
        break;
    case ARGP_KEY_END:
        if (!o->config.url)
            argp_error(state, "the store's URL is needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* ---- A worker ---- */

static bool complain(struct worker *w, const char *why)
{
    fprintf(stderr, "store_speed: %s\n", why);
    w->failed = true;
    return false;
}

static bool apply(struct worker *w, size_t count)
{
    int64_t began = clock_now();
    if (!store_apply(w->store, w->session, w->ops, count))
        return complain(w, store_error(w->store));
    int64_t took = clock_now() - began;
    if (took > w->longest)
        w->longest = took;
    for (size_t i = 0; i < count; i++)
        if (w->ops[i].answer != STORE_APPLIED)
            return complain(w, "a key was there already; take another --name");
    return true;
}

static struct record claim(const struct worker *w, uint64_t number, int64_t now)
{
    struct record r = {.now = {.state = RECORD_PENDING, .number = 1, .first_seen = now}};
    r.now.since = now;
    r.claim = number;
    memcpy(r.session, w->session, sizeof r.session);
    return r;
}

static struct record forwarded(const struct worker *w, const struct record *claimed, int64_t now)
{
    struct record r = {.now = claimed->now};
    r.now.state = RECORD_FORWARDED;
    r.now.since = now;
    r.now.ends = now + w->options->window;
    return r;
}

/* Claims the keys from `first` on, and records them. */
static bool relay_batch(struct worker *w, size_t first, size_t count)
{
    int64_t now = store_now(w->store);
    for (size_t i = 0; i < count; i++) {
        /* A multiplicative hash: like ids, the keys come in no order. */
        snprintf(w->keys[i], KEY_SIZE, "%s-%zu-%016llx", w->options->name, w->index,
                 (unsigned long long)(first + i) * 11400714819323198485ULL);
        w->ops[i] = (struct store_op){.key = span_of(w->keys[i]), .ttl = 86400000};
        w->ops[i].write = claim(w, first + i + 1, now);
    }
    if (!apply(w, count))
        return false;
    for (size_t i = 0; i < count; i++) {
        w->ops[i].expect = w->ops[i].write;
        w->ops[i].write = forwarded(w, &w->ops[i].expect, now);
        w->ops[i].ttl = w->options->window;
    }
    return apply(w, count);
}

static void *work(void *context)
{
    struct worker *w = context;
    size_t batch = w->options->batch;
    size_t share = w->options->keys / w->options->workers;
    for (size_t at = 0; at < share; at += batch)
        if (!relay_batch(w, at, share - at < batch ? share - at : batch))
            break;
    return NULL;
}

/* ---- All of them ---- */

static bool open_worker(struct worker *w, const struct options *o, size_t index)
{
    bool permanent;
    w->options = o;
    w->index = index;
    w->ops = xcalloc(o->batch, sizeof *w->ops);
    w->keys = xcalloc(o->batch, KEY_SIZE);
    w->store = store_new(&o->config, "speed");
    snprintf(w->session, sizeof w->session, "%012llx%06x",
             (unsigned long long)clock_wall() & 0xffffffffffff, (unsigned)index & 0xffffff);
    return (store_open(w->store, &permanent) &&
            store_session_open(w->store, w->session, 300000, NULL, 0, NULL, 0)) ||
           complain(w, store_error(w->store));
}

static void close_worker(struct worker *w)
{
    store_session_end(w->store, w->session);
    store_free(w->store);
    free(w->keys);
    free(w->ops);
}

static bool run(const struct options *o, struct worker *workers)
{
    int64_t longest = 0;
    bool good = true;
    for (size_t i = 0; i < o->workers; i++)
        good = open_worker(&workers[i], o, i) && good;
    int64_t began = clock_now();
    for (size_t i = 0; good && i < o->workers; i++)
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            abort();
    for (size_t i = 0; good && i < o->workers; i++)
        pthread_join(workers[i].thread, NULL);
    int64_t took = clock_now() - began;
    for (size_t i = 0; i < o->workers; i++) {
        good = good && !workers[i].failed;
        longest = workers[i].longest > longest ? workers[i].longest : longest;
    }
    if (good)
        printf("%s: %zu keys claimed and recorded in %lld ms, %lld/s; longest call %lld ms\n",
               store_describe(workers[0].store), o->keys, (long long)took,
               (long long)o->keys * 1000 / (took ? took : 1), (long long)longest);
    for (size_t i = 0; i < o->workers; i++)
        close_worker(&workers[i]);
    return good;
}

int main(int argc, char **argv)
{
    static char name[] = "speed";
    const struct argp argp = {.options = option_table,
                              .parser = take_option,
                              .args_doc = "URL",
                              .doc = "Measures how many keys a second the store at URL takes."};
    struct options o = {
        .config = {.name = name, .prefix = name, .timeout = 10000, .session = 300000},
        .keys = 50000,
        .batch = 500,
        .workers = 1,
        .window = 86400000,
        .name = "key",
    };
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    struct worker *workers = xcalloc(o.workers, sizeof *workers);
    bool good = run(&o, workers);
    free(workers);
    url_free_store(&o.config.parsed);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
