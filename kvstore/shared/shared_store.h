/*
 * shared_store: the layout of the shared memory in which a daemon keeps the index of its store, so
 * that other processes, which may map it and the data files, read without a message, and so that
 * the next daemon after a killed one finds the index whole. One POSIX shared-memory object for each
 * store, named from the place of its directory (shared_store_name), little-endian as the machine:
 *
 *   0                      struct shared_store, SHARED_STORE_HEADER_BYTES
 *   files_offset           struct shared_file, one for each data file
 *   anywhere after         directories and segments of indexes, and of ordered stores nodes and
 *                          separators of orders (shared_order.h), at multiples of 16
 *
 * An *offset* counts bytes from the start of the object; a *reference* is an offset in units of 16
 * bytes, 32 bits wide. Reference 0, the header's, means none: freed memory may be punched, and then
 * is zeros.
 *
 * How to read a key without any lock (only the daemon changes the object):
 *
 *   0. transacting = load(store->transacting), of which the low 16 bits must be 0
 *   1. number = load(file->generation);  state = &file->states[number % 2]
 *   2. moves = load(state->moves), which must be even
 *   3. directory = load(state->directory): the reference of its first entry and its depth; entry
 *      hash >> (32 - depth) is the reference of a segment; probe that (segment.h)
 *   4. tail = load(state->tail): the record of a slot must end before it. The record is in the log,
 *      which is the file data.NNNN of directory `dir` if device, inode and salt are those of the
 *      state; else the reader's mapping is of another generation
 *   5. copy what is wanted
 *   6. if load(state->moves) != moves or load(file->generation) != number or
 *      load(store->transacting) != transacting: discard the copy and begin again
 *   7. if the record is placed (its value stands in an extent, docs/FORMAT.md): probe once more, as
 *      in step 3, for a slot of the key's hash that leads to the same offset, and then read the
 *      head of the extent's content once more; if there is no such slot, or the content's version
 *      is another one or none: discard the copy and begin again
 *
 * All loads acquire, all stores of the daemon to these words release; the daemon makes `moves` odd
 * before it moves items and even after, and writes a record and the tail before the slot. Every
 * reference, depth, offset and size must be checked against the mapping before it is used: between
 * steps 1 and 6 any bytes may be there. Records are never changed, but extents are: once no slot
 * leads to a content, its extent may get another one, whose version was never given before. The old
 * version is taken away first. Records of a replaced generation may turn into zeros at any time
 * after number has changed.
 *
 * This is linearizable like a get by message: a write is answered after its slot is stored, and a
 * slot that was seen is seen by all later looks. Steps 0 and 6 keep a reader from seeing one key of
 * a transaction as it was after it, and then another as it was before.
 */
#ifndef MQKV_KVSTORE_SHARED_SHARED_STORE_H
#define MQKV_KVSTORE_SHARED_SHARED_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "kvstore/format/keyhash.h"

#define SHARED_STORE_MAGIC          UINT64_C(0x3165726f74736b6d) /* "mkstore1" in memory */
#define SHARED_STORE_LAYOUT         2u                           /* 1 knew no transactions */
#define SHARED_STORE_HEADER_BYTES   8192u
#define SHARED_STORE_DIR_BYTES      4096u
#define SHARED_STORE_REFERENCE_UNIT 16u
#define SHARED_STORE_NAME_BYTES     64u

enum shared_store_condition {
    SHARED_STORE_BEING_MADE = 0, /* nothing in it counts yet */
    SHARED_STORE_IN_USE = 1,     /* also after its daemon was killed */
    SHARED_STORE_RETIRED = 2     /* ended or replaced: readers let it go and look for another */
};

/* Constant while condition is SHARED_STORE_IN_USE, unless it says otherwise. */
struct shared_store {
    uint64_t magic;
    uint32_t layout;
    uint32_t condition;       /* enum shared_store_condition; changes, last of all */
    uint64_t instance;        /* changes: another number for each daemon that has served it */
    uint64_t shared_bytes;    /* changes, grows: offsets below are in the object and may be mapped;
                              what lies beyond is in the daemon's own memory (the object could not
                              grow): keys there are asked for by message */
    uint64_t store_seed;      /* picks the data file (keyhash_file) */
    struct hash_key hash_key; /* of the index (keyhash) */
    uint32_t datafiles;
    uint32_t files_offset;
    uint32_t daemon_pid;        /* changes: as the daemon's PID namespace has it */
    uint32_t verify_every_read; /* changes; 1: readers remember no record as verified */
    uint64_t transacting;      /* changes: how many transactions of several records have begun << 16
                                   | how many of them are being done */
    uint64_t last_transaction; /* changes: the number of the last one of several files */
    uint64_t settled;          /* changes: those up to this number are whole and on disk */
    uint32_t reserved[57];
    /* Where the data files are, as the daemon's mount namespace names it; NUL-terminated. */
    char dir[SHARED_STORE_DIR_BYTES] __attribute__((aligned(4096)));
};

_Static_assert(sizeof(struct shared_store) == SHARED_STORE_HEADER_BYTES, "layout");
_Static_assert(offsetof(struct shared_store, condition) == 12, "layout");
_Static_assert(offsetof(struct shared_store, instance) == 16, "layout");
_Static_assert(offsetof(struct shared_store, shared_bytes) == 24, "layout");
_Static_assert(offsetof(struct shared_store, store_seed) == 32, "layout");
_Static_assert(offsetof(struct shared_store, hash_key) == 40, "layout");
_Static_assert(offsetof(struct shared_store, datafiles) == 56, "layout");
_Static_assert(offsetof(struct shared_store, files_offset) == 60, "layout");
_Static_assert(offsetof(struct shared_store, daemon_pid) == 64, "layout");
_Static_assert(offsetof(struct shared_store, transacting) == 72, "layout");
_Static_assert(offsetof(struct shared_store, last_transaction) == 80, "layout");
_Static_assert(offsetof(struct shared_store, dir) == 4096, "layout");

