/*
 * json_case - JSON in its one spelling, for tests.
 */
#ifndef ONLYONCE_TESTS_JSON_CASE_H
#define ONLYONCE_TESTS_JSON_CASE_H

#include "json.h"
#include "memory.h"

/* The canonical form, which the caller frees; NULL: it is not valid, and then nothing was written.
 */
char *canonical(struct span in);

#endif
