#include "postgres_batch.h"

#include "clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The steps of one key. */
struct postgres_group {
    size_t first;
    size_t count;
    struct word found; /* what was under the key before */
    bool changed;      /* the database has made the change that fits */
    bool settled;
};

/* What a group comes to if `expect` is under its key. */
struct postgres_change {
    struct postgres_group *group;
    struct word expect;
    struct word write;
    int64_t ttl;
    bool needed; /* false: nothing to write */
};

/* ---- Words ---- */

static struct word add_word(struct postgres_batch *b, struct span text)
{
    if (b->bytes.len == 0)
        buffer_add_u8(&b->bytes, 0); /* so that nothing else is at 0 */
    struct word w = {b->bytes.len, text.len};
    buffer_add_span(&b->bytes, text);
    return w;
}

struct span postgres_batch_span(const struct postgres_batch *b, struct word word)
{
    return (struct span){b->bytes.data + word.at, word.len};
}

static bool is_nothing(struct word w)
{
    return w.at == 0;
}

static bool same(const struct postgres_batch *b, struct word a, struct word c)
{
    return is_nothing(a) == is_nothing(c) &&
           (is_nothing(a) || span_equal(postgres_batch_span(b, a), postgres_batch_span(b, c)));
}

static int order(struct span a, struct span b)
{
    int first = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);
    return first ? first : (a.len > b.len) - (a.len < b.len);
}

void postgres_write_key(struct buffer *out, struct span key)
{
    for (size_t i = 0; i < key.len; i++) {
        uint8_t c = key.data[i];
        if (c > ' ' && c < 0x7f && c != '\\')
            buffer_add_u8(out, c);
        else
            buffer_printf(out, "\\%03o", c);
    }
}

/* The byte that "\\ooo" stands for; -1: it is none. */
static int octal_byte(const uint8_t *at, size_t len)
{
    int byte = 0;
    if (len < 4 || at[0] != '\\')
        return -1;
    for (int i = 1; i <= 3; i++) {
        if (at[i] < '0' || at[i] > '7')
            return -1;
        byte = byte * 8 + at[i] - '0';
    }
    return byte <= UINT8_MAX ? byte : -1;
}

/* Whatever was not written by the above stays as it is. */
void postgres_read_key(struct buffer *out, struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        int byte = octal_byte(text.data + i, text.len - i);
        buffer_add_u8(out, byte < 0 ? text.data[i] : (uint8_t)byte);
        if (byte >= 0)
            i += 3;
    }
}

/* ---- Steps ---- */

void postgres_batch_clear(struct postgres_batch *b)
{
    buffer_clear(&b->bytes);
    b->step_count = 0;
    b->expected_count = 0;
    b->fenced = false;
}

void postgres_batch_free(struct postgres_batch *b)
{
    buffer_free(&b->bytes);
    free(b->steps);
    free(b->expected);
    free(b->groups);
    free(b->changes);
    *b = (struct postgres_batch){0};
}

/* Makes room for one more. */
static void *grown(void *items, size_t count, size_t *size, size_t item)
{
    if (count < *size)
        return items;
    *size = *size ? 2 * *size : 64;
    return xrealloc(items, *size * item);
}

void postgres_batch_add(struct postgres_batch *b, struct span key, struct span write, int64_t ttl)
{
    struct buffer text = {0};
    postgres_write_key(&text, key);
    b->steps = grown(b->steps, b->step_count, &b->step_size, sizeof *b->steps);
    struct postgres_step *s = &b->steps[b->step_count];
    *s = (struct postgres_step){.order = b->step_count, .ttl = ttl};
    s->key = add_word(b, buffer_span(&text));
    s->write = write.len > 0 ? add_word(b, write) : (struct word){0};
    s->first_expected = b->expected_count;
    b->step_count++;
    buffer_free(&text);
}

