#include "postgres_server.h"

#include "memory.h"
#include "redis_server.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TRIES 1500
#define TRY_MS 20
#define WORDS_MOST 20 /* of a command, with its NULL */

static void die(const char *what)
{
    fprintf(stderr, "postgres_server: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void pause_ms(long ms)
{
    struct timespec t = {.tv_nsec = ms * 1000000};
    nanosleep(&t, NULL);
}

/* ---- Programs ---- */

/* Where they are; Debian has no links to them. */
static const char *bin_folder(void)
{
    static char folder[200];
    FILE *f = *folder ? NULL : popen("pg_config --bindir", "r");
    if (f && fgets(folder, sizeof folder, f))
        folder[strcspn(folder, "\n")] = '\0';
    if (f)
        pclose(f);
    return folder;
}

/* The user to be: PostgreSQL's programs refuse to work for root. */
static const struct passwd *user(void)
{
    const struct passwd *p = geteuid() == 0 ? getpwnam("postgres") : NULL;
    if (geteuid() == 0 && !p)
        die("there is no user postgres");
    return p;
}

static pid_t start_program(const char *const *words)
{
    char path[256];
    const char *argv[WORDS_MOST] = {path}; /* by which it finds the other programs of its version */
    const struct passwd *as = user();
    snprintf(path, sizeof path, "%s/%s", bin_folder(), words[0]);
    for (size_t i = 1; words[i] && i < WORDS_MOST - 1; i++)
        argv[i] = words[i];
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    if (as && (setgid(as->pw_gid) != 0 || setuid(as->pw_uid) != 0))
        _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that crashes leaves no server behind */
    int quiet = open("/dev/null", O_WRONLY);
    dup2(quiet, STDOUT_FILENO);
    dup2(quiet, STDERR_FILENO);
    execv(path, (char *const *)(uintptr_t)argv);
    _exit(127);
}

static void run_program(const char *const *words)
{
    int status = -1;
    pid_t pid = start_program(words);
    if (waitpid(pid, &status, 0) != pid || status != 0)
        die(words[0]);
}

/* ---- The server ---- */

static void make_folder(struct postgres_server *s)
{
    const struct passwd *as = user();
    *s = (struct postgres_server){.port = free_port()};
    strcpy(s->folder, "/tmp/onlyonce-postgres.XXXXXX");
    if (!mkdtemp(s->folder) || (as && chown(s->folder, as->pw_uid, as->pw_gid) != 0))
        die(s->folder);
    snprintf(s->url, sizeof s->url, "postgresql://onlyonce@127.0.0.1:%d/postgres", s->port);
}

static void write_rules(const struct postgres_server *s)
{
    char path[80];
    snprintf(path, sizeof path, "%s/pg_hba.conf", s->folder);
    FILE *f = fopen(path, "w");
    if (!f)
        die(path);
    fputs("host all guarded 127.0.0.1/32 scram-sha-256\n"
          "host all all 127.0.0.1/32 trust\n"
          "host replication all 127.0.0.1/32 trust\n",
          f);
    fclose(f);
}

void postgres_server_create(struct postgres_server *s)
{
    make_folder(s);
    run_program((const char *const[]){"initdb", "-D", s->folder, "-U", "onlyonce", "-A", "trust",
                                      "-E", "UTF8", "--locale=C", "--no-sync", NULL});
    write_rules(s);
    postgres_server_start(s);
}

void postgres_server_create_standby(struct postgres_server *s, const struct postgres_server *of)
{
    make_folder(s);
    run_program((const char *const[]){"pg_basebackup", "-D", s->folder, "-d", of->url, "-R",
                                      "--no-sync", "--checkpoint=fast", NULL});
    postgres_server_start(s);
}

void postgres_server_start(struct postgres_server *s)
{
    char port[16];
    snprintf(port, sizeof port, "%d", s->port);
    s->pid = start_program((const char *const[]){"postgres", "-D", s->folder, "-p", port, "-h",
                                                 "127.0.0.1", "-k", s->folder, NULL});
    for (int i = 0; i < TRIES; i++) {
        s->connection = PQconnectdb(s->url);
        if (PQstatus(s->connection) == CONNECTION_OK)
            return;
        PQfinish(s->connection);
        s->connection = NULL;
        pause_ms(TRY_MS);
    }
    die("the server does not start");
}

/* Its children are those of its only thread. */
void postgres_server_signal(const struct postgres_server *s, int signal)
{
    char path[64];
    int child;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", s->pid, s->pid);
    FILE *f = fopen(path, "r");
    kill(s->pid, signal);
    while (f && fscanf(f, "%d", &child) == 1)
        kill(child, signal);
    if (f)
        fclose(f);
}

void postgres_server_kill(struct postgres_server *s)
{
    PQfinish(s->connection);
    s->connection = NULL;
    postgres_server_signal(s, SIGKILL);
    waitpid(s->pid, NULL, 0);
    s->pid = 0;
    pause_ms(100); /* for the children, whose memory the next server must not find in use */
}

const char *postgres_server_do(struct postgres_server *s, const char *fmt, ...)
{
    static char value[400];
    char sql[1000];
    va_list args;
    va_start(args, fmt);
    vsnprintf(sql, sizeof sql, fmt, args);
    va_end(args);
    PGresult *result = PQexec(s->connection, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        fprintf(stderr, "%s: %s", sql, PQerrorMessage(s->connection));
        exit(1);
    }
    snprintf(value, sizeof value, "%s", PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    return value;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

void postgres_server_remove(struct postgres_server *s)
{
    if (s->pid)
        postgres_server_kill(s);
    if (*s->folder)
        nftw(s->folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    *s = (struct postgres_server){0};
}
