#include "option_texts.h"

#include "options.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- What all of them say ---- */

/* The default, or an example, as one writes it. */
static void add_model(const struct option *o, struct buffer *out)
{
    bool list = o->flags & OPTION_LIST;
    buffer_printf(out, list ? "[\"%s\"]" : "%s", o->model);
}

static void add_words(const struct option *o, const char *mark, const char *between,
                      struct buffer *out)
{
    for (size_t i = 0; o->words[i]; i++)
        if (*o->words[i])
            buffer_printf(out, "%s%s%s%s", i == 0 || !*o->words[i - 1] ? "" : between, mark,
                          o->words[i], mark);
}

static void add_type(const struct option *o, const char *mark, const char *between,
                     struct buffer *out)
{
    if (o->flags & OPTION_LIST)
        buffer_printf(out, "list of texts");
    else if (o->type == OPTION_BOOLEAN)
        buffer_printf(out, "%strue%s or %sfalse%s", mark, mark, mark, mark);
    else if (o->type == OPTION_WORD)
        add_words(o, mark, between, out);
    else if (o->min)
        buffer_printf(out, "%s to %s", o->min, o->max);
    else
        buffer_printf(out, o->type == OPTION_NAME ? "name" : "text");
}

/* ---- The manual page ---- */

/* Text as troff wants it: a minus is no hyphen. */
static void add_man_text(struct buffer *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        if (*p == '-' || *p == '\\')
            buffer_add_u8(out, '\\');
        buffer_add_u8(out, *p == '\\' ? 'e' : (uint8_t)*p);
    }
}

static void print_man(struct buffer *out)
{
    for (const struct option *o = options; o < options + options_count; o++) {
        struct buffer model = {0};
        add_model(o, &model);
        buffer_add_u8(&model, 0);
        buffer_printf(out, ".TP\n.B ");
        add_man_text(out, o->path);
        buffer_printf(out, "\n(");
        add_type(o, "", " | ", out);
        buffer_printf(out, o->flags & OPTION_REQUIRED ? "; required, for example " : "; default: ");
        add_man_text(out, (const char *)model.data);
        buffer_printf(out, ")\n.br\n");
        add_man_text(out, o->help);
        buffer_add_u8(out, '\n');
        buffer_free(&model);
    }
}

/* ---- Markdown ---- */

static void add_markdown_text(struct buffer *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        if (strchr("<|*[", *p))
            buffer_add_u8(out, '\\');
        buffer_add_u8(out, (uint8_t)*p);
    }
}

static void add_markdown_row(const struct option *o, const char *name, struct buffer *out)
{
    buffer_printf(out, "| `%s` | ", name);
    add_type(o, "`", ", ", out);
    buffer_printf(out, o->flags & OPTION_REQUIRED ? " | required: " : " | ");
    if (o->flags & OPTION_DERIVED) {
        add_markdown_text(out, o->model);
    } else {
        buffer_add_u8(out, '`');
        add_model(o, out);
        buffer_add_u8(out, '`');
    }
    buffer_printf(out, " | ");
    add_markdown_text(out, o->help);
    buffer_printf(out, " |\n");
}

/* A table for each section. */
static void print_markdown(struct buffer *out)
{
    const char *section = "";
    size_t section_len = 0;
    for (const struct option *o = options; o < options + options_count; o++) {
        size_t len = strcspn(o->path, ".");
        if (len != section_len || strncmp(section, o->path, len) != 0) {
            section = o->path;
            section_len = len;
            buffer_printf(out,
                          "\n### %.*s\n\n| field | value | default | meaning |\n"
                          "| --- | --- | --- | --- |\n",
                          (int)len, section);
        }
        add_markdown_row(o, o->path + len + 1, out);
    }
    buffer_add_u8(out, '\n');
}

/* ---- JSON Schema ---- */

