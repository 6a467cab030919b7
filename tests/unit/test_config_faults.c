/* Faults of a configuration file and of its single fields, each as the exact line that it gets. */
#include "config_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Fields ---- */

#define KNOWN_ROUTE                                                                                \
    "unknown field; known here: name, scope, store, workers, from, to, park, key, window, "        \
    "window_header, max_window, sliding, window_completed, fingerprint, on_conflict, "             \
    "on_duplicate, duplicates, reply, on_missing_key, on_store_failure, on_unroutable, "           \
    "on_in_doubt, in_doubt_wait, on_dead_lettered, hold_limit"
#define DURATION                                                                                   \
    "is no duration (a whole number and ms, s, m, h or d); write 1s to 3650d, as in 24h"

static const struct case_of_fault faulty_fields[] = {
    /* Values */
    {"no unit", NULL, NULL, BUT("window: \"24\""),
     "3: routes[0].window: \"24\" has no unit; write 24h"},
    {"no unit, and too much", NULL, NULL, BUT("window: 999999999"),
     "3: routes[0].window: \"999999999\" has no unit; write 24h"},
    {"fraction", NULL, NULL, BUT("window: 1.5h"), "3: routes[0].window: \"1.5h\" " DURATION},
    {"words", NULL, NULL, BUT("window: a day"), "3: routes[0].window: \"a day\" " DURATION},
    {"unknown unit", NULL, NULL, BUT("window: 2w"), "3: routes[0].window: \"2w\" " DURATION},
    {"negative", NULL, NULL, BUT("window: -1h"), "3: routes[0].window: \"-1h\" " DURATION},
    {"zero", NULL, NULL, BUT("window: 0s"),
     "3: routes[0].window: \"0s\" is too low; write 1s to 3650d"},
    {"below", NULL, NULL, BUT("window: 999ms"),
     "3: routes[0].window: \"999ms\" is too low; write 1s to 3650d"},
    {"above", NULL, NULL, BUT("window: 3651d"),
     "3: routes[0].window: \"3651d\" is too high; write 1s to 3650d"},
    {"above 64 bits", NULL, NULL, BUT("window: 99999999999999999999d"),
     "3: routes[0].window: \"99999999999999999999d\" is too high; write 1s to 3650d"},
    {"heartbeat off", BROKER ", heartbeat: 0", NULL, NULL,
     "1: broker.heartbeat: \"0\" is too low; write 1s to 10m"},
    {"size unit", NULL, NULL, FROM("queue: in, buffer: 64MB"),
     "3: routes[0].from.buffer: \"64MB\" is no size (a whole number and B, KiB, MiB or GiB); "
     "write 1MiB to 64GiB, as in 64MiB"},
    {"size without unit", NULL, NULL, FROM("queue: in, buffer: 64"),
     "3: routes[0].from.buffer: \"64\" has no unit; write 64MiB"},
    {"size below", NULL, NULL, FROM("queue: in, buffer: 1023KiB"),
     "3: routes[0].from.buffer: \"1023KiB\" is too low; write 1MiB to 64GiB"},
    {"number", NULL, NULL, ROUTE ", workers: many",
     "3: routes[0].workers: \"many\" is no whole number; write 1 to 64, as in 1"},
    {"number below", NULL, NULL, ROUTE ", workers: 0",
     "3: routes[0].workers: \"0\" is too low; write 1 to 64"},
    {"number above", NULL, NULL, ROUTE ", workers: 65",
     "3: routes[0].workers: \"65\" is too high; write 1 to 64"},
    {"boolean", NULL, NULL, FROM("queue: in, declare: yes"),
     "3: routes[0].from.declare: \"yes\" is not known here; write false or true"},
    {"case of a boolean", NULL, NULL, FROM("queue: in, declare: True"),
     "3: routes[0].from.declare: \"True\" is not known here; write false or true"},
    {"word", NULL, NULL, ROUTE ", on_store_failure: drop",
     "3: routes[0].on_store_failure: \"drop\" is not known here; write hold, forward or park"},
    {"unknown word", NULL, NULL, ROUTE ", on_in_doubt: hope",
     "3: routes[0].on_in_doubt: \"hope\" is not known here; write forward, park or wait"},
    {"max_window alone", NULL, NULL, ROUTE ", max_window: 7d",
     "3: routes[0].max_window: means nothing without window_header; set that, too"},
    {"on_conflict alone", NULL, NULL, ROUTE ", on_conflict: drop",
     "3: routes[0].on_conflict: means nothing without fingerprint; write fingerprint: body or "
     "body:json"},
    {"a wait beyond hold_limit", NULL, NULL, ROUTE ", on_in_doubt: wait, hold_limit: 40s",
     "3: routes[0].in_doubt_wait: must be at most half of hold_limit, after which everything is "
     "given back"},
    {"empty", NULL, NULL, FROM("queue: ''"),
     "3: routes[0].from.queue: is empty; write a value, or leave the field out"},
    {"nothing", NULL, NULL, FROM("queue: "),
     "3: routes[0].from.queue: has no value; write one, or leave the field out"},
    {"null", BROKER ", password: null", NULL, NULL,
     "1: broker.password: has no value; write one, or leave the field out"},
    {"tilde", BROKER ", password: ~", NULL, NULL,
     "1: broker.password: has no value; write one, or leave the field out"},
    {"NUL", NULL, NULL, FROM("queue: \"a\\0b\""),
     "3: routes[0].from.queue: has a NUL character (\\0), which is not allowed"},
    {"control character", NULL, NULL, FROM("queue: \"a\\nb\""),
     "3: routes[0].from.queue: has a control character, or is not UTF-8; write it as visible "
     "text"},
    {"shown on one line", NULL, NULL, BUT("window: \"2\\n4\\e\""),
     "3: routes[0].window: \"2\\x0A4\\x1B\" " DURATION},
    {"name", NULL, NULL, "name: A b, from: {queue: in}, " TO REST,
     "3: routes[0].name: \"A b\" is not allowed; write 1 to 64 of a-z 0-9 . _ -"},
    {"scope", NULL, NULL, ROUTE ", scope: a/b",
     "3: routes[0].scope: \"a/b\" is not allowed; write 1 to 64 of a-z 0-9 . _ -"},
    {"prefix", NULL, STORE ", prefix: a*", NULL,
     "2: stores[0].prefix: \"a*\" is not allowed; write 1 to 64 of A-Z a-z 0-9 . _ : { } -"},
    {"list for one", NULL, NULL, FROM("queue: [in]"),
     "3: routes[0].from.queue: must be one value, not a list"},
    {"group for one", NULL, NULL, FROM("queue: {in: x}"),
     "3: routes[0].from.queue: must be one value, not a group of fields"},
    {"one for list", "urls: \"amqp://u:s3cret@h\"", NULL, NULL,
     "1: broker.urls: must be a list; write [ ] around its items"},
    {"empty list", "urls: []", NULL, NULL,
     "1: broker.urls: is an empty list; write at least one item"},
    {"one for group", NULL, NULL, "name: a, from: in, " TO REST,
     "3: routes[0].from: must be a group of fields: queue, exchange, exchange_type, bindings, "
     "queue_type, declare, prefetch, buffer|3: routes[0].from.queue: is missing; write, for "
     "example, queue: payments.in"},
    {"key", NULL, NULL, "name: a, from: {queue: in}, " TO "key: [\"header:\"], window: 1h",
     "3: routes[0].key[0]: header: lacks the header's name; write header:NAME"},
    {"two keys", NULL, NULL,
     "name: a, from: {queue: in}, " TO "key: [\"a = header:\", \"c = body\", type], window: 1h",
     "3: routes[0].key[0]: header: lacks the header's name; write header:NAME|3: "
     "routes[0].key[2]: \"type\" has no "
     "name, and needs one where the list has several; write NAME = type"},
    /* Fields */
    {"unknown", NULL, NULL, ROUTE ", wndow: 24h", "3: routes[0].wndow: " KNOWN_ROUTE},
    {"unknown below", NULL, NULL, FROM("queue: in, Exchange: x"),
     "3: routes[0].from.Exchange: unknown field; known here: queue, exchange, exchange_type, "
     "bindings, queue_type, declare, prefetch, buffer"},
    {"unknown, with a dot", NULL, NULL, ROUTE ", from.queue: x", "3: has an " KNOWN_ROUTE},
    {"unknown, maybe secret", BROKER ", \"amqp://u:s3cret@h\": x", NULL, NULL,
     "1: has an unknown field; known here: urls, username, password, heartbeat, tls"},
    {"unknown, no text", BROKER ", [a]: x", NULL, NULL,
     "1: has an unknown field; known here: urls, username, password, heartbeat, tls"},
    {"repeated", NULL, NULL, ROUTE ", name: b",
     "3: routes[0].name: is set twice, here and in line 3; leave one out"},
    {"no group", BROKER ", tls: true", NULL, NULL,
     "1: broker.tls: must be a group of fields: ca, cert, key, verify"},
    {"missing", "heartbeat: 1s", "prefix: x", "scope: x",
     "1: broker.urls: is missing; write, for example, urls: "
     "[\"amqp://rabbitmq:5672/%2f\"]|2: stores[0].name: is missing; write, for example, name: "
     "redis|2: stores[0].url: is missing; write, for example, url: redis://redis:6379/0|3: "
     "routes[0].name: is missing; write, for example, name: payments|3: "
     "routes[0].from.queue: is missing; write, for example, queue: payments.in|3: "
     "routes[0].key: is missing; write, for example, key: [\"message_id\"]|3: "
     "routes[0].window: is missing; write, for example, window: 24h|3: routes[0].to: has "
     "neither queue nor exchange; write, for example, queue: payments.work"},
    /* References */
    {"missing variable", "urls: [\"amqp://u:${ONLYONCE_T_UNSET}@h\"]", NULL, NULL,
     "1: broker.urls[0]: the environment variable ONLYONCE_T_UNSET is not set; set it, or "
     "write ${ONLYONCE_T_UNSET:-default}"},
    {"missing file", BROKER ", username: u, password: \"${file:/nonexistent/x}\"", NULL, NULL,
     "1: broker.password: the file \"/nonexistent/x\" cannot be read: No such file or "
     "directory"},
    {"a folder", BROKER ", username: u, password: \"${file:/}\"", NULL, NULL,
     "1: broker.password: the file \"/\" cannot be read: Is a directory"},
    {"no file", BROKER ", username: u, password: \"${file:}\"", NULL, NULL,
     "1: broker.password: \"${file:}\" names no file; write ${file:/path}"},
    {"lone dollar", BROKER ", username: u, password: s3$cret", NULL, NULL,
     "1: broker.password: a \"$\" is written $$; ${NAME} takes the environment's value"},
    {"not closed", BROKER ", username: u, password: \"s3${cret\"", NULL, NULL,
     "1: broker.password: \"${\" has no closing \"}\"; write a dollar as $$"},
    {"no name", BROKER ", username: u, password: \"s3${c-ret}\"", NULL, NULL,
     "1: broker.password: \"${\" must be followed by NAME}, NAME:-default} or file:/path}; "
     "write a dollar as $$"},
    {"nested", BROKER ", username: u, password: \"${A:-${B}}\"", NULL, NULL,
     "1: broker.password: a default in ${NAME:-default} cannot hold another ${...}; write a "
     "dollar as $$"},
    {"empty secret", BROKER ", username: u, password: \"${ONLYONCE_T_EMPTY}\"", NULL, NULL,
     "1: broker.password: is empty; write a value, or leave the field out"},
    {"not UTF-8", NULL, NULL, FROM("queue: \"${ONLYONCE_T_LATIN}\""),
     "3: routes[0].from.queue: has a control character, or is not UTF-8; write it as visible "
     "text"},
    {"word from outside", NULL, NULL, FROM("queue: in, declare: \"${ONLYONCE_T_SET}\""),
     "3: routes[0].from.declare: \"value\" is not known here; write false or true"},
    /* More than YAML's plain texts */
    {"alias", NULL, NULL, "name: &n a, scope: *n, from: {queue: in}, " TO REST,
     "3: routes[0].name: has an anchor (&), which is not supported; write the value where it "
     "is needed|3: routes[0].scope: is an alias (*), which is not supported; write the value "
     "itself"},
    {"tag", NULL, NULL, FROM("queue: !!str in"),
     "3: routes[0].from.queue: has a tag (!), which is not supported; leave it out"},
    {"tagged list", "urls: !x [\"amqp://h\"]", NULL, NULL,
     "1: broker.urls: has a tag (!), which is not supported; leave it out"},
    {"tagged name", NULL, NULL, ROUTE ", !x scope: s",
     "3: routes[0].scope: has a tag (!), which is not supported; leave it out"},
};

