/*
 * kvstore: the storage engine as a library: byte-string keys and values hashed over D append-only
 * data files, safe for any number of threads. It knows files and locks, nothing of queues.
 *
 * Keys are 1..65,535 bytes. Values are 0..max_value_bytes. Every entry has a version: 1 or more,
 * growing with each write of its data file, never used twice for one key, so that an equal version
 * means an unchanged entry. (After a crash versions go on 2^32 higher: above any that was given to
 * a write that the crash may have undone.) An entry may have an expiry (milliseconds since 1970);
 * from then on it is not there for any call, and a background thread takes it out of the index.
 *
 * Locks: each call takes the lock of the one data file its key hashes to (or the store's, by the
 * locking strategy), readers shared, writers exclusive. It holds none when it returns, nor while it
 * calls anything of the caller's, except for the visitor of a scan and the place of a value, which
 * say so. With KVSTORE_OPTIMISTIC kvstore_get and kvstore_prefetch take none.
 *
 * Structures: every structure starts from {0}, and every zero means its default. They grow into
 * their reserved space, so a program that was built with this header runs with later libraries of
 * the same soname. The reserved space stays 0: options with something in it are of a newer header
 * than the library knows, and give KV_UNSUPPORTED. Structures without reserved space never change
 * (kv_slice, kvstore_ticket), or are made by the library only and grow at their end
 * (kvstore_scanned).
 */
#ifndef MQKV_KVSTORE_H
#define MQKV_KVSTORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/error.h"
#include "mqkv/slice.h"
#include "mqkv/status.h"
#include "mqkv/version.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* exported by libkvstore.so */

struct kvstore;

/* The version of the library that runs, as MQKV_VERSION_STRING is that of the header. */
const char *kvstore_version(void);

#define KVSTORE_MAX_DATAFILES           4096u
#define KVSTORE_DEFAULT_DATAFILES       4u
#define KVSTORE_MAX_KEY_BYTES           65535u
#define KVSTORE_DEFAULT_MAX_VALUE_BYTES (1u << 20)
#define KVSTORE_MAX_VALUE_BYTES         (64u << 20)

/* When a write is on disk. NONE: when the kernel writes it (kill -9 loses nothing, a power failure
 * may). INTERVAL: at most sync_interval_ms later, by a background thread. ALWAYS: before
 * kvstore_wait_durable returns or the sync listener is called; no other call waits for the disk,
 * and a write that nobody asks about is synced as with INTERVAL. */
enum kvstore_durability { KVSTORE_SYNC_NONE, KVSTORE_SYNC_INTERVAL, KVSTORE_SYNC_ALWAYS };

enum kvstore_locking {
    KVSTORE_FILE_RWLOCK, /* one reader-writer lock per data file: the default */
    KVSTORE_FILE_MUTEX,
    KVSTORE_GLOBAL_RWLOCK,
    KVSTORE_GLOBAL_MUTEX,
    KVSTORE_OPTIMISTIC, /* as FILE_RWLOCK, but kvstore_get takes no lock: it looks, and looks again
                           if a writer moved what it looked at; after a few times it takes one */
    KVSTORE_LOCKING_COUNT
};

/* "file-rwlock" ...; NULL if out of range, or if the library was built without that strategy (make
 * LAB=no leaves only the default): then kvstore_open refuses it with KV_USAGE. */
const char *kvstore_locking_name(enum kvstore_locking locking);

/* Who goes first at a reader-writer lock that is held by readers while a writer waits. A steady
 * stream of reads that overlap keeps a writer out forever with PREFER_READER; a steady stream of
 * waiting writers keeps readers out with PREFER_WRITER. */
enum kvstore_rwlock {
    KVSTORE_PREFER_WRITER, /* readers that come later wait behind it: the default */
    KVSTORE_PREFER_READER, /* readers that come later pass it */
    KVSTORE_RWLOCK_COUNT
};

/* "prefer-writer", "prefer-reader"; NULL if out of range, or as kvstore_locking_name. */
const char *kvstore_rwlock_name(enum kvstore_rwlock rwlock);

/* Are the locks of the strategy reader-writer locks, which have a preference? */
bool kvstore_locking_has_rwlocks(enum kvstore_locking locking);

#define KVSTORE_MIN_CACHE_BYTES (UINT64_C(64) << 10)

/* How the data files are read and written while the store is open. MMAP: through a mapping; an I/O
 * error of the disk, or a file that somebody truncates, is then a SIGBUS, which ends the process;
 * unless the program has installed mapguard's handler (serverk has): then it is KV_IO of the call
 * that met it, and the file takes no more writes, as after a failed sync. PREAD: by system calls,
 * one or two for each record that is looked at, and nothing is mapped; an I/O error is KV_IO of the
 * call that met it, with the file and the offset in the log. All of the store follows: recovery,
 * reads, writes, scans, expiry, compaction. The files are the same. Each thread keeps up to 512 KiB
 * for it, and during a call as much as the records that it works on. DIRECT: as PREAD, but the
 * record of a key that is looked up is read past the page cache (O_DIRECT), so that each lookup
 * waits for the disk, also if it was written or read just now: for experiments. Takes two
 * descriptors for each file; KV_UNSUPPORTED where the file system has no such reads. */
enum kvstore_io { KVSTORE_IO_MMAP, KVSTORE_IO_PREAD, KVSTORE_IO_DIRECT, KVSTORE_IO_COUNT };

/* "mmap", "pread", "direct"; NULL if out of range. */
const char *kvstore_io_name(enum kvstore_io io);

/* Who may read the store without this process. OWNER, GROUP: the index is kept in a shared-memory
 * object (shm_open), which programs of the same user, or also of the group of the directory, may
 * map together with the data files: the modes of all of these are set to 0600 or 0640. If this
 * process is killed, the next one that opens the store this way finds the index there and need not
 * rebuild it. Where the object cannot be made, the store is opened without it, and a line of the
 * log says why. Without effect on a store that is opened read-only. Not for a process that forks
 * (kvstore_fork_begin): its children see changes then. */
enum kvstore_direct {
    KVSTORE_DIRECT_OFF,
    KVSTORE_DIRECT_OWNER,
    KVSTORE_DIRECT_GROUP,
    KVSTORE_DIRECT_COUNT
};

