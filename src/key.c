#include "key.h"

#include "headers.h"
#include "message.h"

#include <assert.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 200 /* bytes of a key's text; a longer one is replaced by its digest */
#define DIGEST_PREFIX "sha256:"
#define SCRATCH_SIZE 320 /* the longest number is a decimal with 255 places */
#define HEADER_NAME_MAX 255
#define ERROR_SIZE 256
#define QUOTE_MAX 60 /* how much of a line an error shows */
#define PARTS_TEXT                                                                                 \
    "write message_id, correlation_id, type, app_id, routing_key, exchange, header:NAME or body"

static_assert(KEY_NAME_MAX + 1 + TEXT_MAX <= KEY_TEXT_MAX, "a name, ':' and a text fit a key");

struct part {
    const struct part_kind *kind;
    char *argument; /* what follows the kind's name; NULL: it takes none */
};

struct alternative {
    char *name; /* NULL: it has none, and so it is the only one */
    struct part *parts;
    size_t part_count;
};

struct key_rule {
    struct alternative *alternatives;
    size_t count;
    EVP_MD *sha256; /* fetched once; the workers that share the rule only read it */
};

/* A message that is looked at, and room for a value that is not in it as bytes. */
struct subject {
    const struct message *message;
    struct properties properties;
    const EVP_MD *sha256;
    char scratch[SCRATCH_SIZE];
};

/* What a key can be made of. A name that ends in ':' is followed by an argument. */
struct part_kind {
    const char *name;
    /* The value; empty: the message has none. It holds until the next value of this subject. */
    struct span (*value)(struct subject *s, const struct part *part);
    enum property property; /* for property_value() */
};

/* ---- Digests ---- */

static struct span write_digest(const EVP_MD *sha256, struct span bytes, char out[SCRATCH_SIZE])
{
    static const char hex[] = "0123456789abcdef";
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    int ok = EVP_Digest(bytes.data, bytes.len, digest, &len, sha256, NULL);
    /* It fails only without memory. Going on would give different messages one key. */
    assert(ok == 1 && len == 32);
    char *at = stpcpy(out, DIGEST_PREFIX);
    for (unsigned i = 0; i < len; i++) {
        *at++ = hex[digest[i] >> 4];
        *at++ = hex[digest[i] & 15];
    }
    return (struct span){(const uint8_t *)out, (size_t)(at - out)};
}

/* ---- Numbers as text ---- */

static bool reads_back(const char *text, double value, bool is_float)
{
    if (is_float)
        return (double)strtof(text, NULL) == value;
    return strtod(text, NULL) == value;
}

/*
 * The fewest digits that read back as the same number, without an exponent for whole numbers below
 * 1e17. Infinities and what is not a number have no text.
 */
static void write_real(double value, bool is_float, char out[SCRATCH_SIZE])
{
    out[0] = '\0';
    if (!isfinite(value))
        return;
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t before = uselocale(c);
    int digits = 0;
    do {
        snprintf(out, SCRATCH_SIZE, "%.*e", digits, value);
        digits++;
    } while (digits < 17 && !reads_back(out, value, is_float));
    int exponent = (int)strtol(strchr(out, 'e') + 1, NULL, 10);
    if (exponent >= digits && exponent < 17)
        digits = exponent + 1;
    snprintf(out, SCRATCH_SIZE, "%.*g", digits, value);
    uselocale(before);
    freelocale(c);
}

/* With all its places: 1.50 is not 1.5, as in a JSON number's literal text. */
static void write_decimal(struct span bytes, char out[SCRATCH_SIZE])
{
    int places = bytes.data[0];
    uint64_t digits = bytes_number((struct span){bytes.data + 1, bytes.len - 1});
    int len = snprintf(out, SCRATCH_SIZE, "%0*" PRIu64, places + 1, digits);
    if (places == 0)
        return;
    char *point = out + len - places;
    memmove(point + 1, point, (size_t)places + 1);
    *point = '.';
}

static void write_integer(const struct header *h, char out[SCRATCH_SIZE])
{
    int64_t n;
    if (header_integer(h, &n))
        snprintf(out, SCRATCH_SIZE, "%" PRId64, n);
    else /* a timestamp beyond the signed ones */
        snprintf(out, SCRATCH_SIZE, "%" PRIu64, bytes_number(h->value));
}

