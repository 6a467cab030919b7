#include "sqlite_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char text_prefix[] = "oo{a}.b-c";

/* ---- Set-up ---- */

int sqlite_bench_set_up(void **state)
{
    struct sqlite_bench *b = xcalloc(1, sizeof *b);
    *state = b;
    snprintf(b->folder, sizeof b->folder, P_tmpdir "/onlyonce-sqlite.XXXXXX");
    assert_non_null(mkdtemp(b->folder));
    b->config = (struct store_config){
        .name = text_name, .prefix = text_prefix, .timeout = 300, .parsed.kind = STORE_SQLITE};
    b->config.parsed.path = xasprintf("%s/onlyonce.db", b->folder);
    b->store = store_new(&b->config, "scope");
    return 0;
}

int sqlite_bench_tear_down(void **state)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    struct sqlite_bench *b = *state;
    char name[128];
    store_free(b->store);
    sqlite3_close(b->other);
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s%s", b->config.parsed.path, ends[i]);
        remove(name);
    }
    assert_int_equal(rmdir(b->folder), 0);
    free(b->config.parsed.path);
    free(b);
    return 0;
}

/* ---- The file ---- */

void run_sql(struct sqlite_bench *b, const char *sql)
{
    if (!b->other)
        assert_int_equal(sqlite3_open(b->config.parsed.path, &b->other), SQLITE_OK);
    if (sqlite3_exec(b->other, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(b->other));
}

int64_t ask_sql(struct sqlite_bench *b, const char *sql)
{
    sqlite3_stmt *statement;
    run_sql(b, "SELECT 1");
    assert_int_equal(sqlite3_prepare_v2(b->other, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t answer = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return answer;
}

int64_t file_size(struct sqlite_bench *b, const char *end)
{
    struct stat found;
    char name[128];
    snprintf(name, sizeof name, "%s%s", b->config.parsed.path, end);
    return stat(name, &found) == 0 ? found.st_size : 0;
}

/* ---- Records ---- */

enum store_answer claim(struct store *s, const char *session, const char *key)
{
    return apply_one(s, session, key, nothing, pending(session, 1)).answer;
}

bool is_held(struct store *s, const char *key)
{
    return held(s, key, NULL).now.state != RECORD_NONE;
}

void make_batch(struct batch *b, const char *session, int number)
{
    for (int i = 0; i < BATCH; i++) {
        snprintf(b->keys[i], sizeof b->keys[i], "%d-%d", number, i);
        b->ops[i] = op_of(b->keys[i], nothing, pending(session, (uint64_t)i + 1));
    }
}

int held_of_batch(struct store *s, int number)
{
    char key[32];
    int count = 0;
    for (int i = 0; i < BATCH; i++) {
        snprintf(key, sizeof key, "%d-%d", number, i);
        count += is_held(s, key);
    }
    return count;
}

/* ---- Processes ---- */

int in_child(struct sqlite_bench *b, int (*run)(struct sqlite_bench *b))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int code = run(b);
        store_free(b->store);
        _exit(code);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
