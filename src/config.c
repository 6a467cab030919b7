#include "config.h"

#include "config_check.h"
#include "expand.h"
#include "faults.h"
#include "file.h"
#include "options.h"

#include <assert.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_LIMIT ((size_t)1024 * 1024)

static_assert(sizeof((struct tls_config *)0)->digest == SHA256_DIGEST_LENGTH,
              "digests are SHA-256");

struct loading {
    struct config *config;
    struct faults faults;
};

/* ---- From nodes to values ---- */

/* One text of the file, expanded and read into its place. `path` is the field's, or a list item's.
 */
static void load_text(struct loading *l, const struct node *node, const char *path,
                      const struct option *o, void *section)
{
    char error[256];
    struct buffer text = {0};
    const char *bad = node->refused;
    if (!bad && node->kind != NODE_TEXT)
        bad = node->kind == NODE_LIST ? "must be one value, not a list"
                                      : "must be one value, not a group of fields";
    if (!bad && strlen(node->text) != node->len)
        bad = "has a NUL character (\\0), which is not allowed";
    if (!bad && node->plain &&
        (node->len == 0 || strcmp(node->text, "~") == 0 || strcasecmp(node->text, "null") == 0))
        bad = "has no value; write one, or leave the field out";
    if (!bad)
        bad = expand(node->text, &text, error);
    if (!bad) {
        buffer_add_u8(&text, 0);
        bad = option_read(o, (const char *)text.data, section, error);
    }
    if (bad)
        faults_add_at(&l->faults, node->line, path, "%s", bad);
    buffer_free(&text);
}

static void load_list(struct loading *l, const struct node *node, const char *path,
                      const struct option *o, void *section)
{
    assert(section);
    struct strings *list = (void *)((char *)section + o->offset);
    if (node->refused || node->kind != NODE_LIST || node->count == 0) {
        faults_add_at(&l->faults, node->line, path, "%s",
                      node->refused             ? node->refused
                      : node->kind == NODE_LIST ? "is an empty list; write at least one item"
                                                : "must be a list; write [ ] around its items");
        return;
    }
    for (size_t i = 0; i < node->count && !faults_full(&l->faults); i++) {
        char *item = xasprintf("%s[%zu]", path, i);
        load_text(l, &node->items[i], item, o, section);
        if (list->count == i) { /* faulty: its place stays, so that the others keep theirs */
            list->items = xrealloc(list->items, (i + 1) * sizeof *list->items);
            list->items[list->count++] = NULL;
        }
        free(item);
    }
}

static void load_fields(struct loading *l, const struct node *map, const char *path,
                        const char *pattern, void *section);

/* The struct that a section's fields go into; a list of sections becomes an array first. */
static void *section_at(struct config *config, const char *pattern, size_t index)
{
    if (strcmp(pattern, "broker") == 0)
        return &config->broker;
    if (strcmp(pattern, "admin") == 0)
        return &config->admin;
    if (strcmp(pattern, "log") == 0)
        return &config->log;
    if (strcmp(pattern, "completions") == 0)
        return &config->completions;
    return strcmp(pattern, "stores[]") == 0 ? (void *)&config->stores[index]
                                            : (void *)&config->routes[index];
}

static void load_sections(struct loading *l, const struct node *node, const char *path)
{
    bool stores = strcmp(path, "stores") == 0;
    const char *pattern = stores ? "stores[]" : "routes[]";
    if (node->refused || node->kind != NODE_LIST) {
        faults_add_at(&l->faults, node->line, path, "%s",
                      node->refused ? node->refused
                                    : "must be a list; begin each item with \"- name: ...\"");
        return;
    }
    struct config *config = l->config;
    if (stores && !config->stores) {
        config->stores = xcalloc(node->count, sizeof *config->stores);
        config->store_count = node->count;
    } else if (!stores && !config->routes) {
        config->routes = xcalloc(node->count, sizeof *config->routes);
        config->route_count = node->count;
    }
    for (size_t i = 0; i < node->count && !faults_full(&l->faults); i++) {
        char *item = xasprintf("%s[%zu]", path, i);
        load_fields(l, &node->items[i], item, pattern, section_at(config, pattern, i));
        free(item);
    }
}

/* Names that look like a field's are shown in errors; anything else might be a password gone
 * astray. */
static bool looks_like_field(const char *name)
{
    size_t len = strlen(name);
    return len > 0 && len <= 40 &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == len;
}

static void unknown_field(struct loading *l, const struct node *field, const char *path,
                          const char *group)
{
    struct buffer names = {0};
    options_list_names(group, &names);
    bool shown = field->name && looks_like_field(field->name);
    faults_add_at(&l->faults, field->name_line, shown ? path : NULL,
                  "%sunknown field; known here: %.*s", shown ? "" : "has an ", (int)names.len,
                  (const char *)names.data);
    buffer_free(&names);
}

