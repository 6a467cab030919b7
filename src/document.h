/*
 * document - a YAML file as a tree of nodes that know their lines.
 *
 * Read with libyaml's events, strictly: one document of mappings, lists and texts. What YAML can do
 * beyond that (anchors, aliases, tags) leaves a reason in the node's `refused`, so that whoever
 * walks the tree reports it with the field's path. Texts are as written: nothing is guessed to be a
 * number or a boolean here.
 */
#ifndef ONLYONCE_DOCUMENT_H
#define ONLYONCE_DOCUMENT_H

#include "memory.h"

#include <stdbool.h>
#include <stddef.h>

#define DOCUMENT_MAX_DEPTH 16

struct faults;

enum node_kind { NODE_TEXT, NODE_LIST, NODE_MAP };

struct node {
    enum node_kind kind;
    size_t line; /* counted from 1 */
    char *name;  /* of a mapping's member; NULL: it is no text */
    size_t name_line;
    const char *refused; /* why the node cannot be used, or NULL */
    char *text;          /* NODE_TEXT: with a final NUL, and maybe others before it */
    size_t len;
    bool plain; /* NODE_TEXT: without quotation marks */
    struct node *items;
    size_t count;
};

/* Reads `text` into *root. False: at least one fault was added. node_free() is due in either case.
 */
bool document_read(struct span text, struct node *root, struct faults *faults)
    __attribute__((warn_unused_result));
void node_free(struct node *node); /* what it holds, not the node itself */

/* The node at a path such as "routes[0].from.queue", or NULL. *line, unless line is NULL, is set to
 * the line of the node, or of the deepest one on the way to it. The empty path is the root. */
const struct node *node_find(const struct node *root, const char *path, size_t *line);

#endif
