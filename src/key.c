#include "key.h"

#include "key_value.h"
#include "message.h"
#include "visible.h"

#include <assert.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 200 /* bytes of a key's text; a longer one is replaced by its digest */
#define ERROR_SIZE 256
#define QUOTE_MAX 60 /* how much of a line an error shows */
#define PARTS_TEXT                                                                                 \
    "write message_id, correlation_id, type, app_id, routing_key, exchange, header:NAME, "         \
    "json:/POINTER, body, body:json or body:json:/POINTER"

static_assert(KEY_NAME_MAX + 1 + TEXT_MAX <= KEY_TEXT_MAX, "a name, ':' and a text fit a key");

struct alternative {
    char *name; /* NULL: it has none, and so it is the only one */
    struct key_part *parts;
    size_t part_count;
};

struct key_rule {
    struct alternative *alternatives;
    size_t count;
    EVP_MD *sha256; /* fetched once; the workers that share the rule only read it */
};

/* ---- The key of a message ---- */

static bool is_plain(uint8_t c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           (c && strchr("._-@:+", c));
}

bool key_is_text(struct span text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!is_plain(text.data[i]) && text.data[i] != ',' && text.data[i] != '~')
            return false;
    return text.len > 0 && text.len <= KEY_TEXT_MAX;
}

static void add_encoded(struct buffer *text, struct span value)
{
    static const char hex[] = "0123456789ABCDEF";
    uint8_t *at = buffer_reserve(text, value.len * 3);
    for (size_t i = 0; i < value.len; i++) {
        uint8_t c = value.data[i];
        if (is_plain(c)) {
            *at++ = c;
            continue;
        }
        *at++ = '~';
        *at++ = (uint8_t)hex[c >> 4];
        *at++ = (uint8_t)hex[c & 15];
    }
    text->len = (size_t)(at - text->data);
}

/* False: one of its parts is missing. */
static bool add_parts(const struct alternative *a, struct key_subject *s, struct buffer *text)
{
    for (size_t i = 0; i < a->part_count; i++) {
        struct span value = key_value(s, &a->parts[i]);
        if (value.len == 0)
            return false;
        if (i)
            buffer_add_u8(text, ',');
        add_encoded(text, value);
    }
    return true;
}

static void set_key(const struct key_rule *rule, size_t alternative, struct span text,
                    struct key_subject *s, struct message *m)
{
    const char *name = key_alternative_name(rule, (int)alternative);
    if (text.len > TEXT_MAX)
        text = key_digest(s->sha256, text, s->scratch);
    char *at = m->key;
    if (rule->count > 1) {
        at = stpcpy(at, name);
        *at++ = ':';
    }
    memcpy(at, text.data, text.len);
    at[text.len] = '\0';
    m->key_len = (uint16_t)(at + text.len - m->key);
    m->alternative = (int16_t)alternative;
    m->key_name = span_of(name);
}

bool key_find(const struct key_rule *rule, struct message *m)
{
    m->key[0] = '\0';
    m->key_len = 0;
    m->alternative = -1;
    m->key_name = (struct span){0};
    struct key_subject s = {.message = m, .sha256 = rule->sha256};
    if (!properties_read(m->properties, &s.properties))
        return false;

    struct buffer text = {0};
    for (size_t i = 0; i < rule->count && m->key_len == 0; i++) {
        buffer_clear(&text);
        if (add_parts(&rule->alternatives[i], &s, &text))
            set_key(rule, i, buffer_span(&text), &s, m);
    }
    buffer_free(&text);
    buffer_free(&s.text);
    return m->key_len > 0;
}

uint64_t key_fingerprint(const struct key_rule *rule, bool json, struct span body)
{
    struct buffer canonical = {0};
    if (json && json_add_canonical(&canonical, body))
        body = buffer_span(&canonical);
    uint64_t bits = key_digest_bits(rule->sha256, body);
    buffer_free(&canonical);
    return bits ? bits : 1;
}

const char *key_alternative_name(const struct key_rule *rule, int alternative)
{
    assert(alternative >= 0 && (size_t)alternative < rule->count);
    return rule->count == 1 ? "key" : rule->alternatives[alternative].name;
}

size_t key_alternative_count(const struct key_rule *rule)
{
    return rule->count;
}

/* ---- Reading a rule ---- */

