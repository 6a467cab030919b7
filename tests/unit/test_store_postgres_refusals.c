/*
 * What a PostgreSQL server allows: users, permissions, and settings, which it refuses by or is
 * warned about.
 */
#include "postgres_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

/* ---- Users ---- */

static void be_poor(struct postgres_bench *b)
{
    char url[100];
    postgres_server_do(b->server, "DROP OWNED BY poor");
    snprintf(url, sizeof url, "postgresql://poor@127.0.0.1:%d/postgres", b->server->port);
    use_url(b, url);
}

static void a_user_of_few_permissions(void **state)
{
    struct postgres_bench *b = *state;
    postgres_server_do(b->server, "DROP ROLE IF EXISTS poor; CREATE ROLE poor LOGIN");
    be_poor(b);
    assert_open_fails(b->store, "permission denied for database postgres (42501)", true);
    /* In a schema that somebody has made for him, he may make the tables. */
    postgres_server_do(b->server, "CREATE SCHEMA oo; GRANT CREATE, USAGE ON SCHEMA oo TO poor");
    assert_opens(b->store);
    assert_claims(b->store, "k", STORE_APPLIED);
    be_poor(b);

    use_url(b, b->server->url);
    postgres_server_do(b->server, "DROP SCHEMA oo CASCADE");
    assert_opens(b->store);
    be_poor(b);
    assert_open_fails(b->store, "permission denied for schema oo", true);
    postgres_server_do(b->server, "GRANT USAGE ON SCHEMA oo TO poor");
    postgres_server_do(b->server, "GRANT ALL ON ALL TABLES IN SCHEMA oo TO poor");
    assert_opens(b->store);
    assert_claims(b->store, "k", STORE_APPLIED);
    postgres_server_do(b->server, "REVOKE UPDATE ON oo.records FROM poor");
    assert_claim_fails(b->store, "permission denied for table records");
    assert_open_fails(b->store,
                      "user poor lacks permissions in schema oo: UPDATE on records; grant", true);
    be_poor(b);
}

static void a_parameter_is_refused(void **state)
{
    static const char *const wrong[] = {"sslmode", "target_session_attrs", "channel_binding",
                                        "gssencmode", "keepalives"};
    struct postgres_bench *b = *state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char url[140];
        snprintf(url, sizeof url, "postgresql://onlyonce@127.0.0.1:%d/postgres?%s=often",
                 b->server->port, wrong[i]);
        use_url(b, url);
        assert_open_fails(b->store, "invalid ", true);
    }
}

static void a_login_is_refused(void **state)
{
    static char guarded[] = "guarded";
    struct postgres_bench *b = *state;
    char url[140];
    postgres_server_do(b->server, "DROP ROLE IF EXISTS guarded");
    postgres_server_do(b->server, "CREATE ROLE guarded LOGIN SUPERUSER PASSWORD 's3cret''pass'");
    snprintf(url, sizeof url, "postgresql://guarded:wrong@127.0.0.1:%d/postgres", b->server->port);
    use_url(b, url);
    assert_open_fails(b->store, "password authentication failed for user \"guarded\"", true);
    b->config.password = text_secret; /* the URL's yields */
    assert_opens(b->store);
    assert_claims(b->store, "k", STORE_APPLIED);
    use_url(b, b->server->url);
    b->config.username = guarded;
    assert_opens(b->store);
    b->config.password = text_wrong;
    assert_open_fails(b->store, "password authentication failed", true);
    b->config.password = NULL;
    assert_open_fails(b->store, "no password supplied", true);
    b->config.username = NULL;
    snprintf(url, sizeof url, "postgresql://nobody@127.0.0.1:%d/postgres", b->server->port);
    use_url(b, url);
    assert_open_fails(b->store, "role \"nobody\" does not exist", true);
    snprintf(url, sizeof url, "postgresql://onlyonce@127.0.0.1:%d/nowhere", b->server->port);
    use_url(b, url);
    assert_open_fails(b->store, "database \"nowhere\" does not exist", true);
}

/* ---- Settings ---- */

static const char *loaded_at(struct postgres_bench *b)
{
    return postgres_server_do(b->server, "SELECT pg_conf_load_time()");
}

static void set_and_reload(struct postgres_bench *b, const char *setting)
{
    char before[64];
    snprintf(before, sizeof before, "%s", loaded_at(b));
    postgres_server_do(b->server, "ALTER SYSTEM %s", setting);
    postgres_server_do(b->server, "SELECT pg_reload_conf()");
    for (int i = 0; i < 1000 && strcmp(loaded_at(b), before) == 0; i++)
        pause_ms(10);
    pause_ms(100); /* The other processes of the server are told at the same time. */
}

static void a_server_is_read_only(void **state)
{
    struct postgres_bench *b = *state;
    set_and_reload(b, "SET default_transaction_read_only = on");
    assert_claim_fails(b->store, "read-only transaction (25006)");
    assert_open_fails(b->store, "is read-only", false);
    postgres_server_do(b->server, "SET default_transaction_read_only = off");
    set_and_reload(b, "RESET default_transaction_read_only");
    assert_opens(b->store);
    assert_claims(b->store, "k", STORE_APPLIED);
}

static void settings_that_endanger(void **state)
{
    static const struct {
        const char *setting;
        const char *want;
    } cases[] = {
        {"SET fsync = off", "fsync is off: "},
        {"RESET fsync", NULL},
        {"SET full_page_writes = off", "full_page_writes is off: "},
        {"RESET full_page_writes", NULL},
        {"SET synchronous_commit = off", "synchronous_commit is off: "},
        {"SET synchronous_commit = local", NULL},
        {"RESET synchronous_commit", NULL},
    };
    struct postgres_bench *b = *state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        set_and_reload(b, cases[i].setting);
        assert_danger(b->store, cases[i].want);
    }
}

#define TEST(name, set_up) cmocka_unit_test_setup_teardown(name, set_up, postgres_bench_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_user_of_few_permissions, postgres_bench_set_up_empty),
        TEST(a_parameter_is_refused, postgres_bench_set_up_empty),
        TEST(a_login_is_refused, postgres_bench_set_up_empty),
        TEST(a_server_is_read_only, postgres_bench_set_up),
        TEST(settings_that_endanger, postgres_bench_set_up),
    };
    return cmocka_run_group_tests_name("store: PostgreSQL, refusals", tests, postgres_bench_start,
                                       postgres_bench_remove);
}
