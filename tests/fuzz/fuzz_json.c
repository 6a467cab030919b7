/*
 * fuzz_json - whatever bytes come: no crash, no read beyond the end, and the canonical form of the
 * canonical form is itself.
 */
#include "fuzz.h"
#include "json.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span document = {data, size};
    struct buffer once = {0};
    struct buffer twice = {0};
    struct buffer content = {0};
    struct json_value value;
    const char *wrong;
    struct json_pointer *pointer = json_pointer_compile(span_of("/a/0/b~1"), &wrong);
    bool valid = json_add_canonical(&once, document);
    enum json_result found = json_find(document, pointer, &value);
    assert(valid == (found != JSON_INVALID));
    if (found == JSON_FOUND && value.type == JSON_STRING)
        json_add_content(&content, value.text);
    if (valid) {
        bool again = json_add_canonical(&twice, buffer_span(&once));
        assert(again && span_equal(buffer_span(&once), buffer_span(&twice)));
    }
    json_pointer_free(pointer);
    buffer_free(&once);
    buffer_free(&twice);
    buffer_free(&content);
    return 0;
}
