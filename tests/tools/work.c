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

#include <argp.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PREFETCH 20
#define PATIENCE 20 /* seconds for a confirm */

static volatile sig_atomic_t stopping;

struct options {
    const char *amqp;
    const char *out;
    const char *report;
    const char *queue;
};

/* Two connections, so that confirms and deliveries do not mix. */
struct worker {
    const struct options *o;
    amqp_connection_state_t jobs;
    amqp_connection_state_t reports;
    int file;
};

static const struct argp_option option_table[] = {
    {"amqp", 'a', "URL", 0, "The broker", 0},
    {"out", 'o', "FILE", 0, "Append to this file", 0},
    {"report", 'r', "QUEUE", 0, "Report to this queue", 0},
    {0},
};

static error_t take_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 'a': o->amqp = arg; break;
    case 'o': o->out = arg; break;
    case 'r': o->report = arg; break;
    case ARGP_KEY_ARG:
        if (o->queue != NULL)
            argp_error(state, "\"%s\" is too much", arg);
        o->queue = arg;
        break;
    case ARGP_KEY_END:
        if (o->amqp == NULL || o->out == NULL || o->report == NULL || o->queue == NULL)
            argp_error(state, "--amqp, --out, --report and a queue's name are needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void stop(int number)
{
    (void)number;
    stopping = 1;
}

static bool open_both(struct worker *w)
{
    w->jobs = client_open(w->o->amqp);
    w->reports = client_open(w->o->amqp);
    if (w->jobs == NULL || w->reports == NULL)
        return false;
    amqp_confirm_select(w->reports, CLIENT_CHANNEL);
    if (!client_succeeded(w->reports, "confirm.select"))
        return false;
    amqp_basic_qos(w->jobs, CLIENT_CHANNEL, 0, PREFETCH, 0);
    if (!client_succeeded(w->jobs, "prefetch"))
        return false;
    amqp_basic_consume(w->jobs, CLIENT_CHANNEL, amqp_cstring_bytes(w->o->queue), amqp_empty_bytes,
                       0, 0, 0, amqp_empty_table);
    return client_succeeded(w->jobs, w->o->queue);
}

static bool is_confirmed(amqp_connection_state_t c)
{
    struct timeval patience = {PATIENCE, 0};
    amqp_frame_t frame;
    amqp_maybe_release_buffers(c);
    return amqp_simple_wait_frame_noblock(c, &frame, &patience) == AMQP_STATUS_OK &&
           frame.frame_type == AMQP_FRAME_METHOD &&
           frame.payload.method.id == AMQP_BASIC_ACK_METHOD;
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
    int status = amqp_basic_publish(w->reports, CLIENT_CHANNEL, amqp_empty_bytes,
                                    amqp_cstring_bytes(w->o->report), 1, 0, &properties, job->body);
    return status == AMQP_STATUS_OK && is_confirmed(w->reports);
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
    struct timeval wait = {0, 100000};
    amqp_maybe_release_buffers(w->jobs);
    amqp_rpc_reply_t reply = amqp_consume_message(w->jobs, &job, &wait, 0);
    if (reply.reply_type != AMQP_RESPONSE_NORMAL)
        return reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION &&
               reply.library_error == AMQP_STATUS_TIMEOUT;
    bool done = write_down(w, &job.message) && report(w, &job.message) &&
                amqp_basic_ack(w->jobs, CLIENT_CHANNEL, job.delivery_tag, 0) == AMQP_STATUS_OK;
    amqp_destroy_envelope(&job);
    return done;
}

int main(int argc, char **argv)
{
    const struct argp argp = {.options = option_table,
                              .parser = take_option,
                              .args_doc = "QUEUE",
                              .doc =
                                  "Takes jobs out of a queue, writes them down, and reports them."};
    const struct sigaction on_stop = {.sa_handler = stop};
    struct options o = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    sigaction(SIGTERM, &on_stop, NULL);

    struct worker w = {.o = &o, .file = open(o.out, O_WRONLY | O_CREAT | O_APPEND, 0644)};
    if (w.file < 0) {
        perror(o.out);
        return EXIT_FAILURE;
    }
    bool ok = open_both(&w);
    while (ok && !stopping)
        ok = work(&w);
    if (!ok)
        fprintf(stderr, "work ended early\n");
    if (ok) {
        client_close(w.jobs);
        client_close(w.reports);
    }
    return ok && close(w.file) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
