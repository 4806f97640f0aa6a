/*
 * direct_log: the log of one generation of a data file, as a reader in another process has it:
 * mapped for reading, or with a descriptor to read it with calls (pread).
 *
 * Device and inode of the file must be those that the shared store tells. While the generation is
 * in use, its file exists, so no other file has that inode: a reader that finds the generation
 * unchanged afterwards has the right file.
 *
 * The mapping may be larger than the file, so that the file can grow into it; readers touch only
 * the first usable_bytes, which the file has had. Somebody may shorten the file all the same: see
 * common/memory/mapguard.h.
 *
 * Threads: any may read; direct_store.h says which thread opens and closes.
 */
#ifndef MQKV_CLIENTK_DIRECT_DIRECT_LOG_H
#define MQKV_CLIENTK_DIRECT_DIRECT_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "clientk/direct/direct_readers.h"
#include "common/memory/mapguard.h"
#include "kvstore/format/verified_bitmap.h"

struct direct_log {
    struct direct_retired retired; /* first */
    uint32_t file;                 /* number of the data file */
    uint64_t generation;
    uint64_t salt;
    const uint8_t *map; /* NULL: the log is read with calls */
    uint64_t map_bytes;
    _Atomic uint64_t usable_bytes;
    int fd; /* -1 with a mapping */
    struct mapguard *guard;
    struct verified_bitmap *_Atomic verified; /* NULL: no large record was read yet */
};

/* What the shared store says of a log. */
struct direct_log_facts {
    uint32_t file; /* number of the data file */
    uint64_t generation;
    uint64_t salt;
    uint64_t device;
    uint64_t inode;
    uint64_t tail;
};

/* Opens the log that *facts describe, in the directory dir_fd, and maps it if `map`. NULL with
 * errno; ENOENT: there is another file now, or none. */
struct direct_log *direct_log_open(int dir_fd, const struct direct_log_facts *facts, bool map);

/* Makes more of the file usable, which has grown. False: it does not fit into the mapping, or is
 * gone; then the log is to be opened anew. */
bool direct_log_extend(struct direct_log *log, int dir_fd, const struct direct_log_facts *facts);

/* Closes and frees the log, which no other thread uses. NULL is harmless. */
void direct_log_close(struct direct_log *log);

/* Returns the bitmap of the large records that were verified; NULL: no memory. Any thread. */
struct verified_bitmap *direct_log_verified(struct direct_log *log);

#endif
