#include "copy_case.h"

#include "amqp_build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

const struct copy plain_copy = {.target = TARGET_WORK, .first_seen = FIRST_SEEN};

struct properties read_copy(const struct buffer *written, const struct message *m)
{
    assert_true(written->len >= 14);
    assert_memory_equal(written->data, "\0\74\0\0", 4); /* class 60, weight 0 */
    assert_int_equal(bytes_number((struct span){written->data + 4, 8}), m->body.len);
    struct properties p;
    assert_true(properties_read((struct span){written->data + 12, written->len - 12}, &p));
    return p;
}

struct buffer copied_headers(struct message *m, const struct copy *copy)
{
    struct buffer written = {0};
    assert_int_equal(copy_write(m, copy, "r", "relay", NO_LIMIT, &written), COPY_OK);
    struct properties p = read_copy(&written, m);
    assert_true(p.present[PROPERTY_HEADERS]);
    struct buffer headers = {0};
    buffer_add_span(&headers, p.value[PROPERTY_HEADERS]);
    buffer_free(&written);
    return headers;
}

struct message *message_with_headers(struct span table)
{
    struct properties p = {0};
    build_set(&p, PROPERTY_HEADERS, table);
    return build_message_of(&p);
}

void assert_buffer(const struct buffer *got, const struct buffer *want)
{
    assert_int_equal(got->len, want->len);
    if (want->len)
        assert_memory_equal(got->data, want->data, want->len);
}

void set_key(struct message *m, const char *key)
{
    snprintf(m->key, sizeof m->key, "%s", key);
    m->key_len = (uint16_t)strlen(key);
}

void build_own(struct buffer *table, const char *key)
{
    build_text(table, "x-onlyonce-route", "r");
    if (key)
        build_text(table, "x-onlyonce-key", key);
    build_number(table, "x-onlyonce-first-seen", 'l', 8, FIRST_SEEN);
}