static bool is_blank(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static struct span trim(struct span s)
{
    for (; s.len && is_blank(s.data[0]); s.len--)
        s.data++;
    while (s.len && is_blank(s.data[s.len - 1]))
        s.len--;
    return s;
}

static char *copy_text(struct span s)
{
    char *out = xmalloc(s.len + 1);
    memcpy(out, s.data, s.len);
    out[s.len] = '\0';
    return out;
}

/* For errors, which are one line and of bounded length. */
struct quote {
    char text[QUOTE_MAX + sizeof "..."];
};

static struct quote quote(struct span s)
{
    struct quote q = {""};
    size_t len = s.len;
    if (len > QUOTE_MAX) {
        len = QUOTE_MAX;
        while (len && (s.data[len] & 0xC0) == 0x80) /* not in the middle of a character */
            len--;
    }
    memcpy(q.text, s.data, len);
    if (len < s.len)
        memcpy(q.text + len, "...", sizeof "...");
    return q;
}

static bool is_name(struct span s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789_-", s.data[i]))
            return false;
    return s.len >= 1 && s.len <= KEY_NAME_MAX;
}

/* Takes "NAME =" off the front. A '=' behind a ':' is in a header's name. */
static bool read_name(struct span *rest, struct alternative *out, char error[ERROR_SIZE])
{
    const uint8_t *sign = memchr(rest->data, '=', rest->len);
    struct span name = {rest->data, sign ? (size_t)(sign - rest->data) : 0};
    if (sign && !memchr(name.data, ':', name.len)) {
        rest->len -= name.len + 1;
        rest->data += name.len + 1;
        name = trim(name);
        if (is_name(name)) {
            out->name = copy_text(name);
            return true;
        }
        snprintf(error, ERROR_SIZE, "\"%s\" is no name; a name is 1 to %d of a-z 0-9 _ -",
                 quote(name).text, KEY_NAME_MAX);
        return false;
    }
    return true;
}

/* Takes a part off the front; false: it was the last. Only a '+' between blanks joins parts. */
static bool split_part(struct span *rest, struct span *part)
{
    for (size_t i = 0; i < rest->len; i++) {
        bool joins = rest->data[i] == '+' && (i == 0 || is_blank(rest->data[i - 1])) &&
                     (i + 1 == rest->len || is_blank(rest->data[i + 1]));
        if (!joins)
            continue;
        *part = trim((struct span){rest->data, i});
        *rest = (struct span){rest->data + i + 1, rest->len - i - 1};
        return true;
    }
    *part = trim(*rest);
    return false;
}

static void explain_part(struct span part, char error[ERROR_SIZE])
{
    struct quote q = quote(part);
    if (part.len == 0)
        snprintf(error, ERROR_SIZE, "a key part is missing; %s", PARTS_TEXT);
    else if (memchr(part.data, '+', part.len))
        snprintf(error, ERROR_SIZE,
                 "\"%s\" is no key part; parts are joined by \" + \", with blanks", q.text);
    else
        snprintf(error, ERROR_SIZE, "\"%s\" is no key part; %s", q.text, PARTS_TEXT);
}

static bool read_part(struct span part, struct key_part *out, char error[ERROR_SIZE])
{
    if (key_part_read(part, out, error))
        return true;
    if (!error[0])
        explain_part(part, error);
    return false;
}

static bool read_alternative(const char *line, bool needs_name, struct alternative *out,
                             char error[ERROR_SIZE])
{
    struct span rest = trim(span_of(line));
    struct quote shown = quote(rest);
    if (!read_name(&rest, out, error))
        return false;
    struct span part;
    bool more;
    do {
        more = split_part(&rest, &part);
        out->parts = xrealloc(out->parts, (out->part_count + 1) * sizeof *out->parts);
        out->parts[out->part_count] = (struct key_part){0};
        if (!read_part(part, &out->parts[out->part_count++], error))
            return false;
    } while (more);
    if (out->name || !needs_name)
        return true;
    snprintf(error, ERROR_SIZE,
             "\"%s\" has no name, and needs one where the list has several; write NAME = %s",
             shown.text, shown.text);
    return false;
}

static bool read_rule(struct key_rule *rule, char *const *lines, size_t count, size_t *bad,
                      char error[ERROR_SIZE])
{
    *bad = 0;
    rule->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    if (!rule->sha256) {
        snprintf(error, ERROR_SIZE, "keys need SHA-256, which this OpenSSL does not offer");
        return false;
    }
    if (count == 0) {
        snprintf(error, ERROR_SIZE, "the list is empty; %s", PARTS_TEXT);
        return false;
    }
    if (count > KEY_MAX_ALTERNATIVES) {
        *bad = KEY_MAX_ALTERNATIVES;
        snprintf(error, ERROR_SIZE, "the list has %zu alternatives; at most %d are allowed", count,
                 KEY_MAX_ALTERNATIVES);
        return false;
    }
    rule->alternatives = xcalloc(count, sizeof *rule->alternatives);
    rule->count = count;
    for (; *bad < count; ++*bad)
        if (!read_alternative(lines[*bad], count > 1, &rule->alternatives[*bad], error))
            return false;
    return true;
}

struct key_rule *key_compile(char *const *lines, size_t count, size_t *bad, char error[ERROR_SIZE])
{
    struct key_rule *rule = xcalloc(1, sizeof *rule);
    if (read_rule(rule, lines, count, bad, error))
        return rule;
    visible_make(error); /* it may repeat a piece of a line */
    key_rule_free(rule);
    return NULL;
}

void key_rule_free(struct key_rule *rule)
{
    if (!rule)
        return;
    for (size_t i = 0; i < rule->count; i++) {
        struct alternative *a = &rule->alternatives[i];
        for (size_t j = 0; j < a->part_count; j++)
            key_part_free(&a->parts[j]);
        free(a->parts);
        free(a->name);
    }
    free(rule->alternatives);
    EVP_MD_free(rule->sha256);
    free(rule);
}
