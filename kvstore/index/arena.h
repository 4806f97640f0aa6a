/*
 * arena: the memory of the indexes of one store, in an address space of its own that is reserved
 * once (backing.h). What is in it has a *reference*, its offset in units of 16 bytes, which means
 * the same to all processes that map it; the layout of its first bytes is shared_store.h's.
 *
 * What is taken is zeros, of one of these sizes: a block of ARENA_BLOCK_BYTES, which is a segment;
 * less, out of a block; a run of blocks; or whole chunks. Blocks are cut from chunks of 2 MiB, each
 * of which can be one page: a lookup in a large index begins with a miss in the cache, and with
 * pages of 4 KiB with one in the TLB too. From ARENA_SMALL_CHUNKS chunks on a new one is a large
 * page from its first byte. Before, and with it a large part of what has been taken, a chunk has
 * pages of 4 KiB, which come as its blocks are used, and the kernel is asked to make one of them
 * when all are in use: little memory stays little, and what a chunk not yet full wastes is at most
 * 1/ARENA_SMALL_CHUNKS of the whole. Where the kernel has no large pages, all are small.
 *
 * What is given back is taken first; a chunk that nothing is in use of goes back to the system.
 *
 * An arena with a shared-memory object goes on in this process's own memory when the object cannot
 * grow any more (a full /dev/shm): nothing fails for that, and `shared_bytes` of struct
 * shared_store says where the object ends. It grows again when no such memory is in use.
 *
 * Threads: any, at any time; a mutex of its own, with nothing else taken while it is held. Not in a
 * child forked by a process with other threads.
 */
#ifndef MQKV_KVSTORE_INDEX_ARENA_H
#define MQKV_KVSTORE_INDEX_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/index/arena_sizes.h"
#include "kvstore/shared/shared_store.h"

struct arena;

/* An arena whose first `first_bytes` bytes, zeros, are not given out: struct shared_store and what
 * follows it; at most a chunk. fd: an object without bytes, which the arena closes,
 * also on failure; -1: this process's own memory. NULL, errno: out of memory, or no room. */
struct arena *arena_create(int fd, uint64_t first_bytes);

/* An arena in an object that has bytes, which a process that has died used: nothing in it is in use
 * but what is claimed (arena_claim.h), until arena_end_claims; what is taken until then may be what
 * others would have claimed. fd and failures as above; EINVAL: it is too small. */
struct arena *arena_adopt(int fd, uint64_t first_bytes);

/* NULL is harmless. */
void arena_free(struct arena *arena);

/* Constant; references are multiples of SHARED_STORE_REFERENCE_UNIT from there. */
char *arena_base(const struct arena *arena);

/* `bytes` zeros, aligned to 16. Returns their reference; 0: out of memory. */
uint32_t arena_take(struct arena *arena, uint64_t bytes);

/* Gives back what was taken with as many bytes; 0 is harmless. */
void arena_give(struct arena *arena, uint32_t reference, uint64_t bytes);

/* What is in the arena is seen by other processes. */
bool arena_is_shared(const struct arena *arena);

/* The object has lost its name. */
bool arena_object_is_gone(const struct arena *arena);

struct arena_counts arena_counts(struct arena *arena);

#endif