/* "off", "owner", "group"; NULL if out of range. */
const char *kvstore_direct_name(enum kvstore_direct direct);

/* What becomes of a write that would take the store above max_bytes. NONE: it is refused (KV_FULL).
 * TTL: entries with an expiry make room for it, of some that are looked at the one that expires
 * first; where there are none it is refused. S3FIFO: entries that were not read or replaced lately
 * make room (S3-FIFO, Yang et al., SOSP 2023); what others read in place (enum kvstore_direct)
 * does not count as read. An entry that makes room is deleted, as by kvstore_delete. */
enum kvstore_evict { KVSTORE_EVICT_NONE, KVSTORE_EVICT_TTL, KVSTORE_EVICT_S3FIFO, KVSTORE_EVICTS };

/* "none", "ttl", "s3fifo"; NULL if out of range. */
const char *kvstore_evict_name(enum kvstore_evict evict);

#define KVSTORE_MIN_BOUND_BYTES (UINT64_C(64) << 10)

/* Where there is eviction, a record has at most this part of max_bytes. */
#define KVSTORE_BOUND_RECORD_SHARE 8u

/* Where the memory of cached values comes from (allocator.h). Without effect
 * where nothing is cached. */
enum kvstore_allocator {
    KVSTORE_ALLOCATOR_SYSTEM,
    KVSTORE_ALLOCATOR_LOCKED,
    KVSTORE_ALLOCATOR_THREAD_LOCAL,
    KVSTORE_ALLOCATOR_COUNT
};

/* "system" ...; NULL if out of range, or as kvstore_locking_name. */
const char *kvstore_allocator_name(enum kvstore_allocator allocator);

/* What the entries whose key begins with `prefix` may have together; 0: as much as they like. Of
 * several prefixes of a key the longest counts, alone. A write beyond is KV_QUOTA; one that makes
 * neither bytes nor keys more is always in order. */
struct kvstore_quota {
    struct kv_slice prefix; /* copied */
    uint64_t max_bytes;     /* of records, as live_bytes of the statistics */
    uint64_t max_keys;
    uint64_t group; /* not 0: all quotas of a group share what the first one of it allows */
    uint64_t reserved[1];
};

#define KVSTORE_MAX_QUOTAS 256u

struct kvstore_options {
    uint32_t datafiles; /* D; 0: the store's own, KVSTORE_DEFAULT_DATAFILES for a new one */
    bool create;        /* make a new store in dir if it holds none (dir itself must exist) */
    bool read_only;     /* no file is changed: no recovery cut, no background work */
    enum kvstore_locking locking;
    enum kvstore_rwlock rwlock;         /* PREFER_READER is refused with the mutex strategies */
    enum kvstore_durability durability; /* of the store; a write may ask for more, never for less */
    uint32_t sync_interval_ms;          /* for INTERVAL; default 1000 */
    uint32_t max_value_bytes;           /* default KVSTORE_DEFAULT_MAX_VALUE_BYTES */
    uint32_t compact_dead_percent; /* compact a file when this share of its log is dead; default
                                           50; 100: never */
    uint64_t compact_min_bytes;    /* ... and its log has at least this size (default 4 MiB), or a
                                   write of the store has found no room; with eviction the disk is
                                   full before that, and a quarter is enough then */
    uint32_t sweep_interval_ms;    /* how often expired entries are looked for; default 1000 */
    enum kvstore_io io;
    uint64_t cache_bytes; /* memory for values that were read; 0: none; else at least
                                   KVSTORE_MIN_CACHE_BYTES. What counts, and which values are too
                                   large for it */
    enum kvstore_allocator allocator;
    bool no_read_verify;    /* reads do not check the record's checksum */
    bool verify_every_read; /* also of records of 16 KiB and more that this process has written or
                               verified already: else these are not checked again, until a sync
                               fails */
    bool keep_newest_log;   /* for changes, the newest log of each data file that a compaction has
                               replaced is kept even above keep_changes_bytes */
    bool ordered;           /* keys are kept in their order as well (kvstore_range): about 8 bytes
                               of memory a key, built by each opening in the background. Not with
                               read_only */
    enum kvstore_direct direct;
    /* For experiments: called by each thread that is about to release the lock of a data file, and
     * still holds it; also by threads of the store. It must not call the store. NULL: no call. */
    void (*before_unlock)(void);
    uint64_t max_bytes; /* of all live records (live_bytes of the statistics); 0: no bound; else at
                           least KVSTORE_MIN_BOUND_BYTES. With eviction they also have no more than
                           the file system has room for (kvstore_fitting_bytes) */
    enum kvstore_evict evict; /* needs max_bytes */
    uint32_t quota_count;     /* with any, opening reads the key of each record */
    const struct kvstore_quota *quotas;
    uint64_t keep_changes_ms;    /* how long changes can be read back over a compaction
                                    (kvstore_changes); 0: a minute, once somebody has asked */
    uint64_t keep_changes_bytes; /* of the disk for that, at most; default 1 GiB */
    uint64_t reserved[1];
};

/* Opens the store in `dir`, recovering each data file (docs/FORMAT.md). One process at a
 * time: an exclusive lock on dir/lock, whose text is the owner's pid. The store runs its own
 * background threads (sync, compaction, sweep), with all signals blocked.
 *
 * Errors, each with a sentence in *error: KV_USAGE (dir is no directory, option out of range),
 * KV_NOT_FOUND (no store there and !create), KV_BUSY (owner's pid), KV_MISMATCH (D or format: both
 * numbers), KV_CORRUPT (file, offset and the kvcheck command that salvages), KV_NO_SPACE,
 * KV_DENIED, KV_LIMIT, KV_NO_MEMORY, KV_IO. On error nothing is left open and no file is changed,
 * but that a torn tail may be cut. */
enum kv_status kvstore_open(const char *dir, const struct kvstore_options *options,
                            struct kvstore **store, struct kv_error *error);

/* Ends the background threads, syncs every file, writes the index checkpoints and frees the store;
 * no call may be under way. NULL is harmless. Returns the first failure (the store is closed all
 * the same). A store that is not closed loses nothing but the checkpoint: it is recovered at the
 * next open. */