static cJSON *get(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static void fill_object(cJSON *object)
{
    cJSON_AddStringToObject(object, "type", "object");
    cJSON_AddBoolToObject(object, "additionalProperties", false);
    cJSON_AddObjectToObject(object, "properties");
}

static void require(cJSON *object, const char *name)
{
    cJSON *required = get(object, "required");
    if (!required)
        required = cJSON_AddArrayToObject(object, "required");
    const cJSON *item;
    cJSON_ArrayForEach(item, required)
    {
        if (strcmp(item->valuestring, name) == 0)
            return;
    }
    cJSON_AddItemToArray(required, cJSON_CreateString(name));
}

/* The group of fields `name` of an object, "tls", or of each item of the list "stores[]". */
static cJSON *group_of(cJSON *object, char *name, bool is_required)
{
    char *bracket = strchr(name, '[');
    if (bracket)
        *bracket = '\0';
    if (is_required)
        require(object, name);
    cJSON *properties = get(object, "properties");
    cJSON *group = get(properties, name);
    if (group)
        return bracket ? get(group, "items") : group;
    group = cJSON_AddObjectToObject(properties, name);
    if (bracket) {
        cJSON_AddStringToObject(group, "type", "array");
        cJSON_AddNumberToObject(group, "minItems", 1);
        group = cJSON_AddObjectToObject(group, "items");
    }
    fill_object(group);
    return group;
}

static cJSON *alternative(cJSON *list, const char *type)
{
    cJSON *object = cJSON_CreateObject();
    if (type)
        cJSON_AddStringToObject(object, "type", type);
    cJSON_AddItemToArray(list, object);
    return object;
}

static void add_pattern(cJSON *list, const char *pattern)
{
    cJSON_AddStringToObject(alternative(list, "string"), "pattern", pattern);
}

/* What YAML takes for a number, the program takes as text, too. */
static void add_any_text(const struct option *o, cJSON *list)
{
    cJSON *text = alternative(list, "string");
    if (!(o->flags & OPTION_MAY_BE_EMPTY))
        cJSON_AddNumberToObject(text, "minLength", 1);
    if (o->type == OPTION_ENTITY)
        cJSON_AddNumberToObject(text, "maxLength", 255);
    alternative(list, "number");
    alternative(list, "boolean");
}

static void add_number(const struct option *o, cJSON *list)
{
    cJSON *number = alternative(list, "integer");
    cJSON_AddNumberToObject(number, "minimum", atof(o->min));
    cJSON_AddNumberToObject(number, "maximum", atof(o->max));
    add_pattern(list, "^[0-9]+$");
}

static void add_values(const struct option *o, cJSON *list)
{
    switch (o->type) {
    case OPTION_TEXT:
    case OPTION_ENTITY: add_any_text(o, list); return;
    case OPTION_NAME:
        add_pattern(list, "^[a-z0-9._-]{1,64}$");
        alternative(list, "number");
        alternative(list, "boolean");
        break;
    case OPTION_PREFIX: add_pattern(list, "^[A-Za-z0-9._:{}-]{1,64}$"); break;
    case OPTION_NUMBER: add_number(o, list); break;
    case OPTION_BOOLEAN:
        alternative(list, "boolean");
        add_pattern(list, "^(true|false)$");
        break;
    case OPTION_DURATION:
        add_pattern(list, "^[0-9]+(ms|s|m|h|d)$");
        if (*o->min == '0')
            cJSON_AddNumberToObject(alternative(list, NULL), "const", 0);
        break;
    case OPTION_SIZE: add_pattern(list, "^[0-9]+(B|KiB|MiB|GiB)$"); break;
    case OPTION_WORD: {
        cJSON *words = cJSON_AddArrayToObject(alternative(list, NULL), "enum");
        for (size_t i = 0; o->words[i]; i++)
            if (*o->words[i])
                cJSON_AddItemToArray(words, cJSON_CreateString(o->words[i]));
        break;
    }
    }
    cJSON_AddStringToObject(alternative(list, NULL), "$ref", "#/$defs/expanded");
}

/* The default, or an example, as a value. */
static cJSON *model_of(const struct option *o)
{
    cJSON *model = o->type == OPTION_NUMBER    ? cJSON_CreateNumber(atof(o->model))
                   : o->type == OPTION_BOOLEAN ? cJSON_CreateBool(strcmp(o->model, "true") == 0)
                                               : cJSON_CreateString(o->model);
    if (!(o->flags & OPTION_LIST))
        return model;
    cJSON *list = cJSON_CreateArray();
    cJSON_AddItemToArray(list, model);
    return list;
}

static void add_description(const struct option *o, cJSON *field)
{
    struct buffer text = {0};
    buffer_printf(&text, "%s", o->help);
    if (o->min)
        buffer_printf(&text, " %s to %s.", o->min, o->max);
    if (o->flags & OPTION_DERIVED)
        buffer_printf(&text, " Default: %s.", o->model);
    buffer_add_u8(&text, 0);
    cJSON_AddStringToObject(field, "description", (const char *)text.data);
    buffer_free(&text);
}

static void add_field(const struct option *o, cJSON *field)
{
    add_description(o, field);
    if (o->flags & OPTION_REQUIRED)
        cJSON_AddItemToArray(cJSON_AddArrayToObject(field, "examples"), model_of(o));
    else if (!(o->flags & OPTION_DERIVED))
        cJSON_AddItemToObject(field, "default", model_of(o));
    cJSON *values = field;
    if (o->flags & OPTION_LIST) {
        cJSON_AddStringToObject(field, "type", "array");
        cJSON_AddNumberToObject(field, "minItems", 1);
        values = cJSON_AddObjectToObject(field, "items");
    }
    add_values(o, cJSON_AddArrayToObject(values, "anyOf"));
}

static void add_option(const struct option *o, cJSON *root)
{
    cJSON *object = root;
    char *path = xstrdup(o->path);
    char *name = path;
    bool is_required = o->flags & OPTION_REQUIRED;
    for (char *dot; (dot = strchr(name, '.')); name = dot + 1) {
        *dot = '\0';
        object = group_of(object, name, is_required);
    }
    if (is_required)
        require(object, name);
    add_field(o, cJSON_AddObjectToObject(get(object, "properties"), name));
    free(path);
}

/* The one rule across fields that everybody meets: a route leads to a queue or to an exchange. */
static void add_destination(cJSON *root)
{
    static const char *const names[] = {"queue", "exchange"};
    cJSON *route = get(get(get(root, "properties"), "routes"), "items");
    cJSON *to = get(get(route, "properties"), "to");
    assert(to);
    require(route, "to");
    cJSON *either = cJSON_AddArrayToObject(to, "oneOf");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        require(alternative(either, NULL), names[i]);
}

static void print_schema(struct buffer *out)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "$schema", "https://json-schema.org/draft/2020-12/schema");
    cJSON_AddStringToObject(root, "title", "onlyonce.yaml");
    cJSON_AddStringToObject(root, "description",
                            "The configuration of onlyonce. Made from its table of options; "
                            "onlyonce check also sees what contradicts.");
    cJSON *expanded = cJSON_AddObjectToObject(cJSON_AddObjectToObject(root, "$defs"), "expanded");
    cJSON_AddStringToObject(
        expanded, "description",
        "${NAME}, ${NAME:-DEFAULT}, ${file:/PATH} or $$, alone or within text.");
    cJSON_AddStringToObject(expanded, "type", "string");
    cJSON_AddStringToObject(expanded, "pattern", "\\$[{$]");
    fill_object(root);
    for (const struct option *o = options; o < options + options_count; o++)
        add_option(o, root);
    add_destination(root);
    char *text = cJSON_Print(root);
    buffer_printf(out, "%s\n", text);
    cJSON_free(text);
    cJSON_Delete(root);
}