static void load_field(struct loading *l, const struct node *field, const char *path,
                       const char *pattern, const char *group, void *section)
{
    const struct option *o = options_find(pattern);
    if (o && o->flags & OPTION_LIST)
        load_list(l, field, path, o, section);
    else if (o)
        load_text(l, field, path, o, section);
    else if (options_have_group(pattern, "[]."))
        load_sections(l, field, path);
    else if (options_have_group(pattern, "."))
        load_fields(l, field, path, pattern, section ? section : section_at(l->config, pattern, 0));
    else
        unknown_field(l, field, path, group);
}

static const struct node *earlier_twin(const struct node *map, size_t index)
{
    for (size_t i = 0; i < index && map->items[index].name; i++)
        if (map->items[i].name && strcmp(map->items[i].name, map->items[index].name) == 0)
            return &map->items[i];
    return NULL;
}

/* `path` says where we are in the file ("routes[0].from"), `pattern` where in the table
 * ("routes[].from"). */
static void load_fields(struct loading *l, const struct node *map, const char *path,
                        const char *pattern, void *section)
{
    if (map->refused || map->kind != NODE_MAP) {
        struct buffer names = {0};
        options_list_names(pattern, &names);
        faults_add_at(&l->faults, map->line, path, "%s%.*s",
                      map->refused ? map->refused : "must be a group of fields: ",
                      map->refused ? 0 : (int)names.len, (const char *)names.data);
        buffer_free(&names);
        return;
    }
    const char *dot = *path ? "." : "";
    for (size_t i = 0; i < map->count && !faults_full(&l->faults); i++) {
        const struct node *field = &map->items[i];
        const char *name = field->name ? field->name : "";
        char *below = xasprintf("%s%s%s", path, dot, name);
        char *row = xasprintf("%s%s%s", pattern, dot, name);
        const struct node *twin = earlier_twin(map, i);
        if (strpbrk(name, ".[") || !*name)
            unknown_field(l, field, below, pattern);
        else if (twin && looks_like_field(name))
            faults_add_at(&l->faults, field->name_line, below,
                          "is set twice, here and in line %zu; leave one out", twin->name_line);
        else
            load_field(l, field, below, row, pattern, section);
        free(below);
        free(row);
    }
}

/* ---- What the file does not say ---- */

/* Defaults go the way of the user's own texts. A field that is there, but faulty, gets none. */
static void complete_section(struct loading *l, const char *pattern, const char *path,
                             void *section)
{
    size_t len = strlen(pattern);
    for (const struct option *o = options; o < options + options_count; o++) {
        if (strncmp(o->path, pattern, len) != 0)
            continue;
        char *field = xasprintf("%s%s", path, o->path + len);
        if (node_find(l->faults.root, field, NULL)) {
            free(field);
            continue;
        }
        char error[256];
        if (o->flags & OPTION_REQUIRED) {
            const char *name = strrchr(field, '.') + 1;
            const char *quote = o->flags & OPTION_LIST ? "\"" : "";
            faults_add(&l->faults, field, "is missing; write, for example, %s: %s%s%s%s%s", name,
                       *quote ? "[" : "", quote, o->model, quote, *quote ? "]" : "");
        } else if (!(o->flags & OPTION_DERIVED)) {
            const char *bad = option_read(o, o->model, section, error);
            assert(!bad);
        }
        free(field);
    }
}

static void require_items(struct loading *l, const char *path, size_t count)
{
    const struct node *node = node_find(l->faults.root, path, NULL);
    if (!node || (node->kind == NODE_LIST && count == 0))
        faults_add(&l->faults, path, "%s; write at least one item",
                   node ? "is an empty list" : "is missing");
}

static void complete_sections(struct loading *l)
{
    struct config *config = l->config;
    complete_section(l, "broker.", "broker.", &config->broker);
    complete_section(l, "admin.", "admin.", &config->admin);
    complete_section(l, "log.", "log.", &config->log);
    complete_section(l, "completions.", "completions.", &config->completions);
    for (size_t i = 0; i < config->store_count; i++) {
        char *path = xasprintf("stores[%zu].", i);
        complete_section(l, "stores[].", path, &config->stores[i]);
        free(path);
    }
    for (size_t i = 0; i < config->route_count; i++) {
        char *path = xasprintf("routes[%zu].", i);
        complete_section(l, "routes[].", path, &config->routes[i]);
        free(path);
    }
    require_items(l, "stores", config->store_count);
    require_items(l, "routes", config->route_count);
}

/* Files that cannot be read were faults already. */
static void digest_files(struct tls_config *t)
{
    const char *const files[] = {t->ca, t->cert, t->key};
    struct buffer all = {0};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char error[256];
        if (files[i])
            (void)file_read(files[i], FILE_LIMIT, &all, error);
    }
    SHA256(all.data, all.len, t->digest);
    buffer_free(&all);
}

/* ---- The whole ---- */

static void load_document(struct loading *l, struct span text)
{
    struct node root = {0};
    if (document_read(text, &root, &l->faults)) {
        l->faults.root = &root;
        load_fields(l, &root, "", "", NULL);
        complete_sections(l);
        config_check(l->config, &l->faults);
        digest_files(&l->config->broker.tls);
        for (size_t i = 0; i < l->config->store_count; i++)
            digest_files(&l->config->stores[i].tls);
        l->faults.root = NULL;
    }
    node_free(&root);
}

