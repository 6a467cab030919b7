#include "visible.h"

#include <stddef.h>

/* How many bytes the visible UTF-8 character has that begins at p, or 0 if none does. */
static size_t character_length(const unsigned char *p)
{
    size_t len = p[0] < 0x80 ? 1 : p[0] < 0xC2 ? 0 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    bool control = p[0] < 0x20 || p[0] == 0x7f || (p[0] == 0xC2 && p[1] < 0xA0);
    if (control || p[0] > 0xF4 || (p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F) ||
        (p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F))
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    return len;
}

bool visible_is(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    while (*p) {
        size_t len = character_length(p);
        if (len == 0)
            return false;
        p += len;
    }
    return true;
}

void visible_make(char *text)
{
    unsigned char *p = (unsigned char *)text;
    while (*p) {
        size_t len = character_length(p);
        if (len == 0)
            *p = '?';
        p += len ? len : 1;
    }
}
