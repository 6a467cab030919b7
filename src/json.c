/*
 * The reader is one loop over values (read_document). Open arrays and objects are frames on a
 * stack. The members of open objects are entries on another one, so that a closing object can look
 * for names that occur twice, and sort its members for the canonical form.
 *
 * The canonical form is at first written in the document's order, and a chain of pieces says in
 * which order it is to be read. Sorting members changes links of the chain and moves no text, so
 * that it costs the same at any depth. In the end all pieces are copied once, if anything was
 * sorted.
 */
#include "json.h"

#include "json_text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A member of an open object: small, as a document can have one for every few of its bytes. */
struct member {
    uint32_t name_at; /* its name's content, in names */
    uint32_t name_len;
    uint32_t first_piece; /* of "name":value and the comma behind it */
    uint32_t last_piece;
};

/* A piece of what is written. Every member begins one, and so does the } behind sorted members. The
 * piece that was made last is the last of the chain, too. */
struct piece {
    uint32_t at;
    uint32_t len; /* known when the next one is made */
    uint32_t next;
};

/* An open array or object. */
struct frame {
    bool object;
    bool on_path;         /* the pointer leads here, or through here */
    bool wanted;          /* it is what the pointer leads to */
    size_t index;         /* array: of the element that is being read */
    size_t first_member;  /* object: in members */
    size_t names_at;      /* object: its members' names, in names */
    uint32_t first_piece; /* object: of its first member */
};

struct token {
    struct span text;
    size_t index; /* as an array's index; SIZE_MAX: it is none */
};

struct json_pointer {
    char *text; /* unescaped; the tokens lie one behind the other */
    struct token *tokens;
    size_t count;
};

struct reader {
    const uint8_t *at;
    const uint8_t *end;

    struct frame *frames;
    size_t depth;
    size_t frames_size;
    struct member *members;
    size_t member_count;
    size_t members_size;
    struct buffer names;

    struct buffer *out; /* the canonical form; NULL: it is not wanted */
    struct piece *pieces;
    uint32_t piece_count;
    size_t pieces_size;
    bool reordered; /* The chain is not the order any more in which they were written. */

    const struct json_pointer *pointer;
    bool found;
    struct json_value value;
};

/* ---- Pointers ---- */

static size_t array_index(struct span token)
{
    size_t index = 0;
    if (token.len == 0 || token.len > 9 || (token.len > 1 && token.data[0] == '0'))
        return SIZE_MAX;
    for (size_t i = 0; i < token.len; i++) {
        if (token.data[i] < '0' || token.data[i] > '9')
            return SIZE_MAX;
        index = index * 10 + (size_t)(token.data[i] - '0');
    }
    return index;
}

/* Every token begins with a slash. False: a ~ is neither ~0 nor ~1. */
static bool read_tokens(struct span text, struct json_pointer *p)
{
    uint8_t *to = (uint8_t *)p->text;
    for (size_t i = 0; i < text.len;) {
        struct token *token = &p->tokens[p->count++];
        token->text.data = to;
        for (i++; i < text.len && text.data[i] != '/'; i++) {
            uint8_t c = text.data[i];
            if (c == '~') {
                c = ++i < text.len ? text.data[i] : 0;
                if (c != '0' && c != '1')
                    return false;
                c = c == '0' ? '~' : '/';
            }
            *to++ = c;
        }
        token->text.len = (size_t)(to - token->text.data);
        token->index = array_index(token->text);
    }
    return true;
}

struct json_pointer *json_pointer_compile(struct span text, const char **wrong)
{
    if (text.len > 0 && text.data[0] != '/') {
        *wrong = "a JSON Pointer begins with /";
        return NULL;
    }
    size_t count = 0;
    for (size_t i = 0; i < text.len; i++)
        count += text.data[i] == '/';
    struct json_pointer *p = xcalloc(1, sizeof *p);
    p->text = xmalloc(text.len);
    p->tokens = xcalloc(count, sizeof *p->tokens);
    if (read_tokens(text, p))
        return p;
    json_pointer_free(p);
    *wrong = "in a JSON Pointer, ~ is written ~0 and / in a name ~1";
    return NULL;
}

void json_pointer_free(struct json_pointer *p)
{
    if (!p)
        return;
    free(p->text);
    free(p->tokens);
    free(p);
}

/* ---- Members of objects ---- */

static void *grow(void *array, size_t count, size_t *size, size_t each)
{
    if (count < *size)
        return array;
    *size = *size ? *size * 2 : 16;
    return xrealloc(array, *size * each);
}

static int compare_members(const void *a, const void *b, void *names)
{
    const struct member *x = a;
    const struct member *y = b;
    const uint8_t *text = names;
    size_t least = x->name_len < y->name_len ? x->name_len : y->name_len;
    int order = least ? memcmp(text + x->name_at, text + y->name_at, least) : 0;
    return order ? order : (x->name_len > y->name_len) - (x->name_len < y->name_len);
}

