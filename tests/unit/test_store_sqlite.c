/*
 * What only SQLite can do wrong: locks, disks, files, processes. The contract of store.h is tested
 * in test_store.c. Time is the real one, moved at will.
 */
#include "store_backend.h"

#include "clock.h"
#include "faulty_disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define A "aaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbb"
#define MINUTE 60000
#define NOBODY 65534

static const struct record nothing;

struct bench {
    struct store_config config;
    struct store *store;
    sqlite3 *other; /* a connection beside the store's */
    char folder[64];
};

static char text_name[] = "test";
static char text_prefix[] = "oo{a}.b-c";

/* ---- The clock, in place of src/clock.c ---- */

static int64_t moved;   /* ms, of the wall clock */
static int64_t stopped; /* where it stands; 0: it runs */

static int64_t read_clock(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t clock_now(void)
{
    return read_clock(CLOCK_BOOTTIME);
}

int64_t clock_wall(void)
{
    return (stopped ? stopped : read_clock(CLOCK_REALTIME)) + moved;
}

/* ---- The bench ---- */

static int set_up(void **state)
{
    struct bench *b = xcalloc(1, sizeof *b);
    *state = b;
    moved = 0;
    stopped = 0;
    snprintf(b->folder, sizeof b->folder, P_tmpdir "/onlyonce-sqlite.XXXXXX");
    assert_non_null(mkdtemp(b->folder));
    b->config = (struct store_config){
        .name = text_name, .prefix = text_prefix, .timeout = 300, .parsed.kind = STORE_SQLITE};
    b->config.parsed.path = xasprintf("%s/onlyonce.db", b->folder);
    b->store = store_new(&b->config, "scope");
    return 0;
}

static int tear_down(void **state)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    struct bench *b = *state;
    char name[128];
    faulty_disk_mend();
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

static void open_store(struct store *s)
{
    bool permanent;
    if (!store_open(s, &permanent))
        fail_msg("%s", store_error(s));
}

static struct store *another_store(struct bench *b)
{
    struct store *s = store_new(&b->config, "scope");
    open_store(s);
    return s;
}

/* Runs SQL beside the store; NULL, or what is wrong. */
static const char *try_sql(struct bench *b, const char *sql)
{
    if (!b->other)
        assert_int_equal(sqlite3_open(b->config.parsed.path, &b->other), SQLITE_OK);
    int code = sqlite3_exec(b->other, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? NULL : sqlite3_errmsg(b->other);
}

static void run_sql(struct bench *b, const char *sql)
{
    const char *bad = try_sql(b, sql);
    if (bad)
        fail_msg("%s: %s", sql, bad);
}

static int64_t ask_sql(struct bench *b, const char *sql)
{
    sqlite3_stmt *statement;
    run_sql(b, "SELECT 1");
    assert_int_equal(sqlite3_prepare_v2(b->other, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t answer = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return answer;
}

static int64_t file_size(struct bench *b, const char *end)
{
    struct stat found;
    char name[128];
    snprintf(name, sizeof name, "%s%s", b->config.parsed.path, end);
    return stat(name, &found) == 0 ? found.st_size : 0;
}

static void assert_says(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" does not say \"%s\"", text, part);
}

/* ---- Short forms ---- */

static struct record pending(const char *session, uint64_t claim)
{
    struct record r = {.now = {.state = RECORD_PENDING, .number = 1, .first_seen = 1700000000000}};
    r.now.since = 1700000000001;
    snprintf(r.session, sizeof r.session, "%s", session);
    r.claim = claim;
    return r;
}

static struct store_op op_of(const char *key, struct record expect, struct record write)
{
    return (struct store_op){.key = span_of(key), .expect = expect, .write = write, .ttl = MINUTE};
}

static void apply(struct store *s, const char *session, struct store_op *ops, size_t count)
{
    if (!store_apply(s, session, ops, count))
        fail_msg("%s", store_error(s));
}

static enum store_answer claim(struct store *s, const char *session, const char *key)
{
    struct store_op op = op_of(key, nothing, pending(session, 1));
    apply(s, session, &op, 1);
    return op.answer;
}

static void open_session(struct store *s, const char *id)
{
    if (!store_session_open(s, id, MINUTE, NULL, 0, NULL, 0))
        fail_msg("%s", store_error(s));
}

static bool is_held(struct store *s, const char *key)
{
    struct record r;
    int64_t ttl;
    bool foreign;
    if (!store_get(s, span_of(key), &r, &ttl, &foreign))
        fail_msg("%s", store_error(s));
    assert_false(foreign);
    return r.now.state != RECORD_NONE;
}

static bool count_one(void *context, struct span key, const struct record *r, int64_t ttl)
{
    (void)key;
    (void)ttl;
    assert_non_null(r);
    ++*(size_t *)context;
    return true;
}

static size_t count_held(struct store *s)
{
    size_t count = 0;
    if (!store_list(s, count_one, &count))
        fail_msg("%s", store_error(s));
    return count;
}

/* A batch of claims of new keys. */
enum { BATCH = 50 };

struct batch {
    struct store_op ops[BATCH];
    char keys[BATCH][32];
};

static void make_batch(struct batch *b, const char *session, int number)
{
    for (int i = 0; i < BATCH; i++) {
        snprintf(b->keys[i], sizeof b->keys[i], "%d-%d", number, i);
        b->ops[i] = op_of(b->keys[i], nothing, pending(session, (uint64_t)i + 1));
    }
}

/* How many of a batch's keys are there. */
static int held_of_batch(struct store *s, int number)
{
    char key[32];
    int held = 0;
    for (int i = 0; i < BATCH; i++) {
        snprintf(key, sizeof key, "%d-%d", number, i);
        held += is_held(s, key);
    }
    return held;
}

/* ---- Locks ---- */

static void a_lock_is_waited_for_within_the_timeout(void **state)
{
    struct bench *b = *state;
    struct store_op op = op_of("k", nothing, pending(A, 1));
    open_store(b->store);
    run_sql(b, "BEGIN IMMEDIATE");
    int64_t began = clock_now();
    assert_false(store_apply(b->store, NULL, &op, 1));
    assert_in_range(clock_now() - began, 290, 2000);
    assert_says(store_error(b->store), "no answer within 300 ms: another process holds the lock");
    assert_false(store_is_open(b->store));
    run_sql(b, "COMMIT");
    open_store(b->store);
    assert_false(is_held(b->store, "k"));
    apply(b->store, NULL, &op, 1);
    assert_int_equal(op.answer, STORE_APPLIED);
}

static void who_reads_waits_for_nobody(void **state)
{
    struct bench *b = *state;
    const char *id = A;
    bool live;
    struct buffer result = {0};
    open_store(b->store);
    open_session(b->store, A);
    claim(b->store, A, "k");
    store_close(b->store);
    run_sql(b, "BEGIN IMMEDIATE; DELETE FROM \"oo{a}.b-c_records\"");
    b->config.timeout = 9000;
    int64_t began = clock_now();
    open_store(b->store);
    assert_true(is_held(b->store, "k"));
    assert_true(store_get_result(b->store, span_of("k"), &result));
    assert_true(store_sessions_live(b->store, &id, 1, &live));
    assert_true(live);
    assert_int_equal(count_held(b->store), 1);
    assert_true(clock_now() - began < b->config.timeout);
    run_sql(b, "ROLLBACK");
}

/* A transaction of another process that only reads keeps nobody from writing. */
static void who_writes_waits_for_no_reader(void **state)
{
    struct bench *b = *state;
    open_store(b->store);
    open_session(b->store, A);
    run_sql(b, "BEGIN; SELECT count(*) FROM \"oo{a}.b-c_records\"");
    assert_int_equal(claim(b->store, A, "k"), STORE_APPLIED);
    run_sql(b, "COMMIT");
}

/* ---- Disks ---- */

/* Whatever call of whatever kind fails: a batch is there or not, and if its call succeeded it is
 * there. */
static void break_batch(struct bench *b, enum disk_call call, int after, int number)
{
    struct batch batch;
    open_store(b->store);
    make_batch(&batch, A, number);
    faulty_disk_break(call, after, call == DISK_WRITE_LOG ? SQLITE_FULL : SQLITE_IOERR);
    bool good = store_apply(b->store, A, batch.ops, BATCH);
    bool broken = faulty_disk_mend();
    assert_true(good || broken);
    if (!good)
        assert_says(store_error(b->store), call == DISK_WRITE_LOG ? "full" : "disk I/O error");
    store_close(b->store);
    open_store(b->store);
    int held = held_of_batch(b->store, number);
    assert_true(held == BATCH || (held == 0 && !good));
}

static void a_broken_disk_is_no_answer(void **state)
{
    struct bench *b = *state;
    int number = 0;
    open_store(b->store);
    open_session(b->store, A);
    for (int call = DISK_READ; call < DISK_CALL_COUNT; call++)
        for (int after = 0; after < 12; after++)
            break_batch(b, (enum disk_call)call, after, number++);
    assert_int_equal(ask_sql(b, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
}

static void what_the_log_did_not_take_fails(void **state)
{
    static const enum disk_call calls[] = {DISK_WRITE_LOG, DISK_SYNC_LOG};
    struct bench *b = *state;
    open_store(b->store);
    open_session(b->store, A);
    for (int i = 0; i < 2; i++) {
        struct batch batch;
        make_batch(&batch, A, i);
        faulty_disk_break(calls[i], 0, i == 0 ? SQLITE_FULL : SQLITE_IOERR_FSYNC);
        assert_false(store_apply(b->store, A, batch.ops, BATCH));
        assert_true(faulty_disk_mend());
        assert_says(store_error(b->store), i == 0 ? "disk is full" : "disk I/O error");
        open_store(b->store);
        assert_int_equal(held_of_batch(b->store, i), 0);
    }
}

/* Only the log is synced when a batch ends; and with synchronous: normal not even that. */
static void syncs_as_it_is_told(void **state)
{
    struct bench *b = *state;
    b->config.synchronous = SYNCHRONOUS_NORMAL;
    open_store(b->store);
    open_session(b->store, A);
    faulty_disk_break(DISK_SYNC_LOG, 0, SQLITE_IOERR_FSYNC);
    assert_int_equal(claim(b->store, A, "k"), STORE_APPLIED);
    assert_false(faulty_disk_mend());
}

/* Runs it in a process of its own; its exit code, or what signal killed it, less than 0. */
static int in_child(struct bench *b, int (*run)(struct bench *b))
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

/* Writes until files may not get longer. 0: the last call failed, and everything before it stayed.
 */
static int fill_disk(struct bench *b)
{
    const struct rlimit limit = {1 << 20, 1 << 20};
    struct batch batch;
    bool permanent;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    if (!store_open(b->store, &permanent))
        return 1;
    int number = 0;
    for (make_batch(&batch, A, 0); store_apply(b->store, NULL, batch.ops, BATCH); number++)
        make_batch(&batch, A, number + 1);
    if (number < 3 || !strstr(store_error(b->store), "File too large"))
        return 2;
    if (!store_open(b->store, &permanent))
        return 3;
    for (int i = 0; i < number; i++)
        if (held_of_batch(b->store, i) != BATCH)
            return 4;
    return held_of_batch(b->store, number) == 0 ? 0 : 5;
}

static void a_full_disk_keeps_what_was_written(void **state)
{
    assert_int_equal(in_child(*state, fill_disk), 0);
}

/* ---- Files ---- */

static void write_file(struct bench *b, const char *text)
{
    FILE *f = fopen(b->config.parsed.path, "w");
    assert_non_null(f);
    for (int i = 0; i < 400; i++)
        fputs(text, f);
    fclose(f);
}

static void refuses(struct bench *b, const char *why)
{
    bool permanent;
    assert_false(store_open(b->store, &permanent));
    assert_says(store_error(b->store), b->config.parsed.path);
    assert_says(store_error(b->store), why);
    assert_true(permanent);
    assert_null(strchr(store_error(b->store), '\n'));
}

static void what_is_no_database_is_refused(void **state)
{
    struct bench *b = *state;
    write_file(b, "This is a letter to my aunt. ");
    refuses(b, "file is not a database");
    assert_int_equal(unlink(b->config.parsed.path), 0);
    assert_int_equal(mkdir(b->config.parsed.path, 0700), 0);
    refuses(b, "unable to open database file");
    assert_int_equal(rmdir(b->config.parsed.path), 0);
}

static void a_damaged_file_is_refused(void **state)
{
    struct bench *b = *state;
    open_store(b->store);
    for (int i = 0; i < 20; i++) {
        struct batch batch;
        make_batch(&batch, A, i);
        apply(b->store, NULL, batch.ops, BATCH);
    }
    store_close(b->store);
    int fd = open(b->config.parsed.path, O_RDWR);
    char rubbish[4096];
    memset(rubbish, 0x5a, sizeof rubbish);
    assert_int_equal(pwrite(fd, rubbish, 4096 - 200, 200), 4096 - 200); /* the table of tables */
    close(fd);
    refuses(b, "malformed");
}

static void data_pages_that_are_damaged_fail_calls(void **state)
{
    struct bench *b = *state;
    struct store_op op = op_of("new", nothing, pending(A, 1));
    open_store(b->store);
    for (int i = 0; i < 20; i++) {
        struct batch batch;
        make_batch(&batch, A, i);
        apply(b->store, NULL, batch.ops, BATCH);
    }
    store_close(b->store);
    off_t size = file_size(b, "");
    int fd = open(b->config.parsed.path, O_RDWR);
    char rubbish[4096];
    memset(rubbish, 0x5a, sizeof rubbish);
    for (off_t at = 4096; at < size; at += 4096)
        assert_int_equal(pwrite(fd, rubbish, 4096, at), 4096);
    close(fd);
    bool permanent;
    if (store_open(b->store, &permanent))
        assert_false(store_apply(b->store, NULL, &op, 1));
    assert_says(store_error(b->store), "malformed");
}

static void tables_of_another_version_are_refused(void **state)
{
    struct bench *b = *state;
    open_store(b->store);
    run_sql(b, "UPDATE \"oo{a}.b-c_version\" SET version = 2");
    refuses(b, "version \"2\"");
    run_sql(b, "DELETE FROM \"oo{a}.b-c_version\"");
    refuses(b, "version \"\"");
}

static void other_tables_of_the_name_are_refused(void **state)
{
    struct bench *b = *state;
    run_sql(b, "CREATE TABLE \"oo{a}.b-c_records\" (other INTEGER)");
    refuses(b, "expires");
    assert_int_equal(ask_sql(b, "SELECT count(*) FROM sqlite_master"), 1);
}

static void prefixes_that_differ_in_case_are_refused(void **state)
{
    static char upper[] = "oo{A}.b-c";
    static char near[] = "oo{a}.b-c_records";
    struct bench *b = *state;
    open_store(b->store);
    b->config.prefix = upper;
    refuses(b, "differ in case only");
    b->config.prefix = near;
    open_store(b->store);
    b->config.prefix = text_prefix;
}

static void folders_that_are_missing_are_named(void **state)
{
    struct bench *b = *state;
    char *path = b->config.parsed.path;
    b->config.parsed.path = xasprintf("%s/no/such/onlyonce.db", b->folder);
    refuses(b, "No such file or directory; its folder has to exist");
    const char *missing;
    assert_false(store_look(b->store, &missing));
    assert_says(store_error(b->store), "No such file or directory");
    free(b->config.parsed.path);
    b->config.parsed.path = path;
}

/* As a user who may not write everywhere. */
static int be_refused(struct bench *b)
{
    bool permanent;
    struct stat found;
    if (geteuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
        return 2;
    bool good = store_open(b->store, &permanent);
    bool told = !good && permanent &&
                strstr(store_error(b->store), "; the file and its folder have to be writable");
    if (!told)
        fprintf(stderr, "%s\n", good ? "it was opened" : store_error(b->store));
    return told && stat(b->folder, &found) == 0 ? 0 : 1;
}

static void what_may_not_be_written_is_refused(void **state)
{
    struct bench *b = *state;
    assert_int_equal(chmod(b->folder, 0555), 0);
    assert_int_equal(in_child(b, be_refused), 0); /* It cannot be made, */
    assert_int_equal(chmod(b->folder, 0755), 0);
    open_store(b->store);
    store_close(b->store);
    assert_int_equal(chmod(b->config.parsed.path, 0444), 0);
    assert_int_equal(in_child(b, be_refused), 0); /* not be written, */
    assert_int_equal(chmod(b->config.parsed.path, 0666), 0);
    assert_int_equal(chmod(b->folder, 0555), 0);
    assert_int_equal(in_child(b, be_refused), 0); /* its log cannot be made. */
    assert_int_equal(chmod(b->folder, 0755), 0);
}

static void the_file_is_its_folders_owners(void **state)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    struct bench *b = *state;
    uid_t owner = geteuid() == 0 ? NOBODY : geteuid();
    if (geteuid() == 0)
        assert_int_equal(chown(b->folder, NOBODY, NOBODY), 0);
    open_store(b->store);
    open_session(b->store, A);
    for (int i = 0; i < 3; i++) {
        struct stat found;
        char name[128];
        snprintf(name, sizeof name, "%s%s", b->config.parsed.path, ends[i]);
        assert_int_equal(stat(name, &found), 0);
        assert_int_equal(found.st_mode & 07777, 0600);
        assert_int_equal(found.st_uid, owner);
    }
}

static void looking_makes_nothing(void **state)
{
    struct bench *b = *state;
    const char *missing;
    struct stat found;
    struct buffer lines = {0};
    assert_true(store_look(b->store, &missing));
    assert_string_equal(missing, "its file is missing");
    assert_true(store_dangers(b->store, &lines));
    assert_int_not_equal(stat(b->config.parsed.path, &found), 0);
    run_sql(b, "CREATE TABLE others (a)");
    assert_true(store_look(b->store, &missing));
    assert_string_equal(missing, "its tables are missing");
    assert_int_equal(ask_sql(b, "SELECT count(*) FROM sqlite_master"), 1);
    open_store(b->store);
    assert_true(store_look(b->store, &missing));
    assert_null(missing);
    assert_true(store_dangers(b->store, &lines));
    buffer_free(&lines);
}

static void a_file_that_was_replaced_is_noticed(void **state)
{
    struct bench *b = *state;
    struct store_op op = op_of("k", nothing, pending(A, 1));
    open_store(b->store);
    apply(b->store, NULL, &op, 1);
    store_close(b->store);
    open_store(b->store);
    assert_int_equal(unlink(b->config.parsed.path), 0);
    assert_false(store_apply(b->store, NULL, &op, 1));
    assert_says(store_error(b->store), "deleted or replaced");
    open_store(b->store);
    apply(b->store, NULL, &op, 1);
    assert_int_equal(op.answer, STORE_APPLIED);
}

static void it_says_what_it_cannot_promise(void **state)
{
    struct bench *b = *state;
    struct buffer lines = {0};
    struct statfs found;
    open_store(b->store);
    assert_says(store_describe(b->store), "SQLite 3.");
    assert_says(store_describe(b->store), b->config.parsed.path);
    assert_int_equal(statfs(b->folder, &found), 0);
    assert_true(store_dangers(b->store, &lines));
    if (found.f_type != TMPFS_MAGIC && found.f_type != OVERLAYFS_SUPER_MAGIC)
        assert_int_equal(lines.len, 0);
    b->config.synchronous = SYNCHRONOUS_NORMAL;
    buffer_clear(&lines);
    assert_true(store_dangers(b->store, &lines));
    buffer_add_u8(&lines, '\0');
    assert_says((const char *)lines.data, "synchronous is normal");
    buffer_free(&lines);
}

static void a_file_in_memory_is_a_danger(void **state)
{
    struct bench *b = *state;
    struct buffer lines = {0};
    struct statfs found;
    char *path = b->config.parsed.path;
    char shared[] = "/dev/shm/onlyonce-sqlite.XXXXXX";
    assert_int_equal(statfs("/dev/shm", &found), 0);
    assert_int_equal(found.f_type, TMPFS_MAGIC);
    int fd = mkstemp(shared);
    assert_true(fd >= 0);
    close(fd);
    b->config.parsed.path = shared;
    open_store(b->store);
    assert_true(store_dangers(b->store, &lines));
    buffer_add_u8(&lines, '\0');
    assert_says((const char *)lines.data, "in memory (tmpfs)");
    buffer_free(&lines);
    store_close(b->store);
    unlink(shared);
    b->config.parsed.path = path;
}

static void people_can_read_it(void **state)
{
    struct bench *b = *state;
    open_store(b->store);
    open_session(b->store, A);
    claim(b->store, A, "k");
    assert_int_equal(
        ask_sql(b, "SELECT text = '2P 1 1700000000000 t1 o" A ".1' AND scope = 'scope' "
                   "AND key = 'k' AND expires > 1700000000000 FROM \"oo{a}.b-c_records\""),
        1);
    assert_int_equal(
        ask_sql(b, "SELECT owner LIKE '%/%' FROM \"oo{a}.b-c_sessions\" WHERE id = '" A "'"), 1);
}

/* ---- Time ---- */

static void a_clock_set_forward_ends_sessions(void **state)
{
    struct bench *b = *state;
    bool exists;
    open_store(b->store);
    open_session(b->store, A);
    claim(b->store, A, "k");
    moved = MINUTE - 1000;
    assert_int_equal(claim(b->store, A, "k"), STORE_MET);
    moved = MINUTE + 1000;
    assert_int_equal(claim(b->store, A, "l"), STORE_FENCED);
    assert_true(store_session_renew(b->store, A, MINUTE, &exists));
    assert_false(exists);
    open_session(b->store, B);
    assert_int_equal(claim(b->store, B, "k"), STORE_APPLIED); /* its time is over, too */
    moved = 0;
    assert_true(store_session_renew(b->store, B, MINUTE, &exists));
    assert_true(exists); /* set back: it lives longer */
    assert_int_equal(claim(b->store, B, "k"), STORE_MET);
    assert_true(llabs(store_now(b->store) - clock_wall()) < 1000);
}

/* A minute's windows, and 200 keys each second, for three minutes. */
static void under_a_constant_load_the_file_stops_growing(void **state)
{
    struct bench *b = *state;
    struct batch batch;
    int64_t after_two = 0;
    stopped = clock_wall();
    b->config.synchronous = SYNCHRONOUS_NORMAL;
    open_store(b->store);
    for (int second = 0; second < 180; second++) {
        for (int i = 0; i < 4; i++) {
            make_batch(&batch, A, 4 * second + i);
            apply(b->store, NULL, batch.ops, BATCH);
        }
        moved += 1000;
        if (second == 120)
            after_two = ask_sql(b, "PRAGMA page_count");
    }
    assert_in_range(ask_sql(b, "PRAGMA page_count"), 1, after_two * 21 / 20);
    assert_int_equal(count_held(b->store), 59 * 200);
    assert_in_range(ask_sql(b, "SELECT count(*) FROM \"oo{a}.b-c_records\""), 1, 61 * 200);
    assert_in_range(file_size(b, "-wal"), 0, 20 << 20);
}

static void complete(struct store *s, const char *key)
{
    struct record done = {.now = {.state = RECORD_COMPLETED,
                                  .number = 1,
                                  .first_seen = 1700000000000,
                                  .since = 1700000000002,
                                  .ends = 1700000090000,
                                  .completed = 1700000000003,
                                  .has_result = true}};
    struct store_op op = op_of(key, pending(A, 1), done);
    if (!store_complete(s, &op, span_of("{}")))
        fail_msg("%s", store_error(s));
    assert_int_equal(op.answer, STORE_APPLIED);
}

static void an_idle_relay_empties_the_file(void **state)
{
    struct bench *b = *state;
    struct batch batch;
    bool exists;
    open_store(b->store);
    open_session(b->store, A);
    for (int i = 0; i < 10; i++) {
        make_batch(&batch, A, i);
        apply(b->store, A, batch.ops, BATCH);
    }
    complete(b->store, "1-0");
    moved = MINUTE + 1000;
    open_session(b->store, B);
    assert_int_equal(ask_sql(b, "SELECT count(*) FROM \"oo{a}.b-c_sessions\""), 1);
    for (int i = 0; i < 3; i++)
        assert_true(store_session_renew(b->store, B, MINUTE, &exists));
    assert_int_equal(ask_sql(b, "SELECT count(*) FROM \"oo{a}.b-c_records\""), 0);
    assert_int_equal(ask_sql(b, "SELECT count(*) FROM \"oo{a}.b-c_results\""), 0);
}

/* ---- Several processes ---- */

enum { RACERS = 4, RACE_KEYS = 800, RACE_BATCH = 20 };

/* Tells for each key whether it was won, a byte each. Every racer has its own order. */
static int race(struct bench *b, int index, int out)
{
    bool won[RACE_KEYS] = {0};
    char keys[RACE_BATCH][16];
    struct store_op ops[RACE_BATCH];
    char id[SESSION_ID_LEN + 1];
    snprintf(id, sizeof id, "%024d", index);
    struct store *s = another_store(b);
    open_session(s, id);
    for (int at = 0; at < RACE_KEYS; at += RACE_BATCH) {
        for (int i = 0; i < RACE_BATCH; i++) {
            int key = index % 2 ? RACE_KEYS - 1 - at - i : at + i;
            snprintf(keys[i], sizeof keys[i], "%d", key);
            ops[i] = op_of(keys[i], nothing, pending(id, (uint64_t)key + 1));
        }
        apply(s, id, ops, RACE_BATCH);
        for (int i = 0; i < RACE_BATCH; i++)
            won[atoi(keys[i])] = ops[i].answer == STORE_APPLIED;
    }
    store_free(s);
    return write(out, won, sizeof won) == sizeof won ? 0 : 1;
}

/* All of them open, and make, the file at the same moment. */
static void each_key_has_one_winner_among_processes(void **state)
{
    struct bench *b = *state;
    int pipes[RACERS][2];
    int winners[RACE_KEYS] = {0};
    b->config.timeout = 10000;
    for (int i = 0; i < RACERS; i++) {
        assert_int_equal(pipe(pipes[i]), 0);
        pid_t child = fork();
        if (child == 0)
            _exit(race(b, i, pipes[i][1]));
        close(pipes[i][1]);
    }
    for (int i = 0; i < RACERS; i++) {
        bool won[RACE_KEYS];
        size_t got = 0;
        ssize_t n;
        while ((n = read(pipes[i][0], won + got, sizeof won - got)) > 0)
            got += (size_t)n;
        assert_int_equal(got, sizeof won);
        for (int k = 0; k < RACE_KEYS; k++)
            winners[k] += won[k];
        close(pipes[i][0]);
    }
    for (int i = 0; i < RACERS; i++)
        wait(NULL);
    for (int k = 0; k < RACE_KEYS; k++)
        assert_int_equal(winners[k], 1);
}

/* Two processes, without a pause. */
static void the_log_stays_short_under_two_writers(void **state)
{
    struct bench *b = *state;
    struct batch batch;
    int64_t longest = 0;
    int status;
    b->config.synchronous = SYNCHRONOUS_NORMAL;
    b->config.timeout = 10000;
    open_store(b->store);
    store_close(b->store);
    pid_t child = fork();
    open_store(b->store);
    for (int i = 0; i < 400; i++) {
        make_batch(&batch, A, (child == 0 ? 1000 : 0) + i * 7919 % 1000);
        apply(b->store, NULL, batch.ops, BATCH);
        int64_t size = file_size(b, "-wal");
        longest = size > longest ? size : longest;
    }
    if (child == 0) {
        store_free(b->store);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_in_range(longest, 1, 24 << 20);
    assert_int_equal(count_held(b->store), 2 * 400 * BATCH);
}

/* Writes batches, and says which are done, until it is killed. */
static void write_for_ever(struct bench *b, int first, int out)
{
    struct batch batch;
    struct store *s = another_store(b);
    for (int number = first;; number++) {
        make_batch(&batch, A, number);
        apply(s, NULL, batch.ops, BATCH);
        if (write(out, &number, sizeof number) != sizeof number)
            _exit(1);
    }
}

static int kill_writer(struct bench *b, int first, long ms)
{
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0)
        write_for_ever(b, first, pipes[1]);
    close(pipes[1]);
    int done = first - 1;
    assert_int_equal(read(pipes[0], &done, sizeof done), sizeof done);
    struct timespec t = {.tv_nsec = ms * 1000000};
    nanosleep(&t, NULL);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    int more;
    while (read(pipes[0], &more, sizeof more) == sizeof more)
        done = more;
    close(pipes[0]);
    return done;
}

static void a_killed_process_leaves_whole_batches(void **state)
{
    struct bench *b = *state;
    int first = 0;
    for (int round = 0; round < 12; round++) {
        int done = kill_writer(b, first, 3 + 7 * round);
        open_store(b->store);
        for (int number = first; number <= done; number++)
            assert_int_equal(held_of_batch(b->store, number), BATCH);
        int last = held_of_batch(b->store, done + 1);
        assert_true(last == 0 || last == BATCH);
        assert_int_equal(held_of_batch(b->store, done + 2), 0);
        store_close(b->store);
        first = done + 2;
    }
    assert_int_equal(ask_sql(b, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
}

/* clang-format off */
#define TEST(name) {#name, name, set_up, tear_down, NULL}
/* clang-format on */

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_lock_is_waited_for_within_the_timeout),
        TEST(who_reads_waits_for_nobody),
        TEST(who_writes_waits_for_no_reader),
        TEST(a_broken_disk_is_no_answer),
        TEST(what_the_log_did_not_take_fails),
        TEST(syncs_as_it_is_told),
        TEST(a_full_disk_keeps_what_was_written),
        TEST(what_is_no_database_is_refused),
        TEST(a_damaged_file_is_refused),
        TEST(data_pages_that_are_damaged_fail_calls),
        TEST(tables_of_another_version_are_refused),
        TEST(other_tables_of_the_name_are_refused),
        TEST(prefixes_that_differ_in_case_are_refused),
        TEST(folders_that_are_missing_are_named),
        TEST(what_may_not_be_written_is_refused),
        TEST(the_file_is_its_folders_owners),
        TEST(looking_makes_nothing),
        TEST(a_file_that_was_replaced_is_noticed),
        TEST(it_says_what_it_cannot_promise),
        TEST(a_file_in_memory_is_a_danger),
        TEST(people_can_read_it),
        TEST(a_clock_set_forward_ends_sessions),
        TEST(under_a_constant_load_the_file_stops_growing),
        TEST(an_idle_relay_empties_the_file),
        TEST(each_key_has_one_winner_among_processes),
        TEST(the_log_stays_short_under_two_writers),
        TEST(a_killed_process_leaves_whole_batches),
    };
    faulty_disk_install();
    return cmocka_run_group_tests_name("store: sqlite alone", tests, NULL, NULL);
}