enum kv_status kvstore_close(struct kvstore *store, struct kv_error *error);

/* Whether the caller could open the store, which is open read-only, to write: KV_OK, or KV_DENIED
 * and the like, with the first file that is in the way. */
enum kv_status kvstore_check_writable(const struct kvstore *store, struct kv_error *error);

/* Where a write stands in the log of its data file. position 0: there is nothing to wait for. */
struct kvstore_ticket {
    uint32_t file;
    uint64_t
        position; /* bytes appended to the file since open; grows forever, also over compaction */
};

/* What a read tells beside the value. */
struct kvstore_entry {
    uint64_t version;
    uint64_t expiry_ms; /* 0: never */
    uint32_t value_bytes;
    uint64_t reserved[2];
};

/* What a write tells. */
struct kvstore_written {
    uint64_t version; /* the entry's new version; of a delete: of the deletion */
    struct kvstore_ticket ticket;
    uint64_t
        record_bytes; /* that were written for it: all of the new value, also by append and touch */
    uint64_t reserved[2];
};

enum kvstore_condition {
    KVSTORE_ALWAYS,
    KVSTORE_IF_ABSENT,  /* else KV_EXISTS */
    KVSTORE_IF_PRESENT, /* else KV_NOT_FOUND */
    KVSTORE_IF_VERSION  /* else KV_NOT_FOUND or KV_VERSION_MISMATCH */
};

/* What a condition says of a write to a key that has an entry (`present`) or none; has_version: the
 * entry's version is the one that the write names. KV_OK: the write may be; KV_BAD_REQUEST: there
 * is no such condition. */
static inline enum kv_status kvstore_condition_status(enum kvstore_condition condition,
                                                      bool present, bool has_version)
{
    switch (condition) {
    case KVSTORE_ALWAYS:
        return KV_OK;
    case KVSTORE_IF_ABSENT:
        return present ? KV_EXISTS : KV_OK;
    case KVSTORE_IF_PRESENT:
        return present ? KV_OK : KV_NOT_FOUND;
    case KVSTORE_IF_VERSION:
        return !present ? KV_NOT_FOUND : has_version ? KV_OK : KV_VERSION_MISMATCH;
    }
    return KV_BAD_REQUEST;
}

/* {0}: unconditional, no expiry. */
/* As many writes can follow. */
#define KVSTORE_MAX_GIVEN_VERSION (UINT64_C(1) << 62)

struct kvstore_put_options {
    enum kvstore_condition condition;
    uint64_t version;   /* for IF_VERSION */
    uint64_t expiry_ms; /* since 1970; 0: never; one that has passed: the key is gone at once */
    bool keep_expiry;   /* keep the expiry of the entry that is replaced, if there is one */
    /* Of kvstore_put, to bring back an entry of a backup with its version; 0: the next one. It gets
     * the next one all the same if the version is not above all of the data file, and the key is
     * there or that version may be of a record that has gone: the file has replaced or deleted
     * anything, or a compaction or a power failure has been since. Up to
     * KVSTORE_MAX_GIVEN_VERSION. */
    uint64_t give_version;
    uint64_t reserved[1];
};

/* Common to all operations below: KV_BAD_KEY for a key of a bad size; KV_CORRUPT where a record
 * that is needed is damaged (a put or delete without a condition needs none, and so replaces or
 * removes it; keep_expiry is a condition here); KV_IO, where a record cannot be read
 * (without a mapping): then nothing has changed; or where the disk refuses a record: the write is
 * not visible, but if the disk refuses to erase what it wrote, too, the next open may find it. All
 * writes may also give KV_VALUE_TOO_BIG,
 * KV_NO_SPACE (nothing changed; deletes still work, from a reserve), KV_FULL (above max_bytes),
 * KV_QUOTA, KV_READ_ONLY, KV_NO_MEMORY,
 * KV_CROWDED (512 keys are there whose hash, which is secret, begins as this one's does; other keys
 * can be written). Keys and values are copied; a value may lie in memory that another process
 * changes meanwhile (then the bytes stored are some bytes that were there, and the record is sound
 * all the same). */

/* Before calls for several keys: what the calls will read of index and files is asked from memory
 * for all of them together, so that they do not wait for it one after the other. A hint: changes
 * nothing, and is worth its time for keys that are not in the CPU's caches; those in the store's
 * own cache are left out. Takes the lock of each file concerned for reading. */
void kvstore_prefetch(struct kvstore *store, const struct kv_slice *keys, size_t count);

/* Copies the value to `buffer`, which has `capacity` bytes. KV_NOT_FOUND; KV_BUFFER_TOO_SMALL
 * (with *entry filled in, nothing copied). entry may be NULL. With buffer NULL and capacity 0 it
 * only fills *entry (exists, ttl): then a value of any size is KV_OK, and it is not verified. */
enum kv_status kvstore_get(struct kvstore *store, struct kv_slice key, void *buffer,
                           size_t capacity, struct kvstore_entry *entry);

/* Returns where a value of `bytes` bytes is to be copied; NULL: nowhere. A read that finds its key
 * calls it once, while it holds the lock of the record: it must not call the store, and should not
 * wait. */
typedef void *(*kvstore_place)(void *context, size_t bytes);

/* Like kvstore_get, with the value where place(context, its size) says; KV_BUFFER_TOO_SMALL if that
 * is nowhere. *entry is filled in before place is called. After KV_CORRUPT and KV_IO the bytes
 * there are of no use. place NULL: fills in *entry only. */
enum kv_status kvstore_get_to(struct kvstore *store, struct kv_slice key, kvstore_place place,
                              void *context, struct kvstore_entry *entry);

/* written may be NULL in all of these; options too where they are a pointer. */
enum kv_status kvstore_put(struct kvstore *store, struct kv_slice key, struct kv_slice value,
                           const struct kvstore_put_options *options,
                           struct kvstore_written *written);

/* if_version 0: whatever the version. KV_NOT_FOUND, KV_VERSION_MISMATCH. */
enum kv_status kvstore_delete(struct kvstore *store, struct kv_slice key, uint64_t if_version,
                              struct kvstore_written *written);