#define SHARED_STORE_TRANSACTING_MASK UINT64_C(0xffff) /* threads, and so transactions, at a time */

/* Stand around the changes of a transaction of several records, in the daemon. The caller holds
 * the locks of all data files concerned. */
static inline void shared_store_begin_transaction(struct shared_store *store)
{
    __atomic_fetch_add(&store->transacting, SHARED_STORE_TRANSACTING_MASK + 2, __ATOMIC_SEQ_CST);
}

static inline void shared_store_end_transaction(struct shared_store *store)
{
    __atomic_fetch_sub(&store->transacting, 1, __ATOMIC_RELEASE);
}

/* In a daemon that has brought in order what a killed one has left: none is being done. */
static inline void shared_store_forget_transactions(struct shared_store *store)
{
    uint64_t value = __atomic_load_n(&store->transacting, __ATOMIC_RELAXED);
    __atomic_store_n(&store->transacting, (value | SHARED_STORE_TRANSACTING_MASK) + 1,
                     __ATOMIC_RELEASE);
}

/* Steps 0 and 6 of a read. */
static inline uint64_t shared_store_transacting(const struct shared_store *store)
{
    return __atomic_load_n(&store->transacting, __ATOMIC_ACQUIRE);
}

/* One generation of a data file: its log, its index, and the sums over both. The daemon's thread
 * that writes holds the data file's lock for writing. Readers need moves, directory, tail, salt,
 * device and inode; the rest is for the next daemon. */
struct shared_generation {
    uint64_t moves; /* odd while items of the index are being moved, else changed by each move */
    uint64_t directory; /* reference of the first entry << 8 | depth; entries are uint32_t */
    uint64_t tail;      /* of the log */
    uint64_t writing; /* not 0: a write is under way, or failed half-way; index, tail and sums need
                           not match: the next daemon rebuilds them from the log */
    uint64_t keys;
    uint64_t segments;
    uint64_t expiring_segments;
    uint64_t live_bytes;
    uint64_t expiring_keys;
    uint64_t reserve_bytes;
    uint64_t max_version;
    uint64_t flags; /* SHARED_GENERATION_...; for the next daemon */
    uint64_t salt;  /* of the log's header */
    uint64_t device;
    uint64_t inode;
    uint64_t check; /* sum over the words above, the log's chapter and all items
                           (generation_check_of), unless `writing`; for the next daemon */
};

_Static_assert(sizeof(struct shared_generation) == 128, "two cache lines");
_Static_assert(offsetof(struct shared_generation, moves) == 0, "layout");
_Static_assert(offsetof(struct shared_generation, directory) == 8, "layout");
_Static_assert(offsetof(struct shared_generation, tail) == 16, "layout");
_Static_assert(offsetof(struct shared_generation, keys) == 32, "layout");
_Static_assert(offsetof(struct shared_generation, salt) == 96, "layout");
_Static_assert(offsetof(struct shared_generation, check) == 120, "layout");

/* A sync has failed, or bytes of the log are gone: nobody takes this generation over. */
#define SHARED_GENERATION_DOUBTFUL 1u
/* A sync is under way, or a process was killed during one: its result is not known. */
#define SHARED_GENERATION_SYNCING  2u

/* Where readers find the order of the file's keys (shared_order.h). */
struct shared_order {
    uint64_t changes;  /* odd while the tree is being changed, else changed by each change */
    uint64_t root;     /* its reference << 8 | levels of inner nodes; 0: not to be read */
    uint64_t instance; /* of the daemon that keeps it */
};

struct shared_file {
    uint64_t generation; /* counts replacements; states[generation % 2] is of the generation in use;
                            the other state is the last one's, or is being filled for the next */
    uint64_t reserved[7];
    struct shared_order
        order; /* of its keys, if the store is ordered; on a cache line of its own */
    uint64_t reserved_behind[5];
    struct shared_generation states[2];
};

_Static_assert(offsetof(struct shared_file, order) == 64, "layout");
_Static_assert(offsetof(struct shared_file, states) == 128, "layout");
_Static_assert(sizeof(struct shared_file) == 384, "layout");

/* The name for shm_open of the store whose directory is `inode` on `device`:
 * "/mqkv.store.<device>.<inode>", in hexadecimal. Equal for every name of the directory, and for no
 * two stores that exist. */
struct shared_store_name {
    char text[SHARED_STORE_NAME_BYTES];
};

struct shared_store_name shared_store_name(dev_t device, ino_t inode);

/* The same name with ".<number>", in hexadecimal, behind it, for a store whose name another user
 * has taken, in a directory where everybody may. Number 0: shared_store_name. */
struct shared_store_name shared_store_numbered_name(dev_t device, ino_t inode, uint64_t number);

/* Reads such a name, without the slash. False: `name` is none. */
bool shared_store_parse_name(const char *name, uint64_t *device, uint64_t *inode, uint64_t *number);

static inline uint64_t shared_directory(uint64_t reference, uint32_t depth)
{
    return reference << 8 | depth;
}

static inline uint32_t shared_directory_depth(uint64_t directory)
{
    return (uint32_t)(directory & 0xff);
}

static inline uint64_t shared_directory_offset(uint64_t directory)
{
    return (directory >> 8) * SHARED_STORE_REFERENCE_UNIT;
}

#endif
