/*
 * admin_keys - what became of a key, over HTTP: status, complete, release.
 */
#include "admin_inside.h"

#include "clock.h"
#include "report.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define IDLE_MOST_MS 10000 /* a connection unused for longer may be gone: it is opened anew */
#define WAIT_SECONDS 5     /* for those who use the store before us */

/* ---- The store ---- */

/* The route's store, locked and open. NULL: answered with why not. */
static struct admin_store *take_store(struct admin_served *s, const struct admin_request *r,
                                      struct admin_answer *out)
{
    struct admin_store *a = &s->stores[r->route_index];
    struct timespec until;
    bool permanent;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_SECONDS;
    if (pthread_mutex_timedlock(&a->lock, &until) != 0) {
        admin_problem(out, 503, "store %s: too many requests wait for it", r->route->store);
        return NULL;
    }
    if (store_is_open(a->store) && clock_now() - a->used > IDLE_MOST_MS)
        store_close(a->store);
    if (store_is_open(a->store) || store_open(a->store, &permanent))
        return a;
    admin_problem(out, 503, "store %s: %s", r->route->store, store_error(a->store));
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

static void give_back(struct admin_store *a)
{
    a->used = clock_now();
    pthread_mutex_unlock(&a->lock);
}

/* ---- Answers ---- */

static void failed(const struct admin_request *r, const struct admin_store *a,
                   enum report_answer answer, struct admin_answer *out)
{
    unsigned status = answer == REPORT_NOT_FOUND ? 404 : 409;
    if (answer == REPORT_UNREACHABLE)
        admin_problem(out, 503, "store %s: %s", r->route->store, store_error(a->store));
    else
        admin_problem(out, status, "key %s %s%s", r->key, report_answer_text(answer),
                      answer == REPORT_PENDING ? " (?force=true)" : "");
}

static void done(const struct admin_request *r, const char *what, struct admin_answer *out)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "route", r->route->name);
    cJSON_AddStringToObject(object, "key", r->key);
    cJSON_AddStringToObject(object, "answer", what);
    admin_json(out, 200, object);
}

/* ---- What the query says ---- */

/* False: answered with what is wrong. */
static bool read_force(const struct admin_request *r, bool *force, struct admin_answer *out)
{
    *force = r->force && strcmp(r->force, "true") == 0;
    if (!r->force || *force || strcmp(r->force, "false") == 0)
        return true;
    admin_problem(out, 400, "force is true or false");
    return false;
}

static bool read_first_seen(const struct admin_request *r, int64_t *out_ms,
                            struct admin_answer *out)
{
    *out_ms = 0;
    if (r->stray) { /* Misspelt, a guard would be none. */
        admin_problem(out, 400,
                      "the query has an argument that is not known here, or has no value; "
                      "known are first_seen=MS and, for DELETE, force=true");
        return false;
    }
    if (!r->first_seen)
        return true;
    size_t digits = strspn(r->first_seen, "0123456789");
    errno = 0;
    *out_ms = strtoll(r->first_seen, NULL, 10);
    if (digits > 0 && !r->first_seen[digits] && errno == 0 && *out_ms > 0)
        return true;
    admin_problem(out, 400, "first_seen is the job's x-onlyonce-first-seen: ms since 1970");
    return false;
}

/* ---- The requests ---- */

void admin_key_status(struct admin_served *s, const struct admin_request *r,
                      struct admin_answer *out)
{
    struct admin_store *a = take_store(s, r, out);
    if (!a)
        return;
    char *json;
    enum report_answer answer = report_status(a->store, r->route->name, r->key, &json);
    if (answer == REPORT_DONE) {
        buffer_printf(&out->body, "%s\n", json);
        out->status = 200;
        out->content_type = "application/json";
    } else {
        failed(r, a, answer, out);
    }
    free(json);
    give_back(a);
}

void admin_key_complete(struct admin_served *s, const struct admin_request *r,
                        struct admin_answer *out)
{
    int64_t first_seen;
    if (!read_first_seen(r, &first_seen, out))
        return;
    if (!report_is_result(r->body)) {
        admin_problem(out, 400, "the result is not valid JSON; a text has quotes, as in \"done\"");
        return;
    }
    struct admin_store *a = take_store(s, r, out);
    if (!a)
        return;
    enum report_answer answer = report_complete(a->store, span_of(r->key), first_seen, r->body);
    if (answer == REPORT_DONE || answer == REPORT_ALREADY)
        done(r, answer == REPORT_DONE ? "completed" : "already_completed", out);
    else
        failed(r, a, answer, out);
    give_back(a);
}

void admin_key_release(struct admin_served *s, const struct admin_request *r,
                       struct admin_answer *out)
{
    bool force;
    int64_t first_seen;
    if (!read_force(r, &force, out) || !read_first_seen(r, &first_seen, out))
        return;
    struct admin_store *a = take_store(s, r, out);
    if (!a)
        return;
    enum report_answer answer = report_release(a->store, span_of(r->key), first_seen, force);
    if (answer == REPORT_DONE)
        done(r, "released", out);
    else
        failed(r, a, answer, out);
    give_back(a);
}
