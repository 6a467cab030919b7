/*
 * An SQLite file: which are refused, whose it is, what is in it, and what is said of where it is.
 */
#include "sqlite_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define NOBODY 65534

/* ---- What is refused ---- */

static void write_file(struct sqlite_bench *b, const char *text)
{
    FILE *f = fopen(b->config.parsed.path, "w");
    assert_non_null(f);
    for (int i = 0; i < 400; i++)
        fputs(text, f);
    fclose(f);
}

static void refuses(struct sqlite_bench *b, const char *why)
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
    struct sqlite_bench *b = *state;
    write_file(b, "This is a letter to my aunt. ");
    refuses(b, "file is not a database");
    assert_int_equal(unlink(b->config.parsed.path), 0);
    assert_int_equal(mkdir(b->config.parsed.path, 0700), 0);
    refuses(b, "unable to open database file");
    assert_int_equal(rmdir(b->config.parsed.path), 0);
}

/* Makes the file, of several pages. */
static void fill_file(struct sqlite_bench *b)
{
    assert_opens(b->store);
    for (int i = 0; i < 20; i++) {
        struct batch batch;
        make_batch(&batch, SESSION_A, i);
        apply(b->store, NULL, batch.ops, BATCH);
    }
    store_close(b->store);
}

static void a_damaged_file_is_refused(void **state)
{
    struct sqlite_bench *b = *state;
    fill_file(b);
    int fd = open(b->config.parsed.path, O_RDWR);
    char rubbish[4096];
    memset(rubbish, 0x5a, sizeof rubbish);
    assert_int_equal(pwrite(fd, rubbish, 4096 - 200, 200), 4096 - 200); /* the table of tables */
    close(fd);
    refuses(b, "malformed");
}

static void data_pages_that_are_damaged_fail_calls(void **state)
{
    struct sqlite_bench *b = *state;
    struct store_op op = op_of("new", nothing, pending(SESSION_A, 1));
    fill_file(b);
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
    struct sqlite_bench *b = *state;
    assert_opens(b->store);
    run_sql(b, "UPDATE \"oo{a}.b-c_version\" SET version = 2");
    refuses(b, "version \"2\"");
    run_sql(b, "DELETE FROM \"oo{a}.b-c_version\"");
    refuses(b, "version \"\"");
}

static void other_tables_of_the_name_are_refused(void **state)
{
    struct sqlite_bench *b = *state;
    run_sql(b, "CREATE TABLE \"oo{a}.b-c_records\" (other INTEGER)");
    refuses(b, "expires");
    assert_int_equal(ask_sql(b, "SELECT count(*) FROM sqlite_master"), 1);
}

static void prefixes_that_differ_in_case_are_refused(void **state)
{
    static char upper[] = "oo{A}.b-c";
    static char near[] = "oo{a}.b-c_records";
    struct sqlite_bench *b = *state;
    char *prefix = b->config.prefix;
    assert_opens(b->store);
    b->config.prefix = upper;
    refuses(b, "differ in case only");
    b->config.prefix = near;
    assert_opens(b->store);
    b->config.prefix = prefix;
}

static void folders_that_are_missing_are_named(void **state)
{
    struct sqlite_bench *b = *state;
    char *path = b->config.parsed.path;
    b->config.parsed.path = xasprintf("%s/no/such/onlyonce.db", b->folder);
    refuses(b, "No such file or directory; its folder has to exist");
    const char *missing;
    assert_false(store_look(b->store, &missing));
    assert_says(store_error(b->store), "No such file or directory");
    free(b->config.parsed.path);
    b->config.parsed.path = path;
}

/* ---- Who may ---- */

