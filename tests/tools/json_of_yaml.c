/*
 * json_of_yaml - YAML from stdin as JSON to stdout, for jq. Plain true, false, null and numbers are
 * themselves; everything else is text. Aliases are written out.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

static void print_text(const yaml_node_t *node)
{
    const unsigned char *text = node->data.scalar.value;
    putchar('"');
    for (size_t i = 0; i < node->data.scalar.length; i++) {
        if (text[i] < 0x20)
            printf("\\u%04x", text[i]);
        else
            printf(text[i] == '"' || text[i] == '\\' ? "\\%c" : "%c", text[i]);
    }
    putchar('"');
}

/* Is it a number as JSON has them? No test needs exponents. */
static bool is_number(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    const char *rest = text + digits;
    if (digits == 0 || (digits > 1 && *text == '0'))
        return false;
    return !*rest ||
           (*rest == '.' && rest[1] && strspn(rest + 1, "0123456789") == strlen(rest + 1));
}

static void print_scalar(const yaml_node_t *node, bool name)
{
    const char *text = (const char *)node->data.scalar.value;
    bool plain = !name && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (plain && (!*text || strcmp(text, "~") == 0))
        printf("null");
    else if (plain && (is_number(text) || strcmp(text, "true") == 0 || strcmp(text, "false") == 0 ||
                       strcmp(text, "null") == 0))
        printf("%s", text);
    else
        print_text(node);
}

static void print_node(yaml_document_t *d, int index, bool name)
{
    const yaml_node_t *node = yaml_document_get_node(d, index);
    if (node->type == YAML_SCALAR_NODE) {
        print_scalar(node, name);
    } else if (node->type == YAML_SEQUENCE_NODE) {
        putchar('[');
        for (int *i = node->data.sequence.items.start; i < node->data.sequence.items.top; i++) {
            printf(i > node->data.sequence.items.start ? "," : "");
            print_node(d, *i, false);
        }
        putchar(']');
    } else {
        const yaml_node_pair_t *first = node->data.mapping.pairs.start;
        putchar('{');
        for (const yaml_node_pair_t *p = first; p < node->data.mapping.pairs.top; p++) {
            printf(p > first ? "," : "");
            print_node(d, p->key, true);
            putchar(':');
            print_node(d, p->value, false);
        }
        putchar('}');
    }
}

int main(void)
{
    yaml_parser_t parser;
    yaml_document_t document;
    yaml_parser_initialize(&parser);
    yaml_parser_set_input_file(&parser, stdin);
    if (!yaml_parser_load(&parser, &document) || !yaml_document_get_root_node(&document)) {
        fprintf(stderr, "line %zu: %s\n", parser.problem_mark.line + 1,
                parser.problem ? parser.problem : "there is nothing");
        return 1;
    }
    print_node(&document, 1, false);
    putchar('\n');
    yaml_document_delete(&document);
    yaml_parser_delete(&parser);
    return 0;
}
