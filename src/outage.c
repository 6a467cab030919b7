#include "outage.h"

#include "clock.h"
#include "log.h"

#include <stdio.h>

#define BACKOFF_FIRST_MS 100
#define BACKOFF_MOST_MS 30000
#define STABLE_MS 10000 /* a connection that held this long begins its backoff anew */

static uint64_t next_random(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

/* Between half of the doubled delay and all of it, so that many relays do not come at once. */
static int64_t next_delay(struct outage *o, uint64_t *random)
{
    int64_t delay = BACKOFF_FIRST_MS;
    for (uint32_t i = 0; i < o->tries && delay < BACKOFF_MOST_MS; i++)
        delay *= 2;
    if (delay > BACKOFF_MOST_MS)
        delay = BACKOFF_MOST_MS;
    o->tries++;
    return delay / 2 + (int64_t)(next_random(random) % (uint64_t)(delay / 2 + 1));
}

bool outage_ends(struct outage *o, const char *to)
{
    bool again = o->ever_up;
    int64_t now = clock_now();
    char after[32];
    snprintf(after, sizeof after, "%.1fs", o->since ? (double)(now - o->since) / 1000 : 0.0);
    LOG_INFO("connected", "route", o->route, "link", o->link, "to", to, "after",
             o->since ? after : NULL, NULL);
    o->ever_up = true;
    o->since = 0;
    o->up_since = now;
    return again;
}

/* FNV-1a. */
static uint64_t hash_of(const char *text)
{
    uint64_t hash = 14695981039346656037U;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211U;
    return hash;
}

/* A broker that was restarted may come back with another password: that is worth a line, too. */
static void say_why(struct outage *o, const char *why)
{
    if (o->since && o->said == hash_of(why))
        return;
    LOG_WARNING(o->since     ? "still not connected"
                : o->ever_up ? "connection lost, reconnecting"
                             : "cannot connect yet, trying on",
                "route", o->route, "link", o->link, "why", why, NULL);
    o->said = hash_of(why);
}

bool outage_begins(struct outage *o, uint64_t *random, const char *why, bool permanent)
{
    bool hopeless = permanent && !o->ever_up && !o->patient;
    int64_t now = clock_now();
    if (hopeless)
        LOG_ERROR("cannot start", "route", o->route, "link", o->link, "why", why, NULL);
    else
        say_why(o, why);
    if (o->up_since && now - o->up_since >= STABLE_MS)
        o->tries = 0;
    if (!o->since)
        o->since = now;
    o->up_since = 0;
    o->next_try = now + next_delay(o, random);
    return hopeless;
}

void outage_put_off(struct outage *o, uint64_t *random)
{
    o->next_try = clock_now() + next_delay(o, random);
}

bool outage_is_due(const struct outage *o, int64_t now)
{
    return now >= o->next_try;
}
