/*
 * The user of docs/stores.md: with exactly those rights all that a store does is allowed, and each
 * of them is needed.
 */
#include "redis_server.h"
#include "store_backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define A "aaaaaaaaaaaaaaaaaaaaaaaa"
#define MINUTE 60000
#define WORDS_MOST 60

static char text_name[] = "test";
static char text_prefix[] = "onlyonce";
static char text_host[] = "127.0.0.1";
static char text_user[] = "onlyonce";
static char text_password[] = "SECRET";

struct bench {
    struct store_config config;
    struct redis_server server;
    redisContext *redis;
    char line[1024]; /* of the documentation, cut into words */
    const char *words[WORDS_MOST];
    int count;
};

/* The line of docs/stores.md that makes the user. */
static void read_line(struct bench *b)
{
    FILE *file = fopen(ONLYONCE_SOURCE_DIR "/docs/stores.md", "r");
    assert_non_null(file);
    bool found = false;
    while (!found && fgets(b->line, sizeof b->line, file))
        found = strncmp(b->line, "ACL SETUSER onlyonce ", 21) == 0;
    fclose(file);
    assert_true(found);
    for (char *rest = b->line, *word; (word = strsep(&rest, " \n"));)
        if (*word && b->count < WORDS_MOST - 1)
            b->words[b->count++] = word;
}

static int set_up(void **state)
{
    struct bench *b = xcalloc(1, sizeof *b);
    *state = b;
    read_line(b);
    redis_server_create(&b->server);
    redis_server_start(&b->server, NULL);
    b->redis = redisConnect(text_host, b->server.port);
    b->config = (struct store_config){.name = text_name,
                                      .prefix = text_prefix,
                                      .timeout = 1000,
                                      .username = text_user,
                                      .password = text_password};
    b->config.parsed = (struct store_url){
        .kind = STORE_REDIS, .host = text_host, .port = b->server.port, .database = 1};
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    redisFree(b->redis);
    redis_server_remove(&b->server);
    free(b);
    return 0;
}

/* The user as documented, but for one change. */
static void make_user(struct bench *b, const char *change)
{
    b->words[b->count] = change;
    redisReply *reply = redisCommandArgv(b->redis, b->count + (change != NULL), b->words, NULL);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s", reply ? reply->str : b->redis->errstr);
    freeReplyObject(reply);
    freeReplyObject(redisCommand(b->redis, "ACL LOG RESET"));
    freeReplyObject(redisCommand(b->redis, "FLUSHALL"));
}

/* How many commands were denied since. */
static size_t denied(struct bench *b)
{
    redisReply *reply = redisCommand(b->redis, "ACL LOG");
    assert_non_null(reply);
    size_t count = reply->elements;
    freeReplyObject(reply);
    return count;
}

static bool stop_at_once(void *context, struct span key, const struct record *r, int64_t ttl)
{
    (void)context;
    (void)key;
    (void)r;
    (void)ttl;
    return false;
}

static struct record record_of(enum record_state state, int64_t ends)
{
    struct record r = {.now = {.state = state, .number = 1, .first_seen = 1, .since = 2}};
    r.now.ends = ends;
    if (state == RECORD_PENDING) {
        strcpy(r.session, A);
        r.claim = 1;
    }
    return r;
}

/* Records: claimed, recorded, completed, prolonged, read, listed, released. */
static bool use_records(struct store *s)
{
    struct record moved = record_of(RECORD_COMPLETED, 9);
    struct store_op op = {
        .key = span_of("k"), .write = record_of(RECORD_PENDING, 0), .ttl = MINUTE};
    struct record met;
    struct buffer result = {0};
    int64_t ttl;
    bool foreign;
    bool good = store_apply(s, A, &op, 1);
    op.expect = op.write;
    op.write = record_of(RECORD_FORWARDED, 5);
    good = good && store_apply(s, A, &op, 1);
    op.expect = op.write;
    op.write = record_of(RECORD_COMPLETED, 5);
    op.write.now.has_result = moved.now.has_result = true;
    good = good && store_complete(s, &op, span_of("{}"));
    op.expect = op.write;
    op.write = moved;
    good = good && store_apply(s, A, &op, 1) && store_get_result(s, span_of("k"), &result) &&
           store_get(s, span_of("k"), &met, &ttl, &foreign) && store_list(s, stop_at_once, NULL);
    op.expect = moved;
    op.write = (struct record){0};
    buffer_free(&result);
    return good && store_apply(s, NULL, &op, 1) && op.answer == STORE_APPLIED;
}

