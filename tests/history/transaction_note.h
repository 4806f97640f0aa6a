/*
 * transaction_note: one call on several keys as a client saw it, with all that its answer told, as
 * JSON for checkers (tests/porcupine, list_cycles.py). Each call is written as the transaction that
 * it amounts to: a put-if-absent is a put guarded by absence, an exchange a get and a put.
 */
#ifndef MQKV_TESTS_TRANSACTION_NOTE_H
#define MQKV_TESTS_TRANSACTION_NOTE_H

#include <stdint.h>
#include <stdio.h>

#include "mqkv/clientk.h"

/* Keys that begin with this are in no history: steps on them make a transaction take longer, and
 * are not written. Of calls that may fail they are the last steps, since `at` counts them. */
#define TRANSACTION_NOTE_FILLER 'f'

struct transaction_note {
    uint32_t client;
    uint32_t round;            /* histories of different rounds have no key in common */
    const char *call;          /* transact, together, scan, single, batch */
    uint64_t start_ns, end_ns; /* before it was sent, after the answer came */
    struct clientk_transaction asked;
    const struct clientk_value *known; /* of guards of a version above 0: the value that was read
                                          with this version, if any; NULL: of none */
    struct clientk_transacted told; /* UNKNOWN: it may have been executed at any time, or never */
    enum kv_status status;          /* of FAILED: that of the step */
    const struct clientk_result *results;
};

/* Writes a line, one JSON object: client, round, call, start_ns, end_ns, guards, then, else,
 * outcome (failed, done, else, unknown), status, part (guard, then, else), at, guard, results. Keys
 * and values need to be free of what JSON escapes. */
void transaction_note_write(FILE *file, const struct transaction_note *note);

/* Fills *note in for an operation that was executed alone and had this result, but for the PUT,
 * DELETE, ADD, APPEND, TOUCH, GET, EXISTS or EXCHANGE itself: `guard`, `steps` (two) and `results`
 * (two) are its memory. False: it was surely not executed, or its fate is unknown and it only read:
 * it tells nothing. */
bool transaction_note_single(struct transaction_note *note,
                             const struct clientk_operation *operation,
                             const struct clientk_result *result, struct clientk_guard *guard,
                             struct clientk_operation *steps, struct clientk_result *results);

/* Fills in what became of a transaction: its status, and what it told. False as above. */
bool transaction_note_outcome(struct transaction_note *note, enum kv_status status,
                              const struct clientk_transacted *told);

#endif