static void test_faulty_fields(void **state)
{
    (void)state;
    setenv("ONLYONCE_T_SET", "value", 1);
    setenv("ONLYONCE_T_EMPTY", "", 1);
    setenv("ONLYONCE_T_LATIN", "gr\xfc\xdf", 1);
    unsetenv("ONLYONCE_T_UNSET");
    config_expect_all(faulty_fields, COUNT(faulty_fields));
}

/* ---- Files ---- */

static void test_documents(void **state)
{
#define NO_SECTIONS                                                                                \
    "1: broker.urls: is missing; write, for example, urls: [\"amqp://rabbitmq:5672/%2f\"]|"        \
    "1: stores: is missing; write at least one item|1: routes: is missing; write at least one "    \
    "item"
    static const struct {
        const char *label, *text;
        size_t len; /* 0: up to the NUL */
        const char *want;
    } cases[] = {
        {"nothing", "", 0, "1: is empty; it needs at least broker, stores and routes"},
        {"comment", "# x\n", 0, "1: is empty; it needs at least broker, stores and routes"},
        {"text", "x\n", 0,
         "1: must be a group of fields: broker, stores, admin, completions, log, "
         "routes|" NO_SECTIONS},
        {"no fields", "{}\n", 0, NO_SECTIONS},
        {"empty lists", "broker: {urls: ['amqp://h']}\nstores: []\nroutes: []\n", 0,
         "2: stores: is an empty list; write at least one item|3: routes: is an empty list; write "
         "at least one item"},
        {"no lists", "broker: {urls: ['amqp://h']}\nstores: {}\nroutes: x\n", 0,
         "2: stores: must be a list; begin each item with \"- name: ...\"|3: routes: must be a "
         "list; begin each item with \"- name: ...\""},
        {"unknown groups", "admins: {listen: x}\nlogs: {}\n", 0,
         "1: admins: unknown field; known here: broker, stores, admin, completions, log, routes|"
         "2: logs: unknown field; known here: broker, stores, admin, completions, log, "
         "routes|" NO_SECTIONS},
        {"no port", "admin: {listen: localhost}\n", 0,
         NO_SECTIONS "|1: admin.listen: has no port; write 127.0.0.1:8080"},
        {"no address", "admin: {listen: ':80'}\n", 0,
         NO_SECTIONS
         "|1: admin.listen: has no address; write 127.0.0.1:PORT, or 0.0.0.0:PORT for all"},
        {"a URL", "admin: {listen: 'http://h:80'}\n", 0,
         NO_SECTIONS "|1: admin.listen: is no ADDRESS:PORT; write 127.0.0.1:8080"},
        {"a token for nothing", "admin: {token: s3cret}\n", 0,
         NO_SECTIONS "|1: admin.token: means nothing without admin.listen; set that, too"},
        {"NUL", "a: b\nc: \0d\n", 10, "2: contains a NUL byte; a configuration is UTF-8 text"},
        {"second document", "{}\n---\n{}\n", 0,
         "2: a second document begins here; a configuration is one document"},
        {"tab", "broker:\n\turls: []\n", 0,
         "2: is not valid YAML: found character that cannot start any token while scanning for "
         "the next token (indent with spaces, not tabs)"},
        {"unquoted at", "broker:\n  password: @x\n", 0,
         "2: is not valid YAML: found character that cannot start any token while scanning for "
         "the next token (a text that begins with this character needs quotation marks)"},
        {"colon", "broker:\n  password: a: b\n", 0,
         "2: is not valid YAML: mapping values are not allowed in this context (a text that "
         "contains \": \" needs quotation marks; or the indentation is off)"},
        {"reference in brackets", "broker:\n  urls: [${X}]\n", 0,
         "2: is not valid YAML: did not find expected ',' or ']' while parsing a flow sequence "
         "(between [ ] and { } a text with ${...} needs quotation marks)"},
        {"indented too little", "routes:\n  - name: a\n   window: 1h\n", 0,
         "3: is not valid YAML: did not find expected '-' indicator while parsing a block "
         "collection (a line has to be indented as its neighbours are)"},
        {"indented too much", "broker:\n    urls: []\n   username: a\n", 0,
         "3: is not valid YAML: did not find expected key while parsing a block mapping (a line "
         "has to be indented as its neighbours are)"},
        {"not closed", "broker: {urls: [\n", 0,
         "2: is not valid YAML: did not find expected node content while parsing a flow node"},
        {"not UTF-8", "a: b\nc: \xff\n", 0, "2: is not valid YAML: invalid leading UTF-8 octet"},
        {"too deep", "a: [[[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]]\n", 0,
         "1: is nested more than 16 levels deep"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t len = cases[i].len ? cases[i].len : strlen(cases[i].text);
        config_expect_faults(cases[i].label, (struct span){(const uint8_t *)cases[i].text, len},
                             cases[i].want);
    }
}

static void test_many_faults(void **state)
{
    (void)state;
    struct buffer text = {0};
    for (int i = 0; i < 5000; i++)
        buffer_printf(&text, "x%d: y\n", i);
    struct buffer errors = {0};
    config_write_file(config_path, buffer_span(&text));
    assert_null(config_load(config_path, &errors));
    size_t lines = 0;
    for (size_t i = 0; i < errors.len; i++)
        lines += errors.data[i] == '\n';
    assert_int_equal(lines, 101);
    buffer_free(&errors);
    buffer_free(&text);
}

static void expect_no_file(const char *path, const char *want)
{
    struct buffer errors = {0};
    assert_null(config_load(path, &errors));
    buffer_add_u8(&errors, 0);
    same_text(path, (const char *)errors.data, want);
    buffer_free(&errors);
}

static void test_files_that_cannot_be_read(void **state)
{
    (void)state;
    struct buffer text = {0};
    buffer_printf(&text, "#");
    memset(buffer_reserve(&text, 1 << 20), 'x', 1 << 20);
    text.len += 1 << 20;
    config_write_file(config_path, buffer_span(&text));
    buffer_free(&text);
    char *want = xasprintf("%s: is larger than 1024 KiB, the most that is read\n", config_path);
    expect_no_file(config_path, want);
    free(want);
    expect_no_file("/nonexistent/x.yaml",
                   "/nonexistent/x.yaml: cannot be read: No such file or directory\n");
    expect_no_file("/", "/: cannot be read: Is a directory\n");
    expect_no_file("", ": cannot be read: No such file or directory\n");
    expect_no_file("-",
                   "-: cannot be read: No such file or directory; standard input is /dev/stdin\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faulty_fields),
        cmocka_unit_test(test_documents),
        cmocka_unit_test(test_many_faults),
        cmocka_unit_test(test_files_that_cannot_be_read),
    };
    return cmocka_run_group_tests(tests, config_make_folder, config_remove_folder);
}