/* {0}: no bounds, and an absent key counts as 0. */
struct kvstore_add_options {
    bool has_min, has_max; /* the sum must lie within min and max, as far as they are given; else
                              KV_OUT_OF_BOUNDS and nothing changes */
    bool if_present;       /* else KV_NOT_FOUND for an absent key */
    int64_t min, max;
    int64_t initial;    /* what an absent key counts as before adding */
    uint64_t expiry_ms; /* for a key that is created; an existing one keeps its own */
    bool canonical;     /* else KV_NOT_A_NUMBER where zeros lead ("007", "-0") */
    uint8_t reserved_bytes[7];
    uint64_t reserved[1];
};

/* Adds to a value that is a decimal int64 ("-17"); stores the sum in the same form and in *sum
 * (on KV_OUT_OF_BOUNDS *sum is the value found, unchanged). Keeps the expiry. KV_NOT_A_NUMBER. */
enum kv_status kvstore_add(struct kvstore *store, struct kv_slice key, int64_t delta,
                           const struct kvstore_add_options *options, int64_t *sum,
                           struct kvstore_written *written);

/* Appends to the value; an absent key counts as empty. Keeps the expiry. *value_bytes (may be
 * NULL): the new size. KV_VALUE_TOO_BIG if the whole would be. */
enum kv_status kvstore_append(struct kvstore *store, struct kv_slice key, struct kv_slice suffix,
                              uint32_t *value_bytes, struct kvstore_written *written);

/* Puts the new value and gives the old one, in one step. An absent key is created and *found false.
 * KV_BUFFER_TOO_SMALL (with *entry of the old value): nothing changed. Conditions as in put. */
enum kv_status kvstore_exchange(struct kvstore *store, struct kv_slice key, struct kv_slice value,
                                const struct kvstore_put_options *options, void *buffer,
                                size_t capacity, bool *found, struct kvstore_entry *entry,
                                struct kvstore_written *written);

/* The same with the old value where place(context, its size) says (kvstore_get_to); it may be
 * called several times, the last one counts, and not if there is none. */
enum kv_status kvstore_exchange_to(struct kvstore *store, struct kv_slice key,
                                   struct kv_slice value, const struct kvstore_put_options *options,
                                   kvstore_place place, void *context, bool *found,
                                   struct kvstore_entry *entry, struct kvstore_written *written);

/* Sets the expiry of an entry (0: persist, it never expires; one that has passed: gone at once).
 * The version changes, as with every write. KV_NOT_FOUND. */
enum kv_status kvstore_touch(struct kvstore *store, struct kv_slice key, uint64_t expiry_ms,
                             struct kvstore_written *written);

/* One entry of a scan; slices point into the data file and live only during the visit. */
struct kvstore_scanned {
    struct kv_slice key;
    struct kv_slice value;
    uint64_t version;
    uint64_t expiry_ms;
};

/* Called under the file's reader lock: copy what you need and return; never call the store.
 * Return false to refuse the entry (no room): the scan then stops before it. */
typedef bool (*kvstore_visit)(void *context, const struct kvstore_scanned *entry);

/* What a scan tells beside the entries. */
struct kvstore_scan_result {
    /* After KV_CORRUPT and KV_IO: where the record is in the log of its data file, in bytes; else
     * 0. 0 after KV_IO too if the file lost bytes during the visit: then what the call has shown
     * may be wrong. */
    uint64_t bad_offset;
    uint64_t reserved[3];
};

/* Visits the entries whose key begins with `prefix` (empty: all), from *cursor on (0: from the
 * start), and stops after about `max_entries` visits, or 64 times as many entries looked at (one
 * whose record has more than 4 KiB counts once for each 4 KiB), or when the visitor refuses.
 * *cursor is then where to go on; 0: all were visited. A lock is held for a few dozen entries at a
 * time.
 *
 * Guarantee: the order is that of the hash, which no write changes. An entry that is there from the
 * first call to the last is visited exactly once (if its value changes meanwhile: with some value
 * it had); one that is put or deleted meanwhile is visited once or not at all. The cursor is valid
 * forever, also over growth, compaction and a restart. A refusal at the very first entry of a call
 * leaves *cursor unchanged; the caller then needs more room. Entries whose hashes collide in all 51
 * bits of the order are visited in one call (the visitor may then see more than max_entries; if it
 * refuses one in their middle, it is shown the earlier ones again). KV_CORRUPT: the checksum of an
 * entry does not hold; those before it were visited, *cursor is past it. KV_IO: an entry cannot be
 * read; likewise. KV_BAD_REQUEST if *cursor is none that a scan of this store gives; those that
 * versions up to 0.1.0 gave are none. */
enum kv_status kvstore_scan(struct kvstore *store, uint64_t *cursor, struct kv_slice prefix,
                            uint32_t max_entries, kvstore_visit visit, void *context,
                            struct kvstore_scan_result *result);

/* The limits of kvstore_scan_file: about this many entries of a data file (some milliseconds under
 * the lock), and this long, however large they are. */
#define KVSTORE_SCAN_FILE_ENTRIES 65536u
#define KVSTORE_SCAN_FILE_MS      500u

/* Visits the entries of one data file whose key begins with `prefix`, all under one hold of its
 * reader lock: they are what the file held at one moment. *cursor is 0 for the first file, then
 * what the last call gave; 0 again: that was the last file. Between two files others may write. A
 * refusal ends the visit and leaves *cursor. KV_LIMIT: the file holds more than
 * KVSTORE_SCAN_FILE_ENTRIES entries, or visiting them takes more than KVSTORE_SCAN_FILE_MS, which
 * nobody should wait for; some of them were visited, *cursor is left. KV_CORRUPT likewise.
 * KV_BAD_REQUEST if *cursor is not the beginning of a file. */
enum kv_status kvstore_scan_file(struct kvstore *store, uint64_t *cursor, struct kv_slice prefix,
                                 kvstore_visit visit, void *context);

/* Ranges --------------------------------------------------------------------------------------- */

