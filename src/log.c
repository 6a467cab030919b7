#include "log.h"

#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Set again while others log, when the configuration changes. */
static _Atomic enum log_level least_level = LOG_LEVEL_INFO;
static _Atomic enum log_format line_format = LOG_FORMAT_LOGFMT;

static const char *const level_names[] = {"debug", "info", "warning", "error"};

void log_setup(enum log_level least, enum log_format format)
{
    least_level = least;
    line_format = format;
}

int log_wants(enum log_level level)
{
    return level >= least_level;
}

/* Quoted text is escaped the way JSON wants it, in both formats. Bytes above 127 pass as they are,
 * unless they are no UTF-8 to begin with: keys and header texts reach us encoded. */
static void add_quoted(struct buffer *line, const char *text)
{
    buffer_add_u8(line, '"');
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\') {
            buffer_add_u8(line, '\\');
            buffer_add_u8(line, c);
        } else if (c == '\n') {
            buffer_add(line, "\\n", 2);
        } else if (c < 0x20 || c == 0x7f) {
            buffer_printf(line, "\\u%04x", c);
        } else {
            buffer_add_u8(line, c);
        }
    }
    buffer_add_u8(line, '"');
}

static int is_bare(const char *text)
{
    if (!*text)
        return 0;
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p <= ' ' || *p == '"' || *p == '=' || *p == '\\' || *p == 0x7f)
            return 0;
    return 1;
}

/* A line goes on as it began. */
static int is_json(const struct buffer *line)
{
    return line->len ? line->data[0] == '{' : line_format == LOG_FORMAT_JSON;
}

static void add_field(struct buffer *line, const char *name, const char *value)
{
    if (is_json(line)) {
        buffer_printf(line, "%s\"%s\":", line->len ? "," : "{", name);
        add_quoted(line, value);
        return;
    }
    buffer_printf(line, "%s%s=", line->len ? " " : "", name);
    if (is_bare(value))
        buffer_add(line, value, strlen(value));
    else
        add_quoted(line, value);
}

static void add_time(struct buffer *line)
{
    struct timespec now;
    struct tm utc;
    char day[32];
    char text[48];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text, sizeof text, "%s.%03ldZ", day, now.tv_nsec / 1000000);
    add_field(line, "ts", text);
}

static void write_line(struct buffer *line)
{
    if (is_json(line))
        buffer_add_u8(line, '}');
    buffer_add_u8(line, '\n');
    /* A log that cannot be written must not stop the relay. */
    ssize_t written = write(STDERR_FILENO, line->data, line->len);
    (void)written;
    buffer_free(line);
}

static void begin_line(struct buffer *line, enum log_level level, const char *event)
{
    add_time(line);
    add_field(line, "level", level_names[level]);
    add_field(line, "msg", event);
}

void log_pairs(enum log_level level, const char *event, const char *route, const char *const *pairs,
               size_t count)
{
    if (!log_wants(level))
        return;
    struct buffer line = {0};
    begin_line(&line, level, event);
    add_field(&line, "route", route);
    for (size_t i = 0; i + 1 < count; i += 2)
        add_field(&line, pairs[i], pairs[i + 1]);
    write_line(&line);
}

void log_line(enum log_level level, const char *event, ...)
{
    if (!log_wants(level))
        return;
    struct buffer line = {0};
    begin_line(&line, level, event);
    va_list args;
    va_start(args, event);
    for (const char *name = va_arg(args, const char *); name; name = va_arg(args, const char *)) {
        const char *value = va_arg(args, const char *);
        if (value)
            add_field(&line, name, value);
    }
    va_end(args);
    write_line(&line);
}

void panic(const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    log_line(LOG_LEVEL_ERROR, "broken invariant, stopping", "what", text, NULL);
    abort();
}
