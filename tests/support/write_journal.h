/*
 * write_journal: what a test has tried to write to a store, and what it was told of it; the judge
 * of what is found there after the power was cut. Keys are numbers. Calls may come from any thread,
 * but for the judging.
 */
#ifndef MQKV_TESTS_SUPPORT_WRITE_JOURNAL_H
#define MQKV_TESTS_SUPPORT_WRITE_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

#define JOURNAL_KEYS 24u

enum write_kind {
    WRITE_PUT,
    WRITE_EXPIRING, /* a put that has expired when it is judged, or nearly so */
    WRITE_DELETE
};

/* Forgets everything. */
void journal_clear(void);

/* Goes on after a cut: what was tried before must not be found any more, but versions that were
 * told are not to be given again. What was found is to be noted next, as durable writes. */
void journal_next_life(void);

/* A write is about to be tried; the token tells its value from all others. Returns its number. */
size_t journal_attempt(unsigned key, enum write_kind kind, uint64_t token);

/* It succeeded, or it failed and changed nothing. */
void journal_done(size_t attempt, uint64_t version);
void journal_failed(size_t attempt);

/* It was told to be durable; all that are done were. */
void journal_acknowledge(size_t attempt);
void journal_acknowledge_done(void);

/* Around the cut: what was acknowledged before has to be found, what was tried before its end may
 * be. */
void journal_begin_cut(void);
void journal_end_cut(void);

/* NULL, or what is wrong with that finding: a static text. */
const char *journal_judge_present(unsigned key, uint64_t token, uint64_t version);
const char *journal_judge_absent(unsigned key);

/* The greatest version that a write of the key had before this life, or was found with. */
uint64_t journal_last_version(unsigned key);

#endif