/* What is written next is a piece of its own. */
static void begin_piece(struct reader *r)
{
    assert(r->out->len <= UINT32_MAX);
    r->pieces = grow(r->pieces, r->piece_count, &r->pieces_size, sizeof *r->pieces);
    if (r->piece_count > 0) {
        struct piece *last = &r->pieces[r->piece_count - 1];
        last->len = (uint32_t)r->out->len - last->at;
        last->next = r->piece_count;
    }
    r->pieces[r->piece_count++] = (struct piece){.at = (uint32_t)r->out->len};
}

/* Puts the members of a closing object into the chain in their order. */
static void link_members(struct reader *r, const struct frame *f, const struct member *members,
                         size_t count)
{
    buffer_add_u8(r->out, ','); /* Every member has one behind it, */
    begin_piece(r);
    uint32_t last = f->first_piece - 1;
    for (size_t i = 0; i < count; i++) {
        r->pieces[last].next = members[i].first_piece;
        last = members[i].last_piece;
    }
    r->pieces[last].len--; /* and the one that is now the last loses it. */
    r->pieces[last].next = r->piece_count - 1;
    r->reordered = true;
}

/* Copies what was written, in the chain's order. */
static void write_reordered(struct reader *r)
{
    struct buffer copy = {0};
    begin_piece(r); /* an empty one, as the chain's end */
    buffer_reserve(&copy, r->out->len - r->pieces[0].at);
    for (uint32_t i = 0; i < r->piece_count - 1; i = r->pieces[i].next)
        buffer_add(&copy, r->out->data + r->pieces[i].at, r->pieces[i].len);
    r->out->len = r->pieces[0].at;
    buffer_add_span(r->out, buffer_span(&copy));
    buffer_free(&copy);
}

/* False: a name occurs twice. */
static bool close_object(struct reader *r, const struct frame *f)
{
    size_t count = r->member_count - f->first_member;
    if (count == 0)
        return true;
    struct member *members = r->members + f->first_member;
    size_t ordered = 1;
    while (ordered < count &&
           compare_members(&members[ordered - 1], &members[ordered], r->names.data) < 0)
        ordered++;
    if (ordered < count) {
        qsort_r(members, count, sizeof *members, compare_members, r->names.data);
        for (size_t i = 1; i < count; i++)
            if (compare_members(&members[i - 1], &members[i], r->names.data) == 0)
                return false;
        if (r->out)
            link_members(r, f, members, count);
    }
    if (!r->reordered) /* All its pieces are one then: the one that it began in. */
        r->piece_count = f->first_piece;
    r->member_count = f->first_member;
    r->names.len = f->names_at;
    return true;
}

/* ---- Reading ---- */

static void skip_blanks(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
}

static bool next_is(struct reader *r, uint8_t c)
{
    skip_blanks(r);
    return r->at < r->end && *r->at == c;
}

static void put(struct reader *r, uint8_t c)
{
    if (r->out)
        buffer_add_u8(r->out, c);
}

static struct frame *top(const struct reader *r)
{
    return &r->frames[r->depth - 1];
}

/* What was put into names from `at` on. */
static struct span last_name(const struct reader *r, size_t at)
{
    return r->names.len > at ? (struct span){r->names.data + at, r->names.len - at}
                             : (struct span){0};
}

/* "name" : in front of a member's value. */
static bool read_name(struct reader *r)
{
    if (!next_is(r, '"'))
        return false;
    const uint8_t *stop = json_text_string(r->at, r->end);
    if (!stop)
        return false;
    r->members = grow(r->members, r->member_count, &r->members_size, sizeof *r->members);
    struct member *m = &r->members[r->member_count++];
    *m = (struct member){.name_at = (uint32_t)r->names.len, .first_piece = r->piece_count};
    if (r->out)
        begin_piece(r);
    json_text_content(&r->names, (struct span){r->at, (size_t)(stop - r->at)});
    m->name_len = (uint32_t)r->names.len - m->name_at;
    if (r->out)
        json_text_quote(r->out, last_name(r, m->name_at));
    r->at = stop;
    if (!next_is(r, ':'))
        return false;
    r->at++;
    put(r, ':');
    return true;
}

/* Does the pointer lead to the value that begins now, or through it? */
static bool is_on_path(const struct reader *r)
{
    if (!r->pointer || r->depth == 0)
        return true;
    const struct frame *f = top(r);
    if (!f->on_path || r->depth > r->pointer->count)
        return false;
    const struct token *token = &r->pointer->tokens[r->depth - 1];
    if (!f->object)
        return token->index == f->index;
    return span_equal(token->text, last_name(r, r->members[r->member_count - 1].name_at));
}

static void begin_wanted(struct reader *r, enum json_type type)
{
    r->found = true;
    r->value = (struct json_value){.type = type, .text = {r->at, 0}};
}

static void end_wanted(struct reader *r)
{
    r->value.text.len = (size_t)(r->at - r->value.text.data);
}

static bool close_frame(struct reader *r)
{
    struct frame *f = top(r);
    if (f->object && !close_object(r, f))
        return false;
    r->at++;
    put(r, f->object ? '}' : ']');
    if (f->wanted)
        end_wanted(r);
    r->depth--;
    return true;
}

