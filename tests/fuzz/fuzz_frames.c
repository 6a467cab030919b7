/*
 * fuzz_frames - a broker that says anything: source and sink take it or give the connection up with
 * a reason. No message is handed out twice, none is answered twice.
 *
 * The wire and the clock are replaced at link time. Input: a byte of what is tried, a byte of how
 * much arrives at once, and what the broker says, from its first word on or, behind a broker that
 * says yes to everything, from the end of the opening on.
 */
#include "clock.h"
#include "config.h"
#include "copy.h"
#include "file.h"
#include "frames.h"
#include "fuzz.h"
#include "sink.h"
#include "source.h"
#include "visible.h"

#include <assert.h>
#include <fcntl.h>
#include <unistd.h>

#define MESSAGES 4

/* ---- The broker ---- */

static struct {
    struct span says;
    size_t at_once;
    bool yes; /* answers for itself, before it says what it says */
    struct buffer answer;
    struct buffer asked; /* what was sent to it and not looked at yet */
} broker;

static void add_frame(struct span payload)
{
    buffer_add_u8(&broker.answer, AMQP_FRAME_METHOD);
    buffer_add_u16(&broker.answer, payload.data[1] == 10 ? 0 : 1);
    buffer_add_u32(&broker.answer, (uint32_t)payload.len);
    buffer_add_span(&broker.answer, payload);
    buffer_add_u8(&broker.answer, AMQP_FRAME_END);
}

#define SAY(literal) add_frame((struct span){(const uint8_t *)(literal), sizeof(literal) - 1})

/* The -ok of a method is the next number; its fields are all empty or 0. */
static void answer_method(const uint8_t *id)
{
    uint8_t ok[16] = {id[0], id[1], id[2], (uint8_t)(id[3] + 1)};
    if (id[1] == 10 && id[3] == 11) /* connection.start-ok */
        SAY("\0\12\0\36\0\1\0\2\0\0\0\12");
    else if (!(id[1] == 10 && id[3] == 31)) /* connection.tune-ok */
        add_frame((struct span){ok, sizeof ok});
}

static void answer_asked(void)
{
    const uint8_t *at = broker.asked.data;
    if (broker.asked.len >= 8 && memcmp(at, "AMQP", 4) == 0) {
        SAY("\0\12\0\12\0\11\0\0\0\0\0\0\0\5PLAIN\0\0\0\5en_US");
        buffer_drop(&broker.asked, 8);
    }
    while (broker.asked.len >= 12) {
        at = broker.asked.data;
        size_t size = (size_t)at[5] << 8 | at[6];
        if (broker.asked.len < size + 8)
            return;
        if (at[0] == AMQP_FRAME_METHOD)
            answer_method(at + 7);
        buffer_drop(&broker.asked, size + 8);
    }
}

/* ---- The wire to it, and time, which stands still ---- */

bool wire_open(struct wire *w, const char *host, int port, const struct tls_config *tls,
               size_t turn, int64_t until)
{
    (void)host, (void)port, (void)tls, (void)turn, (void)until;
    /* Polling it never waits. */
    *w = (struct wire){.fd = open("/dev/null", O_RDWR | O_CLOEXEC)};
    assert(w->fd >= 0);
    return true;
}

void wire_close(struct wire *w)
{
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
}

ssize_t wire_send(struct wire *w, const void *data, size_t len)
{
    (void)w;
    if (broker.yes) {
        buffer_add(&broker.asked, data, len);
        answer_asked();
    }
    return (ssize_t)len;
}

ssize_t wire_receive(struct wire *w, void *to, size_t room)
{
    struct span part = {0};
    size_t most = room < broker.at_once ? room : broker.at_once;
    if (broker.yes) {
        size_t len = broker.answer.len < most ? broker.answer.len : most;
        memcpy(to, broker.answer.data, len);
        buffer_drop(&broker.answer, len);
        return (ssize_t)len;
    }
    part = fuzz_take(&broker.says, most);
    if (part.len == 0) {
        w->error[0] = '\0';
        return -1;
    }
    memcpy(to, part.data, part.len);
    return (ssize_t)part.len;
}

