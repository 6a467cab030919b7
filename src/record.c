#include "record.h"

#include "memory.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define FORMAT '2'

static const struct {
    char letter;
    const char *name;
} states[] = {
    [RECORD_NONE] = {'\0', "not_found"},     [RECORD_PENDING] = {'P', "pending"},
    [RECORD_FORWARDED] = {'F', "forwarded"}, [RECORD_COMPLETED] = {'C', "completed"},
    [RECORD_PARKED] = {'K', "parked"},
};
#define STATE_COUNT (sizeof states / sizeof *states)

const char *record_state_name(enum record_state state)
{
    return states[state].name;
}

bool record_state_read(const char *name, enum record_state *out)
{
    for (size_t i = 0; i < STATE_COUNT; i++) {
        if (strcmp(states[i].name, name) == 0) {
            *out = (enum record_state)i;
            return true;
        }
    }
    return false;
}

bool record_equal(const struct record *a, const struct record *b)
{
    char text_a[RECORD_TEXT_MAX];
    char text_b[RECORD_TEXT_MAX];
    size_t len = record_write(a, text_a);
    return len == record_write(b, text_b) && memcmp(text_a, text_b, len) == 0;
}

/* ---- Writing ---- */

/* Numbers are written by hand: snprintf would be most of the cost of a claim. */
static char *put_number(char *at, uint64_t value)
{
    char digits[20];
    size_t n = 0;
    do {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    while (n)
        *at++ = digits[--n];
    return at;
}

static char *put_count(char *at, char letter, uint64_t count)
{
    if (count == 0)
        return at;
    *at++ = ' ';
    *at++ = letter;
    return put_number(at, count);
}

/* As so many ms after first-seen, or before it, which clocks that disagree may bring about. */
static char *put_time(char *at, char letter, int64_t ms, int64_t first_seen)
{
    if (ms == 0)
        return at;
    *at++ = ' ';
    *at++ = letter;
    if (ms < first_seen)
        *at++ = '-';
    return put_number(at, (uint64_t)(ms < first_seen ? first_seen - ms : ms - first_seen));
}

static char *put_flag(char *at, char letter, bool set)
{
    if (!set)
        return at;
    *at++ = ' ';
    *at++ = letter;
    return at;
}

static char *put_life(char *at, const struct record_life *life)
{
    assert(life->state != RECORD_NONE);
    *at++ = states[life->state].letter;
    *at++ = ' ';
    at = put_number(at, life->number);
    *at++ = ' ';
    at = put_number(at, (uint64_t)life->first_seen);
    at = put_time(at, 't', life->since, life->first_seen);
    at = put_time(at, 'e', life->ends, life->first_seen);
    at = put_time(at, 'c', life->completed, life->first_seen);
    at = put_flag(at, 'd', life->in_doubt);
    at = put_count(at, 'n', life->duplicates);
    at = put_time(at, 'l', life->last_duplicate, life->first_seen);
    if (life->fingerprint) {
        at = put_flag(at, 'f', true);
        for (int shift = 60; shift >= 0; shift -= 4)
            *at++ = "0123456789abcdef"[life->fingerprint >> shift & 15];
    }
    return put_flag(at, 'r', life->has_result);
}

size_t record_write(const struct record *r, char out[RECORD_TEXT_MAX])
{
    char *at = out;
    if (r->now.state != RECORD_NONE) {
        *at++ = FORMAT;
        at = put_life(at, &r->now);
        if (r->session[0]) {
            *at++ = ' ';
            *at++ = 'o';
            size_t len = strlen(r->session);
            memcpy(at, r->session, len);
            at += len;
            *at++ = '.';
            at = put_number(at, r->claim);
        }
        if (r->before.state != RECORD_NONE) {
            *at++ = ' ';
            *at++ = '<';
            at = put_life(at, &r->before);
        }
    }
    *at = '\0';
    return (size_t)(at - out);
}

/* ---- Reading ---- */

struct reader {
    const char *at;
    const char *end;
};

static bool take(struct reader *in, char c)
{
    if (in->at == in->end || *in->at != c)
        return false;
    in->at++;
    return true;
}

/* " X", where X is the letter of the next field. */
static bool take_field(struct reader *in, char letter)
{
    if (in->end - in->at < 2 || in->at[0] != ' ' || in->at[1] != letter)
        return false;
    in->at += 2;
    return true;
}

static bool take_number(struct reader *in, uint64_t most, uint64_t *out)
{
    uint64_t value = 0;
    const char *start = in->at;
    for (; in->at < in->end && *in->at >= '0' && *in->at <= '9'; in->at++) {
        uint64_t digit = (uint64_t)(*in->at - '0');
        if (digit > most || value > (most - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *out = value;
    return in->at > start;
}

static bool take_first_seen(struct reader *in, int64_t *out)
{
    uint64_t value;
    if (!take_number(in, INT64_MAX, &value))
        return false;
    *out = (int64_t)value;
    return true;
}

/* No time is 0 or before: that would say that the field is absent. */
static bool take_optional_time(struct reader *in, char letter, int64_t first_seen, int64_t *out)
{
    if (!take_field(in, letter))
        return true;
    bool before = take(in, '-');
    uint64_t most = (uint64_t)(before ? first_seen : INT64_MAX - first_seen);
    uint64_t distance;
    if (!take_number(in, most, &distance))
        return false;
    *out = before ? first_seen - (int64_t)distance : first_seen + (int64_t)distance;
    return *out > 0;
}

static bool take_state(struct reader *in, enum record_state *out)
{
    for (size_t i = RECORD_PENDING; i < STATE_COUNT; i++) {
        if (take(in, states[i].letter)) {
            *out = (enum record_state)i;
            return true;
        }
    }
    return false;
}

/* Of a lower case hex digit; -1: it is none. */
static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool take_fingerprint(struct reader *in, uint64_t *out)
{
    if (in->end - in->at < 16)
        return false;
    for (int i = 0; i < 16; i++) {
        int digit = hex_value(*in->at++);
        if (digit < 0)
            return false;
        *out = *out << 4 | (uint64_t)digit;
    }
    return *out != 0;
}

static bool take_life(struct reader *in, struct record_life *life)
{
    uint64_t number;
    if (!take_state(in, &life->state) || !take(in, ' ') || !take_number(in, UINT32_MAX, &number) ||
        number == 0)
        return false;
    life->number = (uint32_t)number;
    if (!take(in, ' ') || !take_first_seen(in, &life->first_seen) ||
        !take_optional_time(in, 't', life->first_seen, &life->since) ||
        !take_optional_time(in, 'e', life->first_seen, &life->ends) ||
        !take_optional_time(in, 'c', life->first_seen, &life->completed))
        return false;
    life->in_doubt = take_field(in, 'd');
    uint64_t duplicates = 0;
    if ((take_field(in, 'n') && !take_number(in, UINT32_MAX, &duplicates)) ||
        !take_optional_time(in, 'l', life->first_seen, &life->last_duplicate) ||
        (take_field(in, 'f') && !take_fingerprint(in, &life->fingerprint)))
        return false;
    life->duplicates = (uint32_t)duplicates;
    life->has_result = take_field(in, 'r');
    /* A record that was cut short is not one. */
    bool ends = life->state != RECORD_PENDING;
    return life->since > 0 && (life->ends > 0) == ends &&
           (life->completed > 0 || life->state != RECORD_COMPLETED);
}

static bool take_owner(struct reader *in, struct record *r)
{
    if (!take_field(in, 'o'))
        return true;
    if (in->end - in->at < SESSION_ID_LEN)
        return false;
    for (size_t i = 0; i < SESSION_ID_LEN; i++) {
        if (hex_value(*in->at) < 0)
            return false;
        r->session[i] = *in->at++;
    }
    return take(in, '.') && take_number(in, UINT64_MAX, &r->claim);
}

bool record_read(struct record *r, const char *text, size_t len)
{
    struct reader in = {text, text + len};
    *r = (struct record){0};
    if (len >= RECORD_TEXT_MAX || !take(&in, FORMAT) || !take_life(&in, &r->now))
        return false;
    if (r->now.state == RECORD_PENDING) {
        if (!take_owner(&in, r))
            return false;
        if (take_field(&in, '<') &&
            (!take_life(&in, &r->before) || r->before.state == RECORD_PENDING))
            return false;
    }
    if (in.at != in.end)
        return false;
    /* Leading zeros, or a field that is there and says 0, would give a record two texts. */
    char again[RECORD_TEXT_MAX];
    return record_write(r, again) == len && memcmp(again, text, len) == 0;
}

/* ---- Status ---- */

bool record_time(int64_t ms, char out[RECORD_TIME_MAX])
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm utc;
    char day[64];
    if (!gmtime_r(&seconds, &utc) || !strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &utc))
        return false;
    snprintf(out, RECORD_TIME_MAX, "%s.%03dZ", day, (int)(ms % 1000));
    return true;
}

static void add_time(cJSON *object, const char *name, int64_t ms)
{
    char text[RECORD_TIME_MAX];
    if (ms != 0 && record_time(ms, text))
        cJSON_AddStringToObject(object, name, text);
}

char *record_json(const struct record *r, const char *route, const char *key, int64_t ttl,
                  const char *result)
{
    const struct record_life *now = &r->now;
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "route", route);
    cJSON_AddStringToObject(object, "key", key);
    cJSON_AddStringToObject(object, "state", record_state_name(now->state));
    if (now->state != RECORD_NONE) {
        bool forwarded = now->state == RECORD_FORWARDED || now->state == RECORD_COMPLETED;
        add_time(object, "first_seen", now->first_seen);
        add_time(object, "claimed_at", now->state == RECORD_PENDING ? now->since : 0);
        add_time(object, "forwarded_at", forwarded ? now->since : 0);
        add_time(object, "parked_at", now->state == RECORD_PARKED ? now->since : 0);
        add_time(object, "completed_at", now->completed);
        cJSON_AddNumberToObject(object, "expires_in_ms", (double)(ttl > 0 ? ttl : 0));
        cJSON_AddNumberToObject(object, "attempt", now->number);
        cJSON_AddBoolToObject(object, "in_doubt", now->in_doubt);
        cJSON_AddNumberToObject(object, "duplicates", now->duplicates);
        add_time(object, "last_duplicate_at", now->last_duplicate);
        if (result)
            cJSON_AddRawToObject(object, "result", result);
    }
    char *printed = cJSON_PrintUnformatted(object);
    char *text = xstrdup(printed ? printed : "{}");
    /* Within JSON they stand for themselves only between values: the result may have them there. */
    for (char *p = text; (p = strpbrk(p, "\r\n"));)
        *p = ' ';
    cJSON_free(printed);
    cJSON_Delete(object);
    return text;
}