/* All that a store does; what is refused ends it. */
static bool use_all(struct bench *b, struct buffer *dangers, char error[320])
{
    const char *const ids[] = {A};
    bool permanent;
    bool live;
    bool exists;
    struct store *s = store_new(&b->config, "scope");
    bool good = store_open(s, &permanent) && store_dangers(s, dangers) &&
                store_session_open(s, A, MINUTE, NULL, 0, NULL, 0) &&
                store_sessions_live(s, ids, 1, &live) && use_records(s) &&
                store_session_renew(s, A, MINUTE, &exists) && store_session_end(s, A);
    if (good) {
        b->config.wait_replicas = 1; /* There is none: it is allowed to ask for it. */
        struct store_op op = {.key = span_of("k"), .ttl = MINUTE};
        good = !store_apply(s, NULL, &op, 1) && strstr(store_error(s), "0 of the 1 replicas");
        b->config.wait_replicas = 0;
    }
    snprintf(error, 320, "%s", store_error(s));
    buffer_add_u8(dangers, '\0');
    store_free(s);
    return good;
}

static void the_documented_user_is_enough(void **state)
{
    struct bench *b = *state;
    struct buffer dangers = {0};
    char error[320];
    make_user(b, NULL);
    if (!use_all(b, &dangers, error))
        fail_msg("%s", error);
    assert_int_equal(denied(b), 0);
    assert_null(strstr((char *)dangers.data, "does not tell all"));
    buffer_free(&dangers);
}

static void each_right_is_needed(void **state)
{
    struct bench *b = *state;
    int rights = 0;
    for (int i = 0; i < b->count; i++) {
        struct buffer dangers = {0};
        char error[320];
        if (b->words[i][0] != '+')
            continue;
        char *less = xasprintf("-%s", b->words[i] + 1);
        make_user(b, less);
        (void)use_all(b, &dangers, error);
        if (denied(b) == 0)
            fail_msg("%s is not needed", b->words[i]);
        rights++;
        free(less);
        buffer_free(&dangers);
    }
    assert_in_range(rights, 15, 30);
}

static void without_info_and_config_it_works(void **state)
{
    static const char *const less[] = {"-info", "-config|get", "-client|setname"};
    struct bench *b = *state;
    for (size_t i = 0; i < 3; i++) {
        struct buffer dangers = {0};
        char error[320];
        make_user(b, less[i]);
        if (!use_all(b, &dangers, error))
            fail_msg("%s: %s", less[i], error);
        assert_int_equal(strstr((char *)dangers.data, "does not tell all") != NULL, i < 2);
        buffer_free(&dangers);
    }
}

/* What is not under the prefix is nobody's business. */
static void other_keys_are_out_of_reach(void **state)
{
    struct bench *b = *state;
    struct buffer dangers = {0};
    char error[320];
    make_user(b, NULL);
    b->config.prefix = text_name;
    assert_false(use_all(b, &dangers, error));
    assert_non_null(strstr(error, "NOPERM"));
    buffer_free(&dangers);
}

/* clang-format off */
#define TEST(name) {#name, name, set_up, tear_down, NULL}
/* clang-format on */

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_documented_user_is_enough),
        TEST(each_right_is_needed),
        TEST(without_info_and_config_it_works),
        TEST(other_keys_are_out_of_reach),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("store: Redis users", tests, NULL, NULL);
}
