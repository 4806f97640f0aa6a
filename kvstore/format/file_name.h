/*
 * file_name: the names of a store's files in its directory.
 */
#ifndef MQKV_KVSTORE_FORMAT_FILE_NAME_H
#define MQKV_KVSTORE_FORMAT_FILE_NAME_H

#include <stdbool.h>
#include <stdint.h>

/* The files of data file NNNN, by what they hold. */
enum file_role {
    FILE_LOG,            /* "data.0000": the log */
    FILE_LOG_NEW,        /* "data.0000.new": its next generation, until it is complete */
    FILE_CHECKPOINT,     /* "data.0000.index": the index, written at a clean close */
    FILE_CHECKPOINT_NEW, /* "data.0000.index.tmp": the same, until it is complete */
    FILE_ROLE_COUNT
};

#define FILE_NAME_BYTES 32
#define LOCK_FILE_NAME  "lock"

struct file_name {
    char text[FILE_NAME_BYTES];
};

struct file_name file_name(uint32_t number, enum file_role role);

/* "data.0000.past-0123456789abcdef": a log that a compaction has replaced, by its salt. */
struct file_name file_name_past(uint32_t number, uint64_t salt);

/* Reads such a name. False: `name` is none. */
bool file_name_is_past(const char *name, uint32_t *number, uint64_t *salt);

#endif
