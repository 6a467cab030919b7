#include "json_text.h"

#include <stdbool.h>
#include <string.h>

#define EXPONENT_DIGITS_MAX 15
#define PLAIN_DIGITS_MAX 21 /* before the point; longer numbers are written with an exponent */
#define PLAIN_ZEROS_MAX 6   /* behind the point of a number below 1, likewise */

/* ---- Strings ---- */

/* The length of the UTF-8 character at `at`; 0: there is none (RFC 3629, 4). */
static size_t utf8_length(const uint8_t *at, const uint8_t *end)
{
    static const struct {
        uint8_t first_from, first_to, second_from, second_to;
        size_t len;
    } forms[] = {
        {0x20, 0x7F, 0, 0, 1},       {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
        {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
        {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (*at < forms[i].first_from || *at > forms[i].first_to)
            continue;
        size_t len = forms[i].len;
        if ((size_t)(end - at) < len)
            return 0;
        if (len > 1 && (at[1] < forms[i].second_from || at[1] > forms[i].second_to))
            return 0;
        for (size_t k = 2; k < len; k++)
            if ((at[k] & 0xC0) != 0x80)
                return 0;
        return len;
    }
    return 0;
}

/* Four hex digits at `at`, or -1. */
static long hex4(const uint8_t *at, const uint8_t *end)
{
    long value = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        uint8_t c = at[i];
        uint8_t lower = c | 0x20;
        if (c >= '0' && c <= '9')
            value = value * 16 + (c - '0');
        else if (lower >= 'a' && lower <= 'f')
            value = value * 16 + (lower - 'a' + 10);
        else
            return -1;
    }
    return value;
}

/* The code point of the escape whose backslash is at `at`, and its length; 0: it is not valid. */
static size_t read_escape(const uint8_t *at, const uint8_t *end, uint32_t *code)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    if (end - at < 2)
        return 0;
    const char *letter = at[1] ? strchr(letters, at[1]) : NULL;
    if (letter) {
        *code = (uint8_t)meanings[letter - letters];
        return 2;
    }
    long high = at[1] == 'u' ? hex4(at + 2, end) : -1;
    if (high < 0 || (high >= 0xDC00 && high <= 0xDFFF))
        return 0;
    *code = (uint32_t)high;
    if (high < 0xD800 || high > 0xDBFF)
        return 6;
    long low = end - at >= 12 && at[6] == '\\' && at[7] == 'u' ? hex4(at + 8, end) : -1;
    if (low < 0xDC00 || low > 0xDFFF)
        return 0;
    *code = 0x10000 + (uint32_t)(high - 0xD800) * 0x400 + (uint32_t)(low - 0xDC00);
    return 12;
}

const uint8_t *json_text_string(const uint8_t *at, const uint8_t *end)
{
    uint32_t code;
    at++;
    while (at < end && *at != '"') {
        size_t len = *at == '\\' ? read_escape(at, end, &code) : utf8_length(at, end);
        if (len == 0)
            return NULL;
        at += len;
    }
    return at < end ? at + 1 : NULL;
}

static void add_utf8(struct buffer *out, uint32_t code)
{
    if (code < 0x80) {
        buffer_add_u8(out, (uint8_t)code);
    } else if (code < 0x800) {
        buffer_add_u8(out, (uint8_t)(0xC0 | code >> 6));
        buffer_add_u8(out, (uint8_t)(0x80 | (code & 0x3F)));
    } else if (code < 0x10000) {
        buffer_add_u8(out, (uint8_t)(0xE0 | code >> 12));
        buffer_add_u8(out, (uint8_t)(0x80 | (code >> 6 & 0x3F)));
        buffer_add_u8(out, (uint8_t)(0x80 | (code & 0x3F)));
    } else {
        buffer_add_u8(out, (uint8_t)(0xF0 | code >> 18));
        buffer_add_u8(out, (uint8_t)(0x80 | (code >> 12 & 0x3F)));
        buffer_add_u8(out, (uint8_t)(0x80 | (code >> 6 & 0x3F)));
        buffer_add_u8(out, (uint8_t)(0x80 | (code & 0x3F)));
    }
}

void json_text_content(struct buffer *out, struct span string)
{
    const uint8_t *at = string.data + 1;
    const uint8_t *end = string.data + string.len - 1;
    while (at < end) {
        const uint8_t *escape = memchr(at, '\\', (size_t)(end - at));
        const uint8_t *stop = escape ? escape : end;
        buffer_add(out, at, (size_t)(stop - at));
        at = stop;
        if (escape) {
            uint32_t code = 0;
            at += read_escape(at, end, &code);
            add_utf8(out, code);
        }
    }
}

static bool is_plain(uint8_t c)
{
    return c >= 0x20 && c != '"' && c != '\\';
}

static void add_escape(struct buffer *out, uint8_t c)
{
    static const char escaped[] = "\"\\\b\f\n\r\t";
    static const char letters[] = "\"\\bfnrt";
    const char *special = c ? strchr(escaped, c) : NULL;
    if (special) {
        buffer_add_u8(out, '\\');
        buffer_add_u8(out, (uint8_t)letters[special - escaped]);
    } else {
        buffer_printf(out, "\\u%04x", c);
    }
}

void json_text_quote(struct buffer *out, struct span content)
{
    buffer_add_u8(out, '"');
    for (size_t i = 0; i < content.len; i++) {
        size_t plain = i;
        while (i < content.len && is_plain(content.data[i]))
            i++;
        buffer_add(out, content.data + plain, i - plain);
        if (i < content.len)
            add_escape(out, content.data[i]);
    }
    buffer_add_u8(out, '"');
}

/* ---- Numbers ---- */

static const uint8_t *skip_digits(const uint8_t *at, const uint8_t *end)
{
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at;
}

const uint8_t *json_text_number(const uint8_t *at, const uint8_t *end)
{
    if (at < end && *at == '-')
        at++;
    const uint8_t *integer = at;
    at = skip_digits(at, end);
    if (at == integer || (*integer == '0' && at - integer > 1))
        return NULL;
    if (at < end && *at == '.') {
        const uint8_t *fraction = ++at;
        at = skip_digits(at, end);
        if (at == fraction)
            return NULL;
    }
    if (at == end || (*at | 0x20) != 'e')
        return at;
    at++;
    if (at < end && (*at == '+' || *at == '-'))
        at++;
    const uint8_t *exponent = at;
    at = skip_digits(at, end);
    if (at == exponent)
        return NULL;
    while (exponent < at && *exponent == '0')
        exponent++;
    return at - exponent <= EXPONENT_DIGITS_MAX ? at : NULL;
}

/* A number as its digits, without zeros at either end, times ten to the exponent. */
struct decimal {
    bool negative;
    struct buffer digits;
    int64_t exponent;
};

static int64_t read_exponent(const uint8_t *at, const uint8_t *end)
{
    int64_t value = 0;
    bool negative = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+'))
        at++;
    for (; at < end; at++)
        value = value * 10 + (*at - '0');
    return negative ? -value : value;
}

static void read_decimal(struct span number, struct decimal *d)
{
    const uint8_t *at = number.data;
    const uint8_t *end = at + number.len;
    d->negative = *at == '-';
    at += d->negative;
    const uint8_t *stop = skip_digits(at, end);
    buffer_add(&d->digits, at, (size_t)(stop - at));
    if (stop < end && *stop == '.') {
        at = stop + 1;
        stop = skip_digits(at, end);
        buffer_add(&d->digits, at, (size_t)(stop - at));
        d->exponent = -(stop - at);
    }
    if (stop < end)
        d->exponent += read_exponent(stop + 1, end);
    for (; d->digits.len > 0 && d->digits.data[d->digits.len - 1] == '0'; d->digits.len--)
        d->exponent++;
    size_t zeros = 0;
    while (zeros < d->digits.len && d->digits.data[zeros] == '0')
        zeros++;
    buffer_drop(&d->digits, zeros);
}

static void add_zeros(struct buffer *out, int64_t count)
{
    while (count-- > 0)
        buffer_add_u8(out, '0');
}

/* `point`: how many of the digits stand before the decimal point. */
static void spell_digits(struct buffer *out, const struct buffer *digits, int64_t point)
{
    int64_t count = (int64_t)digits->len;
    if (point > PLAIN_DIGITS_MAX || point <= -PLAIN_ZEROS_MAX) {
        buffer_add(out, digits->data, 1);
        if (count > 1)
            buffer_add_u8(out, '.');
        buffer_add(out, digits->data + 1, digits->len - 1);
        buffer_printf(out, "e%+lld", (long long)(point - 1));
    } else if (point <= 0) {
        buffer_add(out, "0.", 2);
        add_zeros(out, -point);
        buffer_add(out, digits->data, digits->len);
    } else if (point >= count) {
        buffer_add(out, digits->data, digits->len);
        add_zeros(out, point - count);
    } else {
        buffer_add(out, digits->data, (size_t)point);
        buffer_add_u8(out, '.');
        buffer_add(out, digits->data + point, (size_t)(count - point));
    }
}

void json_text_spell(struct buffer *out, struct span number)
{
    struct decimal d = {0};
    read_decimal(number, &d);
    if (d.digits.len == 0) {
        buffer_add_u8(out, '0');
    } else {
        if (d.negative)
            buffer_add_u8(out, '-');
        spell_digits(out, &d.digits, (int64_t)d.digits.len + d.exponent);
    }
    buffer_free(&d.digits);
}
