/*
 * fuzz_config - any text as a configuration: it is taken whole, with every field that the program
 * relies on, or refused in lines that each name file and line; no line shows what belongs to a
 * login. Loaded twice it is the same.
 *
 * Files and environment are the target's own: file_read() is replaced at link time.
 */
#include "config.h"
#include "file.h"
#include "fuzz.h"
#include "visible.h"

#include <assert.h>

#define NAME "fuzz.yaml"
#define SECRET "5up3r-s3cr3t"

static struct span input;

const char *file_read(const char *path, size_t limit, struct buffer *out, char error[256])
{
    (void)error;
    struct span content = span_of(SECRET "\nmore\n");
    if (strcmp(path, NAME) == 0)
        content = input;
    else if (strcmp(path, "/secret") != 0)
        return "cannot be read: No such file or directory";
    buffer_add_span(out, content);
    return content.len > limit ? "is too large" : NULL;
}

static void set_environment(void)
{
    clearenv();
    setenv("NAME", "value", 1);
    setenv("EMPTY", "", 1);
    setenv("URL", "amqp://user:" SECRET "@rabbitmq:5672/%2f", 1);
}

static bool holds(struct span s, const char *text)
{
    return s.len && memmem(s.data, s.len, text, strlen(text)) != NULL;
}

/* The field that a line is about: what stands before its next ": ". */
static struct span field_of(struct span rest)
{
    const uint8_t *end = rest.len ? memmem(rest.data, rest.len, ": ", 2) : NULL;
    return fuzz_take(&rest, end ? (size_t)(end - rest.data) : 0);
}

static void check_line(struct span line)
{
    static const char *const of_logins[] = {".url", "username", "password", "token"};
    struct span rest = line;
    char *text = fuzz_text(line);
    assert(visible_is(text) && strlen(text) == line.len);
    free(text);
    assert(span_is(fuzz_take(&rest, strlen(NAME)), NAME));
    assert(fuzz_byte(&rest) == ':');
    size_t digits = 0;
    while (rest.len && rest.data[0] >= '0' && rest.data[0] <= '9')
        digits += fuzz_take(&rest, 1).len;
    assert(digits > 0 && span_is(fuzz_take(&rest, 2), ": ") && rest.len > 0);
    /* The fuzzer learns the secret from comparisons, and may write it down itself. */
    if (holds(input, SECRET))
        return;
    struct span field = field_of(rest);
    for (size_t i = 0; i < sizeof of_logins / sizeof *of_logins; i++)
        assert(!holds(field, of_logins[i]) || !holds(line, SECRET));
}

static void check_refusal(const struct buffer *errors)
{
    struct span rest = buffer_span(errors);
    assert(rest.len > 0 && rest.data[rest.len - 1] == '\n');
    while (rest.len)
        check_line(fuzz_line(&rest));
}

static void check_route(const struct config *config, const struct route_config *r)
{
    assert(r->name && r->scope && r->store_config && r->key_rule && r->from.queue &&
           r->park.queue && !r->to.queue == !!r->to.exchange);
    assert(r->workers > 0 && r->window > 0 && r->max_window >= 0 && r->hold_limit > 0 &&
           r->from.prefetch > 0 && r->from.prefetch <= UINT16_MAX && r->from.buffer > 0 &&
           r->to.unconfirmed > 0);
    assert(r->on_unroutable != UNROUTABLE_DEFAULT);
    assert(r->on_duplicate == DUPLICATE_DROP || r->duplicates.exchange);
    assert(config_route(config, r->name) == r && config_queue(config, span_of(r->from.queue)));
}

static void check_config(const struct config *config)
{
    assert(config->broker.urls.count > 0 && config->store_count > 0 && config->route_count > 0);
    for (size_t i = 0; i < config->broker.urls.count; i++)
        assert(config->broker.parsed[i].host && config->broker.parsed[i].vhost);
    for (size_t i = 0; i < config->store_count; i++)
        assert(config->stores[i].name && config->stores[i].timeout > 0 &&
               config->stores[i].session > 0);
    for (size_t i = 0; i < config->route_count; i++)
        check_route(config, &config->routes[i]);
    for (size_t i = 0; i < config->warnings.count; i++)
        check_line(span_of(config->warnings.items[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool ready;
    if (!ready)
        set_environment();
    ready = true;
    input = (struct span){data, size};
    struct buffer errors = {0};
    struct config *config = config_load(NAME, &errors);
    if (!config) {
        check_refusal(&errors);
    } else {
        assert(errors.len == 0);
        check_config(config);
        struct config *again = config_load(NAME, &errors);
        assert(again && config_same(config, again));
        config_free(again);
    }
    config_free(config);
    buffer_free(&errors);
    return 0;
}
