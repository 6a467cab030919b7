#include "json_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

char *canonical(struct span in)
{
    struct buffer out = {0};
    char *text = NULL;
    if (json_add_canonical(&out, in)) {
        buffer_add_u8(&out, 0);
        text = xstrdup((const char *)out.data);
    } else {
        assert_int_equal(out.len, 0);
    }
    buffer_free(&out);
    return text;
}
