#include "visible.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* What the texts become; equal to `in`: all of it is visible. */
static const struct {
    const char *label, *in, *want;
} texts[] = {
    {"nothing", "", ""},
    {"ASCII", " plain ~", " plain ~"},
    {"UTF-8 of each length", "\xC3\xBC \xE2\x82\xAC \xF0\x9F\x90\x87",
     "\xC3\xBC \xE2\x82\xAC \xF0\x9F\x90\x87"},
    {"control characters", "a\nb\tc\x1b[1m\x7f", "a?b?c?[1m?"},
    {"control characters of two bytes",
     "a\xC2\x80 \xC2\x9B"
     "1m \xC2\x9F \xC2\xA0",
     "a?? ??1m ?? \xC2\xA0"},
    {"Latin-1", "caf\xE9", "caf?"},
    {"a character that is cut", "\xE2\x82", "??"},
    {"too long forms", "\xC0\xAF \xE0\x80\xAF \xF0\x80\x80\xAF", "?? ??? ????"},
    {"a surrogate", "\xED\xA0\x80", "???"},
    {"beyond Unicode", "\xF4\x90\x80\x80\xFF", "?????"},
};

static void test_what_is_not_visible_becomes_a_question_mark(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", texts[i].in);
        if (visible_is(text) != (strcmp(texts[i].in, texts[i].want) == 0))
            fail_msg("%s", texts[i].label);
        visible_make(text);
        assert_string_equal(text, texts[i].want);
        assert_true(visible_is(text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_not_visible_becomes_a_question_mark),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
