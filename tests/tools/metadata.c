/*
 * metadata - publishes messages of every shape through a relay, and compares the copies byte by
 * byte: presence and content of the fourteen properties, order, types and content of the headers,
 * the body.
 *
 * It prints a line for each shape, "ok NAME" or "FAIL NAME" and why, and exits with 0 only if all
 * are ok. What a relay is to take out, the copy must not have; what it adds comes last. What the
 * broker does to every message is not the relay's doing; see shape_write_anew().
 */
#include "shape.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE 30000 /* ms for a copy */
#define KIB 1024

struct options {
    struct client_options client;
    const char *in;
    const char *work;
    const char *user;
    bool user_goes;
};

struct run {
    const struct options *o;
    amqp_connection_state_t in;
    amqp_connection_state_t work;
    size_t frame;     /* bytes of a body in one frame */
    bool ok;          /* all were, so far */
    bool aborted;     /* a copy did not come: the next one would be compared with it */
    bool writes_anew; /* RabbitMQ, from 4.0 on: see shape_write_anew() */
};

static const struct argp_option option_table[] = {
    {"in", 'q', "QUEUE", 0, "The inbound queue", 0},
    {"work", 'w', "QUEUE", 0, "The work queue", 0},
    {"user", 'u', "NAME", 0, "The publishing user, for user_id (guest)", 0},
    {"user-goes", 'g', NULL, 0, "The relay is to take this user_id out", 0},
    {0},
};

