#include "report.h"

#include "claim.h"
#include "headers.h"
#include "json.h"

#define TRIES 5 /* a record that changes more often than this is busy */

const char *report_answer_text(enum report_answer answer)
{
    switch (answer) {
    case REPORT_DONE: return "is done";
    case REPORT_ALREADY: return "was completed before";
    case REPORT_NOT_FOUND: return "is not on record";
    case REPORT_PENDING:
        return "is pending: a relay is at it, or will be; wait, or force it and risk a second copy";
    case REPORT_FOREIGN:
        return "holds something that is not onlyonce's; look at it with the store's own tools";
    case REPORT_BUSY: return "changes too fast, try again";
    case REPORT_UNREACHABLE: break;
    }
    return "is in a store that cannot be reached";
}

enum report_answer report_status(struct store *s, const char *route, const char *key, char **json)
{
    struct record record;
    int64_t ttl;
    bool foreign;
    *json = NULL;
    if (!store_get(s, span_of(key), &record, &ttl, &foreign))
        return REPORT_UNREACHABLE;
    if (foreign)
        return REPORT_FOREIGN;
    struct buffer result = {0};
    if (record.now.has_result && !store_get_result(s, span_of(key), &result)) {
        buffer_free(&result);
        return REPORT_UNREACHABLE;
    }
    bool kept = result.len > 0;
    buffer_add_u8(&result, '\0');
    *json = record_json(&record, route, key, ttl, kept ? (const char *)result.data : NULL);
    buffer_free(&result);
    return record.now.state == RECORD_NONE ? REPORT_NOT_FOUND : REPORT_DONE;
}

bool report_is_result(struct span result)
{
    struct json_value value;
    return result.len == 0 ||
           (result.len <= STORE_RESULT_MAX && json_find(result, NULL, &value) != JSON_INVALID);
}

/* Of a record that is to be written over one with that time to live. */
static int64_t ttl_of(const struct record *next, int64_t ttl, int64_t now)
{
    static const struct claim_rules rules = {.window = 0};
    return ttl > 0 ? ttl : claim_ttl(next, now, &rules);
}

/* Done once; REPORT_BUSY: another record was there than the one just read. */
static enum report_answer complete_once(struct store *s, struct span key, int64_t first_seen,
                                        struct span result)
{
    struct record met;
    struct record next;
    int64_t ttl;
    bool foreign;
    int64_t now = store_now(s);
    if (!store_get(s, key, &met, &ttl, &foreign))
        return REPORT_UNREACHABLE;
    if (foreign)
        return REPORT_FOREIGN;
    switch (claim_complete(&met, first_seen, now, &next)) {
    case COMPLETION_NOT_FOUND: return REPORT_NOT_FOUND;
    case COMPLETION_ALREADY: return REPORT_ALREADY;
    case COMPLETION_WRITE: break;
    }
    next.now.has_result = result.len > 0;
    struct store_op op = {.key = key, .expect = met, .write = next, .ttl = ttl_of(&next, ttl, now)};
    if (!store_complete(s, &op, result))
        return REPORT_UNREACHABLE;
    return op.answer == STORE_APPLIED ? REPORT_DONE : REPORT_BUSY;
}

static enum report_answer release_once(struct store *s, struct span key, int64_t first_seen,
                                       bool force)
{
    struct record met;
    int64_t ttl;
    bool foreign;
    if (!store_get(s, key, &met, &ttl, &foreign))
        return REPORT_UNREACHABLE;
    if (foreign)
        return REPORT_FOREIGN;
    if (met.now.state == RECORD_NONE || (first_seen && first_seen != met.now.first_seen))
        return REPORT_NOT_FOUND;
    if (met.now.state == RECORD_PENDING && !force)
        return REPORT_PENDING;
    struct store_op op = {.key = key, .expect = met};
    if (!store_apply(s, NULL, &op, 1))
        return REPORT_UNREACHABLE;
    return op.answer == STORE_APPLIED ? REPORT_DONE : REPORT_BUSY;
}

enum report_answer report_complete(struct store *s, struct span key, int64_t first_seen,
                                   struct span result)
{
    enum report_answer answer = REPORT_BUSY;
    for (int i = 0; i < TRIES && answer == REPORT_BUSY; i++)
        answer = complete_once(s, key, first_seen, result);
    return answer;
}

enum report_answer report_release(struct store *s, struct span key, int64_t first_seen, bool force)
{
    enum report_answer answer = REPORT_BUSY;
    for (int i = 0; i < TRIES && answer == REPORT_BUSY; i++)
        answer = release_once(s, key, first_seen, force);
    return answer;
}

/* ---- Reports of workers ---- */

/* The content of a text header; empty if there is none of that name. */
static struct span text_of(struct span headers, const char *name)
{
    struct header h;
    bool found = header_find(headers, span_of(name), &h) && (h.type == 'S' || h.type == 'x');
    return found ? h.value : (struct span){0};
}

static bool read_first_seen(struct span headers, int64_t *out)
{
    struct header h;
    *out = 0;
    return !header_find(headers, span_of("x-onlyonce-first-seen"), &h) ||
           (header_integer(&h, out) && *out > 0);
}

/* An action that is no text, or an unknown one, is bad; none means complete. */
static bool read_action(struct span headers, bool *release)
{
    struct header h;
    bool said = header_find(headers, span_of("x-onlyonce-action"), &h);
    struct span action = text_of(headers, "x-onlyonce-action");
    *release = said && span_is(action, "release");
    return !said || *release || span_is(action, "complete");
}

enum park_reason report_read(const struct message *m, struct report *out)
{
    struct properties p;
    *out = (struct report){0};
    if (!properties_read(m->properties, &p))
        return PARK_BAD_HEADER;
    struct span headers =
        p.present[PROPERTY_HEADERS] ? p.value[PROPERTY_HEADERS] : (struct span){0};
    out->route = text_of(headers, "x-onlyonce-route");
    out->key = text_of(headers, "x-onlyonce-key");
    if (out->route.len == 0)
        return PARK_UNKNOWN_ROUTE;
    if (out->key.len == 0)
        return PARK_NO_KEY;
    if (!read_first_seen(headers, &out->first_seen))
        return PARK_BAD_HEADER;
    if (!read_action(headers, &out->release))
        return PARK_BAD_ACTION;
    if (!out->release)
        out->result = m->body;
    return report_is_result(out->result) ? PARK_NONE : PARK_BAD_RESULT;
}
