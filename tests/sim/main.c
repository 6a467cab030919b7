/*
 * onlyonce-sim - runs the real relay in simulated worlds, one for each seed.
 *
 *   onlyonce-sim [--seeds N] [--seed S] [--start S] [--jobs J] [--trace]
 *
 * Each job is a process of its own, so that a seed that aborts or hangs is a failed seed like any
 * other. Exit: 0, or 1 if a seed failed. `--seed S --trace` prints that seed's whole history.
 */
#include "world.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOBS_MAX 64
#define SHOWN_MAX 10
#define SECONDS_PER_SEED 20

struct job {
    pid_t pid;
    uint64_t next; /* the seed that it is at, or is to begin with */
    uint64_t done;
    uint64_t failed;
    uint64_t classes[CLASS_COUNT];
    uint64_t forwarded, parked, duplicates, published, replies, in_doubt, crashes;
    uint64_t conflicts_parked, conflicts_dropped, conflicts_forwarded;
};

struct options {
    uint64_t start;
    uint64_t seeds;
    int jobs;
    bool trace;
};

/* Shared by all processes; each job writes its own. */
static struct job *jobs;

static void add_book(struct job *j, const struct world *w)
{
    j->classes[w->class]++;
    j->forwarded += w->book.forwarded;
    j->parked += w->book.parked;
    j->duplicates += w->book.duplicates;
    j->published += w->book.published;
    j->replies += w->book.replies;
    j->in_doubt += w->book.in_doubt;
    j->crashes += w->book.crashes;
    j->conflicts_parked += w->book.conflicts_parked;
    j->conflicts_dropped += w->book.conflicts_dropped;
    j->conflicts_forwarded += w->book.conflicts_forwarded;
}

static void run_seed(struct job *j, uint64_t seed, bool tracing)
{
    static struct world world;
    alarm(SECONDS_PER_SEED);
    world_init(&world, seed, tracing);
    bool passed = world_run(&world);
    if (!passed) {
        j->failed++;
        if (j->failed <= SHOWN_MAX)
            printf("seed %llu failed: %s\n", (unsigned long long)seed, world.failure);
        fflush(stdout);
    }
    add_book(j, &world);
    world_free(&world);
    j->done++;
}

static void run_job(struct job *j, const struct options *o)
{
    uint64_t end = o->start + o->seeds;
    while (j->next < end) {
        run_seed(j, j->next, o->trace);
        j->next += (uint64_t)o->jobs;
    }
    fflush(stdout);
    _exit(0);
}

static void start_job(struct job *j, const struct options *o)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0) {
        perror("fork");
        exit(1);
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* No job outlives the command. */
        run_job(j, o);
    }
    j->pid = pid; /* By the parent alone: the job shares it. */
}

/* The job's process ended; if it died, its seed failed, and it goes on behind that. */
static bool ended(struct job *j, int status, const struct options *o)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    printf("seed %llu failed: its process died, %s\n", (unsigned long long)j->next,
           signal == SIGALRM ? "it hangs"
           : signal          ? strsignal(signal)
                             : "see above");
    j->failed++;
    j->done++;
    j->next += (uint64_t)o->jobs;
    start_job(j, o);
    return false;
}

static void run_all(const struct options *o)
{
    int running = o->jobs;
    for (int i = 0; i < o->jobs; i++) {
        jobs[i].next = o->start + (uint64_t)i;
        start_job(&jobs[i], o);
    }
    while (running > 0) {
        int status;
        pid_t pid = wait(&status);
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid < 0) {
            perror("wait");
            exit(1);
        }
        for (int i = 0; i < o->jobs; i++) {
            if (jobs[i].pid == pid && ended(&jobs[i], status, o))
                running--;
        }
    }
}

static int report(const struct options *o)
{
    struct job all = {0};
    for (int i = 0; i < o->jobs; i++) {
        const struct job *j = &jobs[i];
        all.done += j->done;
        all.failed += j->failed;
        all.forwarded += j->forwarded;
        all.parked += j->parked;
        all.duplicates += j->duplicates;
        all.published += j->published;
        all.replies += j->replies;
        all.in_doubt += j->in_doubt;
        all.crashes += j->crashes;
        all.conflicts_parked += j->conflicts_parked;
        all.conflicts_dropped += j->conflicts_dropped;
        all.conflicts_forwarded += j->conflicts_forwarded;
        for (int c = 0; c < CLASS_COUNT; c++)
            all.classes[c] += j->classes[c];
    }
    printf(
        "worlds: %llu quiet, %llu with one relay, %llu with several, %llu faulty, %llu forgetful\n",
        (unsigned long long)all.classes[CLASS_QUIET], (unsigned long long)all.classes[CLASS_ONE],
        (unsigned long long)all.classes[CLASS_MANY], (unsigned long long)all.classes[CLASS_FAULTY],
        (unsigned long long)all.classes[CLASS_FORGETFUL]);
    printf("messages: %llu forwarded, %llu parked, %llu duplicates (%llu published, %llu "
           "answered), %llu marked in doubt; %llu crashes\n",
           (unsigned long long)all.forwarded, (unsigned long long)all.parked,
           (unsigned long long)all.duplicates, (unsigned long long)all.published,
           (unsigned long long)all.replies, (unsigned long long)all.in_doubt,
           (unsigned long long)all.crashes);
    printf("conflicts: %llu parked, %llu dropped, %llu forwarded\n",
           (unsigned long long)all.conflicts_parked, (unsigned long long)all.conflicts_dropped,
           (unsigned long long)all.conflicts_forwarded);
    printf("%llu seeds, %llu failed\n", (unsigned long long)all.done,
           (unsigned long long)all.failed);
    if (all.failed > 0)
        printf("replay one with: onlyonce-sim --trace --seed S\n");
    return all.failed > 0;
}

static uint64_t number(const char *text)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (errno || *end || end == text || *text == '-') {
        fprintf(stderr, "onlyonce-sim: \"%s\" is not a number\n", text);
        exit(2);
    }
    return n;
}

static struct options read_options(int argc, char **argv)
{
    static const struct option names[] = {
        {"seeds", required_argument, NULL, 'n'}, {"seed", required_argument, NULL, 's'},
        {"start", required_argument, NULL, 'f'}, {"jobs", required_argument, NULL, 'j'},
        {"trace", no_argument, NULL, 't'},       {0},
    };
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct options o = {.start = 1, .seeds = 20000, .jobs = cores > 1 ? (int)cores : 1};
    int c;
    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (c) {
        case 'n': o.seeds = number(optarg); break;
        case 's':
            o.start = number(optarg);
            o.seeds = 1;
            break;
        case 'f': o.start = number(optarg); break;
        case 'j': o.jobs = (int)number(optarg); break;
        case 't': o.trace = true; break;
        default: exit(2);
        }
    }
    if (optind < argc || o.jobs < 1) {
        fputs("usage: onlyonce-sim [--seeds N] [--seed S] [--start S] [--jobs J] [--trace]\n",
              stderr);
        exit(2);
    }
    if (o.jobs > JOBS_MAX)
        o.jobs = JOBS_MAX;
    if (o.trace || o.seeds < (uint64_t)o.jobs)
        o.jobs = 1;
    return o;
}

int main(int argc, char **argv)
{
    struct options o = read_options(argc, argv);
    jobs = mmap(NULL, JOBS_MAX * sizeof *jobs, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                -1, 0);
    if (jobs == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    run_all(&o);
    return report(&o);
}
