#include "key_value.h"

#include "message.h"

#include <assert.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGEST_PREFIX "sha256:"
#define DIGEST_LEN 32
#define HEADER_NAME_MAX 255
#define ERROR_SIZE 256

enum argument { ARGUMENT_NONE, ARGUMENT_HEADER_NAME, ARGUMENT_POINTER };

/* What a key can be made of. A kind with an argument is written "name" and the argument. */
struct key_part_kind {
    const char *name;
    enum argument argument;
    struct span (*value)(struct key_subject *s, const struct key_part *part);
    enum property property; /* for property_value() */
};

/* ---- Digests ---- */

static void digest(const EVP_MD *sha256, struct span bytes, uint8_t out[EVP_MAX_MD_SIZE])
{
    unsigned len = 0;
    int ok = EVP_Digest(bytes.data, bytes.len, out, &len, sha256, NULL);
    /* It fails only without memory. Going on would give different messages one key. */
    assert(ok == 1 && len == DIGEST_LEN);
}

struct span key_digest(const EVP_MD *sha256, struct span bytes, char out[KEY_SCRATCH_SIZE])
{
    static const char hex[] = "0123456789abcdef";
    uint8_t bits[EVP_MAX_MD_SIZE];
    digest(sha256, bytes, bits);
    char *at = stpcpy(out, DIGEST_PREFIX);
    for (unsigned i = 0; i < DIGEST_LEN; i++) {
        *at++ = hex[bits[i] >> 4];
        *at++ = hex[bits[i] & 15];
    }
    return (struct span){(const uint8_t *)out, (size_t)(at - out)};
}

