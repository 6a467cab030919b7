#include "history.h"

#include <string.h>

void history_init(struct history *h)
{
    memset(h, 0, sizeof *h);
    pthread_mutex_init(&h->lock, NULL);
}

void history_free(struct history *h)
{
    pthread_mutex_destroy(&h->lock);
}

void history_add(struct history *h, const struct history_sample *sample)
{
    pthread_mutex_lock(&h->lock);
    h->ring[h->added++ % HISTORY_MAX] = *sample;
    pthread_mutex_unlock(&h->lock);
}

size_t history_copy(struct history *h, struct history_sample out[HISTORY_MAX])
{
    pthread_mutex_lock(&h->lock);
    size_t count = h->added < HISTORY_MAX ? (size_t)h->added : HISTORY_MAX;
    for (size_t i = 0; i < count; i++)
        out[i] = h->ring[(h->added - count + i) % HISTORY_MAX];
    pthread_mutex_unlock(&h->lock);
    return count;
}
