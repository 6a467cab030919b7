#include "report.h"

#include "claim.h"
#include "json.h"

#define TRIES 5 /* a record that changes more often than this is busy */

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
