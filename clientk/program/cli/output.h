/*
 * output: how answers look, in one place for one-shot commands, the prompt and batches.
 *
 *   text  for people: OK, the value, NOT FOUND, ERROR status: sentence. A value is printed as it is
 *         if a terminal can show it in one line, else in double quotes with the escapes of the line
 *         syntax, as is one that reads as a failure. Exception: a one-shot `get` prints the bytes
 *         as they are, unless to a terminal.
 *   raw   the bytes as they are; nothing if there is no value
 *   json  one object per line; bytes that are not UTF-8 are written in base64 as NAME_base64
 *   csv   a header line, then one row per answer (RFC 4180); text as it is, newlines and tabs in
 *         quotes; bytes that are no printable UTF-8 in their escaped form
 *
 * Failures of a one-shot command go to stderr; at the prompt and in batches they are answers.
 */
#ifndef MQKV_CLIENTK_PROGRAM_CLI_OUTPUT_H
#define MQKV_CLIENTK_PROGRAM_CLI_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "mqkv/slice.h"
#include "mqkv/status.h"

enum output_format { OUTPUT_TEXT, OUTPUT_RAW, OUTPUT_JSON, OUTPUT_CSV };
/* The name of an enum output_format; NULL beyond the last. */
const char *output_format_name(int format);

/* Exit codes of clientk. */
enum exit_code { EXIT_DONE, EXIT_NOT_FOUND, EXIT_USAGE, EXIT_NO_SERVER, EXIT_REFUSED };
int exit_code_of(enum kv_status status);

/* Like exit_code_of, but for an entry of a dump, a backup or another store: if the server takes no
 * value of that size, the command was right, and the server has refused. */
int transfer_exit_code(enum kv_status status);

/* Returns true if every later entry would fail alike: a command that brings many entries stops
 * there, and can continue later. */
bool status_ends_transfer(enum kv_status status);

/* With such a status the store has no room for this entry, but perhaps for others: a store that
 * evicts refuses entries that are too large for it, and a quota limits some keys only. Later
 * entries would fail alike only if more than REFUSED_IN_A_ROW were refused in a row. */
#define REFUSED_IN_A_ROW 100u
bool status_lacks_room(enum kv_status status);

/* Where answers go. */
struct output {
    FILE *stream;
    enum output_format format;
    bool one_shot;     /* one command from the shell: bytes as they are, failures to stderr */
    bool terminal;     /* stream is a terminal */
    bool csv_started;  /* the header line was printed */
    bool csv_entries;  /* the last header was that of entries, not of answers */
    FILE *reports;     /* where a batch also reports failures with their place; else NULL */
    const char *place; /* "FILE:LINE" of the running command, for reports */
};

/* What a command has to say. A field that does not apply is 0. */
struct answer {
    const char *command;
    struct kv_slice key;
    enum kv_status status;
    const char *sentence; /* explains a failure; NULL: the status' own text */
    bool has_value, has_number, has_entry;
    struct kv_slice value; /* if has_value */
    int64_t number;        /* if has_number */
    uint64_t version;      /* if has_entry */
    uint64_t expiry_ms;    /* if has_entry; ms since 1970, 0: never */
    const char *text;      /* replaces OK in text form ("never", "version 3") */
};

/* Prints the header line of answers in CSV now, rather than with the first answer. */
void output_begin(struct output *output);

/* Prints the header line of entries in CSV, unless it is the last that was printed. */
void output_begin_entries(struct output *output);

/* Prints the answer and returns the exit code that it stands for. */
int output_answer(struct output *output, const struct answer *answer);

/* Prints a failure that is not about one key: a bad line, no server. `command` may be NULL. */
int output_failure(struct output *output, const char *command, enum kv_status status,
                   const char *sentence);

/* Prints one entry of a scan; value.data NULL: keys only. */
void output_entry(struct output *output, struct kv_slice key, struct kv_slice value,
                  uint64_t version, uint64_t expiry_ms);

/* Prints a value as a word of a batch line, in a list of many: on a terminal a long one is cut. */
void output_print_value(const struct output *output, struct kv_slice value);

/* Prints "name":"text" or "name_base64":"...", without a comma. */
void output_json_bytes(FILE *stream, const char *name, struct kv_slice bytes);

/* Prints one CSV field: printable text as it is, other bytes escaped; quoted where a comma, a
 * quote, a newline or a tab is in them. */
void output_csv_bytes(FILE *stream, struct kv_slice bytes);

#endif