static double read_double(struct span bytes)
{
    uint64_t bits = bytes_number(bytes);
    double out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

static double read_float(struct span bytes)
{
    uint32_t bits = (uint32_t)bytes_number(bytes);
    float out;
    memcpy(&out, &bits, sizeof out);
    return (double)out;
}

/* ---- The values of parts ---- */

static struct span property_value(struct subject *s, const struct part *part)
{
    return s->properties.value[part->kind->property];
}

static struct span routing_key_value(struct subject *s, const struct part *part)
{
    (void)part;
    return s->message->routing_key;
}

static struct span exchange_value(struct subject *s, const struct part *part)
{
    (void)part;
    return s->message->exchange;
}

static struct span body_value(struct subject *s, const struct part *part)
{
    (void)part;
    return write_digest(s->sha256, s->message->body, s->scratch);
}

static struct span header_value(struct subject *s, const struct part *part)
{
    struct header h;
    if (!header_find(s->properties.value[PROPERTY_HEADERS], span_of(part->argument), &h))
        return (struct span){0};
    switch (h.type) {
    case 'S':
    case 'x': return h.value;
    case 't': return span_of(h.value.data[0] ? "true" : "false");
    case 'b':
    case 'B':
    case 's':
    case 'u':
    case 'I':
    case 'i':
    case 'l':
    case 'L':
    case 'T': write_integer(&h, s->scratch); break;
    case 'f': write_real(read_float(h.value), true, s->scratch); break;
    case 'd': write_real(read_double(h.value), false, s->scratch); break;
    case 'D': write_decimal(h.value, s->scratch); break;
    default: /* void, arrays and tables */ return (struct span){0};
    }
    return span_of(s->scratch);
}

static const struct part_kind part_kinds[] = {
    {"message_id", property_value, PROPERTY_MESSAGE_ID},
    {"correlation_id", property_value, PROPERTY_CORRELATION_ID},
    {"type", property_value, PROPERTY_TYPE},
    {"app_id", property_value, PROPERTY_APP_ID},
    {"routing_key", routing_key_value, PROPERTY_COUNT},
    {"exchange", exchange_value, PROPERTY_COUNT},
    {"header:", header_value, PROPERTY_COUNT},
    {"body", body_value, PROPERTY_COUNT},
};

/* ---- The key of a message ---- */

static bool is_plain(uint8_t c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           (c && strchr("._-@:+", c));
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
static bool add_parts(const struct alternative *a, struct subject *s, struct buffer *text)
{
    for (size_t i = 0; i < a->part_count; i++) {
        struct span value = a->parts[i].kind->value(s, &a->parts[i]);
        if (value.len == 0)
            return false;
        if (i)
            buffer_add_u8(text, ',');
        add_encoded(text, value);
    }
    return true;
}

static void set_key(const struct key_rule *rule, size_t alternative, struct span text,
                    struct subject *s, struct message *m)
{
    const char *name = key_alternative_name(rule, (int)alternative);
    if (text.len > TEXT_MAX)
        text = write_digest(s->sha256, text, s->scratch);
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
    struct subject s = {.message = m, .sha256 = rule->sha256};
    if (!properties_read(m->properties, &s.properties))
        return false;

    struct buffer text = {0};
    for (size_t i = 0; i < rule->count && m->key_len == 0; i++) {
        buffer_clear(&text);
        if (add_parts(&rule->alternatives[i], &s, &text))
            set_key(rule, i, buffer_span(&text), &s, m);
    }
    buffer_free(&text);
    return m->key_len > 0;
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
    for (size_t i = 0; i < len; i++)
        if (s.data[i] < ' ' || s.data[i] == 0x7F)
            q.text[i] = '?';
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
static bool read_name(struct span *rest, bool needed, struct alternative *out,
                      char error[ERROR_SIZE])
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
    if (!needed || rest->len == 0)
        return true;
    struct quote shown = quote(*rest);
    snprintf(error, ERROR_SIZE,
             "\"%s\" has no name, and needs one where the list has several; write NAME = %s",
             shown.text, shown.text);
    return false;
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

static bool begins_with(struct span s, const char *prefix)
{
    size_t len = strlen(prefix);
    return s.len >= len && memcmp(s.data, prefix, len) == 0;
}

static void explain_part(struct span part, char error[ERROR_SIZE])
{
    struct quote q = quote(part);
    if (part.len == 0)
        snprintf(error, ERROR_SIZE, "a key part is missing; %s", PARTS_TEXT);
    else if (begins_with(part, "json:") || begins_with(part, "body:json"))
        snprintf(error, ERROR_SIZE, "\"%s\" is not supported by this version; %s", q.text,
                 PARTS_TEXT);
    else if (memchr(part.data, '+', part.len))
        snprintf(error, ERROR_SIZE,
                 "\"%s\" is no key part; parts are joined by \" + \", with blanks", q.text);
    else
        snprintf(error, ERROR_SIZE, "\"%s\" is no key part; %s", q.text, PARTS_TEXT);
}

static bool read_argument(struct span argument, struct part *out, char error[ERROR_SIZE])
{
    if (argument.len == 0) {
        snprintf(error, ERROR_SIZE, "header: lacks the header's name; write header:NAME");
        return false;
    }
    if (argument.len > HEADER_NAME_MAX) {
        snprintf(error, ERROR_SIZE,
                 "the header's name \"%s\" has %zu bytes; a header's name has at most %d",
                 quote(argument).text, argument.len, HEADER_NAME_MAX);
        return false;
    }
    out->argument = copy_text(argument);
    return true;
}

static bool read_part(struct span part, struct part *out, char error[ERROR_SIZE])
{
    for (size_t i = 0; i < sizeof part_kinds / sizeof *part_kinds; i++) {
        const struct part_kind *kind = &part_kinds[i];
        size_t len = strlen(kind->name);
        out->kind = kind;
        if (span_is(part, kind->name) && kind->name[len - 1] != ':')
            return true;
        if (begins_with(part, kind->name) && kind->name[len - 1] == ':')
            return read_argument(trim((struct span){part.data + len, part.len - len}), out, error);
    }
    explain_part(part, error);
    return false;
}

static bool read_alternative(const char *line, bool needs_name, struct alternative *out,
                             char error[ERROR_SIZE])
{
    struct span rest = trim(span_of(line));
    if (!read_name(&rest, needs_name, out, error))
        return false;
    struct span part;
    bool more;
    do {
        more = split_part(&rest, &part);
        out->parts = xrealloc(out->parts, (out->part_count + 1) * sizeof *out->parts);
        out->parts[out->part_count] = (struct part){0};
        if (!read_part(part, &out->parts[out->part_count++], error))
            return false;
    } while (more);
    return true;
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
            free(a->parts[j].argument);
        free(a->parts);
        free(a->name);
    }
    free(rule->alternatives);
    EVP_MD_free(rule->sha256);
    free(rule);
}
