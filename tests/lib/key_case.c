#include "key_case.h"

#include "amqp_build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* Strings of literals are not written to. */
struct key_rule *compile(const char *const *lines)
{
    char *copies[32] = {NULL};
    size_t count = 0;
    for (; lines[count]; count++)
        copies[count] = xstrdup(lines[count]);
    size_t bad;
    char error[256] = "";
    struct key_rule *rule = key_compile(copies, count, &bad, error);
    for (size_t i = 0; i < count; i++)
        free(copies[i]);
    if (!rule)
        fail_msg("line %zu: %s", bad, error);
    return rule;
}

struct key_rule *compile_one(const char *line)
{
    return compile((const char *const[]){line, NULL});
}

void assert_key(const struct key_rule *rule, struct message *m, const char *want, int alternative)
{
    bool found = key_find(rule, m);
    assert_string_equal(found ? m->key : "-", want);
    assert_int_equal(m->key_len, found ? strlen(want) : 0);
    assert_int_equal(m->alternative, alternative);
    if (found)
        assert_true(span_is(m->key_name, key_alternative_name(rule, alternative)));
    else
        assert_int_equal(m->key_name.len, 0);
}

struct message *message_with_header(const char *name, char type, struct span value)
{
    struct buffer table = {0};
    struct properties p = {0};
    build_field(&table, name, type, value);
    build_set(&p, PROPERTY_HEADERS, buffer_span(&table));
    struct message *m = build_message_of(&p);
    buffer_free(&table);
    return m;
}
