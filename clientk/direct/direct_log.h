/*
 * direct_log: the log of one generation of a data file, as a reader in another process has it:
 * mapped for reading, or a descriptor to read it with calls (pread).
 *
 * Device and inode are compared with those that the shared store tells. While the generation is in
 * use its file exists, so that no other file has that inode: who finds the generation unchanged
 * afterwards has the right one.
 *
 * What is mapped may be more than the file has, so that the file can grow into it; `usable_bytes`
 * are those that the file has had, and nothing beyond is touched. Somebody may shorten the file all
 * the same: see common/memory/mapguard.h.
 *
 * Threads: any may read; see direct_store.h for who opens and closes.
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
    const uint8_t *map; /* NULL: calls */
    uint64_t map_bytes;
    _Atomic uint64_t usable_bytes;
    int fd; /* -1 with a mapping */
    struct mapguard *guard;
    struct verified_bitmap *_Atomic verified; /* NULL: no large record was read yet */
};

/* Of what is looked for. */
struct direct_log_facts {
    uint32_t file; /* number of the data file */
    uint64_t generation;
    uint64_t salt;
    uint64_t device;
    uint64_t inode;
    uint64_t tail;
};

/* Opens it in the directory. NULL and errno: it cannot be had; ENOENT: another file is there now,
 * or none. */
struct direct_log *direct_log_open(int dir_fd, const struct direct_log_facts *facts, bool map);

/* The file has grown: makes what fits into the mapping usable. False: it does not fit, or is gone;
 * then it is to be opened anew. */
bool direct_log_extend(struct direct_log *log, int dir_fd, const struct direct_log_facts *facts);

/* By who has it alone. NULL is harmless. */
void direct_log_close(struct direct_log *log);

/* The bitmap of the large records that were verified; NULL: no memory for it. Any thread. */
struct verified_bitmap *direct_log_verified(struct direct_log *log);

#endif
