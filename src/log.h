/*
 * log - one line per event on stderr, as logfmt or JSON.
 *
 *   LOG_INFO("connected", "route", route->name, "link", "sink", NULL);
 *
 * The first argument says what happened; then come pairs of field name and text, ended by NULL. A
 * NULL text leaves its field out. Values are quoted and escaped as needed: a line is always one
 * line, whatever a message or a server put into a value. Only what runs a thread logs; modules
 * return their error. Lines of several threads never mix: each is a single write().
 */
#ifndef ONLYONCE_LOG_H
#define ONLYONCE_LOG_H

#include <stdarg.h>
#include <stddef.h>

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARNING, LOG_LEVEL_ERROR };
enum log_format { LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON };

void log_setup(enum log_level least, enum log_format format);
int log_wants(enum log_level level); /* so that costly fields are made only where they show */
void log_line(enum log_level level, const char *event, ...) __attribute__((sentinel));

/* A line about a route, with `count` texts that are names and values in turn. */
void log_pairs(enum log_level level, const char *event, const char *route, const char *const *pairs,
               size_t count);

#define LOG_DEBUG(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define LOG_INFO(...) log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define LOG_WARNING(...) log_line(LOG_LEVEL_WARNING, __VA_ARGS__)
#define LOG_ERROR(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)

/* A broken invariant of ours: says so and aborts, before any more is acknowledged. */
void panic(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
