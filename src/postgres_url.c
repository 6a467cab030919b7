#include "postgres_url.h"

#include "memory.h"

#include <string.h>

const char *postgres_url_option(const PQconninfoOption *options, const char *name)
{
    for (const PQconninfoOption *o = options; o->keyword; o++)
        if (strcmp(o->keyword, name) == 0)
            return o->val && *o->val ? o->val : NULL;
    return NULL;
}

size_t postgres_url_count(const char *list)
{
    size_t count = list ? 1 : 0;
    for (const char *p = list; p && (p = strchr(p, ',')); p++)
        count++;
    return count;
}

char *postgres_url_item(const char *list, size_t index)
{
    const char *at = list ? list : "";
    for (size_t i = 0; i < index && postgres_url_count(list) > 1; i++)
        at = strchr(at, ',') + 1;
    return xasprintf("%.*s", (int)strcspn(at, ","), at);
}
