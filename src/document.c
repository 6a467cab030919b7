#include "document.h"

#include "faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct reader {
    yaml_parser_t yaml;
    struct span text;
    struct faults *faults;
};

/* ---- Errors of the syntax ---- */

static size_t line_at(struct span text, size_t offset)
{
    size_t line = 1;
    for (size_t i = 0; i < offset && i < text.len; i++)
        line += text.data[i] == '\n';
    return line;
}

static struct span line_text(struct span text, size_t line)
{
    const uint8_t *end = text.data + text.len;
    const uint8_t *from = text.data;
    while (line > 1) {
        const uint8_t *next = memchr(from, '\n', (size_t)(end - from));
        if (!next)
            return (struct span){end, 0};
        from = next + 1;
        line--;
    }
    const uint8_t *to = memchr(from, '\n', (size_t)(end - from));
    return (struct span){from, (size_t)((to ? to : end) - from)};
}

/* What is usually behind the library's words for it. */
static const char *hint_for(const char *problem, struct span line)
{
    if (strstr(problem, "expected ','") && memmem(line.data, line.len, "${", 2))
        return " (between [ ] and { } a text with ${...} needs quotation marks)";
    if (strstr(problem, "cannot start any token"))
        return memchr(line.data, '\t', line.len)
                   ? " (indent with spaces, not tabs)"
                   : " (a text that begins with this character needs quotation marks)";
    if (strstr(problem, "expected '-' indicator") || strstr(problem, "expected key"))
        return " (a line has to be indented as its neighbours are)";
    if (strstr(problem, "mapping values are not allowed"))
        return " (a text that contains \": \" needs quotation marks; or the indentation is off)";
    return "";
}

static void syntax_error(struct reader *r)
{
    const yaml_parser_t *y = &r->yaml;
    const char *problem = y->problem ? y->problem : "it cannot be understood";
    if (y->error == YAML_READER_ERROR) {
        faults_add_at(r->faults, line_at(r->text, y->problem_offset), NULL, "is not valid YAML: %s",
                      problem);
        return;
    }
    size_t line = y->problem_mark.line + 1;
    faults_add_at(r->faults, line, NULL, "is not valid YAML: %s%s%s%s", problem,
                  y->context ? " " : "", y->context ? y->context : "",
                  hint_for(problem, line_text(r->text, line)));
}

/* ---- Events to nodes ---- */

static bool next_event(struct reader *r, yaml_event_t *event)
{
    if (yaml_parser_parse(&r->yaml, event))
        return true;
    syntax_error(r);
    return false;
}

static const char *why_refused(const yaml_char_t *anchor, const yaml_char_t *tag)
{
    if (anchor)
        return "has an anchor (&), which is not supported; write the value where it is needed";
    return tag ? "has a tag (!), which is not supported; leave it out" : NULL;
}

static void append(struct node *parent, const struct node *child)
{
    if ((parent->count & (parent->count - 1)) == 0) /* full at every power of two */
        parent->items = xrealloc(parent->items,
                                 (parent->count ? parent->count * 2 : 1) * sizeof *parent->items);
    parent->items[parent->count++] = *child;
}

static char *text_of(const yaml_event_t *event)
{
    size_t len = event->data.scalar.length;
    char *text = xmalloc(len + 1);
    memcpy(text, event->data.scalar.value, len);
    text[len] = '\0';
    return text;
}

static bool read_items(struct reader *r, struct node *parent, int depth);

/* Reads the node that begins with *event, which is used up. */
static bool read_node(struct reader *r, yaml_event_t *event, struct node *node, int depth)
{
    bool is_parent = false;
    node->line = event->start_mark.line + 1;
    if (event->type == YAML_SCALAR_EVENT) {
        node->kind = NODE_TEXT;
        node->text = text_of(event);
        node->len = event->data.scalar.length;
        node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        node->refused = why_refused(event->data.scalar.anchor, event->data.scalar.tag);
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        is_parent = true;
        node->kind = NODE_LIST;
        node->refused =
            why_refused(event->data.sequence_start.anchor, event->data.sequence_start.tag);
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        is_parent = true;
        node->kind = NODE_MAP;
        node->refused =
            why_refused(event->data.mapping_start.anchor, event->data.mapping_start.tag);
    } else { /* YAML_ALIAS_EVENT: nothing else begins a node */
        node->kind = NODE_TEXT;
        node->refused = "is an alias (*), which is not supported; write the value itself";
    }
    yaml_event_delete(event);
    return !is_parent || read_items(r, node, depth + 1);
}

