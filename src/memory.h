/*
 * memory - allocation that never fails, views of bytes, and one growable buffer.
 *
 * Running out of memory ends the program (exit 1): the broker delivers every unacknowledged
 * message again, so dying loses nothing, and no caller has to handle a half-done step.
 */
#ifndef ONLYONCE_MEMORY_H
#define ONLYONCE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *xmalloc(size_t size) __attribute__((malloc, returns_nonnull, warn_unused_result));
void *xcalloc(size_t count, size_t size)
    __attribute__((malloc, returns_nonnull, warn_unused_result));
void *xrealloc(void *p, size_t size) __attribute__((returns_nonnull, warn_unused_result));
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull, warn_unused_result));
char *xasprintf(const char *fmt, ...)
    __attribute__((format(printf, 1, 2), malloc, returns_nonnull, warn_unused_result));

/* Bytes that belong to somebody else. NUL is a byte like any other. */
struct span {
    const uint8_t *data;
    size_t len;
};

struct span span_of(const char *text); /* the text without its final NUL */
bool span_equal(struct span a, struct span b);
bool span_is(struct span a, const char *text);

/*
 * A growable run of bytes. { 0 } is an empty buffer; buffer_free() makes it one again. Numbers are
 * written in network byte order, as AMQP has them.
 */
struct buffer {
    uint8_t *data;
    size_t len;
    size_t size; /* allocated */
};

void buffer_free(struct buffer *b);
void buffer_clear(struct buffer *b); /* empties it, keeps the memory */
/* Makes room for `more` bytes behind data + len; where that is. */
uint8_t *buffer_reserve(struct buffer *b, size_t more);
void buffer_add(struct buffer *b, const void *data, size_t len);
void buffer_add_span(struct buffer *b, struct span s);
void buffer_add_u8(struct buffer *b, uint8_t v);
void buffer_add_u16(struct buffer *b, uint16_t v);
void buffer_add_u32(struct buffer *b, uint32_t v);
void buffer_add_u64(struct buffer *b, uint64_t v);
void buffer_printf(struct buffer *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buffer_drop(struct buffer *b, size_t len); /* forgets the first len bytes */
struct span buffer_span(const struct buffer *b);

#endif
