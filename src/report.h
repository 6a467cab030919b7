/*
 * report - what workers and operators say about a key: that its work is done, or that it is to be
 * forgotten. Both are compare-and-sets over what is on record, so that neither ever touches a claim
 * made meanwhile.
 */
#ifndef ONLYONCE_REPORT_H
#define ONLYONCE_REPORT_H

#include "message.h"
#include "store.h"

enum report_answer {
    REPORT_DONE,
    REPORT_ALREADY,    /* it was completed before, and the first completion stays */
    REPORT_NOT_FOUND,  /* it is not on record, or with another first-seen */
    REPORT_PENDING,    /* not released: a relay is at it, or will be */
    REPORT_FOREIGN,    /* what is under the key is no record of ours */
    REPORT_BUSY,       /* it changes too fast: try again */
    REPORT_UNREACHABLE /* store_error() says why; it may or may not have been done */
};

/* Why it was not done, as it follows the key's name: "is not on record". Of REPORT_UNREACHABLE
 * store_error() says it. */
const char *report_answer_text(enum report_answer answer);

/* What is on record for a key, in *json, to be freed: as record_json() writes it, with its result.
 * REPORT_DONE, REPORT_NOT_FOUND (and *json says so), REPORT_FOREIGN or REPORT_UNREACHABLE (and
 * *json is NULL). */
enum report_answer report_status(struct store *s, const char *route, const char *key, char **json)
    __attribute__((warn_unused_result));

/* What a completion may bring: JSON of at most STORE_RESULT_MAX bytes. Empty: none. */
bool report_is_result(struct span result);

/* Completes a key. `first_seen` 0: whichever is on record. A pending record only notes it. */
enum report_answer report_complete(struct store *s, struct span key, int64_t first_seen,
                                   struct span result) __attribute__((warn_unused_result));

/* Forgets a key; a pending one only by `force`. */
enum report_answer report_release(struct store *s, struct span key, int64_t first_seen, bool force)
    __attribute__((warn_unused_result));

/* A report as a worker publishes it: its headers, and the result as its body. */
struct report {
    struct span route;
    struct span key;
    int64_t first_seen; /* 0: it does not say */
    bool release;       /* else complete */
    struct span result; /* of a completion */
};

/* Reads a report, whose spans then point into the message. PARK_NONE, or what is wrong with it. */
enum park_reason report_read(const struct message *m, struct report *out)
    __attribute__((warn_unused_result));

#endif
