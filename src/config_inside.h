/*
 * config_inside - what config_check.c, config_servers.c, config_queues.c and config_lead.c share: a
 * check under way, and how they name fields. No other file includes it.
 */
#ifndef ONLYONCE_CONFIG_INSIDE_H
#define ONLYONCE_CONFIG_INSIDE_H

#include "config.h"
#include "faults.h"

#include <stdio.h>
#include <string.h>

struct check {
    struct config *config;
    struct faults *faults;
};

struct path {
    char text[64];
};

static inline struct path path_to(const char *list, size_t index, const char *field)
{
    struct path p;
    snprintf(p.text, sizeof p.text, "%s[%zu]%s%s", list, index, *field ? "." : "", field);
    return p;
}

static inline struct path route_path(size_t index, const char *field)
{
    return path_to("routes", index, field);
}

/* Whether the file has the field, readable or not. */
static inline bool is_set(const struct check *c, struct path path)
{
    return node_find(c->faults->root, path.text, NULL) != NULL;
}

/* Takes the line, one of faults_line()'s. */
static inline void warn(struct check *c, char *line)
{
    struct strings *w = &c->config->warnings;
    w->items = xrealloc(w->items, (w->count + 1) * sizeof *w->items);
    w->items[w->count++] = line;
}

static inline bool same(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

/* config_servers.c: the servers, and the relay as one. */
void config_check_broker(struct check *c);
void config_check_admin(struct check *c);
void config_check_store(struct check *c, size_t index);

/* config_queues.c: the queues and exchanges of one route, and those of the reports. */
void config_check_queues(struct check *c, size_t index);
void config_check_completions(struct check *c);

/* config_lead.c: of all routes, once their queues are known. */
void config_check_leads(struct check *c);

#endif
