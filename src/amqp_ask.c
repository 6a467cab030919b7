#include "amqp_inside.h"

#include "clock.h"
#include "login.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_PATIENCE 5000
#define LOGIN_PATIENCE 5000
#define RPC_PATIENCE 10000
#define OPEN_BUDGET 5000                /* after which link_open() tries no further URL */
#define ASK_BUDGET 20000                /* for all that is asked, link_open() included */
#define HEARTBEAT_NEVER (INT64_MAX / 4) /* until it is agreed upon */

/* ---- Asking ---- */

static int64_t wait_until(const struct link *l, int64_t patience)
{
    int64_t until = clock_now() + patience;
    return until < l->ask_until ? until : l->ask_until;
}

static bool await(struct link *l, unsigned channel, int64_t until, struct link_frame *frame)
{
    while (l->up) {
        if (link_next_of(l, channel, frame))
            return true;
        if (clock_now() >= until)
            link_fail(l, "no answer in time%s",
                      l->met ? "" : " (is it RabbitMQ that listens there?)");
        link_turn(l, until);
    }
    return false;
}

static bool ask(struct link *l, amqp_method_number_t id, void *method, struct link_frame *answer)
{
    link_put_method(l, id, method);
    link_flush(l, clock_now());
    return await(l, LINK_CHANNEL, wait_until(l, RPC_PATIENCE), answer);
}

static bool open_channel(struct link *l)
{
    amqp_channel_open_t open = {0};
    struct link_frame f;
    if (ask(l, AMQP_CHANNEL_OPEN_METHOD, &open, &f) && f.method != AMQP_CHANNEL_OPEN_OK_METHOD)
        link_fail_unexpected(l, &f, LINK_CHANNEL);
    return l->up;
}

/* The broker closed the channel. The code, if it may, and the channel is open again; else 0. */
static unsigned spare(struct link *l, const struct link_rpc *rpc, const struct refusal *r)
{
    unsigned code = r->code;
    if ((code != rpc->spared[0] && code != rpc->spared[1]) || !refusal_is_final(r)) {
        link_take_close(l, r);
        return 0;
    }
    snprintf(l->refusal, sizeof l->refusal, "%.*s", (int)r->text.len, (const char *)r->text.data);
    amqp_channel_close_ok_t ok = {0};
    link_put_method(l, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok);
    return open_channel(l) ? code : 0;
}

bool link_rpc(struct link *l, const struct link_rpc *rpc, unsigned *refused)
{
    struct link_frame f;
    struct refusal r;
    l->doing = rpc->doing;
    *refused = 0;
    bool answered = ask(l, rpc->id, rpc->method, &f);
    if (answered && refusal_of_method(f.method, f.decoded, &r))
        *refused = spare(l, rpc, &r);
    else if (answered && f.method != rpc->reply)
        link_fail_unexpected(l, &f, LINK_CHANNEL);
    l->doing = NULL;
    return l->up;
}

/* ---- Opening ---- */

static bool dial(struct link *l, const struct broker_url *url, size_t turn)
{
    int64_t until = wait_until(l, CONNECT_PATIENCE);
    if (wire_open(&l->wire, url->host, url->port, url->tls ? &l->broker->tls : NULL, turn, until))
        return true;
    link_fail_as(l, l->wire.refused ? LINK_REFUSED : LINK_FAILED, "cannot connect to %s: %s",
                 l->describe, l->wire.error);
    return false;
}

static void exchange_words(struct link *l, struct login *login)
{
    struct link_frame f;
    char error[LOGIN_ERROR_MAX];
    int64_t until = wait_until(l, LOGIN_PATIENCE);
    frames_put_greeting(&l->frames);
    while (!login->done && await(l, 0, until, &f)) {
        const char *bad = login_take(login, &l->frames, f.payload, error);
        if (bad)
            link_fail_as(l, login->refused ? LINK_REFUSED : LINK_FAILED, "%s", bad);
    }
}

static bool log_in(struct link *l, const struct broker_url *url)
{
    struct login login = {.vhost = url->vhost,
                          .username = url->username,
                          .password = url->password,
                          .purpose = l->purpose,
                          .heartbeat = l->broker->heartbeat};
    char *doing = xasprintf("login to %s as %s, vhost '%s'", l->describe, l->whom, url->vhost);
    l->doing = doing;
    l->heartbeat = HEARTBEAT_NEVER;
    l->last_sent = l->last_received = clock_now();
    frames_reset(&l->frames, LOGIN_FRAME_MAX);
    exchange_words(l, &login);
    if (l->up && open_channel(l)) {
        char *describe = xasprintf("%s at %s", login.product, l->describe);
        free(l->describe);
        l->describe = describe;
        l->version = login.version;
        l->heartbeat = login.heartbeat;
        l->last_sent = l->last_received = clock_now();
    }
    l->doing = NULL;
    free(doing);
    return l->up;
}

static bool try_next_url(struct link *l)
{
    size_t count = l->broker->urls.count;
    size_t turn = l->next_url / count;
    const struct broker_url *url = &l->broker->parsed[l->next_url++ % count];
    bool v6 = strchr(url->host, ':');
    free(l->describe);
    l->describe = xasprintf("%s%s%s:%d", v6 ? "[" : "", url->host, v6 ? "]" : "", url->port);
    free(l->whom);
    l->user = url->username;
    l->whom = l->user ? xasprintf("user '%s'", l->user)
                      : xasprintf("the user of certificate %s", l->broker->tls.cert);
    l->version = 0;
    l->failure = LINK_FAILED;
    l->blocked = false;
    l->met = false;
    l->error[0] = '\0';
    l->up = true;
    return dial(l, url, turn) && log_in(l, url);
}

bool link_open(struct link *l)
{
    assert(l->wire.fd < 0);
    int64_t start = clock_now();
    l->ask_until = start + ASK_BUDGET;
    for (size_t i = 0; i < l->broker->urls.count; i++) {
        if (try_next_url(l))
            return true;
        /* All nodes of a cluster know the same users, but each has a certificate of its own; and
         * the caller has other work to do. */
        bool last_word = l->failure == LINK_REFUSED && !l->wire.refused;
        link_close(l, 0);
        if (last_word || clock_now() - start >= OPEN_BUDGET)
            break;
    }
    return false;
}