/* *more: its first element or member comes next. */
static bool open_frame(struct reader *r, bool object, bool on_path, bool wanted, bool *more)
{
    if (r->depth == JSON_DEPTH_MAX)
        return false;
    if (wanted)
        begin_wanted(r, object ? JSON_OBJECT : JSON_ARRAY);
    r->at++;
    put(r, object ? '{' : '[');
    r->frames = grow(r->frames, r->depth, &r->frames_size, sizeof *r->frames);
    r->frames[r->depth++] = (struct frame){.object = object,
                                           .on_path = on_path,
                                           .wanted = wanted,
                                           .first_member = r->member_count,
                                           .names_at = r->names.len,
                                           .first_piece = r->piece_count};
    *more = !next_is(r, object ? '}' : ']');
    if (!*more)
        return close_frame(r);
    return !object || read_name(r);
}

static bool read_word(struct reader *r, const char *word)
{
    size_t len = strlen(word);
    if ((size_t)(r->end - r->at) < len || memcmp(r->at, word, len) != 0)
        return false;
    if (r->out)
        buffer_add(r->out, word, len);
    r->at += len;
    return true;
}

static bool read_string(struct reader *r)
{
    const uint8_t *stop = json_text_string(r->at, r->end);
    if (stop && r->out) {
        size_t content = r->names.len; /* Names are a good place for it, for a moment. */
        json_text_content(&r->names, (struct span){r->at, (size_t)(stop - r->at)});
        json_text_quote(r->out, last_name(r, content));
        r->names.len = content;
    }
    r->at = stop ? stop : r->at;
    return stop;
}

static bool read_number(struct reader *r)
{
    const uint8_t *stop = json_text_number(r->at, r->end);
    if (stop && r->out)
        json_text_spell(r->out, (struct span){r->at, (size_t)(stop - r->at)});
    r->at = stop ? stop : r->at;
    return stop;
}

static bool read_scalar(struct reader *r, enum json_type type)
{
    switch (type) {
    case JSON_NULL: return read_word(r, "null");
    case JSON_FALSE: return read_word(r, "false");
    case JSON_TRUE: return read_word(r, "true");
    case JSON_STRING: return read_string(r);
    case JSON_NUMBER: return read_number(r);
    case JSON_ARRAY:
    case JSON_OBJECT: break;
    }
    return false;
}

static enum json_type type_of(uint8_t first)
{
    switch (first) {
    case '{': return JSON_OBJECT;
    case '[': return JSON_ARRAY;
    case '"': return JSON_STRING;
    case 't': return JSON_TRUE;
    case 'f': return JSON_FALSE;
    case 'n': return JSON_NULL;
    default: return JSON_NUMBER; /* or nothing that could be read */
    }
}

static bool read_value(struct reader *r, bool *more)
{
    skip_blanks(r);
    if (r->at == r->end)
        return false;
    enum json_type type = type_of(*r->at);
    bool on_path = is_on_path(r);
    bool wanted = on_path && r->depth == (r->pointer ? r->pointer->count : 0);
    if (type == JSON_OBJECT || type == JSON_ARRAY)
        return open_frame(r, type == JSON_OBJECT, on_path, wanted, more);
    *more = false;
    if (wanted)
        begin_wanted(r, type);
    if (!read_scalar(r, type))
        return false;
    if (wanted)
        end_wanted(r);
    return true;
}

/* Behind an element or member: another one, or the end of what it is in. */
static bool read_next(struct reader *r, bool *more)
{
    struct frame *f = top(r);
    if (f->object && r->out)
        r->members[r->member_count - 1].last_piece = r->piece_count - 1;
    *more = next_is(r, ',');
    if (!*more)
        return next_is(r, f->object ? '}' : ']') && close_frame(r);
    r->at++;
    put(r, ',');
    f->index++;
    return !f->object || read_name(r);
}

static bool read_document(struct reader *r)
{
    bool more = true; /* a value comes next */
    while (more || r->depth > 0) {
        if (!(more ? read_value(r, &more) : read_next(r, &more)))
            return false;
    }
    skip_blanks(r);
    return r->at == r->end;
}

static bool read(struct reader *r, struct span document)
{
    r->at = document.data;
    r->end = document.data + document.len;
    if (r->out)
        begin_piece(r);
    bool valid = document.len > 0 && document.len <= JSON_SIZE_MAX && read_document(r);
    if (valid && r->reordered)
        write_reordered(r);
    free(r->frames);
    free(r->members);
    free(r->pieces);
    buffer_free(&r->names);
    return valid;
}

enum json_result json_find(struct span document, const struct json_pointer *pointer,
                           struct json_value *out)
{
    struct reader r = {.pointer = pointer};
    if (!read(&r, document))
        return JSON_INVALID;
    *out = r.value;
    return r.found ? JSON_FOUND : JSON_MISSING;
}

void json_add_content(struct buffer *out, struct span string)
{
    json_text_content(out, string);
}

bool json_add_canonical(struct buffer *out, struct span document)
{
    struct reader r = {.out = out};
    size_t before = out->len;
    if (read(&r, document))
        return true;
    out->len = before;
    return false;
}
