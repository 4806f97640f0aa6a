/*
 * arena: the memory of the indexes of one store, in an address space of its own that is reserved
 * once (backing.h). A piece of the arena has a *reference*, its offset in units of 16 bytes, which
 * means the same to all processes that map the arena; shared_store.h describes its first bytes.
 *
 * A piece is zeros when it is taken, and of one of these sizes: a block of ARENA_BLOCK_BYTES, which
 * is a segment; a unit, a part of a block; a run of blocks; or whole chunks. Blocks are cut from
 * chunks of 2 MiB, each of which can be one page: a lookup in a large index begins with a miss in
 * the cache, and with pages of 4 KiB with one in the TLB too. From ARENA_SMALL_CHUNKS chunks on a
 * new chunk is a large page from its first byte. Before that, when one chunk is a large part of the
 * arena, a chunk has pages of 4 KiB, which come as its blocks are used, and the kernel is asked to
 * make one large page of them when all blocks are in use: a small arena stays small, and a chunk
 * not yet full wastes at most 1/ARENA_SMALL_CHUNKS of the whole. Where the kernel has no large
 * pages, all pages are small.
 *
 * Pieces that were given back are taken first; a chunk without a piece in use goes back to the
 * system.
 *
 * An arena with a shared-memory object takes this process's own memory when the object cannot grow
 * any more (a full /dev/shm): no call fails for that, and `shared_bytes` of struct shared_store
 * says where the object ends. The object grows again when no own memory is in use.
 *
 * Threads: any, at any time; an arena has a mutex, and takes no other lock while it holds that. Not
 * to be used in a child forked by a process with other threads.
 */
#ifndef MQKV_KVSTORE_INDEX_ARENA_H
#define MQKV_KVSTORE_INDEX_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/index/arena_sizes.h"
#include "kvstore/shared/shared_store.h"

struct arena;

/* Makes an arena whose first `first_bytes` bytes, zeros, at most a chunk, are not given out: struct
 * shared_store and what follows it. `fd` is an object without bytes, which the arena closes, also
 * on failure; -1: the arena is this process's own memory. NULL, errno: out of memory, or no room.
 * */
struct arena *arena_create(int fd, uint64_t first_bytes);

/* Makes an arena in an object with bytes, which a process that has died used. Until
 * arena_end_claims only pieces that are claimed (arena_claim.h) are in use; a piece that is taken
 * before may be one that a later claim needs. `fd` and failures as above; EINVAL: the object is too
 * small. */
struct arena *arena_adopt(int fd, uint64_t first_bytes);

/* NULL is harmless. */
void arena_free(struct arena *arena);

/* The arena's first byte, which never moves; references count SHARED_STORE_REFERENCE_UNIT from it.
 * */
char *arena_base(const struct arena *arena);

/* Takes `bytes` zeros, aligned to 16. Returns their reference; 0: out of memory. */
uint32_t arena_take(struct arena *arena, uint64_t bytes);

/* Gives a piece back that was taken with the same `bytes`; reference 0 is harmless. */
void arena_give(struct arena *arena, uint32_t reference, uint64_t bytes);

/* Returns true if other processes may see the arena, which has a shared-memory object. */
bool arena_is_shared(const struct arena *arena);

/* Returns true if the arena's object has lost its name. */
bool arena_object_is_gone(const struct arena *arena);

struct arena_counts arena_counts(struct arena *arena);

#endif
