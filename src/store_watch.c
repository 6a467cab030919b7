#include "store_watch.h"

#include "log.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>

#define LOOK_EVERY_MS 60000

/* Whether `text`, of whole lines, has this one. */
static bool has_line(const char *text, const char *line)
{
    size_t len = strlen(line);
    for (const char *at = text; at && (at = strstr(at, line)); at++)
        if ((at == text || at[-1] == '\n') && at[len] == '\n')
            return true;
    return false;
}

/* Ends each line of `text` with a '\0' on the way. */
static void say_new(const struct store_watch *w, char *text)
{
    for (char *line = strsep(&text, "\n"); line; line = strsep(&text, "\n"))
        if (*line && !has_line(w->found, line))
            LOG_WARNING("uniqueness is endangered", "route", w->route, "store", w->name, "why",
                        line, NULL);
}

bool store_watch_look(struct store_watch *w, struct store *s, int64_t now)
{
    if (now < w->next)
        return true;
    w->next = now + LOOK_EVERY_MS;
    struct buffer lines = {0};
    bool looked = store_dangers(s, &lines);
    if (looked) {
        buffer_add_u8(&lines, '\0');
        char *found = xstrdup((const char *)lines.data);
        say_new(w, (char *)lines.data);
        free(w->found);
        w->found = found;
    }
    buffer_free(&lines);
    return looked;
}

bool store_watch_finds(const struct store_watch *w)
{
    return w->found && *w->found;
}

void store_watch_free(struct store_watch *w)
{
    free(w->found);
    w->found = NULL;
}