/* ---- Files ---- */

const struct option_text option_texts[] = {
    {"docs/onlyonce.1", ".\\\" Made from src/options.c by tests/option_texts.\n",
     ".\\\" Here ends what is made from src/options.c.\n", print_man},
    {"docs/configuration.md", "<!-- Made from src/options.c by tests/option_texts. -->\n",
     "<!-- Here ends what is made from src/options.c. -->\n", print_markdown},
    {"docs/onlyonce.schema.json", NULL, NULL, print_schema},
};

const size_t option_texts_count = sizeof option_texts / sizeof *option_texts;

bool option_text_renew(const struct option_text *t, const char *current, struct buffer *out)
{
    const char *begin = t->begin ? strstr(current, t->begin) : current;
    const char *end = begin && t->end ? strstr(begin, t->end) : "";
    if (!begin || !end)
        return false;
    size_t kept = t->begin ? (size_t)(begin - current) + strlen(t->begin) : 0;
    buffer_add(out, current, kept);
    t->print(out);
    buffer_printf(out, "%s", end);
    return true;
}

void option_texts_missing_from(const char *text, struct buffer *out)
{
    for (const struct option *o = options; o < options + options_count; o++) {
        const char *dot = strrchr(o->path, '.');
        struct buffer line = {0};
        buffer_printf(&line, "%s: ", dot ? dot + 1 : o->path);
        if (!(o->flags & (OPTION_DERIVED | OPTION_REQUIRED)))
            add_model(o, &line);
        buffer_add_u8(&line, 0);
        if (!strstr(text, (const char *)line.data))
            buffer_printf(out, "%s: \"%s\" is missing\n", o->path, (const char *)line.data);
        buffer_free(&line);
    }
}
