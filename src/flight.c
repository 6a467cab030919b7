#include "flight.h"

#include "message.h"

#include <assert.h>
#include <stdlib.h>

/* FNV-1a. Who chooses keys can only slow down his own queue with collisions: chains are bounded by
 * the prefetch. */
static size_t slot(const struct flight *f, struct span key)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < key.len; i++)
        hash = (hash ^ key.data[i]) * UINT64_C(1099511628211);
    return (size_t)(hash ^ (hash >> 32)) & f->mask;
}

void flight_init(struct flight *f, size_t messages)
{
    size_t size = 16;
    while (size < messages)
        size *= 2;
    f->buckets = xcalloc(size, sizeof(struct message *));
    f->mask = size - 1;
}

void flight_free(struct flight *f)
{
    free(f->buckets);
    *f = (struct flight){0};
}

struct message *flight_find(const struct flight *f, struct span key)
{
    struct message *m = f->buckets[slot(f, key)];
    while (m && !span_equal(message_key(m), key))
        m = m->next_in_bucket;
    return m;
}

void flight_add(struct flight *f, struct message *m)
{
    assert(m->key_len > 0 && !flight_find(f, message_key(m)));
    struct message **bucket = &f->buckets[slot(f, message_key(m))];
    m->next_in_bucket = *bucket;
    *bucket = m;
}

void flight_remove(struct flight *f, struct message *m)
{
    struct message **at = &f->buckets[slot(f, message_key(m))];
    while (*at != m) {
        assert(*at);
        at = &(*at)->next_in_bucket;
    }
    *at = m->next_in_bucket;
    m->next_in_bucket = NULL;
}
