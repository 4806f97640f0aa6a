/*
 * segmentpool: the memory of the segments of all indexes of the process, in blocks of one size.
 *
 * A lookup in a large index begins with a miss in the cache, and with pages of 4 KiB with one in
 * the TLB too. Blocks are therefore cut from chunks of 2 MiB, each of which can be one page: from
 * SEGMENTPOOL_SMALL_CHUNKS chunks on a new one is that from its first byte. Before, and with it a
 * large part of what has been taken, a chunk has pages of 4 KiB, which come as its blocks are used,
 * and the kernel is asked to make one of them when all are in use: little memory stays little, and
 * what a chunk not yet full wastes is at most 1/SEGMENTPOOL_SMALL_CHUNKS of the whole. Where the
 * kernel has no large pages (/sys/kernel/mm/transparent_hugepage/enabled: never), all are small.
 *
 * Blocks that are given back are taken first; a chunk that none is in use of goes back to the
 * system.
 *
 * Threads: any, at any time; a mutex of its own, with nothing else taken while it is held. Not in a
 * child forked by a process with other threads.
 */
#ifndef MQKV_KVSTORE_INDEX_SEGMENTPOOL_H
#define MQKV_KVSTORE_INDEX_SEGMENTPOOL_H

#include <stdint.h>

#define SEGMENTPOOL_CHUNK_BYTES  (UINT64_C(2) << 20)
#define SEGMENTPOOL_BLOCK_BYTES  4112u
#define SEGMENTPOOL_SMALL_CHUNKS 4u

/* SEGMENTPOOL_BLOCK_BYTES of zeros, aligned to 16. NULL: out of memory. */
void *segmentpool_take(void);

/* NULL is harmless. */
void segmentpool_give(void *block);

struct segmentpool_counts {
    uint64_t blocks; /* in use */
    uint64_t chunks; /* held of the system */
};

struct segmentpool_counts segmentpool_counts(void);

#endif
