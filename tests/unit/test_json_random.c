/*
 * json over random documents: whatever way a value is spelled, it has one form; and no bytes do
 * harm.
 */
#include "json_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t seed = 88172645463325252U;

static unsigned random_below(unsigned n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)(seed >> 33) % n;
}

static void blanks(struct buffer *out)
{
    while (random_below(3) == 0)
        buffer_add_u8(out, (uint8_t) " \t\n\r"[random_below(4)]);
}

/* One string, spelled in one of many ways. */
static void spell_string(struct buffer *out, const char *text)
{
    buffer_add_u8(out, '"');
    for (; *text; text++) {
        if (random_below(3) == 0)
            buffer_printf(out, random_below(2) ? "\\u%04x" : "\\u%04X", (unsigned char)*text);
        else
            buffer_add_u8(out, (uint8_t)*text);
    }
    buffer_add_u8(out, '"');
}

/* A whole number, spelled in one of many ways. */
static void spell_number(struct buffer *out, unsigned n)
{
    switch (random_below(6)) {
    case 0: buffer_printf(out, "%u", n); break;
    case 1: buffer_printf(out, "%u.0", n); break;
    case 2: buffer_printf(out, "%ue0", n); break;
    case 3: buffer_printf(out, n ? "%u00E-2" : "%u", n); break;
    case 4: buffer_printf(out, "%u.000e+0", n); break;
    default: buffer_printf(out, n ? "%u0e-1" : "%u", n); break;
    }
}

/* The document numbered `shape`: the same value each time, spelled anew; members in any order. */
static void spell_document(struct buffer *out, unsigned shape, unsigned levels)
{
    static const char *const names[] = {"id", "a", "amount", "z/~", "k"};
    unsigned count = shape % 5;
    blanks(out);
    if (levels == 0 || shape % 7 < 2) {
        if (shape % 2)
            spell_number(out, shape % 1000);
        else
            spell_string(out, names[count]);
    } else if (shape % 7 < 4) {
        buffer_add_u8(out, '[');
        for (unsigned i = 0; i < count; i++) {
            if (i)
                buffer_add_u8(out, ',');
            spell_document(out, shape / 3 + i * 11, levels - 1);
        }
        buffer_add_u8(out, ']');
    } else {
        unsigned first = count ? random_below(count) : 0;
        buffer_add_u8(out, '{');
        for (unsigned i = 0; i < count; i++) {
            unsigned k = (first + i) % count;
            if (i)
                buffer_add_u8(out, ',');
            blanks(out);
            spell_string(out, names[k]);
            blanks(out);
            buffer_add_u8(out, ':');
            spell_document(out, shape / 2 + k * 13, levels - 1);
        }
        buffer_add_u8(out, '}');
    }
    blanks(out);
}

static void the_same_value_has_one_form(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 5000; round++) {
        unsigned shape = random_below(100000);
        struct buffer a = {0};
        struct buffer b = {0};
        spell_document(&a, shape, 4);
        spell_document(&b, shape, 4);
        char *x = canonical(buffer_span(&a));
        char *y = canonical(buffer_span(&b));
        assert_non_null(x);
        assert_non_null(y);
        if (strcmp(x, y) != 0)
            fail_msg("%.*s and %.*s: %s and %s", (int)a.len, (char *)a.data, (int)b.len,
                     (char *)b.data, x, y);
        free(x);
        free(y);
        buffer_free(&a);
        buffer_free(&b);
    }
}

/* Whatever bytes come: no crash, no read beyond the end, and valid stays valid. */
static void survives_changed_bytes(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 20000; round++) {
        struct buffer a = {0};
        spell_document(&a, random_below(100000), 3);
        for (unsigned n = random_below(4); n > 0; n--)
            a.data[random_below((unsigned)a.len)] = (uint8_t)random_below(256);
        size_t len = random_below(4) ? a.len : random_below((unsigned)a.len);
        uint8_t *exact = xmalloc(len);
        memcpy(exact, a.data, len);
        struct buffer once = {0};
        struct buffer twice = {0};
        if (json_add_canonical(&once, (struct span){exact, len})) {
            assert_true(json_add_canonical(&twice, buffer_span(&once)));
            assert_true(span_equal(buffer_span(&once), buffer_span(&twice)));
        }
        free(exact);
        buffer_free(&a);
        buffer_free(&once);
        buffer_free(&twice);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_value_has_one_form),
        cmocka_unit_test(survives_changed_bytes),
    };
    return cmocka_run_group_tests_name("json at random", tests, NULL, NULL);
}
