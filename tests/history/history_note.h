/*
 * history_note: one call as a client saw it, with all that its answer told; as JSON for checkers
 * outside of this repository (tests/porcupine), and as an operation of history.h.
 */
#ifndef MQKV_TESTS_HISTORY_NOTE_H
#define MQKV_TESTS_HISTORY_NOTE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "mqkv/status.h"
#include "tests/history/history.h"

enum note_call { NOTE_GET, NOTE_PUT, NOTE_DELETE, NOTE_ADD, NOTE_EXCHANGE };
enum note_condition { NOTE_ALWAYS, NOTE_IF_ABSENT, NOTE_IF_PRESENT, NOTE_IF_VERSION };

struct history_note {
    uint32_t client;
    uint32_t key;
    enum note_call call;
    enum note_condition condition; /* of PUT, DELETE (ALWAYS, IF_VERSION) */
    uint64_t if_version;
    int64_t input; /* PUT, EXCHANGE: the value; ADD: the delta; an absent key counts as 0 */
    enum kv_status
        status;        /* KV_OUTCOME_UNKNOWN: it may have been executed, at any time, or never */
    bool found;        /* GET: it was there; EXCHANGE: there was an old value */
    int64_t output;    /* GET, EXCHANGE: the value if found; ADD: the sum */
    uint64_t version;  /* of what was read or written; 0: not told */
    uint64_t start_ns; /* before it was sent */
    uint64_t end_ns;   /* after the answer came */
};

/* One line, one JSON object: client, key, call, if, if_version, input, status, found, output,
 * version, start_ns, end_ns. */
void history_note_write_json(FILE *file, const struct history_note *note);

/* Fills the operation in. False: the call tells history.h nothing that it knows (a mismatch of
 * versions). */
bool history_note_operation(const struct history_note *note, struct history_operation *operation);

#endif