struct config *config_load(const char *file, struct buffer *errors)
{
    struct loading l = {.config = xcalloc(1, sizeof *l.config),
                        .faults = {.file = file, .lines = errors}};
    l.config->file = xstrdup(file);
    char error[256];
    struct buffer text = {0};
    const char *bad = file_read(file, FILE_LIMIT, &text, error);
    const char *hint = strcmp(file, CONFIG_DEFAULT_FILE) == 0 ? "; name another file with -c"
                       : strcmp(file, "-") == 0               ? "; standard input is /dev/stdin"
                                                              : "";
    if (bad)
        faults_add_at(&l.faults, 0, NULL, "%s%s", bad, hint);
    else
        load_document(&l, buffer_span(&text));
    buffer_free(&text);
    if (l.faults.count == 0)
        return l.config;
    config_free(l.config);
    return NULL;
}

static void free_section(const char *pattern, void *section)
{
    for (const struct option *o = options; o < options + options_count; o++)
        if (strncmp(o->path, pattern, strlen(pattern)) == 0)
            option_free(o, section);
}

struct config *config_hold(struct config *config)
{
    config->holders++;
    return config;
}

void config_free(struct config *config)
{
    if (!config)
        return;
    if (config->holders > 0) {
        config->holders--;
        return;
    }
    for (size_t i = 0; config->broker.parsed && i < config->broker.urls.count; i++)
        url_free_broker(&config->broker.parsed[i]);
    free(config->broker.parsed);
    free_section("broker.", &config->broker);
    free(config->admin.at.host);
    free_section("admin.", &config->admin);
    free_section("log.", &config->log);
    free_section("completions.", &config->completions);
    for (size_t i = 0; i < config->store_count; i++) {
        url_free_store(&config->stores[i].parsed);
        free_section("stores[].", &config->stores[i]);
    }
    for (size_t i = 0; i < config->route_count; i++) {
        key_rule_free(config->routes[i].key_rule);
        free_section("routes[].", &config->routes[i]);
    }
    for (size_t i = 0; i < config->warnings.count; i++)
        free(config->warnings.items[i]);
    free(config->warnings.items);
    free(config->stores);
    free(config->routes);
    free(config->file);
    free(config);
}

const struct route_config *config_route(const struct config *config, const char *name)
{
    for (size_t i = 0; i < config->route_count; i++)
        if (strcmp(config->routes[i].name, name) == 0)
            return &config->routes[i];
    return NULL;
}

/* Which of the names is this one, or NULL. */
static const char *find_name(struct span name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (names[i] && span_is(name, names[i]))
            return names[i];
    return NULL;
}

const char *config_queue(const struct config *config, struct span name)
{
    const char *const reports[] = {config->completions.queue, config->completions.park};
    const char *found = find_name(name, reports, 2);
    for (size_t i = 0; i < config->route_count && !found; i++) {
        const struct route_config *r = &config->routes[i];
        const char *const queues[] = {r->from.queue, r->to.queue, r->park.queue};
        found = find_name(name, queues, 3);
    }
    return found;
}

/* ---- What differs ---- */

static bool same_files(const struct tls_config *a, const struct tls_config *b)
{
    return memcmp(a->digest, b->digest, sizeof a->digest) == 0;
}

static bool same_broker(const struct config *a, const struct config *b)
{
    return options_same("broker.", &a->broker, &b->broker) &&
           same_files(&a->broker.tls, &b->broker.tls);
}

static bool same_store(const struct store_config *a, const struct store_config *b)
{
    return options_same("stores[].", a, b) && same_files(&a->tls, &b->tls);
}

static bool same_route(const struct route_config *a, const struct route_config *b)
{
    return options_same("routes[].", a, b) && a->to.type_is_written == b->to.type_is_written &&
           same_store(a->store_config, b->store_config);
}

/* All routes, in any order, and who reports. */
static bool same_routes(const struct config *a, const struct config *b)
{
    bool same = a->route_count == b->route_count &&
                options_same("completions.", &a->completions, &b->completions);
    for (size_t i = 0; same && i < a->route_count; i++) {
        const struct route_config *r = config_route(b, a->routes[i].name);
        same = r && same_route(&a->routes[i], r);
    }
    return same;
}

/* A route that replies minds the names of all queues: it never answers into one of them. */
bool config_same_route(const struct config *a, const struct route_config *route_a,
                       const struct config *b, const struct route_config *route_b)
{
    return same_broker(a, b) && same_route(route_a, route_b) &&
           (!route_a->reply || same_routes(a, b));
}

bool config_same_reports(const struct config *a, const struct config *b)
{
    return same_broker(a, b) && same_routes(a, b);
}

bool config_same_key(const struct route_config *a, const struct route_config *b)
{
    bool same = a->key.count == b->key.count;
    for (size_t i = 0; same && i < a->key.count; i++)
        same = strcmp(a->key.items[i], b->key.items[i]) == 0;
    return same;
}

bool config_same(const struct config *a, const struct config *b)
{
    return same_broker(a, b) && same_routes(a, b) && options_same("admin.", &a->admin, &b->admin) &&
           options_same("log.", &a->log, &b->log);
}