/* Which keys, in the order of their bytes (as memcmp; a prefix before what it begins). {0}: all. */
struct kvstore_range {
    struct kv_slice from;   /* the first; empty: from the first one that there is */
    struct kv_slice to;     /* behind the last, itself not meant; empty: to the end */
    struct kv_slice prefix; /* only keys that begin with it */
    bool behind_from;       /* `from` itself is not meant */
    bool reverse;           /* the last one first */
    bool keys_only;         /* records are not verified, and shown without their values */
    uint32_t max_entries;   /* visits; 0, or more than it: KVSTORE_RANGE_ENTRIES */
    uint8_t *last;          /* room for KVSTORE_MAX_KEY_BYTES, perhaps where `from` (of a reverse
                               range, `to`) is. Then a call ends after some thousand entries, even
                               if all of them have expired; unless the visitor refused, the key that
                               was looked at last is there if there are more. NULL: not wanted */
    uint64_t reserved[1];
};

#define KVSTORE_RANGE_ENTRIES 4096u

/* What a range tells beside the entries. */
struct kvstore_range_result {
    uint64_t visited;    /* entries that the visitor has taken */
    bool more;           /* the range may go on behind the last of them */
    uint32_t bad_file;   /* after KV_CORRUPT and KV_IO: the data file, and where the first record */
    uint64_t bad_offset; /* that cannot be relied on is in its log, in bytes */
    uint64_t last_bytes; /* of the key in range->last; 0: none is there */
    uint64_t reserved[1];
};

/* Visits the entries of the range in order (visit NULL: counts them, in result->visited). Ends at
 * its end; when the visitor refuses (result->more then); after max_entries; or, once one was
 * visited, after some MiB of records. What one call visits was there at one moment, in all data
 * files: the locks of all of them are held for reading. To go on, the last key that was visited, or
 * that range->last has, is `from` with behind_from, or `to` of a reverse range. So whoever goes on
 * until !more visits each key that is there all the time exactly once, whatever others write, over
 * growth, compaction and a restart.
 *
 * KV_UNSUPPORTED: the store is not ordered, or something in reserved space; KV_BUSY: the order is
 * still being built (kvstore_order_facts tells how far): kvstore_scan works meanwhile. KV_CORRUPT,
 * KV_IO: entries that cannot be relied on were left out, all others were visited. KV_NO_MEMORY.
 * `result` may be NULL. */
enum kv_status kvstore_range(struct kvstore *store, const struct kvstore_range *range,
                             kvstore_visit visit, void *context,
                             struct kvstore_range_result *result);

/* Counts the entries of the range, of which only the bounds mean something, in steps of
 * KVSTORE_RANGE_ENTRIES, between which others may write. Fails as kvstore_range; *count is then
 * of those that could be counted. */
enum kv_status kvstore_range_count(struct kvstore *store, const struct kvstore_range *range,
                                   uint64_t *count);

/* Deletes entries of the range, its first max_entries, or fewer (*more: there may be others);
 * keys_only and last mean nothing. The keys are found at one moment and then deleted one by one,
 * whatever was written to them meanwhile; *deleted tells how many were. Fails as kvstore_range and
 * kvstore_delete. */
enum kv_status kvstore_range_delete(struct kvstore *store, const struct kvstore_range *range,
                                    uint64_t *deleted, bool *more);

/* Of a data file whose lock somebody keeps, the size is what was told last. */
struct kvstore_order_facts {
    bool ordered;
    bool whole;      /* ranges can be read */
    uint32_t depth;  /* levels of the highest tree */
    uint64_t keys;   /* that are in order; while it is being built, of all that there are */
    uint64_t bytes;  /* of memory */
    uint64_t leaves; /* of the trees */
    uint64_t room;   /* keys for which the leaves have room */
    uint64_t reserved[2];
};
void kvstore_order_facts(struct kvstore *store, struct kvstore_order_facts *facts);

/* Transactions --------------------------------------------------------------------------------- */

/* What must hold for the list `then` of a transaction to be done. An entry that has expired is
 * absent. */
enum kvstore_guard_kind {
    KVSTORE_GUARD_VERSION, /* the entry has this version; 0: the key is absent */
    KVSTORE_GUARD_PRESENT,
    KVSTORE_GUARD_ABSENT,
    KVSTORE_GUARD_VALUE, /* the entry has this value */
    KVSTORE_GUARDS
};

struct kvstore_guard {
    enum kvstore_guard_kind kind;
    struct kv_slice key;
    struct kv_slice value; /* VALUE */
    uint64_t version;      /* VERSION */
    uint64_t reserved[1];
};

enum kvstore_step_kind {
    KVSTORE_STEP_PUT,
    KVSTORE_STEP_DELETE, /* a key that is absent is KV_NOT_FOUND in its result, and no failure */
    KVSTORE_STEP_ADD,
    KVSTORE_STEP_APPEND,
    KVSTORE_STEP_TOUCH, /* as DELETE */
    KVSTORE_STEP_GET,   /* reads are KV_NOT_FOUND for a key that is absent, and no failure */
    KVSTORE_STEP_EXISTS,
    KVSTORE_STEPS
};

/* One operation of a transaction, which does what the call of that name does without a condition.
 */
struct kvstore_step {
    enum kvstore_step_kind kind;
    struct kv_slice key;
    struct kv_slice value;          /* PUT; APPEND: what is appended */
    uint64_t expiry_ms;             /* PUT, TOUCH */
    bool keep_expiry;               /* PUT */
    int64_t delta;                  /* ADD, */
    struct kvstore_add_options add; /* and its options */
    uint64_t reserved[1];
};

/* What a step tells. */
struct kvstore_step_result {
    enum kv_status status;
    struct kvstore_entry entry;     /* GET, EXISTS */
    struct kvstore_written written; /* of writes; a ticket with position 0: nothing was written */
    int64_t number;                 /* ADD: the sum; APPEND: the new size */
};

#define KVSTORE_MAX_TRANSACTION_STEPS 128u /* guards and the steps of both lists together */

