/*
 * file_name: the names of a store's files in its directory.
 */
#ifndef MQKV_KVSTORE_FORMAT_FILE_NAME_H
#define MQKV_KVSTORE_FORMAT_FILE_NAME_H

#include <stdint.h>

/* What the files beside "data.NNNN" are. */
enum file_role {
    FILE_LOG,            /* "data.0000": the log */
    FILE_LOG_NEW,        /* "data.0000.new": its next generation, until it is complete */
    FILE_CHECKPOINT,     /* "data.0000.index": the index, written at a clean close */
    FILE_CHECKPOINT_NEW, /* "data.0000.index.tmp": the same, until it is complete */
    FILE_ROLE_COUNT
};

#define FILE_NAME_BYTES 24
#define LOCK_FILE_NAME  "lock"

struct file_name {
    char text[FILE_NAME_BYTES];
};

struct file_name file_name(uint32_t number, enum file_role role);

#endif
