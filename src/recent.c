#include "recent.h"

#include <string.h>

void recent_init(struct recent *r)
{
    memset(r, 0, sizeof *r);
    pthread_mutex_init(&r->lock, NULL);
}

void recent_free(struct recent *r)
{
    pthread_mutex_destroy(&r->lock);
}

void recent_add(struct recent *r, const struct recent_message *m)
{
    pthread_mutex_lock(&r->lock);
    r->ring[r->added++ % RECENT_MAX] = *m;
    pthread_mutex_unlock(&r->lock);
}

size_t recent_copy(struct recent *r, struct recent_message out[RECENT_MAX])
{
    pthread_mutex_lock(&r->lock);
    size_t count = r->added < RECENT_MAX ? (size_t)r->added : RECENT_MAX;
    for (size_t i = 0; i < count; i++)
        out[i] = r->ring[(r->added - count + i) % RECENT_MAX];
    pthread_mutex_unlock(&r->lock);
    return count;
}
