#include "memory.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void out_of_memory(void)
{
    fputs("onlyonce: out of memory\n", stderr);
    exit(1);
}

void *xmalloc(size_t size)
{
    void *p = malloc(size ? size : 1);
    if (!p)
        out_of_memory();
    return p;
}

void *xcalloc(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size ? size : 1);
    if (!p)
        out_of_memory();
    return p;
}

void *xrealloc(void *p, size_t size)
{
    void *q = realloc(p, size ? size : 1);
    if (!q)
        out_of_memory();
    return q;
}

char *xstrdup(const char *s)
{
    size_t len = strlen(s) + 1;
    return memcpy(xmalloc(len), s, len);
}

char *xasprintf(const char *fmt, ...)
{
    va_list args;
    char *out = NULL;
    va_start(args, fmt);
    if (vasprintf(&out, fmt, args) < 0)
        out_of_memory();
    va_end(args);
    return out;
}

struct span span_of(const char *text)
{
    return (struct span){(const uint8_t *)text, strlen(text)};
}

bool span_equal(struct span a, struct span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

bool span_is(struct span a, const char *text)
{
    return span_equal(a, span_of(text));
}

void buffer_free(struct buffer *b)
{
    free(b->data);
    *b = (struct buffer){0};
}

void buffer_clear(struct buffer *b)
{
    b->len = 0;
}

uint8_t *buffer_reserve(struct buffer *b, size_t more)
{
    if (b->size - b->len < more) {
        size_t size = b->size ? b->size : 256;
        while (size - b->len < more)
            size *= 2;
        b->data = xrealloc(b->data, size);
        b->size = size;
    }
    return b->data + b->len;
}

void buffer_add(struct buffer *b, const void *data, size_t len)
{
    if (len == 0)
        return;
    memcpy(buffer_reserve(b, len), data, len);
    b->len += len;
}

void buffer_add_span(struct buffer *b, struct span s)
{
    buffer_add(b, s.data, s.len);
}

void buffer_add_u8(struct buffer *b, uint8_t v)
{
    buffer_add(b, &v, 1);
}

void buffer_add_u16(struct buffer *b, uint16_t v)
{
    uint8_t out[2] = {(uint8_t)(v >> 8), (uint8_t)v};
    buffer_add(b, out, sizeof out);
}

void buffer_add_u32(struct buffer *b, uint32_t v)
{
    buffer_add_u16(b, (uint16_t)(v >> 16));
    buffer_add_u16(b, (uint16_t)v);
}

void buffer_add_u64(struct buffer *b, uint64_t v)
{
    buffer_add_u32(b, (uint32_t)(v >> 32));
    buffer_add_u32(b, (uint32_t)v);
}

void buffer_printf(struct buffer *b, const char *fmt, ...)
{
    va_list args;
    char *text = NULL;
    va_start(args, fmt);
    int len = vasprintf(&text, fmt, args);
    va_end(args);
    if (len < 0)
        out_of_memory();
    buffer_add(b, text, (size_t)len);
    free(text);
}

void buffer_drop(struct buffer *b, size_t len)
{
    assert(len <= b->len);
    if (len < b->len)
        memmove(b->data, b->data + len, b->len - len);
    b->len -= len;
}

struct span buffer_span(const struct buffer *b)
{
    return (struct span){b->data, b->len};
}
