/*
 * fuzz_record - texts that may stand under a key: what is read is written back as it was, and its
 * status is JSON. And records made of any numbers: what is written is read back.
 *
 * Input: the record's text, up to the first '\n'; behind it numbers for a record, and a result.
 */
#include "fuzz.h"
#include "headers.h"
#include "json.h"
#include "record.h"

#include <assert.h>
#include <cjson/cJSON.h>

static void check_status(const struct record *r, int64_t ttl, const char *result)
{
    char *json = record_json(r, "route", "txn:a~2Cb", ttl, result);
    const char *end;
    cJSON *parsed = cJSON_ParseWithOpts(json, &end, true);
    assert(cJSON_IsObject(parsed) && !strchr(json, '\n'));
    const cJSON *state = cJSON_GetObjectItem(parsed, "state");
    assert(cJSON_IsString(state) &&
           strcmp(state->valuestring, record_state_name(r->now.state)) == 0);
    enum record_state same;
    assert(record_state_read(state->valuestring, &same) && same == r->now.state);
    assert((result != NULL && r->now.state != RECORD_NONE) ==
           (cJSON_GetObjectItem(parsed, "result") != NULL));
    cJSON_Delete(parsed);
    free(json);
}

static void check_text(struct span text)
{
    struct record r;
    char again[RECORD_TEXT_MAX];
    if (!record_read(&r, (const char *)text.data, text.len))
        return;
    size_t len = record_write(&r, again);
    assert(span_equal(text, (struct span){(const uint8_t *)again, len}));
    assert(r.now.number > 0 && r.now.since > 0);
    check_status(&r, r.now.ends, NULL);
}

static int64_t take_number(struct span *rest)
{
    return (int64_t)(bytes_number(fuzz_take(rest, 8)) & INT64_MAX);
}

static struct record_life take_life(struct span *rest, enum record_state state)
{
    uint8_t flags = fuzz_byte(rest);
    struct record_life life = {.state = state,
                               .number = (uint32_t)take_number(rest) | 1,
                               .first_seen = take_number(rest),
                               .since = take_number(rest) | 1,
                               .ends = state == RECORD_PENDING ? 0 : take_number(rest) | 1,
                               .in_doubt = flags & 1,
                               .has_result = flags & 2,
                               .duplicates = (uint32_t)take_number(rest),
                               .last_duplicate = take_number(rest)};
    if (state == RECORD_COMPLETED || flags & 4)
        life.completed = take_number(rest) | 1;
    life.fingerprint = flags & 8 ? FINGERPRINT_SEVERAL : (uint64_t)take_number(rest);
    return life;
}

static struct record take_record(struct span *rest)
{
    uint8_t kind = fuzz_byte(rest);
    struct record r = {.now = take_life(rest, RECORD_PENDING + kind % 4)};
    if (r.now.state != RECORD_PENDING)
        return r;
    if (kind & 16)
        r.before = take_life(rest, RECORD_FORWARDED + (kind >> 5) % 3);
    if (kind & 4) {
        memset(r.session, 'f', SESSION_ID_LEN);
        r.claim = bytes_number(fuzz_take(rest, 8));
    }
    return r;
}

static void check_record(const struct record *r)
{
    struct record back;
    char text[RECORD_TEXT_MAX];
    memset(text, '!', sizeof text);
    size_t len = record_write(r, text);
    assert(len < sizeof text && text[len] == '\0');
    bool read = record_read(&back, text, len);
    assert(read && record_equal(r, &back));
    read = record_read(&back, text, len - 1);
    (void)read; /* A record that was cut may still be one, as a number may lose a digit. */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct record none = {.now.state = RECORD_NONE};
    struct span rest = {data, size};
    struct json_value value;
    check_text(fuzz_line(&rest));
    struct record r = take_record(&rest);
    check_record(&r);
    bool valid = json_find(rest, NULL, &value) != JSON_INVALID;
    char *result = valid ? fuzz_text(value.text) : NULL;
    check_status(&r, r.now.last_duplicate, result);
    check_status(&none, 0, NULL);
    free(result);
    return 0;
}