uint64_t key_digest_bits(const EVP_MD *sha256, struct span bytes)
{
    uint8_t bits[EVP_MAX_MD_SIZE];
    digest(sha256, bytes, bits);
    return bytes_number((struct span){bits, 8});
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
static void write_real(double value, bool is_float, char out[KEY_SCRATCH_SIZE])
{
    out[0] = '\0';
    if (!isfinite(value))
        return;
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t before = uselocale(c);
    int digits = 0;
    do {
        snprintf(out, KEY_SCRATCH_SIZE, "%.*e", digits, value);
        digits++;
    } while (digits < 17 && !reads_back(out, value, is_float));
    int exponent = (int)strtol(strchr(out, 'e') + 1, NULL, 10);
    if (exponent >= digits && exponent < 17)
        digits = exponent + 1;
    snprintf(out, KEY_SCRATCH_SIZE, "%.*g", digits, value);
    uselocale(before);
    freelocale(c);
}

/* With all its places: 1.50 is not 1.5, as in a JSON number's literal text. */
static void write_decimal(struct span bytes, char out[KEY_SCRATCH_SIZE])
{
    int places = bytes.data[0];
    uint64_t digits = bytes_number((struct span){bytes.data + 1, bytes.len - 1});
    int len = snprintf(out, KEY_SCRATCH_SIZE, "%0*" PRIu64, places + 1, digits);
    if (places == 0)
        return;
    char *point = out + len - places;
    memmove(point + 1, point, (size_t)places + 1);
    *point = '.';
}

static void write_integer(const struct header *h, char out[KEY_SCRATCH_SIZE])
{
    int64_t n;
    if (header_integer(h, &n))
        snprintf(out, KEY_SCRATCH_SIZE, "%" PRId64, n);
    else /* a timestamp beyond the signed ones */
        snprintf(out, KEY_SCRATCH_SIZE, "%" PRIu64, bytes_number(h->value));
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

static struct span property_value(struct key_subject *s, const struct key_part *part)
{
    return s->properties.value[part->kind->property];
}

static struct span routing_key_value(struct key_subject *s, const struct key_part *part)
{
    (void)part;
    return s->message->routing_key;
}

static struct span exchange_value(struct key_subject *s, const struct key_part *part)
{
    (void)part;
    return s->message->exchange;
}

static struct span body_value(struct key_subject *s, const struct key_part *part)
{
    (void)part;
    return key_digest(s->sha256, s->message->body, s->scratch);
}

static struct span header_value(struct key_subject *s, const struct key_part *part)
{
    struct header h;
    if (!header_find(s->properties.value[PROPERTY_HEADERS], span_of(part->name), &h))
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

/* The value at the pointer, where the body is valid JSON. */
static bool find_json(const struct key_subject *s, const struct key_part *part,
                      struct json_value *out)
{
    return json_find(s->message->body, part->pointer, out) == JSON_FOUND;
}

static struct span json_value(struct key_subject *s, const struct key_part *part)
{
    struct json_value value;
    if (!find_json(s, part, &value))
        return (struct span){0};
    switch (value.type) {
    case JSON_FALSE:
    case JSON_TRUE:
    case JSON_NUMBER: return value.text;
    case JSON_STRING:
        buffer_clear(&s->text);
        json_add_content(&s->text, value.text);
        return buffer_span(&s->text);
    case JSON_NULL:
    case JSON_ARRAY:
    case JSON_OBJECT: break;
    }
    return (struct span){0};
}

static struct span digest_of_json(struct key_subject *s, struct span document)
{
    buffer_clear(&s->text);
    if (!json_add_canonical(&s->text, document))
        return (struct span){0};
    return key_digest(s->sha256, buffer_span(&s->text), s->scratch);
}

static struct span body_json_value(struct key_subject *s, const struct key_part *part)
{
    (void)part;
    return digest_of_json(s, s->message->body);
}

static struct span body_json_pointer_value(struct key_subject *s, const struct key_part *part)
{
    struct json_value value;
    return find_json(s, part, &value) ? digest_of_json(s, value.text) : (struct span){0};
}

/* A kind that begins as another one does stands in front of it. */
static const struct key_part_kind kinds[] = {
    {"message_id", ARGUMENT_NONE, property_value, PROPERTY_MESSAGE_ID},
    {"correlation_id", ARGUMENT_NONE, property_value, PROPERTY_CORRELATION_ID},
    {"type", ARGUMENT_NONE, property_value, PROPERTY_TYPE},
    {"app_id", ARGUMENT_NONE, property_value, PROPERTY_APP_ID},
    {"routing_key", ARGUMENT_NONE, routing_key_value, PROPERTY_COUNT},
    {"exchange", ARGUMENT_NONE, exchange_value, PROPERTY_COUNT},
    {"header:", ARGUMENT_HEADER_NAME, header_value, PROPERTY_COUNT},
    {"json:", ARGUMENT_POINTER, json_value, PROPERTY_COUNT},
    {"body:json:", ARGUMENT_POINTER, body_json_pointer_value, PROPERTY_COUNT},
    {"body:json", ARGUMENT_NONE, body_json_value, PROPERTY_COUNT},
    {"body", ARGUMENT_NONE, body_value, PROPERTY_COUNT},
};

struct span key_value(struct key_subject *s, const struct key_part *part)
{
    return part->kind->value(s, part);
}

/* ---- Reading a part ---- */

static struct span trim_front(struct span s)
{
    for (; s.len && (s.data[0] == ' ' || s.data[0] == '\t'); s.len--)
        s.data++;
    return s;
}

static bool read_header_name(struct span argument, struct key_part *out, char error[ERROR_SIZE])
{
    argument = trim_front(argument);
    if (argument.len == 0) {
        snprintf(error, ERROR_SIZE, "header: lacks the header's name; write header:NAME");
        return false;
    }
    if (argument.len > HEADER_NAME_MAX) {
        snprintf(error, ERROR_SIZE,
                 "the header's name \"%.60s...\" has %zu bytes; a header's name has at most %d",
                 (const char *)argument.data, argument.len, HEADER_NAME_MAX);
        return false;
    }
    out->name = xmalloc(argument.len + 1);
    memcpy(out->name, argument.data, argument.len);
    out->name[argument.len] = '\0';
    return true;
}

static bool read_pointer(const char *kind, struct span argument, struct key_part *out,
                         char error[ERROR_SIZE])
{
    const char *wrong = "the JSON Pointer is missing";
    if (argument.len > 0)
        out->pointer = json_pointer_compile(argument, &wrong);
    if (!out->pointer)
        snprintf(error, ERROR_SIZE, "%s%.*s: %s; write %s/NAME/NAME...", kind,
                 (int)(argument.len < 60 ? argument.len : 60),
                 argument.len ? (const char *)argument.data : "", wrong, kind);
    return out->pointer;
}

bool key_part_read(struct span text, struct key_part *out, char error[ERROR_SIZE])
{
    error[0] = '\0';
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const struct key_part_kind *kind = &kinds[i];
        size_t len = strlen(kind->name);
        bool begins = text.len >= len && memcmp(text.data, kind->name, len) == 0;
        if (!begins || (kind->argument == ARGUMENT_NONE && text.len > len))
            continue;
        struct span argument = {text.data + len, text.len - len};
        out->kind = kind;
        switch (kind->argument) {
        case ARGUMENT_NONE: return true;
        case ARGUMENT_HEADER_NAME: return read_header_name(argument, out, error);
        case ARGUMENT_POINTER: return read_pointer(kind->name, argument, out, error);
        }
    }
    return false;
}

void key_part_free(struct key_part *part)
{
    free(part->name);
    json_pointer_free(part->pointer);
}
