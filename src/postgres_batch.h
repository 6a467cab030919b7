/*
 * postgres_batch - compare-and-set of many records, for store_postgres.c: steps are added in their
 * order, and carried out in one statement.
 *
 * The statement may change each key once. So the steps of one key are collapsed: what they come to
 * depends on one thing alone, what is under the key before the first of them. For each text that
 * one of them expects, it is worked out what would be there in the end, and the database is given
 * these changes, of which one at most fits. From what it found, each step's answer follows.
 *
 * Keys are sorted, so that two batches lock their records in the same order. Should somebody else
 * have changed a record at the same moment, its steps are sent once more: only a record that was
 * seen is an answer.
 */
#ifndef ONLYONCE_POSTGRES_BATCH_H
#define ONLYONCE_POSTGRES_BATCH_H

#include "postgres_link.h"

/* Bytes in a batch's memory, which moves while it grows. All zero: nothing, which an empty text is
 * not. */
struct word {
    size_t at;
    size_t len;
};

struct postgres_step {
    struct word key; /* as it is stored */
    size_t order;    /* among the steps */
    size_t first_expected;
    size_t expected_count;
    struct word write; /* nothing: delete */
    int64_t ttl;
    /* the answer */
    bool applied;
    struct word met;
};

struct postgres_batch {
    struct buffer bytes;
    struct postgres_step *steps; /* in the order of their keys, once they were run */
    size_t step_count;
    size_t step_size;
    struct word *expected;
    size_t expected_count;
    size_t expected_size;
    struct postgres_group *groups; /* the steps of one key */
    size_t group_count;
    struct postgres_change *changes;
    size_t change_count;
    size_t change_size;
    bool fenced; /* the session does not exist: nothing was done */
};

void postgres_batch_clear(struct postgres_batch *b);
void postgres_batch_free(struct postgres_batch *b);

/* A step, and then what it expects: each of these texts fits; an empty one is nothing. */
void postgres_batch_add(struct postgres_batch *b, struct span key, struct span write, int64_t ttl);
void postgres_batch_expect(struct postgres_batch *b, struct span text);

/*
 * Runs it in the scope. `session` NULL: unfenced. `before`: so many statements were put already,
 * which go into the same transaction.
 */
bool postgres_batch_run(struct postgres_batch *b, struct postgres_link *l, const char *session,
                        size_t before) __attribute__((warn_unused_result));

struct span postgres_batch_span(const struct postgres_batch *b, struct word word);

/* A key as it is stored, appended; and back again, appended too. */
void postgres_write_key(struct buffer *out, struct span key);
void postgres_read_key(struct buffer *out, struct span text);

#endif
