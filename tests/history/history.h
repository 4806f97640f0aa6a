/*
 * history: what concurrent clients saw of one key, and the judge of it: is there an order of the
 * operations, one at a time, that explains every answer and respects real time? (Herlihy and Wing,
 * "Linearizability", TOPLAS 12(3), 1990.) The search is that of Wing and Gong (JPDC 17, 1993) with
 * the memory of visited configurations by Lowe ("Testing for linearizability", 2017). Keys are
 * independent objects, so a history is judged key by key (locality, same paper).
 */
#ifndef MQKV_TESTS_HISTORY_H
#define MQKV_TESTS_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTORY_MAX_OPERATIONS 512u       /* of one key */
#define HISTORY_ABSENT         INT64_MIN  /* the state of a key that is not there */
#define HISTORY_PENDING        UINT64_MAX /* end_ns of an operation whose fate is unknown */

enum history_kind {
    HISTORY_GET,            /* output: value or ABSENT */
    HISTORY_PUT,            /* input: value */
    HISTORY_PUT_IF_ABSENT,  /* succeeded: it was absent */
    HISTORY_PUT_IF_PRESENT, /* succeeded: it was there */
    HISTORY_DELETE,         /* succeeded: it was there */
    HISTORY_ADD,            /* input: delta; output: the sum; an absent key counts as 0 */
    HISTORY_EXCHANGE        /* input: value; output: the old one or ABSENT */
};

struct history_operation {
    enum history_kind kind;
    bool succeeded;
    int64_t input;
    int64_t output;
    uint64_t start_ns; /* before it was sent */
    uint64_t
        end_ns; /* after the answer came; HISTORY_PENDING: it may take effect at any later time,
                          or never, and its output is not known */
};

enum history_verdict { HISTORY_LINEARIZABLE, HISTORY_VIOLATION, HISTORY_TOO_HARD };

/* Judges the operations of one key, in any order, starting from `initial`. TOO_HARD: more than
 * HISTORY_MAX_OPERATIONS, or the search passed its bound of configurations (or memory). */
enum history_verdict history_check(const struct history_operation *operations, size_t count,
                                   int64_t initial);

#endif
