/*
 * record - what the store holds for a key, and its text.
 *
 * The text is one line of ASCII, made to be read with the store's own tools. It begins with a
 * format digit and a state letter; then come number and first-seen, in ms since 1970, and after
 * them fields of one letter each, in this order, present only where they say something. Times are
 * in ms after first-seen: a forwarded record then has less than 45 bytes, above which Redis gives a
 * value an allocation of its own.
 *
 *   2P 1 1782640800123 t0 o6f2c9a0e51b7d3480c1e22aa.17
 *   2F 1 1782640800123 t67 e86400067
 *   2P 2 1782640800123 t59877 o6f2c….31 <F 1 1782640800123 t67 e86400067
 *
 *   P pending   F forwarded   C completed   K parked
 *   t  when it came to this state (of C: when it was forwarded)
 *   e  when its window ends (F, C, K)
 *   c  when it was completed (C); on P the note of a completion that came early
 *   d  in doubt
 *   n  how many duplicates came, l  when the last one did
 *   f  the fingerprint of the message that was forwarded: 16 hex digits (all f: of one of several)
 *   r  there is a result beside it, that its completion brought
 *   o  the session and the number of the claim that owns it (P); absent: nobody does
 *   <  the record that was claimed over, to be put back if the claim is released; always last
 *
 * One record has exactly one text, so comparing texts compares records: stores compare-and-set on
 * them. Anything else under a key is foreign, and an unknown answer.
 */
#ifndef ONLYONCE_RECORD_H
#define ONLYONCE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORD_TEXT_MAX 384
#define SESSION_ID_LEN 24 /* hex digits: 96 random bits */

enum record_state {
    RECORD_NONE, /* there is no record */
    RECORD_PENDING,
    RECORD_FORWARDED,
    RECORD_COMPLETED,
    RECORD_PARKED
};
const char *record_state_name(enum record_state state); /* as status prints it */
bool record_state_read(const char *name, enum record_state *out);

/* One state of a key. */
struct record_life {
    enum record_state state;
    uint32_t number;    /* of the attempt, from 1 */
    int64_t first_seen; /* ms since 1970: tells one life of the key from the next */
    int64_t since;      /* claimed, forwarded or parked at */
    int64_t ends;       /* 0 for pending */
    int64_t completed;  /* 0: not */
    bool in_doubt;
    bool has_result;
    uint32_t duplicates;
    int64_t last_duplicate; /* 0: there was none */
    uint64_t fingerprint;   /* 0: none was taken */
};

/* Of a claim where copies of several contents may be on their way, and nobody knows which one a
 * completion is about: it is equal to no content's. */
#define FINGERPRINT_SEVERAL UINT64_MAX

struct record {
    struct record_life now;
    struct record_life before; /* pending: what was claimed over; state RECORD_NONE: nothing */
    char session[SESSION_ID_LEN + 1]; /* pending: the owner's; "": nobody's */
    uint64_t claim;                   /* pending: the owner's number for it */
};

/* Writes the text, NUL-terminated; its length. */
size_t record_write(const struct record *r, char out[RECORD_TEXT_MAX]);

/* False: not a record's text, down to the last byte. */
bool record_read(struct record *r, const char *text, size_t len)
    __attribute__((warn_unused_result));

bool record_equal(const struct record *a, const struct record *b);

/* A time as people and JSON have it: 2026-06-28T10:00:00.123Z. False: it is beyond any calendar. */
#define RECORD_TIME_MAX 80
bool record_time(int64_t ms, char out[RECORD_TIME_MAX]) __attribute__((warn_unused_result));

/* The record as one JSON object on a line, without its '\n', to be freed. `ttl` is its time to live
 * in ms; `result` is JSON, or NULL; line ends in it become spaces. RECORD_NONE gives
 * "not_found". */
char *record_json(const struct record *r, const char *route, const char *key, int64_t ttl,
                  const char *result) __attribute__((warn_unused_result));

#endif
