/*
 * fuzz_key - a key rule and a message: the rule compiles or says why not; the key has only bytes
 * that a key may have, is as long as it may be, and is the same whenever it is asked for.
 *
 * Input: the rule's lines, up to an empty one; a line each with exchange and routing key; the
 * properties behind their length of two bytes; the body.
 */
#include "fuzz.h"
#include "key.h"
#include "visible.h"

#include <assert.h>
#include <stdio.h>

#define LINES_MAX (KEY_MAX_ALTERNATIVES + 2) /* a few too many, too */
#define TEXT_MAX 200

static size_t take_lines(struct span *rest, char *lines[LINES_MAX])
{
    size_t count = 0;
    struct span line;
    while (count < LINES_MAX && (line = fuzz_line(rest)).len > 0)
        lines[count++] = fuzz_text(line);
    return count;
}

/* The rule, or NULL and a reason that fits into one line. */
static struct key_rule *compile(char *const *lines, size_t count)
{
    size_t bad = SIZE_MAX;
    char error[256];
    memset(error, '!', sizeof error);
    struct key_rule *rule = key_compile(lines, count, &bad, error);
    if (rule) {
        assert(key_alternative_count(rule) == count);
        return rule;
    }
    assert(bad < count || (bad == 0 && count == 0));
    assert(memchr(error, '\0', sizeof error) && *error && visible_is(error));
    return NULL;
}

/* The text behind the alternative's name, which stands there if there are several. */
static struct span text_of(const struct key_rule *rule, const struct message *m)
{
    struct span text = message_key(m);
    if (key_alternative_count(rule) == 1)
        return text;
    struct span name = fuzz_take(&text, m->key_name.len);
    assert(span_equal(name, m->key_name));
    assert(fuzz_byte(&text) == ':');
    return text;
}

/* Every '~' begins the two digits of a byte that could not stand there itself. */
static void check_encoding(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] != '~')
            continue;
        assert(i + 2 < text.len);
        unsigned value;
        char digits[3] = {(char)text.data[i + 1], (char)text.data[i + 2], '\0'};
        assert(strspn(digits, "0123456789ABCDEF") == 2 && sscanf(digits, "%x", &value) == 1);
        char plain = (char)value;
        assert(!plain || plain == ',' || plain == '~' ||
               !key_is_text((struct span){(const uint8_t *)&plain, 1}));
    }
}

static void check_key(const struct key_rule *rule, const struct message *m, bool found)
{
    assert(found == (m->key_len > 0) && m->key[m->key_len] == '\0');
    if (!found) {
        assert(m->alternative == -1 && m->key_name.len == 0);
        return;
    }
    assert(key_is_text(message_key(m)));
    assert(m->alternative >= 0 && (size_t)m->alternative < key_alternative_count(rule));
    assert(span_is(m->key_name, key_alternative_name(rule, m->alternative)));
    struct span text = text_of(rule, m);
    assert(text.len > 0 && text.len <= TEXT_MAX);
    check_encoding(text);
}

static void check_message(const struct key_rule *rule, struct span rest)
{
    struct span exchange = fuzz_line(&rest);
    struct span routing_key = fuzz_line(&rest);
    struct span properties = fuzz_counted(&rest);
    struct message *m = build_message_parts(exchange, routing_key, properties, rest);
    struct message *twin = build_message_parts(exchange, routing_key, properties, rest);
    check_key(rule, m, key_find(rule, m));
    (void)key_find(rule, twin);
    (void)key_find(rule, twin);
    assert(span_equal(message_key(m), message_key(twin)) && m->alternative == twin->alternative);
    assert(key_fingerprint(rule, true, rest) != 0);
    assert(key_fingerprint(rule, false, rest) == key_fingerprint(rule, false, twin->body));
    message_free(m);
    message_free(twin);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span rest = {data, size};
    char *lines[LINES_MAX];
    size_t count = take_lines(&rest, lines);
    struct key_rule *rule = compile(lines, count);
    if (rule)
        check_message(rule, rest);
    key_rule_free(rule);
    for (size_t i = 0; i < count; i++)
        free(lines[i]);
    return 0;
}
