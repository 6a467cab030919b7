/*
 * visible - texts that others wrote, made fit for one line of a log, of a terminal or of JSON:
 * UTF-8 without control characters.
 */
#ifndef ONLYONCE_VISIBLE_H
#define ONLYONCE_VISIBLE_H

#include <stdbool.h>

/* Has the text nothing but visible characters? */
bool visible_is(const char *text);

/* Writes '?' over each byte that is not (part of) one. */
void visible_make(char *text);

#endif