void postgres_batch_expect(struct postgres_batch *b, struct span text)
{
    b->expected = grown(b->expected, b->expected_count, &b->expected_size, sizeof *b->expected);
    b->expected[b->expected_count++] = text.len > 0 ? add_word(b, text) : (struct word){0};
    b->steps[b->step_count - 1].expected_count++;
}

static int by_key(const void *left, const void *right, void *context)
{
    const struct postgres_batch *b = context;
    const struct postgres_step *x = left;
    const struct postgres_step *y = right;
    int keys = order(postgres_batch_span(b, x->key), postgres_batch_span(b, y->key));
    return keys ? keys : (x->order > y->order) - (x->order < y->order);
}

static bool expects(const struct postgres_batch *b, const struct postgres_step *s, struct word text)
{
    for (size_t i = 0; i < s->expected_count; i++)
        if (same(b, b->expected[s->first_expected + i], text))
            return true;
    return false;
}

static void group_steps(struct postgres_batch *b)
{
    qsort_r(b->steps, b->step_count, sizeof *b->steps, by_key, b);
    b->groups = xrealloc(b->groups, b->step_count * sizeof *b->groups);
    b->group_count = 0;
    for (size_t i = 0; i < b->step_count; i++) {
        if (i == 0 || !same(b, b->steps[i].key, b->steps[i - 1].key))
            b->groups[b->group_count++] = (struct postgres_group){.first = i};
        b->groups[b->group_count - 1].count++;
    }
}

/* ---- Changes ---- */

/* What the group's steps come to if `text` is under the key. */
static struct postgres_change follow(struct postgres_batch *b, struct postgres_group *g,
                                     struct word text)
{
    struct postgres_change c = {.group = g, .expect = text};
    for (size_t i = g->first; i < g->first + g->count; i++) {
        const struct postgres_step *s = &b->steps[i];
        if (!expects(b, s, text))
            continue;
        c.needed = c.needed || !is_nothing(text) || !is_nothing(s->write);
        c.ttl = s->ttl;
        text = s->write;
    }
    c.write = text;
    c.needed = c.needed && !(is_nothing(c.expect) && is_nothing(c.write));
    return c;
}

static bool has_change(const struct postgres_batch *b, size_t first, struct word expect)
{
    for (size_t i = first; i < b->change_count; i++)
        if (same(b, b->changes[i].expect, expect))
            return true;
    return false;
}

static void add_changes(struct postgres_batch *b, struct postgres_group *g)
{
    size_t first = b->change_count;
    const struct postgres_step *last = &b->steps[g->first + g->count - 1];
    for (const struct postgres_step *s = &b->steps[g->first]; s <= last; s++) {
        for (size_t i = 0; i < s->expected_count; i++) {
            struct word expect = b->expected[s->first_expected + i];
            if (has_change(b, first, expect))
                continue;
            b->changes = grown(b->changes, b->change_count, &b->change_size, sizeof *b->changes);
            b->changes[b->change_count++] = follow(b, g, expect);
        }
    }
    /* A key whose steps expect nothing that could be there is looked at all the same. */
    if (b->change_count == first) {
        b->changes = grown(b->changes, b->change_count, &b->change_size, sizeof *b->changes);
        b->changes[b->change_count++] = (struct postgres_change){.group = g};
    }
}

static void collect_changes(struct postgres_batch *b)
{
    b->change_count = 0;
    for (size_t i = 0; i < b->group_count; i++)
        if (!b->groups[i].settled)
            add_changes(b, &b->groups[i]);
}

/* ---- The statement ---- */

static bool put_changes(struct postgres_batch *b, struct postgres_link *l, const char *session)
{
    postgres_bind_span(l, l->store->scope);
    postgres_bind_text(l, session);
    struct buffer *keys = postgres_bind_texts(l, b->change_count);
    struct buffer *expected = postgres_bind_texts(l, b->change_count);
    struct buffer *written = postgres_bind_texts(l, b->change_count);
    struct buffer *ttls = postgres_bind_numbers(l, b->change_count);
    for (size_t i = 0; i < b->change_count; i++) {
        const struct postgres_change *c = &b->changes[i];
        postgres_add_text(keys, postgres_batch_span(b, b->steps[c->group->first].key));
        postgres_add_text(expected, postgres_batch_span(b, c->expect));
        postgres_add_text(written, postgres_batch_span(b, c->write));
        postgres_add_number(ttls, c->ttl);
    }
    return postgres_put(l, PG_APPLY);
}

