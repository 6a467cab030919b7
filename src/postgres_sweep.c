/*
 * Removing what has expired. Each batch looks through some pages of the tables, so that all of them
 * come round; how many they are depends on how much it writes alone.
 *
 * DANGER: an index on the time would find what has expired at once, but also all that was removed
 * and not yet vacuumed, which is much while somebody's long transaction, or a backup, keeps it. A
 * sweep that takes longer and longer would end in an outage.
 */
#include "postgres_link.h"

#include "clock.h"

/* A page has some 25 keys, each of which is written twice or more. So a round over all pages is
 * over when a third as many have been added, at most. */
#define WRITES_FOR_A_PAGE 16

static void put_pages(struct postgres_link *l, struct postgres_sweep *s, int64_t count)
{
    int64_t first = s->pages > 0 ? s->next % s->pages : 0;
    s->next = first + count;
    postgres_bind_page(l, first);
    postgres_bind_page(l, s->next);
}

bool postgres_put_sweep(struct postgres_link *l, size_t written)
{
    int64_t count = 1 + (int64_t)written / WRITES_FOR_A_PAGE;
    put_pages(l, &l->records, count);
    put_pages(l, &l->results, count);
    return postgres_put(l, PG_SWEEP);
}

/* From the start again once the end was reached. */
static void take_pages(struct postgres_sweep *s, int64_t pages)
{
    if (s->pages == 0)
        s->next = clock_now(); /* every worker begins somewhere else */
    else if (s->next >= pages)
        s->next = 0;
    s->pages = pages;
}

void postgres_take_sweep(struct postgres_link *l, const PGresult *result)
{
    take_pages(&l->records, postgres_number(result, 0, 0));
    take_pages(&l->results, postgres_number(result, 0, 1));
}
