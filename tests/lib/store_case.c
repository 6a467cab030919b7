#include "store_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

char text_name[] = "test";
char text_secret[] = "s3cret'pass";
char text_wrong[] = "wr0ng";

const struct record nothing;

void pause_ms(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

struct record pending(const char *session, uint64_t claim)
{
    struct record r = {.now = {.state = RECORD_PENDING,
                               .number = 1,
                               .first_seen = 1700000000000,
                               .since = 1700000000001},
                       .claim = claim};
    snprintf(r.session, sizeof r.session, "%s", session);
    return r;
}

struct record forwarded(uint32_t number)
{
    struct record r = {.now = {.state = RECORD_FORWARDED,
                               .number = number,
                               .first_seen = 1700000000000,
                               .since = 1700000000002,
                               .ends = 1700000090000}};
    return r;
}

struct store_op op_of(const char *key, struct record expect, struct record write)
{
    return (struct store_op){.key = span_of(key), .expect = expect, .write = write, .ttl = MINUTE};
}

void assert_record(struct record got, struct record want)
{
    char got_text[RECORD_TEXT_MAX];
    char want_text[RECORD_TEXT_MAX];
    record_write(&got, got_text);
    record_write(&want, want_text);
    assert_string_equal(got_text, want_text);
}

void assert_answer(struct store_op op, enum store_answer answer, struct record met)
{
    assert_int_equal(op.answer, answer);
    assert_record(op.met, met);
}

struct store *opened_store(const struct store_config *config, const char *scope)
{
    struct store *s = store_new(config, scope);
    assert_opens(s);
    return s;
}

void assert_opens(struct store *s)
{
    bool permanent;
    if (!store_open(s, &permanent))
        fail_msg("%s", store_error(s));
}

void open_session(struct store *s, const char *id, int64_t life)
{
    if (!store_session_open(s, id, life, NULL, 0, NULL, 0))
        fail_msg("%s", store_error(s));
}

bool lives(struct store *s, const char *id)
{
    bool live;
    assert_true(store_sessions_live(s, &id, 1, &live));
    return live;
}

void apply(struct store *s, const char *session, struct store_op *ops, size_t count)
{
    if (!store_apply(s, session, ops, count))
        fail_msg("%s", store_error(s));
}

struct store_op apply_one(struct store *s, const char *session, const char *key,
                          struct record expect, struct record write)
{
    struct store_op op = op_of(key, expect, write);
    apply(s, session, &op, 1);
    return op;
}

void assert_claims(struct store *s, const char *key, enum store_answer want)
{
    assert_int_equal(apply_one(s, NULL, key, nothing, pending(SESSION_A, 1)).answer, want);
}

struct record held(struct store *s, const char *key, int64_t *ttl)
{
    struct record r;
    int64_t left;
    bool foreign;
    if (!store_get(s, span_of(key), &r, ttl ? ttl : &left, &foreign))
        fail_msg("%s", store_error(s));
    assert_false(foreign);
    return r;
}

void assert_held(struct store *s, const char *key, struct record want)
{
    assert_record(held(s, key, NULL), want);
}

static bool count_one(void *context, struct span key, const struct record *r, int64_t ttl)
{
    (void)key;
    (void)ttl;
    assert_non_null(r);
    ++*(size_t *)context;
    return true;
}

size_t count_held(struct store *s)
{
    size_t count = 0;
    if (!store_list(s, count_one, &count))
        fail_msg("%s", store_error(s));
    return count;
}

void assert_says(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" lacks \"%s\"", text, part);
}

void assert_error(const struct store *s, const char *part)
{
    assert_says(store_error(s), part);
    assert_null(strstr(store_error(s), text_secret));
    assert_null(strchr(store_error(s), '\n'));
    assert_false(store_is_open(s));
}

void assert_open_fails(struct store *s, const char *part, bool permanent)
{
    bool got;
    assert_false(store_open(s, &got));
    assert_error(s, part);
    assert_int_equal(got, permanent);
}

void assert_claim_fails(struct store *s, const char *part)
{
    struct store_op op = op_of("k", nothing, pending(SESSION_A, 1));
    assert_false(store_apply(s, NULL, &op, 1));
    assert_error(s, part);
}

void assert_danger(struct store *s, const char *part)
{
    struct buffer lines = {0};
    if (!store_dangers(s, &lines))
        fail_msg("%s", store_error(s));
    buffer_add_u8(&lines, '\0');
    const char *got = (const char *)lines.data;
    if (part ? !strstr(got, part) : *got)
        fail_msg("want %s, got %s", part ? part : "nothing", got);
    buffer_free(&lines);
}