/* As a user who may not write everywhere. */
static int be_refused(struct sqlite_bench *b)
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
    struct sqlite_bench *b = *state;
    assert_int_equal(chmod(b->folder, 0555), 0);
    assert_int_equal(in_child(b, be_refused), 0); /* It cannot be made, */
    assert_int_equal(chmod(b->folder, 0755), 0);
    assert_opens(b->store);
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
    struct sqlite_bench *b = *state;
    uid_t owner = geteuid() == 0 ? NOBODY : geteuid();
    if (geteuid() == 0)
        assert_int_equal(chown(b->folder, NOBODY, NOBODY), 0);
    assert_opens(b->store);
    open_session(b->store, SESSION_A, MINUTE);
    for (int i = 0; i < 3; i++) {
        struct stat found;
        char name[128];
        snprintf(name, sizeof name, "%s%s", b->config.parsed.path, ends[i]);
        assert_int_equal(stat(name, &found), 0);
        assert_int_equal(found.st_mode & 07777, 0600);
        assert_int_equal(found.st_uid, owner);
    }
}

/* ---- What is there ---- */

static void looking_makes_nothing(void **state)
{
    struct sqlite_bench *b = *state;
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
    assert_opens(b->store);
    assert_true(store_look(b->store, &missing));
    assert_null(missing);
    assert_true(store_dangers(b->store, &lines));
    buffer_free(&lines);
}

static void a_file_that_was_replaced_is_noticed(void **state)
{
    struct sqlite_bench *b = *state;
    struct store_op op = op_of("k", nothing, pending(SESSION_A, 1));
    assert_opens(b->store);
    apply(b->store, NULL, &op, 1);
    store_close(b->store);
    assert_opens(b->store);
    assert_int_equal(unlink(b->config.parsed.path), 0);
    assert_false(store_apply(b->store, NULL, &op, 1));
    assert_says(store_error(b->store), "deleted or replaced");
    assert_opens(b->store);
    apply(b->store, NULL, &op, 1);
    assert_int_equal(op.answer, STORE_APPLIED);
}

static void people_can_read_it(void **state)
{
    struct sqlite_bench *b = *state;
    assert_opens(b->store);
    open_session(b->store, SESSION_A, MINUTE);
    claim(b->store, SESSION_A, "k");
    assert_int_equal(
        ask_sql(b, "SELECT text = '2P 1 1700000000000 t1 o" SESSION_A ".1' AND scope = 'scope' "
                   "AND key = 'k' AND expires > 1700000000000 FROM \"oo{a}.b-c_records\""),
        1);
    assert_int_equal(
        ask_sql(b,
                "SELECT owner LIKE '%/%' FROM \"oo{a}.b-c_sessions\" WHERE id = '" SESSION_A "'"),
        1);
}

/* ---- Dangers ---- */

static void it_says_what_it_cannot_promise(void **state)
{
    struct sqlite_bench *b = *state;
    struct statfs found;
    assert_opens(b->store);
    assert_says(store_describe(b->store), "SQLite 3.");
    assert_says(store_describe(b->store), b->config.parsed.path);
    assert_int_equal(statfs(b->folder, &found), 0);
    if (found.f_type != TMPFS_MAGIC && found.f_type != OVERLAYFS_SUPER_MAGIC)
        assert_danger(b->store, NULL);
    b->config.synchronous = SYNCHRONOUS_NORMAL;
    assert_danger(b->store, "synchronous is normal");
}

static void a_file_in_memory_is_a_danger(void **state)
{
    struct sqlite_bench *b = *state;
    struct statfs found;
    char *path = b->config.parsed.path;
    char shared[] = "/dev/shm/onlyonce-sqlite.XXXXXX";
    assert_int_equal(statfs("/dev/shm", &found), 0);
    assert_int_equal(found.f_type, TMPFS_MAGIC);
    int fd = mkstemp(shared);
    assert_true(fd >= 0);
    close(fd);
    b->config.parsed.path = shared;
    assert_opens(b->store);
    assert_danger(b->store, "in memory (tmpfs)");
    store_close(b->store);
    unlink(shared);
    b->config.parsed.path = path;
}

#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, sqlite_bench_set_up, sqlite_bench_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
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
        TEST(people_can_read_it),
        TEST(it_says_what_it_cannot_promise),
        TEST(a_file_in_memory_is_a_danger),
    };
    return cmocka_run_group_tests_name("store: sqlite, files", tests, NULL, NULL);
}