bool wire_wants_write(const struct wire *w, bool unsent)
{
    (void)w;
    return unsent;
}

bool wire_receive_wants_write(const struct wire *w)
{
    (void)w;
    return false;
}

int64_t clock_now(void)
{
    return 1000000;
}

int64_t clock_micros(void)
{
    return clock_now() * 1000;
}

int64_t clock_wall(void)
{
    return 1782640800123;
}

/* ---- The route ---- */

const char *file_read(const char *path, size_t limit, struct buffer *out, char error[256])
{
    (void)path, (void)limit, (void)error;
    buffer_printf(out, "broker: {urls: [\"amqp://user:secret@broker\"]}\n"
                       "stores: [{name: m, url: \"memory:\"}]\n"
                       "routes: [{name: r, from: {exchange: e, queue: in}, to: {queue: work},\n"
                       "          key: [message_id], window: 24h}]\n");
    return NULL;
}

static struct config *load(void)
{
    static struct config *config;
    struct buffer errors = {0};
    if (!config)
        config = config_load("fuzz.yaml", &errors);
    assert(config && errors.len == 0);
    return config;
}

/* ---- What is tried ---- */

static void check_error(const char *error)
{
    assert(*error && visible_is(error));
}

static void try_source(const struct config *config)
{
    struct source *s = source_new(config, &config->routes[0]);
    bool permanent = false;
    if (source_open(s, &permanent)) {
        broker.yes = false;
        uint64_t last = 0;
        do {
            struct message *m;
            while ((m = source_pull(s)) != NULL) {
                assert(m->tag > last);
                last = m->tag;
                if (m->tag % 3 == 0)
                    source_reject(s, m);
                else if (m->tag % 3 == 1)
                    source_ack(s, m);
                message_free(m);
            }
            source_flush(s, clock_now(), 0);
            source_read(s, true, clock_now());
        } while (source_is_up(s));
    }
    check_error(source_error(s));
    source_free(s);
}

static struct message *make_message(int number)
{
    static const uint8_t with_id[] = {0x00, 0x80, 2, 'm', '0'}; /* message_id */
    uint8_t properties[sizeof with_id];
    memcpy(properties, with_id, sizeof with_id);
    properties[sizeof with_id - 1] += (uint8_t)(number / 2);
    struct message *m = build_message_parts(span_of("e"), span_of("k"),
                                            (struct span){properties, sizeof properties},
                                            span_of(number % 2 ? "body" : ""));
    m->copy = (struct copy){.target = TARGET_WORK, .first_seen = 1782640800123};
    return m;
}

static void try_sink(const struct config *config)
{
    struct sink *s = sink_new(config, &config->routes[0], SINK_COPIES);
    struct message *messages[MESSAGES];
    bool answered[MESSAGES] = {false};
    bool permanent = false;
    for (int i = 0; i < MESSAGES; i++)
        messages[i] = make_message(i);
    if (sink_open(s, &permanent)) {
        for (int i = 0; i < MESSAGES && sink_room(s) > 0; i++) {
            enum sink_result result = sink_publish(s, messages[i]);
            assert(result == SINK_PUBLISHED);
        }
        broker.yes = false;
        while (sink_is_up(s)) {
            sink_read(s, clock_now());
            sink_flush(s, clock_now());
            enum sink_answer answer;
            struct message *m;
            while ((m = sink_next(s, &answer)) != NULL) {
                int i = 0;
                while (i < MESSAGES && messages[i] != m)
                    i++;
                assert(i < MESSAGES && !answered[i]);
                answered[i] = true;
            }
        }
    }
    check_error(sink_error(s));
    sink_free(s);
    for (int i = 0; i < MESSAGES; i++)
        message_free(messages[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct config *config = load();
    struct span rest = {data, size};
    uint8_t what = fuzz_byte(&rest);
    broker.at_once = (size_t)fuzz_byte(&rest) * 16 + 1;
    broker.says = rest;
    broker.yes = what & 2;
    if (what & 1)
        try_sink(config);
    else
        try_source(config);
    buffer_free(&broker.answer);
    buffer_free(&broker.asked);
    return 0;
}