struct kvstore_transaction {
    const struct kvstore_guard *guards; /* all must hold; none: they hold */
    uint32_t guard_count;
    uint32_t then_count;
    const struct kvstore_step *then;      /* done if the guards hold */
    const struct kvstore_step *otherwise; /* done if one does not */
    uint32_t otherwise_count;
    /* Where GET of step number `step` of the list that is done copies its value of `bytes` bytes,
     * as kvstore_place: it may be called several times, the last one counts. NULL, from it or in
     * its place: nowhere, and the step's status is KV_BUFFER_TOO_SMALL, which is no failure. */
    void *(*place)(void *context, uint32_t step, size_t bytes);
    void *context;
    uint64_t reserved[2];
};

struct kvstore_transacted {
    bool held;      /* all guards held: `then` was done, or was to be done; else `otherwise` */
    uint32_t guard; /* the first that did not hold, if !held */
    uint32_t at;    /* of a failure: the guard (if `in_guard`) or step that it is about */
    bool in_guard;
    uint64_t reserved[2];
};

/* Checks the guards and does one of the two lists, as one step: no other call, and nobody who reads
 * in place (enum kvstore_direct), sees a part of it; a crash leaves all of it or nothing, whatever
 * the durability. Reads see what was there before the transaction. A list writes a key once at
 * most. Holds the locks of all files concerned, for reading if neither list writes: then it is a
 * read of several keys at one moment.
 *
 * KV_OK: results[i] is of step i of the list that was done. Otherwise nothing has changed,
 * and transacted->at tells where it failed: with what the calls of the steps can fail with, among
 * them KV_OUT_OF_BOUNDS and KV_NOT_A_NUMBER (results[at].number is the value found, if it is one).
 * KV_USAGE: too many steps, a kind that does not exist, a key that a list writes twice;
 * KV_UNSUPPORTED: something in reserved space. A write is durable when its ticket is, and
 * the ticket of one write of a transaction is not before all of them are. `results` has room for
 * the longer list; transacted may be NULL. */
enum kv_status kvstore_transact(struct kvstore *store,
                                const struct kvstore_transaction *transaction,
                                struct kvstore_step_result *results,
                                struct kvstore_transacted *transacted);

/* Durability ----------------------------------------------------------------------------------- */

/* Sleeps until the write of the ticket is on disk; syncs the file itself if nobody else is about
 * to. KV_OK, or KV_NOT_DURABLE if its sync failed. */
enum kv_status kvstore_wait_durable(struct kvstore *store, struct kvstore_ticket ticket);

/* Asks for the sync without waiting. Cheap; any thread. The listener is called at least once after
 * each request, with a position that covers the ticket's or with the failure: also if the write was
 * durable before, so that a late request does not wait forever. (Not for position 0.) */
void kvstore_request_sync(struct kvstore *store, struct kvstore_ticket ticket);

/* Returns true once the ticket's write is on disk; never true after a failed sync. */
bool kvstore_is_durable(const struct kvstore *store, struct kvstore_ticket ticket);

/* Called by a background thread, or one in kvstore_wait_durable, no lock held, after each sync of a
 * file: all of its writes up to `position` are on disk (KV_OK), or the sync failed (KV_NOT_DURABLE,
 * position UINT64_MAX: nothing that was not reported durable before will ever be). One listener per
 * store; set before use. */
typedef void (*kvstore_sync_listener)(void *context, uint32_t file, uint64_t position,
                                      enum kv_status status);
void kvstore_set_sync_listener(struct kvstore *store, kvstore_sync_listener listener,
                               void *context);

/* Changes the store's durability and its interval (0: as it is), also for what was written before.
 * With KVSTORE_SYNC_ALWAYS only a store that was opened so has a commit log. KV_USAGE. */
enum kv_status kvstore_set_sync(struct kvstore *store, enum kvstore_durability durability,
                                uint32_t interval_ms);

/* Changes the largest value that writes may have. Larger ones that are there stay. KV_USAGE. */
enum kv_status kvstore_set_max_value_bytes(struct kvstore *store, uint32_t max_value_bytes);

/* Syncs every file and waits. */
enum kv_status kvstore_sync(struct kvstore *store);

/* Compacts one file now, whatever its share of dead bytes, and waits. For tests, tools and the
 * curious. On failure (KV_NO_SPACE, KV_IO, ...) the file is as it was. */
enum kv_status kvstore_compact(struct kvstore *store, uint32_t file, struct kv_error *error);

/* Backup --------------------------------------------------------------------------------------- */

struct kvstore_hold;

struct kvstore_hold_facts {
    const char *dir; /* of the store, as it was opened; lives as long as the store */
    uint64_t store_seed;
    uint32_t datafiles;
    uint32_t unused;
    uint64_t reserved[4];
};

struct kvstore_held_file {
    uint64_t generation; /* another number for each file that a compaction has made */
    uint64_t bytes;      /* from the start of the file, header included */
    uint64_t reserved[2];
};

/* Holds all data files as they are at this moment, the same of all of them: what the hold reads
 * stays, whatever is written, compacted and deleted meanwhile. Takes every lock for a moment, and
 * a descriptor per data file for as long as it lasts. A hold that is neither read nor touched for
 * a minute lapses. KV_LIMIT, KV_IO, KV_NO_MEMORY with a sentence. */
enum kv_status kvstore_hold_begin(struct kvstore *store, struct kvstore_hold **hold,
                                  struct kv_error *error);

/* Before the store is closed. NULL is harmless. */
void kvstore_hold_end(struct kvstore_hold *hold);

/* False: it has lapsed. Any thread. */
bool kvstore_hold_touch(struct kvstore_hold *hold);

void kvstore_hold_facts(const struct kvstore_hold *hold, struct kvstore_hold_facts *facts);

/* number: below facts.datafiles. */
void kvstore_hold_file(const struct kvstore_hold *hold, uint32_t number,
                       struct kvstore_held_file *file);

/* Reads of a data file as it was: *got of `size` bytes, fewer towards the end; all of them together
 * are a data file that was synced to its end. KV_BUSY: the hold has lapsed. KV_USAGE: there is no
 * such file or offset; KV_IO. Any thread. */
enum kv_status kvstore_hold_read(struct kvstore_hold *hold, uint32_t number, uint64_t offset,
                                 void *buffer, size_t size, size_t *got);

