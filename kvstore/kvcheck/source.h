/*
 * source: one data file as kvcheck sees it: mapped for reading, with what its header says, or what
 * can be found out in place of a damaged header. Unlike the engine it opens any file.
 */
#ifndef MQKV_KVSTORE_KVCHECK_SOURCE_H
#define MQKV_KVSTORE_KVCHECK_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/format/fileheader.h"
#include "kvstore/log/boot.h"

enum source_header {
    SOURCE_HEADER_SOUND,
    SOURCE_HEADER_REPAIRED, /* damaged, but the salt is known: identity is usable */
    SOURCE_HEADER_LOST      /* no record can be verified */
};

struct source {
    struct file_name name;
    int fd;
    const uint8_t *map; /* NULL if the file is empty */
    uint64_t size_bytes;
    uint64_t map_bytes; /* of the file; size_bytes may be less: what is behind is not looked at */
    enum source_header header;
    struct file_identity identity;
    enum boot boot;
    bool progress_sound;
    struct file_progress progress; /* synced_offset is FILE_HEADER_BYTES if not sound */
    bool is_live;                  /* a daemon is writing to it */
    uint64_t whole_end;  /* the log ends before this, for a transaction that is not whole; else
                           UINT64_MAX */
    uint64_t used_bytes; /* from here to the end of the file there are only zeros */
};

#endif
