/*
 * work - a worker that reports: takes jobs out of a queue, writes down their ids, and reports each
 * to a queue of completions, until SIGTERM.
 *
 *   work --amqp URL --out FILE --report QUEUE QUEUE
 *
 * A job is acknowledged after its line is written and the broker has confirmed its report. The
 * report bears the job's x-onlyonce-route, -key and -first-seen, and its body as the result.
 */
#include "client.h"
#include "unconfirmed.h"

#include <argp.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PREFETCH 20
#define PATIENCE 20 /* seconds for a confirm */

struct options {
    struct client_options client;
    const char *out;
    const char *report;
};

/* Two connections, so that confirms and deliveries do not mix. */
struct worker {
    const struct options *o;
    amqp_connection_state_t jobs;
    struct unconfirmed *reports;
    int file;
};

static const struct argp_option option_table[] = {
    {"out", 'o', "FILE", 0, "Append to this file", 0},
    {"report", 'r', "QUEUE", 0, "Report to this queue", 0},
    {0},
};

static error_t take_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 'o': o->out = arg; break;
    case 'r': o->report = arg; break;
    case ARGP_KEY_END:
        if (o->out == NULL || o->report == NULL)
            argp_error(state, "--out and --report are needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static bool open_both(struct worker *w)
{
    w->jobs = client_open(w->o->client.amqp);
    return w->jobs != NULL && unconfirmed_open(w->reports, w->o->client.amqp) &&
           client_consume(w->jobs, w->o->client.queue, "", PREFETCH);
}

static bool report(const struct worker *w, const amqp_message_t *job)
{
    static const char *const names[] = {"x-onlyonce-route", "x-onlyonce-key",
                                        "x-onlyonce-first-seen"};
    amqp_table_entry_t entries[3];
    for (int i = 0; i < 3; i++) {
        const amqp_field_value_t *value = client_header(&job->properties, names[i]);
        if (value == NULL) {
            fprintf(stderr, "a job without %s\n", names[i]);
            return false;
        }
        entries[i] = (amqp_table_entry_t){amqp_cstring_bytes(names[i]), *value};
    }
    amqp_basic_properties_t properties = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG |
                                                    AMQP_BASIC_HEADERS_FLAG,
                                          .delivery_mode = 2,
                                          .headers = {3, entries}};
    return unconfirmed_publish(w->reports, "", w->o->report, &properties, job->body) &&
           unconfirmed_settle(w->reports, PATIENCE);
}

static bool write_down(const struct worker *w, const amqp_message_t *job)
{
    const struct id_place place = {.where = ID_IN_BODY};
    char id[CLIENT_ID_MAX] = "?";
    char line[CLIENT_ID_MAX + 1];
    id_of_message(&place, &job->properties, job->body, id);
    int n = snprintf(line, sizeof line, "%s\n", id);
    return write(w->file, line, (size_t)n) == n;
}

/* One job, if one comes. False: nothing more can be done. */
static bool work(const struct worker *w)
{
    amqp_envelope_t job;
    bool took;
    if (!client_take(w->jobs, 100, &job, &took))
        return false;
    if (!took)
        return true;
    bool done = write_down(w, &job.message) && report(w, &job.message) &&
                amqp_basic_ack(w->jobs, CLIENT_CHANNEL, job.delivery_tag, 0) == AMQP_STATUS_OK;
    amqp_destroy_envelope(&job);
    return done;
}

int main(int argc, char **argv)
{
    const struct argp argp = {.options = option_table,
                              .parser = take_option,
                              .doc =
                                  "Takes jobs out of a queue, writes them down, and reports them."};
    struct options o = {0};
    client_parse(&argp, CLIENT_QUEUE, argc, argv, &o.client);
    client_stop_on_sigterm();

    struct worker w = {.o = &o,
                       .reports = client_allocate(1, sizeof *w.reports),
                       .file = open(o.out, O_WRONLY | O_CREAT | O_APPEND, 0644)};
    if (w.file < 0) {
        perror(o.out);
        return EXIT_FAILURE;
    }
    bool ok = open_both(&w);
    while (ok && !client_stopping())
        ok = work(&w);
    if (!ok)
        fprintf(stderr, "work ended early\n");
    if (ok) {
        client_close(w.jobs);
        unconfirmed_close(w.reports);
    }
    free(w.reports);
    return ok && close(w.file) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
