/*
 * expand - what ${...} and $$ in a value of the configuration stand for.
 *
 *   ${NAME}            the environment's; it must be set
 *   ${NAME:-default}   the default (in which $$ is a dollar) if it is not set or empty
 *   ${file:/path}      the first line of a file, without its end
 *   $$                 a dollar
 *
 * What was put in is not looked through again.
 */
#ifndef ONLYONCE_EXPAND_H
#define ONLYONCE_EXPAND_H

#include "memory.h"

/* Appends the expansion of `text`. NULL, or what is wrong with it: a fragment that shows names and
 * paths but never a value. */
const char *expand(const char *text, struct buffer *out, char error[256]);

#endif
