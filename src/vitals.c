#include "vitals.h"

#include "visible.h"

#include <stdio.h>
#include <string.h>

#define STILL_MOST_MS 30000

const char *link_name_text(enum link_name name)
{
    static const char *const names[LINK_COUNT] = {
        [LINK_STORE] = "store",
        [LINK_SINK] = "sink",
        [LINK_REPLIES] = "replies",
        [LINK_SOURCE] = "source",
    };
    return names[name];
}

void vitals_init(struct vitals *v)
{
    memset(v, 0, sizeof *v);
    pthread_mutex_init(&v->lock, NULL);
}

void vitals_free(struct vitals *v)
{
    pthread_mutex_destroy(&v->lock);
}

void vitals_say(struct vitals *v, enum link_name name, const char *text)
{
    pthread_mutex_lock(&v->lock);
    snprintf(v->texts[name], sizeof v->texts[name], "%s", text);
    visible_make(v->texts[name]); /* it may have been cut within a character */
    pthread_mutex_unlock(&v->lock);
}

void vitals_text(struct vitals *v, enum link_name name, char out[VITALS_TEXT_MAX])
{
    pthread_mutex_lock(&v->lock);
    memcpy(out, v->texts[name], VITALS_TEXT_MAX);
    pthread_mutex_unlock(&v->lock);
}

int64_t vitals_still(const struct vitals *v, int64_t now)
{
    int64_t turned = atomic_load_explicit(&v->turned, memory_order_relaxed);
    return turned && now > turned ? now - turned : 0;
}

bool vitals_hangs(const struct vitals *v, int64_t now)
{
    return vitals_still(v, now) > STILL_MOST_MS;
}

bool vitals_reaches_all(const struct vitals *v)
{
    return vitals_is_up(v, LINK_STORE) && vitals_is_up(v, LINK_SINK) &&
           vitals_is_up(v, LINK_SOURCE);
}