/* Has the file compacted as soon as the compactor is free, and does not wait. One that is being
 * compacted is compacted once more. Any thread; without effect on a store that is read-only. */
void kvstore_request_compaction(struct kvstore *store, uint32_t file);

/* Changes -------------------------------------------------------------------------------------- */

/* A place in the changes of one data file, behind one of them. The bytes have no meaning to others;
 * they may be kept, and stay good over restarts, for as long as the changes behind it are kept. */
struct kvstore_position {
    uint64_t log;
    uint64_t version;
    uint64_t place;
};

enum kvstore_change_kind {
    KVSTORE_CHANGE_PUT,    /* of whatever operation: the whole new value */
    KVSTORE_CHANGE_DELETE, /* the key was removed */
    KVSTORE_CHANGE_EXPIRE  /* the entry's time was over, and it was taken out; expiry_ms: that time.
                              One that was written again before that has none */
};

/* One change; the slices live only during the visit. */
struct kvstore_change {
    enum kvstore_change_kind kind;
    struct kv_slice key;
    struct kv_slice value; /* of a put */
    uint64_t version;      /* higher than that of every earlier change of the key */
    uint64_t expiry_ms;
    struct kvstore_position position; /* behind the change */

    /* Of a transaction the changes of the data file are a piece: they come one behind the other. */
    uint64_t piece;       /* the same in all changes of a piece; 0: the change stands alone there */
    uint32_t following;   /* how many changes of the piece are behind it, whatever their keys */
    uint64_t transaction; /* of several data files: higher than that of all earlier ones; 0: none */
    uint32_t parts;       /* of the transaction: how many data files have one; 0: not known */
    uint32_t next_file;   /* the data file that has the next; after the last one the first */
};

/* As kvstore_visit: copy and return, call nothing; false: no room, stop before it. */
typedef bool (*kvstore_change_visit)(void *context, const struct kvstore_change *change);

/* The position behind all that was written to the data file so far. For a minute after this call
 * and the next one replaced logs are kept, and expiries are written down (otherwise only with
 * keep_changes_ms; an expiry that is not, for want of room, too, makes the file's positions void).
 * KV_USAGE: no such file; KV_READ_ONLY: the store is open read-only, and nothing
 * will change. Takes the file's lock. */
enum kv_status kvstore_changes_now(struct kvstore *store, uint32_t file,
                                   struct kvstore_position *position);

/* Visits the changes of the data file behind *position whose key begins with `prefix`, in the order
 * in which they were made, and moves *position on: behind those visited, and others between. Stops
 * at the end of what there is (*at_end), after about max_changes visits or 64 times as many looked
 * at, or when the visitor refuses; within a piece only for the latter.
 *
 * Guarantee: each change is visited once, those of a key in the order of their versions; a change
 * may be visited that is not yet on disk, and that a power failure takes back. KV_MISSED: there
 * were changes behind the position that are not known any more, or the position is none of this
 * file, or was that of a change lost in a power failure: read everything anew. A position before
 * those that were lost stays good: only a leap of the versions by 2^32 or so tells of them.
 * KV_CORRUPT, KV_IO: a record cannot be read; *position is before it, and what was visited behind
 * that is void. Holds the file's lock for a few dozen records at a time. */
enum kv_status kvstore_changes(struct kvstore *store, uint32_t file,
                               struct kvstore_position *position, struct kv_slice prefix,
                               uint32_t max_changes, kvstore_change_visit visit, void *context,
                               bool *at_end);

/* Called by a thread that writes, or the one that takes out what has expired, under the file's
 * lock: call nothing of the store. One per store; set before use. */
typedef void (*kvstore_change_listener)(void *context, uint32_t file);
void kvstore_set_change_listener(struct kvstore *store, kvstore_change_listener listener,
                                 void *context);

/* Has the listener called once, at the next change of the data file. Who then finds nothing by
 * kvstore_changes will hear of what follows. */
void kvstore_await_change(struct kvstore *store, uint32_t file);

/* Fork ----------------------------------------------------------------------------------------- */

/* Around a fork(2) while other threads use the store: nobody is in the middle of a change then.
 * From the first call until the store is closed, the places of large values that were replaced or
 * deleted are not used again, so that logs grow faster: a forked process may read there. */
void kvstore_fork_begin(struct kvstore *store);
void kvstore_fork_end(struct kvstore *store); /* in the parent */

/* In the child, which then may call kvstore_get, kvstore_scan and kvstore_prefetch, and nothing
 * else: it sees the entries as they were at the fork, whatever the parent does since (its index is
 * a copy, and the records that it leads to stay where they are in the log, mapped or open, also
 * where a compaction has replaced it). It has no cache, and with a mapping none of these allocates.
 * End it with _exit(2). */
void kvstore_fork_in_child(struct kvstore *store);

/* Facts ---------------------------------------------------------------------------------------- */

uint32_t kvstore_datafiles(const struct kvstore *store);
uint32_t kvstore_max_value_bytes(const struct kvstore *store);

/* The data file a key hashes to. */
uint32_t kvstore_file_of(const struct kvstore *store, struct kv_slice key);

struct kvstore_file_statistics {
    uint64_t keys;
    uint64_t expiring_keys;  /* entries that have an expiry */
    uint64_t live_bytes;     /* log bytes of records that a get would find */
    uint64_t dead_bytes;     /* log bytes of replaced, deleted and expired records */
    uint64_t file_bytes;     /* allocated to the file, its tail included */
    uint64_t index_bytes;    /* memory */
    uint64_t appended_bytes; /* since open */
    uint64_t synced_bytes;   /* of those, known to be on disk */
    uint64_t syncs;
    uint64_t sync_failures;
    uint64_t compactions;
    uint64_t compaction_failures;
    uint64_t expired;             /* entries taken out by expiry, since open */
    uint64_t read_retries;        /* optimistic only: lookups repeated because of a writer, */
    uint64_t read_fallbacks;      /* and reads that took the lock in the end; since open */
    uint64_t recovered_bytes_cut; /* torn tail found at open */
    bool from_checkpoint;         /* the index was loaded, not rebuilt */
    bool read_only;               /* stopped taking writes; why is in the log */
    bool full;                    /* the last put to it found no space; the next may find some */
    bool taken_over;              /* the index is that of a process that was killed */
    bool compaction_failing;      /* the last compaction failed; why is in the log */
    bool nameless;                /* somebody removed or replaced it: what it has is lost when the
                                     store is closed, unless it is backed up before */
    uint64_t unsynced_ms;     /* since its oldest write that is not known to be on disk; 0: none */
    uint64_t past_logs;       /* replaced ones that are kept for kvstore_changes, */
    uint64_t past_log_bytes;  /* and their disk space */
    uint64_t max_version;     /* the highest that was given so far */
    uint64_t stale_ms;        /* all of this is as it was so long ago; 0: it is as of now */
    uint64_t damaged_records; /* that reads or a compaction met since open, and that were neither
                                 replaced nor left out by a compaction since; counted up to 8 */
    uint64_t damaged_at;      /* where the first of those is in the log, in bytes; else 0 */
    uint64_t spare_bytes;     /* of the dead ones: places of large values that were replaced or
                                 deleted, which may get other values */
};