static error_t take_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 'q': o->in = arg; break;
    case 'w': o->work = arg; break;
    case 'u': o->user = arg; break;
    case 'g': o->user_goes = true; break;
    case ARGP_KEY_END:
        if (o->in == NULL || o->work == NULL)
            argp_error(state, "--in and --work are needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* ---- Comparing ---- */

static bool is_named(const struct field *f, const char *name)
{
    return f->name_len == strlen(name) && memcmp(f->name, name, f->name_len) == 0;
}

static bool begins_with(const struct field *f, const char *prefix)
{
    return f->name_len >= strlen(prefix) && memcmp(f->name, prefix, strlen(prefix)) == 0;
}

static bool is_taken_out(const struct field *f)
{
    return is_named(f, "CC") || is_named(f, "BCC") || is_named(f, "x-death") ||
           begins_with(f, "x-first-death-") || begins_with(f, "x-last-death-") ||
           is_named(f, "x-delivery-count") || is_named(f, "x-acquired-count") ||
           begins_with(f, "x-onlyonce-");
}

static bool wrong(const char *what, const struct field *f)
{
    printf("    %s: \"%.*s\"\n", what, (int)f->name_len, (const char *)f->name);
    return false;
}

/* The next field that is to stay; false: there is none. */
static bool next_kept(const uint8_t **at, const uint8_t *end, struct field *field)
{
    bool broken;
    while (field_next(at, end, field, &broken))
        if (!is_taken_out(field))
            return true;
    return false;
}

/* The copy has the kept fields in their order, and then nothing but the relay's own; a broker that
 * sorts puts these anywhere. */
static bool headers_match(const struct bytes *sent, const struct bytes *got, bool sorted)
{
    const uint8_t *from = sent->data;
    const uint8_t *at = got->data;
    struct field want;
    struct field is;
    bool broken;
    int own = 0;
    int needed = 0;
    while (field_next(&at, got->data + got->len, &is, &broken)) {
        if (begins_with(&is, "x-onlyonce-")) {
            own++;
            needed += is_named(&is, "x-onlyonce-route") || is_named(&is, "x-onlyonce-first-seen");
            continue;
        }
        if (own > 0 && !sorted)
            return wrong("this header comes after the relay's own", &is);
        if (!next_kept(&from, sent->data + sent->len, &want))
            return wrong("the copy has this header besides", &is);
        if (is.whole_len != want.whole_len || memcmp(is.whole, want.whole, is.whole_len) != 0)
            return wrong("this header differs, or is in another place", &want);
    }
    if (next_kept(&from, sent->data + sent->len, &want))
        return wrong("this header is missing", &want);
    if (broken || needed != 2)
        printf("    the copy's headers are broken, or the relay's own are missing\n");
    return !broken && needed == 2;
}

static bool matches(const struct run *r, const struct shape *sent, const struct shape *got)
{
    bool ok = true;
    for (int i = 0; i < PROPERTIES; i++) {
        bool want = (sent->present[i] && !(i == USER_ID && r->o->user_goes)) || i == HEADERS;
        bool same = got->present[i] == want;
        if (same && want)
            same = i == HEADERS ? headers_match(&sent->value[i], &got->value[i], r->writes_anew)
                                : bytes_equal(&sent->value[i], &got->value[i]);
        if (!same)
            printf("    %s: sent %s of %zu bytes, got %s of %zu bytes\n", property_names[i],
                   sent->present[i] ? "one" : "none", sent->value[i].len,
                   got->present[i] ? "one" : "none", got->value[i].len);
        ok = ok && same;
    }
    if (!bytes_equal(&sent->body, &got->body)) {
        printf("    body: sent %zu bytes, got %zu, or others\n", sent->body.len, got->body.len);
        ok = false;
    }
    return ok;
}

/* Sends the shape, compares its copy, and frees it. */
static void check(struct run *r, const char *name, struct shape *sent)
{
    struct shape got = {0};
    bool ok = !r->aborted;
    if (ok && (!shape_publish(r->in, r->o->in, sent) || !shape_receive(r->work, PATIENCE, &got))) {
        r->aborted = true;
        ok = false;
        (void)!shape_receive(r->in, 100, &got); /* says why the broker closed, if it did */
    }
    if (r->writes_anew)
        shape_write_anew(sent);
    ok = ok && matches(r, sent, &got);
    printf("%s %s\n", ok ? "ok" : "FAIL", name);
    r->ok = r->ok && ok;
    shape_free(&got);
    shape_free(sent);
}

/* ---- Properties ---- */

static void set_text(struct shape *s, enum property property, const char *text)
{
    shape_set(s, property, text, strlen(text));
}

static void set_typical(const struct run *r, struct shape *s, enum property property)
{
    switch (property) {
    case HEADERS: shape_set(s, property, "", 0); break;
    case DELIVERY_MODE: shape_set(s, property, "\2", 1); break;
    case PRIORITY: shape_set(s, property, "\7", 1); break;
    case TIMESTAMP: shape_set(s, property, "\0\0\1\2\3\4\5\6", 8); break;
    case EXPIRATION: set_text(s, property, "60000"); break;
    case USER_ID: set_text(s, property, r->o->user); break;
    case CONTENT_TYPE:
    case CONTENT_ENCODING:
    case CORRELATION_ID:
    case REPLY_TO:
    case MESSAGE_ID:
    case TYPE:
    case APP_ID:
    case CLUSTER_ID: set_text(s, property, property_names[property]); break;
    }
}

static bool is_text(int property)
{
    return property != HEADERS && property != DELIVERY_MODE && property != PRIORITY &&
           property != TIMESTAMP;
}

/* The broker reads an expiration, and knows its users. */
static bool is_free_text(int property)
{
    return is_text(property) && property != EXPIRATION && property != USER_ID;
}

static void check_properties(struct run *r)
{
    struct shape s = {0};
    char name[64];
    check(r, "no property: delivery_mode absent stays absent", &s);
    for (int i = 0; i < PROPERTIES; i++)
        set_typical(r, &s, (enum property)i);
    shape_set(&s, MESSAGE_ID, "all", 3);
    check(r, "every property", &s);
    for (int i = 0; i < PROPERTIES; i++) {
        set_typical(r, &s, (enum property)i);
        snprintf(name, sizeof name, "nothing but %s", property_names[i]);
        check(r, name, &s);
    }
    for (int i = 0; i < PROPERTIES; i++) {
        if (!is_free_text(i))
            continue;
        shape_set(&s, (enum property)i, "", 0);
        snprintf(name, sizeof name, "an empty %s", property_names[i]);
        check(r, name, &s);
    }
    uint8_t every[255];
    for (size_t i = 0; i < sizeof every; i++)
        every[i] = (uint8_t)(255 - i); /* 0 comes last, and only where there is room for it */
    for (int i = 0; i < PROPERTIES; i++)
        if (is_free_text(i))
            shape_set(&s, (enum property)i, every, sizeof every);
    check(r, "texts of 255 bytes, of every value but 0", &s);
    for (int i = 0; i < PROPERTIES; i++)
        if (is_free_text(i))
            shape_set(&s, (enum property)i, "a\0b\0", 4);
    check(r, "texts with NUL bytes", &s);
    for (unsigned i = 0; i < 256; i += 51) {
        shape_set(&s, PRIORITY, &(uint8_t){(uint8_t)i}, 1);
        snprintf(name, sizeof name, "priority %u", i);
        check(r, name, &s);
    }
    shape_set(&s, DELIVERY_MODE, "\1", 1);
    shape_set(&s, TIMESTAMP, "\377\377\377\377\377\377\377\377", 8);
    shape_set(&s, EXPIRATION, "0000060000", 10);
    check(r, "delivery_mode 1, the last timestamp, an expiration with zeros", &s);
}

/* ---- Headers ---- */

struct example {
    const char *name;
    char type;
    const char *value;
    size_t len;
};
#define EXAMPLE(name, type, value)                                                                 \
    {                                                                                              \
        name, type, value, sizeof(value) - 1                                                       \
    }

/* Every type that RabbitMQ reads; it refuses a NaN, and an infinity, of every publisher. */
static const struct example examples[] = {
    EXAMPLE("true", 't', "\1"),
    EXAMPLE("false", 't', "\0"),
    EXAMPLE("byte", 'b', "\200"),
    EXAMPLE("unsigned byte", 'B', "\377"),
    EXAMPLE("short", 's', "\200\1"),
    EXAMPLE("unsigned short", 'u', "\377\376"),
    EXAMPLE("int", 'I', "\200\0\0\1"),
    EXAMPLE("unsigned int", 'i', "\377\377\377\376"),
    EXAMPLE("long", 'l', "\200\0\0\0\0\0\0\1"),
    EXAMPLE("float", 'f', "\77\200\0\1"),
    EXAMPLE("double", 'd', "\77\360\0\0\0\0\0\1"),
    EXAMPLE("double below zero", 'd', "\200\0\0\0\0\0\0\0"),
    EXAMPLE("decimal", 'D', "\2\0\0\4\322"),
    EXAMPLE("text", 'S', "\0\0\0\5a\0b\377c"),
    EXAMPLE("empty text", 'S', "\0\0\0\0"),
    EXAMPLE("bytes", 'x', "\0\0\0\3\0\316\377"),
    EXAMPLE("timestamp", 'T', "\0\0\0\0\146\0\0\1"),
    EXAMPLE("void", 'V', ""),
    EXAMPLE("empty array", 'A', "\0\0\0\0"),
    EXAMPLE("array", 'A', "\0\0\0\16t\1S\0\0\0\1xI\0\0\0\1V"),
    EXAMPLE("empty table", 'F', "\0\0\0\0"),
    EXAMPLE("table", 'F', "\0\0\0\16\1zt\1\1aF\0\0\0\3\1zV"),
};
#define EXAMPLES (sizeof examples / sizeof *examples)

static void add_example(struct shape *s, const struct example *e)
{
    shape_add_field(s, e->name, strlen(e->name), e->type, e->value, e->len);
}

static void add_text(struct shape *s, const char *name, const char *text)
{
    struct bytes value = {0};
    bytes_add_number(&value, strlen(text), 4);
    bytes_add(&value, text, strlen(text));
    shape_add_field(s, name, strlen(name), 'S', value.data, value.len);
    bytes_free(&value);
}

/* A table in a table in a table... */
static void add_nested(struct shape *s, int depth)
{
    struct bytes value = {0};
    bytes_add_number(&value, 0, 4);
    for (int i = 0; i < depth; i++) {
        struct bytes outer = {0};
        bytes_add_number(&outer, 3 + value.len, 4);
        bytes_add(&outer, "\1nF", 3);
        bytes_add(&outer, value.data, value.len);
        bytes_free(&value);
        value = outer;
    }
    shape_add_field(s, "nested", 6, 'F', value.data, value.len);
    bytes_free(&value);
}

static void add_long_text(struct shape *s, size_t len)
{
    struct bytes value = {0};
    bytes_add_number(&value, len, 4);
    for (size_t i = 0; i < len; i++)
        bytes_add(&value, &(uint8_t){(uint8_t)(i % 251)}, 1);
    shape_add_field(s, "long", 4, 'S', value.data, value.len);
    bytes_free(&value);
}

static void check_types(struct run *r)
{
    struct shape s = {0};
    char name[64];
    for (size_t i = 0; i < EXAMPLES; i++) {
        add_example(&s, &examples[i]);
        snprintf(name, sizeof name, "a header of type %c: %s", examples[i].type, examples[i].name);
        check(r, name, &s);
    }
    for (size_t i = EXAMPLES; i-- > 0;)
        add_example(&s, &examples[i]);
    check(r, "headers of all types, in no order", &s);
}

static void check_headers(struct run *r)
{
    struct shape s = {0};
    char long_name[256];
    memset(long_name, 'n', sizeof long_name);
    check_types(r);
    shape_add_field(&s, long_name, 255, 'V', "", 0);
    add_text(&s, "B", "first");
    add_text(&s, "a", "2");
    add_text(&s, "A", "3");
    add_text(&s, "b", "last");
    check(r, "header names of 255 bytes, out of order and in two cases", &s);
    add_nested(&s, 30);
    check(r, "tables in tables, 30 deep", &s);
    for (int i = 0; i < 500; i++) {
        char number[16];
        snprintf(number, sizeof number, "h%d", (i * 7919) % 500);
        add_text(&s, number, number);
    }
    check(r, "500 headers", &s);
    add_long_text(&s, 100 * (size_t)KIB);
    check(r, "a header of 100 KiB", &s);
    set_text(&s, MESSAGE_ID, "too-long-for-its-key");
    add_long_text(&s, r->frame - 150);
    check(r, "headers that leave no room for x-onlyonce-key", &s);
}

static void check_taken_out(struct run *r)
{
    struct shape s = {0};
    add_text(&s, "before", "stays");
    shape_add_field(&s, "CC", 2, 'A', "\0\0\0\14S\0\0\0\7nowhere", 16);
    shape_add_field(&s, "BCC", 3, 'A', "\0\0\0\14S\0\0\0\7nowhere", 16);
    shape_add_field(&s, "x-death", 7, 'A', "\0\0\0\0", 4);
    add_text(&s, "x-first-death-queue", "q");
    add_text(&s, "x-first-death-reason", "rejected");
    add_text(&s, "between", "stays");
    add_text(&s, "x-last-death-exchange", "e");
    shape_add_field(&s, "x-delivery-count", 16, 'l', "\0\0\0\0\0\0\0\1", 8);
    shape_add_field(&s, "x-acquired-count", 16, 'l', "\0\0\0\0\0\0\0\1", 8);
    add_text(&s, "after", "stays");
    check(r, "headers that are taken out", &s);
    add_text(&s, "cc", "stays");
    add_text(&s, "x-deaths", "stays");
    add_text(&s, "x-first-death", "stays");
    add_text(&s, "X-Delivery-Count", "stays");
    add_text(&s, "x-onlyonce", "stays");
    add_text(&s, "", "stays");
    check(r, "headers whose names are almost those, or empty", &s);
    add_text(&s, "x-onlyonce-route", "another");
    add_text(&s, "x-onlyonce-key", "wrong");
    add_text(&s, "x-onlyonce-first-seen", "wrong");
    add_text(&s, "x-onlyonce-in-doubt", "wrong");
    add_text(&s, "x-onlyonce-of-tomorrow", "wrong");
    add_text(&s, "x-onlyonce-key", "wrong again");
    check(r, "inbound headers of the relay's own names are replaced or taken out", &s);
}

/* ---- Bodies ---- */

static void check_body(struct run *r, const char *name, size_t len)
{
    struct shape s = {0};
    for (size_t i = 0; i < len; i++)
        bytes_add(&s.body, &(uint8_t){(uint8_t)(i * 2654435761U >> 13)}, 1);
    check(r, name, &s);
}

static void check_bodies(struct run *r)
{
    struct shape s = {0};
    check_body(r, "a body of 0 bytes", 0);
    check_body(r, "a body of 1 byte", 1);
    check_body(r, "a body of one frame less 1 byte", r->frame - 1);
    check_body(r, "a body of one frame", r->frame);
    check_body(r, "a body of one frame and 1 byte", r->frame + 1);
    check_body(r, "a body of two frames", 2 * r->frame);
    check_body(r, "a body of 1 MiB", (size_t)KIB * KIB);
    check_body(r, "a body of 16 MiB", (size_t)16 * KIB * KIB);
    for (unsigned i = 0; i < 1024; i++)
        bytes_add(&s.body, &(uint8_t){(uint8_t)i}, 1);
    check(r, "a body of all byte values", &s);
}

int main(int argc, char **argv)
{
    const struct argp argp = {.options = option_table,
                              .parser = take_option,
                              .doc = "Compares messages of every shape with their copies."};
    struct options o = {.user = "guest"};
    client_parse(&argp, CLIENT_BROKER, argc, argv, &o.client);

    struct run r = {
        .o = &o, .ok = true, .in = client_open(o.client.amqp), .work = client_open(o.client.amqp)};
    if (r.in == NULL || r.work == NULL)
        return EXIT_FAILURE;
    r.ok = client_consume(r.work, o.work, "", 0);
    r.frame = (size_t)amqp_get_frame_max(r.in) - 8;
    r.aborted = !r.ok;
    r.writes_anew = client_broker_major(r.in) >= 4;
    check_properties(&r);
    check_headers(&r);
    check_taken_out(&r);
    check_bodies(&r);
    client_close(r.in);
    client_close(r.work);
    return r.ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
