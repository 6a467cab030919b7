#include "vitals.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define EURO "\xE2\x82\xAC"

/* What remains of a text of `before` letters and a character of three bytes. */
static const struct {
    const char *label;
    int before;
    const char *end;
} texts[] = {
    {"a short one", 5, EURO},
    {"one that just fits", VITALS_TEXT_MAX - 4, EURO},
    {"one cut before its last byte", VITALS_TEXT_MAX - 3, "??"},
    {"one cut behind its first byte", VITALS_TEXT_MAX - 2, "?"},
    {"one cut before the character", VITALS_TEXT_MAX - 1, ""},
};

static void test_a_text_that_is_cut_stays_utf8(void **state)
{
    struct vitals v;
    vitals_init(&v);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[VITALS_TEXT_MAX + 8] = "";
        char got[VITALS_TEXT_MAX];
        memset(text, 'x', (size_t)texts[i].before);
        strcat(text, EURO);
        vitals_say(&v, LINK_STORE, text);
        vitals_text(&v, LINK_STORE, got);
        if (strcmp(got + texts[i].before, texts[i].end) != 0)
            fail_msg("%s: %s", texts[i].label, got + texts[i].before);
    }
    vitals_free(&v);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_text_that_is_cut_stays_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
