/*
 * key_command: a command for one key as an operation of the library, and its result as an answer.
 * Such commands differ only in their operands (shape), their operation and the form of their
 * answer: the three fields of their kind.
 */
#ifndef MQKV_CLIENTK_PROGRAM_COMMANDS_KEY_COMMAND_H
#define MQKV_CLIENTK_PROGRAM_COMMANDS_KEY_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/clientk.h"
#include "clientk/program/cli/arguments.h"
#include "clientk/program/cli/line.h"
#include "clientk/program/cli/output.h"

enum key_command_shape {
    SHAPE_KEY,           /* KEY */
    SHAPE_KEY_VALUE,     /* KEY VALUE...: the words joined by one space */
    SHAPE_KEY_DELTA,     /* KEY DELTA */
    SHAPE_KEY_INCREMENT, /* KEY [BY], BY 1 if left out */
    SHAPE_KEY_DECREMENT,
    SHAPE_KEY_DURATION /* KEY DURATION */
};

enum key_command_answer { ANSWER_OK, ANSWER_VALUE, ANSWER_NUMBER, ANSWER_OLD_VALUE, ANSWER_TTL };

struct key_command_kind {
    enum clientk_opcode opcode;
    enum key_command_shape shape;
    enum key_command_answer answer;
};

/* The options of all these commands; the table of a command lists those that it takes. */
struct key_command_options {
    uint64_t ttl_ms;        /* 0: not given */
    uint64_t expires_at_ms; /* ms since 1970; 0: not given */
    bool keep_ttl;
    bool if_absent, if_present;
    uint64_t if_version;
    int sync; /* a number that key_command_sync_name knows */
    int64_t min, max, initial;
    bool no_create;
    bool meta;          /* show version, expiry and size */
    const char *prefix; /* the command is for all keys with this prefix; NULL: for operands */
    bool together;      /* the command is for any number of keys, as of one moment */
};
extern const struct key_command_options key_command_option_defaults;

/* The name of a level of --sync; NULL beyond the last. */
const char *key_command_sync_name(int sync);

#define KEY_COMMAND_SENTENCE_BYTES 256

/* One command before it is sent, then with its result. Key and value borrow from the words or from
 * `owned`. */
struct key_command {
    const char *name;
    const struct key_command_kind *kind;
    struct key_command_options options;
    struct clientk_operation operation;
    char *owned;
    struct clientk_result result;
    char sentence[KEY_COMMAND_SENTENCE_BYTES]; /* explains a failure; "": the status says it all */
};

#define KEY_COMMANDS_AT_ONCE 64

/* How many commands, from 1 to KEY_COMMANDS_AT_ONCE, may be sent in one call, so that the largest
 * values that this server has take at most 64 MiB. */
size_t key_commands_at_once(struct clientk *client);

/* Fills *self from the operands, whose number was checked. place: COMMAND_SHELL: the value "-" is
 * read from standard input; COMMAND_BATCH: a duration without a unit is in milliseconds, and a time
 * of expiry may be over; elsewhere both are refused. KV_USAGE, KV_BAD_KEY, KV_VALUE_TOO_BIG, KV_IO,
 * KV_NO_MEMORY with a sentence. The caller calls key_command_free in any case. */
enum kv_status key_command_build(struct key_command *self, const char *name,
                                 const struct key_command_kind *kind,
                                 const struct key_command_options *options,
                                 const struct word *operands, size_t count, unsigned place,
                                 struct kv_error *error);

/* Sends the commands, at most KEY_COMMANDS_AT_ONCE, in order and in as few messages as possible,
 * and fills in their results. KV_NO_SERVER: the server is gone; else KV_OK, whatever the
 * results. */
enum kv_status key_command_execute(struct clientk *client, struct key_command *asked, size_t count);

/* Prints the result as the answer and returns the exit code. */
int key_command_answer(struct output *output, const struct key_command *self);

void key_command_free(struct key_command *self);

#endif