/* Takes the file's lock for a moment. Where somebody else keeps it (a write on a disk that does not
 * answer), waits a tenth of a second at most, and then not at all for a second, whichever the file:
 * the answer is that of the last call, but for appended_bytes, which is always of now, so that a
 * ticket of it stands for every write that was acknowledged. */
void kvstore_file_statistics(struct kvstore *store, uint32_t file,
                             struct kvstore_file_statistics *statistics);

/* How threads have waited for the lock of a data file since open; where one lock is for all, for
 * that. */
struct kvstore_lock_facts {
    uint64_t waits; /* for which a thread slept: what comes within 5 us is none */
    uint64_t longest_wait_ns;
    uint64_t longest_hold_ns; /* by one that held it for writing, since it was first waited for */
    uint64_t reserved[5];
};

/* Takes no lock. */
void kvstore_lock_facts(const struct kvstore *store, uint32_t file,
                        struct kvstore_lock_facts *facts);

/* Returns whether the directory is still what the path leads to that it was opened by: nobody has
 * moved or removed it. */
bool kvstore_is_in_place(const struct kvstore *store);

/* Reads by others (enum kvstore_direct). */
struct kvstore_direct_facts {
    enum kvstore_direct direct; /* OFF also if it was asked for and could not be had */
    uint64_t device, inode;     /* of the directory: others find the object by them */
    char name[64];              /* of the object, for shm_open; "": there is none */
    uint64_t shared_bytes;      /* of the object */
    uint64_t private_bytes;     /* of indexes, in this process's own memory */
    uint64_t taken_over_files;
    uint64_t number; /* in the name, where another user had the usual one; else 0 */
    bool is_gone;    /* somebody has removed that name: who comes now does not find the object */
    uint64_t reserved[6];
};

void kvstore_direct_facts(struct kvstore *store, struct kvstore_direct_facts *facts);

/* Where the name of the object is gone, has the object made anew in the background: is_gone tells
 * whether it is there, the log why it cannot be had. Writes wait while the index is copied. Any
 * thread; does not wait. */
void kvstore_renew_index(struct kvstore *store);

/* All 0 without a cache. */
struct kvstore_cache_statistics {
    uint64_t max_bytes;  /* options.cache_bytes */
    uint64_t used_bytes; /* its tables, and its entries with keys, values and bookkeeping */
    uint64_t entries;
    uint64_t hits;               /* gets that found their key in it, since open */
    uint64_t misses;             /* and those that had to look in the file */
    uint64_t evictions;          /* entries taken out to make room */
    uint64_t segment_bytes;      /* that the allocator has of the system, for all of the process */
    uint64_t segment_free_bytes; /* of those, free */
    uint64_t reserved[8];
};

void kvstore_cache_statistics(struct kvstore *store, struct kvstore_cache_statistics *statistics);

/* All 0 without a bound. */
struct kvstore_bound_statistics {
    uint64_t max_bytes;
    uint64_t live_bytes;
    enum kvstore_evict evict;
    uint64_t evictions; /* entries that made room, since open, as the next two */
    uint64_t evicted_bytes;
    uint64_t refusals;      /* writes refused with KV_FULL */
    uint64_t memory_bytes;  /* of the policy */
    uint64_t fitting_bytes; /* as kvstore_fitting_bytes; with eviction, what is above it goes */
    uint64_t reserved[3];
};

void kvstore_bound_statistics(struct kvstore *store, struct kvstore_bound_statistics *statistics);

/* How many bytes of live records the file system of the directory has room for, if a store of so
 * many data files (0: KVSTORE_DEFAULT_DATAFILES) is there, or was made there: with the dead records
 * that there are between two compactions, and the copy that a compaction makes. UINT64_MAX: not
 * known. */
uint64_t kvstore_fitting_bytes(const char *dir, uint32_t datafiles);

/* Of the quota of that number in the options. */
struct kvstore_quota_usage {
    uint64_t bytes;
    uint64_t keys;
    uint64_t refusals; /* since open */
    uint64_t reserved[3];
};

void kvstore_quota_usage(struct kvstore *store, uint32_t number, struct kvstore_quota_usage *usage);

/* Other quotas from now on, in the place of all that there are; they are copied. Where prefixes and
 * groups are the same, only limits change. Else what there is is counted: the key of each record is
 * read, and writes to a data file wait meanwhile for that file. KV_USAGE: too many; KV_NO_MEMORY:
 * the quotas are as they were. One call at a time. */
enum kv_status kvstore_set_quotas(struct kvstore *store, const struct kvstore_quota *quotas,
                                  uint32_t count, struct kv_error *error);

/* Another bound from now on. With eviction, what is above it goes before the call returns. KV_USAGE
 * if the store was opened without one, or max_bytes is out of range. */
enum kv_status kvstore_set_max_bytes(struct kvstore *store, uint64_t max_bytes,
                                     struct kv_error *error);

/* Memory of the store's locks. */
uint64_t kvstore_lock_memory_bytes(const struct kvstore *store);

/* Nanoseconds that this thread has waited for locks of stores since it began. A lock that is free
 * costs no clock read: a try comes first. */
uint64_t kvstore_lock_wait_ns(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
