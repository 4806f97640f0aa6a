/*
 * output: how answers look, in one place for one-shot commands, the prompt and batches.
 *
 *   text  for people: OK, the value, NOT FOUND, ERROR status: sentence. A value is printed as it is
 *         if a terminal can show it in one line, else in double quotes with the escapes of the line
 *         syntax. Exception: a one-shot `get` prints the bytes as they are, unless to a terminal.
 *   raw   the bytes as they are; nothing if there is no value
 *   json  one object per line; bytes that are not UTF-8 are written in base64 as NAME_base64
 *   csv   a header line, then one row per answer (RFC 4180); bytes in their escaped form
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
/* Its name; NULL beyond the last. */
const char *output_format_name(int format);

/* Exit codes of clientk. */
enum exit_code { EXIT_DONE, EXIT_NOT_FOUND, EXIT_USAGE, EXIT_NO_SERVER, EXIT_REFUSED };
int exit_code_of(enum kv_status status);

/* As exit_code_of, for an entry of a dump, a backup or another store: if the server takes no value
 * of that size, the command was right all the same, and the server has refused. */
int transfer_exit_code(enum kv_status status);

/* What follows would fail alike: who brings many entries stops there, and goes on later. */
bool status_ends_transfer(enum kv_status status);

/* The store has no room for this entry, but perhaps for others: one that evicts refuses those that
 * are too large for it, and a quota is one of some keys. Only more than so many in a row mean that
 * what follows would fail alike. */
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
    FILE *reports;     /* of a batch: failures with their place go here too; else NULL */
    const char *place; /* "FILE:LINE" of the command under way, for reports */
};

/* What a command has to say. Fields that do not apply are 0. */
struct answer {
    const char *command;
    struct kv_slice key;
    enum kv_status status;
    const char *sentence; /* about a failure; NULL: the status' own text */
    bool has_value, has_number, has_entry;
    struct kv_slice value; /* has_value */
    int64_t number;        /* has_number */
    uint64_t version;      /* has_entry */
    uint64_t expiry_ms;    /* has_entry; since 1970, 0: never */
    const char *text;      /* replaces OK in text form ("never", "version 3") */
};

/* Prints the header line that answers in CSV begin with, now rather than with the first of them. */
void output_begin(struct output *output);

/* The same of entries, unless they have it already. */
void output_begin_entries(struct output *output);

/* Prints the answer and returns the exit code that it stands for. */
int output_answer(struct output *output, const struct answer *answer);

/* Prints a failure that is not about one key: a bad line, no server. `command` may be NULL. */
int output_failure(struct output *output, const char *command, enum kv_status status,
                   const char *sentence);

/* One entry of a scan; value.data NULL: keys only. */
void output_entry(struct output *output, struct kv_slice key, struct kv_slice value,
                  uint64_t version, uint64_t expiry_ms);

/* Prints "name":"text" or "name_base64":"...", without a comma. */
void output_json_bytes(FILE *stream, const char *name, struct kv_slice bytes);

/* Prints one CSV field: escaped bytes, quoted where a comma or a quote is in them. */
void output_csv_bytes(FILE *stream, struct kv_slice bytes);

#endif
