#include "postgres_bench.h"

#include <signal.h>
#include <stdlib.h>

int postgres_bench_start(void **state)
{
    struct postgres_server *server = xcalloc(1, sizeof *server);
    signal(SIGPIPE, SIG_IGN);
    postgres_server_create(server);
    *state = server;
    return 0;
}

int postgres_bench_remove(void **state)
{
    postgres_server_remove(*state);
    free(*state);
    return 0;
}

int postgres_bench_set_up_empty(void **state)
{
    static char prefix[] = "oo";
    struct postgres_bench *b = xcalloc(1, sizeof *b);
    b->server = *state;
    *state = b;
    b->config = (struct store_config){.name = text_name, .prefix = prefix, .timeout = 1500};
    b->config.parsed = (struct store_url){.kind = STORE_POSTGRES};
    PQreset(b->server->connection); /* whatever the test before has left there */
    postgres_server_do(b->server, "SET client_min_messages = warning");
    postgres_server_do(b->server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                                  " WHERE application_name LIKE 'onlyonce:%%'");
    postgres_server_do(b->server, "DROP SCHEMA IF EXISTS oo CASCADE");
    use_url(b, b->server->url);
    return 0;
}

int postgres_bench_set_up(void **state)
{
    postgres_bench_set_up_empty(state);
    struct postgres_bench *b = *state;
    assert_opens(b->store);
    return 0;
}

int postgres_bench_tear_down(void **state)
{
    struct postgres_bench *b = *state;
    store_free(b->store);
    free(b->config.parsed.postgres);
    free(b);
    return 0;
}

void use_url(struct postgres_bench *b, const char *url)
{
    store_free(b->store);
    free(b->config.parsed.postgres);
    b->config.parsed.postgres = xstrdup(url);
    b->store = store_new(&b->config, "scope");
}

pid_t backend_of_store(struct postgres_bench *b)
{
    return atoi(postgres_server_do(b->server, "SELECT pid FROM pg_stat_activity"
                                              " WHERE application_name LIKE 'onlyonce:%%'"));
}