/* A mapping's member: its name, which *event is or begins, and its value. */
static bool read_member(struct reader *r, yaml_event_t *event, struct node *member, int depth)
{
    struct node name = {0};
    bool ok = read_node(r, event, &name, depth);
    member->name_line = name.line;
    const char *refused = name.refused;
    if (ok && name.kind == NODE_TEXT && name.text && strlen(name.text) == name.len)
        member->name = xstrdup(name.text);
    node_free(&name);
    yaml_event_t value;
    if (!ok || !next_event(r, &value) || !read_node(r, &value, member, depth))
        return false;
    if (refused)
        member->refused = refused;
    return true;
}

static bool read_items(struct reader *r, struct node *parent, int depth)
{
    if (depth > DOCUMENT_MAX_DEPTH) {
        faults_add_at(r->faults, parent->line, NULL, "is nested more than %d levels deep",
                      DOCUMENT_MAX_DEPTH);
        return false;
    }
    for (;;) {
        yaml_event_t event;
        if (!next_event(r, &event))
            return false;
        if (event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT) {
            yaml_event_delete(&event);
            return true;
        }
        struct node item = {0};
        bool ok = parent->kind == NODE_MAP ? read_member(r, &event, &item, depth)
                                           : read_node(r, &event, &item, depth);
        append(parent, &item);
        if (!ok)
            return false;
    }
}

/* The stream: one document, or a fault. */
static bool read_document(struct reader *r, struct node *root)
{
    bool seen = false;
    for (;;) {
        yaml_event_t event;
        if (!next_event(r, &event))
            return false;
        yaml_event_type_t type = event.type;
        size_t line = event.start_mark.line + 1;
        if (type == YAML_DOCUMENT_START_EVENT && seen) {
            yaml_event_delete(&event);
            faults_add_at(r->faults, line, NULL,
                          "a second document begins here; a configuration is one document");
            return false;
        }
        if (type == YAML_STREAM_START_EVENT || type == YAML_DOCUMENT_START_EVENT ||
            type == YAML_DOCUMENT_END_EVENT || type == YAML_STREAM_END_EVENT) {
            yaml_event_delete(&event);
            if (type == YAML_STREAM_END_EVENT)
                break;
            continue;
        }
        seen = true;
        if (!read_node(r, &event, root, 0))
            return false;
    }
    if (!seen)
        faults_add_at(r->faults, 1, NULL, "is empty; it needs at least broker, stores and routes");
    return seen;
}

bool document_read(struct span text, struct node *root, struct faults *faults)
{
    *root = (struct node){0};
    const uint8_t *nul = text.len ? memchr(text.data, '\0', text.len) : NULL;
    if (nul) {
        faults_add_at(faults, line_at(text, (size_t)(nul - text.data)), NULL,
                      "contains a NUL byte; a configuration is UTF-8 text");
        return false;
    }
    struct reader r = {.text = text, .faults = faults};
    if (!yaml_parser_initialize(&r.yaml)) {
        faults_add_at(faults, 0, NULL, "cannot be read: out of memory");
        return false;
    }
    yaml_parser_set_input_string(&r.yaml, text.len ? text.data : (const uint8_t *)"", text.len);
    bool ok = read_document(&r, root);
    yaml_parser_delete(&r.yaml);
    return ok;
}

void node_free(struct node *node)
{
    for (size_t i = 0; i < node->count; i++)
        node_free(&node->items[i]);
    free(node->items);
    free(node->name);
    free(node->text);
    *node = (struct node){0};
}

/* ---- Looking up ---- */

static const struct node *member_of(const struct node *map, const char *name, size_t len)
{
    for (size_t i = 0; map->kind == NODE_MAP && i < map->count; i++) {
        const struct node *m = &map->items[i];
        if (m->name && strlen(m->name) == len && memcmp(m->name, name, len) == 0)
            return m;
    }
    return NULL;
}

const struct node *node_find(const struct node *root, const char *path, size_t *line)
{
    const struct node *at = root;
    while (at) {
        if (line)
            *line = at->line;
        path += *path == '.';
        if (!*path)
            return at;
        if (*path == '[') {
            char *end;
            size_t index = strtoul(path + 1, &end, 10);
            at = at->kind == NODE_LIST && index < at->count ? &at->items[index] : NULL;
            path = end + (*end == ']');
        } else {
            size_t len = strcspn(path, ".[");
            at = member_of(at, path, len);
            path += len;
        }
    }
    return NULL;
}
