/*
 * fuzz_report - what workers may send as a report: it is read, or there is a reason to park it, and
 * its parked copy can be written and read.
 *
 * Input: the properties behind their length of two bytes, and the body.
 */
#include "copy.h"
#include "fuzz.h"
#include "headers.h"
#include "report.h"

#include <assert.h>

static bool is_inside(const struct message *m, struct span part)
{
    const uint8_t *from = (const uint8_t *)(m + 1);
    const uint8_t *to = (const uint8_t *)m + message_size(m);
    return part.len == 0 || (part.data >= from && part.data + part.len <= to);
}

static void check_report(const struct message *m, const struct report *report)
{
    assert(report->route.len > 0 && report->key.len > 0 && report->first_seen >= 0);
    assert(is_inside(m, report->route) && is_inside(m, report->key) &&
           is_inside(m, report->result));
    assert(report->release ? report->result.len == 0 : span_equal(report->result, m->body));
    assert(report_is_result(report->result) && report->result.len <= STORE_RESULT_MAX);
}

/* Parked: all headers that made it a report, why, and where it came from. */
static void check_parked(const struct message *m, enum park_reason reason)
{
    struct copy copy = {.target = TARGET_PARKING, .reason = reason, .report = true};
    struct buffer out = {0};
    struct properties p;
    struct header h;
    enum copy_result result = copy_write(m, &copy, "", "guest", SIZE_MAX, &out);
    if (result == COPY_OK) {
        bool read = properties_read((struct span){out.data + 12, out.len - 12}, &p);
        assert(read);
        bool found = header_find(p.value[PROPERTY_HEADERS], span_of("x-onlyonce-reason"), &h);
        assert(found && span_is(h.value, park_reason_text(reason)));
    } else {
        assert(result == COPY_UNREADABLE && out.len == 0);
    }
    buffer_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span rest = {data, size};
    struct span properties = fuzz_counted(&rest);
    struct message *m = build_message_parts(span_of(""), span_of("done"), properties, rest);
    struct report report;
    enum park_reason reason = report_read(m, &report);
    if (reason == PARK_NONE)
        check_report(m, &report);
    else
        check_parked(m, reason);
    message_free(m);
    return 0;
}