static struct postgres_group *find_group(struct postgres_batch *b, struct span key)
{
    size_t low = 0;
    size_t high = b->group_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct postgres_group *g = &b->groups[middle];
        int o = order(key, postgres_batch_span(b, b->steps[g->first].key));
        if (o == 0)
            return g;
        if (o < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* A row of the answer: see PG_APPLY. */
static bool take_row(struct postgres_batch *b, const PGresult *result, int row)
{
    int64_t number = postgres_number(result, row, 0);
    size_t i = (size_t)llabs(number);
    if (i > b->change_count)
        return false;
    struct postgres_group *g =
        i > 0 ? b->changes[i - 1].group : find_group(b, postgres_span(result, row, 1));
    if (!g)
        return false;
    if (number <= 0)
        g->changed = true;
    else if (!PQgetisnull(result, row, 1))
        g->found = add_word(b, postgres_span(result, row, 1));
    return true;
}

/* What fits what was found was changed, or nothing fits. Else somebody was faster. */
static bool settle(struct postgres_batch *b)
{
    bool all = true;
    for (size_t i = 0; i < b->change_count; i++)
        b->changes[i].group->settled = true;
    for (size_t i = 0; i < b->change_count; i++) {
        struct postgres_change *c = &b->changes[i];
        if (c->needed && !c->group->changed && same(b, c->expect, c->group->found)) {
            c->group->settled = false;
            c->group->found = (struct word){0};
            all = false;
        }
    }
    return all;
}

/* Steps that were found to be raced have had no effect at all. */
static bool take_answer(struct postgres_batch *b, struct postgres_link *l, const PGresult *result,
                        bool *done)
{
    int rows = PQntuples(result);
    b->fenced = rows == 0;
    for (int i = 0; i < rows; i++)
        if (!take_row(b, result, i))
            return postgres_odd(l, "a batch");
    *done = b->fenced || settle(b);
    return true;
}

/* From what was under the key, each of its steps' answers. */
static void answer(struct postgres_batch *b)
{
    for (struct postgres_group *g = b->groups; g < b->groups + b->group_count; g++) {
        struct word text = g->found;
        for (size_t i = g->first; i < g->first + g->count; i++) {
            struct postgres_step *s = &b->steps[i];
            s->applied = expects(b, s, text);
            s->met = s->applied ? (struct word){0} : text;
            if (s->applied)
                text = s->write;
        }
    }
}

bool postgres_batch_run(struct postgres_batch *b, struct postgres_link *l, const char *session,
                        size_t before)
{
    PGresult *results[PG_BATCH_MAX];
    bool done = false;
    bool first = true;
    assert(b->step_count > 0 && before + 2 <= PG_BATCH_MAX);
    group_steps(b);
    while (!done) {
        collect_changes(b);
        if (!put_changes(b, l, session))
            return false;
        /* Last, as it locks records in no order; it waits for nobody. */
        if (!postgres_put_sweep(l, b->change_count) || !postgres_exchange(l, results, before + 2))
            return false;
        bool good = take_answer(b, l, results[before], &done);
        postgres_take_sweep(l, results[before + 1]);
        for (size_t i = 0; i < before + 2; i++)
            PQclear(results[i]);
        if (!good)
            return false;
        /* What the first round changed stands, so "nothing was changed" would be wrong. */
        if (b->fenced && !first)
            return store_fail(l->store, "%s: the session ended in the middle of a batch",
                              l->store->description);
        first = false;
        if (!done && clock_now() >= l->deadline)
            return postgres_fail_late(l);
        before = 0;
    }
    if (!b->fenced)
        answer(b);
    return true;
}
