/*
 * clientk: the client library of mqkv, the key-value store over POSIX message queues.
 *     struct clientk *client;
 *     struct kv_error error = {0};
 *     if (clientk_open(NULL, &client, &error) != KV_OK) errx(3, "%s", error.text);
 *     clientk_put(client, kv_slice_from_string("name"), kv_slice_from_string("Ada"), NULL, NULL);
 *     struct clientk_value value = {0};
 *     if (clientk_get(client, kv_slice_from_string("name"), &value) == KV_OK)
 *         fwrite(value.data, 1, value.size, stdout);
 *     clientk_value_free(&value);
 *     clientk_close(client);
 *
 * Threads: one handle serves any number of threads. The first threads get a session (a reply queue)
 * each; when there are more, they share sessions and their operations travel together.
 *
 * Failure: every call returns within its timeout (timeout_ms says of what). When the server has
 * ended, the library reconnects by itself, with backoff, until the timeout: a restart of the server
 * is a pause, not an error. Reads that were in flight are repeated; a write gives
 * KV_OUTCOME_UNKNOWN, unless repeat_writes allows repeating it: a put, delete or touch without
 * condition may then be applied twice, which for them is the same but for the version, also with
 * give_version. If a repeated write is refused or fails, it may have been executed the first time:
 * KV_OUTCOME_UNKNOWN, whatever the reason. A repeated delete that finds nothing is KV_OK, with
 * version 0. After KV_TIMEOUT and KV_OUTCOME_UNKNOWN the operation may or may not have been
 * executed; after KV_DEADLINE and KV_NO_SERVER it surely was not.
 *
 * Signals and fork: the library installs no signal handler and starts no thread. After fork() the
 * child must not use the parent's handle, except to call clientk_abandon. A process that ends, even
 * by kill -9, leaves no queue and no segment behind once the server has answered its handshake. A
 * thread must not be cancelled while it is in a call: it may be working for others.
 *
 * Structures: every structure starts from {0}, and every zero means its default. They grow into
 * their reserved space, so a program that was built with this header runs with later libraries of
 * the same soname. The reserved space stays 0: options with something in it are of a newer header
 * than the library knows, and give KV_UNSUPPORTED. Structures without reserved space never change
 * (kv_slice), or are made by the library only and grow at their end (clientk_entry).
 */
#ifndef MQKV_CLIENTK_H
#define MQKV_CLIENTK_H

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
#pragma GCC visibility push(default) /* exported by libclientk.so */

#define CLIENTK_DEFAULT_QUEUE      "/serverk"
#define CLIENTK_DEFAULT_TIMEOUT_MS 5000u

struct clientk;

/* The version of the library that runs, as MQKV_VERSION_STRING is that of the header. */
const char *clientk_version(void);

/* How entries are read (clientk_options, clientk_info). Unless this is OFF, GET, EXISTS, batches of
 * these and scans read the server's index and data files in place, without a message and without
 * the server's time, if the server allows it (serverk --direct) and the files can be reached; what
 * cannot be read in place is asked for by message. Such reads are as consistent as those by
 * message: each sees all writes that were answered before it began.
 *
 * MAP: data files are mapped. If the disk fails, or somebody shortens a file, this process gets
 * SIGBUS. PREAD: data files are read with calls; in these cases a read goes by message and gives
 * KV_IO. The index, which lies in memory, is mapped all the same. AUTO: as MAP, if the server's
 * user is the caller's, or lets the caller's group read; a server of another user is asked by
 * message. */
enum clientk_direct {
    CLIENTK_DIRECT_AUTO, /* in options: $MQKV_DIRECT ("auto", "off", "map", "pread") decides */
    CLIENTK_DIRECT_OFF,
    CLIENTK_DIRECT_MAP,
    CLIENTK_DIRECT_PREAD
};

struct clientk_options {
    const char *queue;       /* NAME of serverk -m; default: $MQKV_QUEUE, else /serverk */
    uint32_t timeout_ms;     /* of a call, reconnecting included; default 5000. It begins anew with
                                each page of a scan and each 4,096 operations of clientk_execute */
    bool repeat_writes;      /* repeat writes whose fate is unknown, where that is harmless */
    bool fail_fast;          /* KV_NO_SERVER at once instead of waiting for a server to come */
    bool fail_fast_open;     /* as fail_fast, but in clientk_open only: later calls wait */
    const char *spin;        /* how to wait: "auto" (default), "off", or microseconds to poll */
    uint32_t combine_above;  /* up to this many threads have a session each; default 8 */
    uint32_t combine_groups; /* sessions that more threads share; default 3 */
    uint8_t priority;        /* of this handle's messages, 0..31: clientk_set_priority */
    /* Calls that wait invoke this function about every 100 ms, in their threads, and so do attempts
     * to connect and calls of pipelines; it is also invoked before the next page of a scan and the
     * next 4,096 operations of clientk_execute. If it returns true, the wait ends as it would at
     * the timeout. NULL: nothing interrupts a wait. */
    bool (*interrupted)(void);
    /* The user (a number or a name) that the server must have; default: $MQKV_SERVER_UID, else any.
     * A server of another user is KV_DENIED, and nothing is sent to it. Later the handle accepts
     * only the user of its first server. */
    const char *server_uid;
    /* How replies come: "shared": through shared memory, which takes none of the user's queue
     * bytes; "queue": through a reply queue; "auto": shared, where the server has the same uid and
     * allows it. Default: $MQKV_REPLIES, else "auto". Event loops have a queue in any case. */
    const char *replies;
    enum clientk_direct direct; /* reads without messages: AUTO, OFF, MAP, PREAD */
    /* How many milliseconds direct reads go on, from the last state of the server, which has every
     * write that was answered, once the server has ended without saying so (kill -9); 0: they wait
     * for the next server as other calls do. */
    uint32_t direct_stale_ms;
    uint64_t reserved[6];
};

/* Connects (one handshake) and makes a handle, *client. options NULL: the defaults. KV_OK;
 * KV_NO_SERVER, KV_DENIED, KV_LIMIT, KV_UNSUPPORTED (protocol version), KV_USAGE, KV_TIMEOUT,
 * KV_NO_MEMORY, each with a sentence in *error (may be NULL). */
enum kv_status clientk_open(const struct clientk_options *options, struct clientk **client,
                            struct kv_error *error);

/* Ends the sessions of the handle and frees it. No other thread may be in a call. NULL is
 * harmless. */
void clientk_close(struct clientk *client);

/* Sets the priority, 0 (the default) to 31, of the messages that all threads send through this
 * handle from now on; pipelines that are open keep theirs. A server that was started with --sched
 * priority or cost serves messages of higher priority first; other servers get no priorities.
 * KV_OK; KV_USAGE. */
#define CLIENTK_MAX_PRIORITY 31u
enum kv_status clientk_set_priority(struct clientk *client, unsigned priority);

/* In a forked child: frees the handle's memory and descriptors without telling the server. */
void clientk_abandon(struct clientk *client);

/* Returns the sentence about the last failure in this thread ("server refused: ..."); never
 * NULL. */
const char *clientk_last_error(void);

/* A value that the library returns. One struct serves any number of calls: its memory grows as
 * needed and is reused. Free it at the end with clientk_value_free. */
struct clientk_value {
    void *data; /* followed by a NUL that size does not count */
    size_t size;
    size_t capacity;
    uint64_t version;
    uint64_t expiry_ms; /* milliseconds since 1970, 0: never */
    uint64_t reserved[2];
};
void clientk_value_free(struct clientk_value *value);

/* How safe a write must be before the call returns: as the server is set (the default); on disk
 * within the server's sync interval; on disk. */
enum clientk_durability { CLIENTK_SERVER_DEFAULT, CLIENTK_SYNC_INTERVAL, CLIENTK_SYNC_ALWAYS };

/* The options of every write but ADD. PUT takes all of them, EXCHANGE all but give_version, both at
 * most one of the three conditions; DELETE takes if_version and durability; APPEND and TOUCH take
 * durability. An option that a call does not take must be 0: KV_USAGE. */
struct clientk_write_options {
    bool if_absent;   /* else KV_EXISTS */
    bool if_present;  /* else KV_NOT_FOUND */
    bool keep_expiry; /* the new entry expires when the old one would */
    enum clientk_durability durability;
    uint64_t if_version; /* if not 0, else KV_NOT_FOUND, KV_VERSION_MISMATCH */
    uint64_t expiry_ms;  /* since 1970; 0: never */
    /* PUT, to bring back an entry of a backup: the version that the entry is to have. It gets the
     * next version all the same if the key is there with a higher one, or if the data file may have
     * given that version before. Not with if_version; servers up to 0.1.0 give KV_UNSUPPORTED. */
    uint64_t give_version;
    uint64_t reserved[1];
};

/* Calls, one operation each. Statuses beside those named: KV_BAD_KEY, KV_VALUE_TOO_BIG,
 * KV_NO_SPACE, KV_READ_ONLY, KV_NOT_DURABLE, KV_IO, KV_CORRUPT, KV_OVERLOADED, KV_DENIED;
 * KV_TIMEOUT, KV_DEADLINE, KV_NO_SERVER, KV_OUTCOME_UNKNOWN, KV_LIMIT, KV_NO_MEMORY; KV_USAGE for
 * impossible arguments: clientk_last_error names the one, or the member of the options. */

/* Reads the value of `key`, with its version and expiry, into *value. KV_NOT_FOUND. */
enum kv_status clientk_get(struct clientk *client, struct kv_slice key,
                           struct clientk_value *value);

/* Fills in version, expiry_ms and size of *value (may be NULL), without the value itself.
 * KV_NOT_FOUND. */
enum kv_status clientk_exists(struct clientk *client, struct kv_slice key,
                              struct clientk_value *value);

/* Writes. options NULL: the defaults. *version (may be NULL): the new version of the entry, or that
 * of the deletion; 0 if the write was not executed. */

enum kv_status clientk_put(struct clientk *client, struct kv_slice key, struct kv_slice value,
                           const struct clientk_write_options *options, uint64_t *version);

/* KV_NOT_FOUND, KV_VERSION_MISMATCH. */
enum kv_status clientk_delete(struct clientk *client, struct kv_slice key,
                              const struct clientk_write_options *options, uint64_t *version);

/* The options of ADD; {0}: no bounds, and an absent key counts as 0. */
struct clientk_add_options {
    bool has_min, has_max; /* the sum must lie within min and max, as far as they are given; else
                              KV_OUT_OF_BOUNDS and nothing changes */
    bool if_present;       /* else KV_NOT_FOUND for an absent key */
    enum clientk_durability durability;
    int64_t min, max;   /* KV_USAGE if not 0 and not given */
    int64_t initial;    /* what an absent key counts as */
    uint64_t expiry_ms; /* of a key that is created */
    bool canonical;     /* else KV_NOT_A_NUMBER where zeros lead ("007", "-0"); servers up to
                           0.1.0 give KV_UNSUPPORTED */
    uint8_t reserved_bytes[7];
    uint64_t reserved[1];
};

/* Adds `delta` to the decimal number at `key`. *sum (may be NULL): the sum; with KV_OUT_OF_BOUNDS
 * the number that is there. KV_NOT_A_NUMBER. */
enum kv_status clientk_add(struct clientk *client, struct kv_slice key, int64_t delta,
                           const struct clientk_add_options *options, int64_t *sum,
                           uint64_t *version);

/* Appends `suffix` to the value. *value_bytes (may be NULL): the new size. */
enum kv_status clientk_append(struct clientk *client, struct kv_slice key, struct kv_slice suffix,
                              const struct clientk_write_options *options, uint64_t *value_bytes,
                              uint64_t *version);

/* Puts `value` and returns the old value in *old. *found (may be NULL): whether there was one. */
enum kv_status clientk_exchange(struct clientk *client, struct kv_slice key, struct kv_slice value,
                                const struct clientk_write_options *options,
                                struct clientk_value *old, bool *found, uint64_t *version);

/* Sets the expiry of the entry to expiry_ms, in milliseconds since 1970; 0: it never expires. */
enum kv_status clientk_touch(struct clientk *client, struct kv_slice key, uint64_t expiry_ms,
                             const struct clientk_write_options *options, uint64_t *version);

/* One entry of a scan; the slices live until the visitor returns. Return false to stop. */
struct clientk_entry {
    struct kv_slice key;
    struct kv_slice value;
    uint64_t version;
    uint64_t expiry_ms;
};
typedef bool (*clientk_visit)(void *context, const struct clientk_entry *entry);

/* Calls visit(context, entry) for the entries whose key begins with `prefix`, page by page, from
 * *cursor on (0, or cursor NULL: from the start), until the end, until `limit` entries (0: no
 * limit) were visited, or until `visit` returns false. *cursor: where to continue, 0: nothing is
 * left. An entry that exists all the while is visited exactly once. A visitor that stops the scan
 * leaves *cursor at the beginning of its page, some of which may then be visited again: to continue
 * later, give a limit instead. KV_BAD_REQUEST: *cursor comes from no scan of this store: begin
 * again. KV_CORRUPT, KV_IO: a record is damaged, or cannot be read; clientk_last_error names the
 * data file and the offset. If *cursor has changed, the entries before that record were visited and
 * *cursor is behind it (0: nothing follows): call again, with what is left of the limit, for the
 * rest. */
enum kv_status clientk_scan(struct clientk *client, struct kv_slice prefix, bool keys_only,
                            uint64_t *cursor, uint64_t limit, clientk_visit visit, void *context);

/* Visits all entries whose key begins with `prefix`, as clientk_scan does, each data file as it was
 * at one moment: the server reads a file without releasing its reader lock.
 * Between two files others may write; a store of one data file is seen whole. KV_BUFFER_TOO_SMALL:
 * the entries of a file are more than the largest answer holds (about max_value_bytes); KV_LIMIT:
 * reading them would take longer than the server holds a lock. */
enum kv_status clientk_scan_atomic(struct clientk *client, struct kv_slice prefix, bool keys_only,
                                   clientk_visit visit, void *context);

/* Deletes all entries whose key begins with `prefix` (empty: all entries), from *cursor on (0, or
 * cursor NULL: from the start): a scan, and deletes in batches. This is not atomic: others read and
 * write meanwhile. Entries that were there before are deleted; an entry that is put meanwhile may
 * be deleted or not. *deleted (may be NULL): how many entries were deleted, whatever the status.
 * *cursor: where to continue after a failure (0: from the start); if it is not 0 after KV_OK, the
 * call was interrupted. KV_CORRUPT, KV_IO: a failure; or records that are damaged or cannot be read
 * were left out, as clientk_last_error then says: if *cursor is 0, everything else is done. */
enum kv_status clientk_delete_prefix(struct clientk *client, struct kv_slice prefix,
                                     uint64_t *cursor, uint64_t *deleted);

/* Calls visit(context, entry) for the entries of *page, the value of the result of a CLIENTK_SCAN.
 * KV_IO: the page is malformed. */
enum kv_status clientk_read_page(const struct clientk_value *page, clientk_visit visit,
                                 void *context);

/* Ranges: keys in the order of their bytes, of a server with --ordered ------------------------- */

/* Which keys, in the order of their bytes (as memcmp; a prefix before what it begins). {0}: all. */
struct clientk_range {
    struct kv_slice from;   /* the first; empty: from the first one that there is */
    struct kv_slice to;     /* behind the last, itself not meant; empty: to the end */
    struct kv_slice prefix; /* only keys that begin with it */
    bool behind_from;       /* `from` itself is not meant */
    bool reverse;           /* the last one first */
    bool keys_only;         /* a cursor gives no values */
    bool atomic;    /* a cursor gives the entries as they were at one moment; without limit */
    uint32_t page;  /* entries that a cursor asks for at once, at most 4,096; 0: 1,000 */
    uint64_t limit; /* entries that a cursor gives, or that are deleted; 0: no limit */
    enum clientk_durability durability; /* of deletions */
    bool no_wait;                       /* KV_BUSY at once while the server builds the order */
    uint64_t reserved[4];
};

struct clientk_cursor;

/* Makes a cursor, *cursor, at the beginning of *range, whose keys are copied; nothing is sent yet.
 * One thread at a time uses it; it is closed before the handle. KV_OK; KV_USAGE, KV_BAD_KEY,
 * KV_UNSUPPORTED (reserved), KV_NO_MEMORY. */
enum kv_status clientk_cursor_open(struct clientk *client, const struct clientk_range *range,
                                   struct clientk_cursor **cursor);

/* Gives the next entry; its slices live until the next call for the cursor. KV_NOT_FOUND: there is
 * none any more. Entries come page by page: those of a page from the server are as they were at one
 * moment, in all of the store. A page that is read in place (direct) has all of a transaction or
 * nothing, but others may write meanwhile, as they may between two pages. A page of more than 8 KiB
 * may have fewer entries than it could: it ends where transactions disturbed it, or where the
 * largest answer does; what follows is another page. Each key that is there all the while comes
 * exactly once, in order, also over restarts of the server, since the cursor's place is a key.
 *
 * KV_CORRUPT, KV_IO: records that are damaged or cannot be read were left out, as
 * clientk_last_error says: call again to go on. KV_UNSUPPORTED: the server keeps no order (serverk
 * --ordered), its data are in a cluster, or it is too old. KV_BUSY: the server was still building
 * the order when timeout_ms were over; clientk_scan works meanwhile. KV_LIMIT,
 * KV_BUFFER_TOO_SMALL: atomic, and the range has more than 4,096 entries, or more bytes than the
 * largest answer holds. Others, as KV_TIMEOUT: call again to try once more. */
enum kv_status clientk_cursor_next(struct clientk_cursor *cursor, struct clientk_entry *entry);

/* Frees the cursor. NULL is harmless. */
void clientk_cursor_close(struct clientk_cursor *cursor);

/* Counts the entries of the range, of which only the bounds mean something: *count is how many were
 * counted, whatever the status. In a large range others write meanwhile. Fails as
 * clientk_cursor_next; KV_CORRUPT, KV_IO: all but those left out were counted. */
enum kv_status clientk_count_range(struct clientk *client, const struct clientk_range *range,
                                   uint64_t *count);

/* Deletes the entries of the range, at most `limit` of them, at the cost of what it deletes. This
 * is not atomic: others read and write meanwhile; an entry that is put meanwhile may be deleted or
 * not. *deleted (may be NULL): how many entries were deleted, whatever the status (with
 * repeat_writes perhaps more), and how many so far whenever clientk_options.interrupted is invoked,
 * which it is after each step. Fails as clientk_cursor_next and clientk_delete; KV_CORRUPT, KV_IO:
 * perhaps all but those left out were deleted, as clientk_last_error says. KV_DENIED: the user may
 * not write all of the range (the prefix, or both ends, must lie in what the user may write). */
enum kv_status clientk_delete_range(struct clientk *client, const struct clientk_range *range,
                                    uint64_t *deleted);

/* The server ----------------------------------------------------------------------------------- */

/* Returns the server's statistics in *json, as JSON text. section: one part of them; NULL: all. */
enum kv_status clientk_stats(struct clientk *client, const char *section,
                             struct clientk_value *json);

/* Makes an empty round trip. *round_trip_ns (may be NULL): how long it took. */
enum kv_status clientk_ping(struct clientk *client, uint64_t *round_trip_ns);

/* Waits until everything that was written before is on disk. */
enum kv_status clientk_sync(struct clientk *client);

/* Executes an administrative command with its argument, for the server's own user and root:
 * KV_DENIED for others. clientk(1) has these commands as its own: config, kill, slow, hotkeys.
 * *answer (may be NULL): the text of the command; after a failure of the command, the sentence
 * about it, as clientk_last_error. KV_NOT_FOUND: the server knows no such command; KV_UNSUPPORTED:
 * the server is too old to have any. */
enum kv_status clientk_admin(struct clientk *client, const char *command, struct kv_slice argument,
                             struct clientk_value *answer);

/* Batches: many operations in few messages ----------------------------------------------------- */

enum clientk_opcode {
    CLIENTK_GET = 1,
    CLIENTK_EXISTS,
    CLIENTK_PUT,
    CLIENTK_DELETE,
    CLIENTK_ADD,
    CLIENTK_APPEND,
    CLIENTK_EXCHANGE,
    CLIENTK_TOUCH,
    CLIENTK_SCAN,  /* one page; key: the prefix, may be empty */
    CLIENTK_STATS, /* key: the section, empty: all; the value is JSON text */
    CLIENTK_PING,
    CLIENTK_SYNC,   /* what was complete before it was submitted is on disk when it is complete */
    CLIENTK_BACKUP, /* key: what docs/PROTOCOL.md says of BACKUP, for the server's own user; servers
                       up to 0.1.0 give KV_UNSUPPORTED */
    CLIENTK_ADMIN   /* key: a command, value: its argument: see clientk_admin */
};

/* The options of one page of a scan. */
struct clientk_scan_options {
    bool keys_only;
    bool atomic;     /* whole data files, each seen at one moment: see clientk_scan_atomic */
    uint32_t limit;  /* entries, about; 0: as many as the server likes */
    uint64_t cursor; /* 0: from the start; else the number that the last page gave */
    uint64_t reserved[2];
};

/* One operation. Key and value are borrowed until the call returns. */
struct clientk_operation {
    enum clientk_opcode opcode;
    struct kv_slice key;
    struct kv_slice value;
    struct clientk_write_options write; /* every write but ADD; TOUCH: also its expiry_ms */
    int64_t delta;                      /* ADD */
    struct clientk_add_options add;     /* ADD */
    struct clientk_scan_options scan;   /* SCAN */
    uint64_t reserved[2];
};

struct clientk_result {
    enum kv_status status;
    bool found;     /* EXCHANGE */
    int64_t number; /* ADD: the sum; APPEND: the new size; SCAN: the next cursor, 0: done */
    struct clientk_value value; /* version of writes too; memory as said at clientk_value. SCAN: for
                                   clientk_read_page; with KV_CORRUPT or KV_IO and a version not 0
                                   the page ends at a record that is damaged or cannot be read,
                                   number is the cursor behind it, the version its offset */
    uint64_t reserved[2];
};

/* Executes `count` operations in order, in as few messages as possible, and fills the same number
 * of results. Returns KV_OK if all were executed, whatever their statuses, else the error that
 * stopped the batch: operations that were sent then have the status KV_TIMEOUT or
 * KV_OUTCOME_UNKNOWN; those that surely were not executed have KV_DEADLINE, KV_NO_SERVER, or that
 * error. The batch is not atomic as a whole. */
enum kv_status clientk_execute(struct clientk *client, const struct clientk_operation *operations,
                               size_t count, struct clientk_result *results);

/* Transactions: several keys change together, or none ------------------------------------------ */

#define CLIENTK_MAX_TRANSACTION_STEPS 128u /* guards, and operations of both lists, together */

/* What must hold of an entry. One that has expired is absent. */
enum clientk_guard_kind {
    CLIENTK_GUARD_VERSION = 1, /* it has this version; 0: the key is absent */
    CLIENTK_GUARD_PRESENT,
    CLIENTK_GUARD_ABSENT,
    CLIENTK_GUARD_VALUE /* it has this value */
};

struct clientk_guard {
    enum clientk_guard_kind kind;
    struct kv_slice key;
    struct kv_slice value; /* VALUE */
    uint64_t version;      /* VERSION */
    uint64_t reserved[1];
};

/* The operations may be GET, EXISTS, PUT, DELETE, ADD, APPEND and TOUCH, without conditions (guards
 * are there for these), give_version and durability. Reads see what was there before the
 * transaction; a list writes a key once at most. Keys and values are borrowed until the call
 * returns. */
struct clientk_transaction {
    const struct clientk_guard *guards;
    size_t guard_count;
    const struct clientk_operation *then; /* done if all guards hold, */
    size_t then_count;
    const struct clientk_operation *otherwise; /* and this if one does not */
    size_t otherwise_count;
    enum clientk_durability durability;
    uint64_t reserved[4];
};

enum clientk_outcome {
    CLIENTK_FAILED, /* nothing has changed */
    CLIENTK_DONE,   /* all guards held: `then` was done */
    CLIENTK_ELSE,   /* one did not: `otherwise` was done */
    CLIENTK_UNKNOWN /* one of the lists was done, or perhaps; or done, but not on disk */
};

/* What a place in struct clientk_transacted is about. */
enum clientk_part { CLIENTK_PART_NONE, CLIENTK_PART_GUARD, CLIENTK_PART_THEN, CLIENTK_PART_ELSE };

struct clientk_transacted {
    enum clientk_outcome outcome;
    enum clientk_part part; /* of FAILED: where it failed, if that is known, */
    size_t at;              /* and which guard or operation there */
    size_t guard;           /* of ELSE: the first guard that did not hold */
    size_t results;         /* how many were filled in */
    uint64_t reserved[4];
};

/* Checks the guards and executes one of the lists, as one step: others see all of it or nothing,
 * and so does the store after a crash. `results`, with room for the longer list: of the operations
 * of the list that was done; a DELETE or TOUCH of a key that is absent, or a read of it, is
 * KV_NOT_FOUND there and no failure. A list that has no write only reads, all of it at one moment.
 *
 * KV_OK: a list was done, perhaps an empty one. Otherwise transacted->outcome (may be NULL) tells
 * what became of it, and clientk_last_error which guard or operation failed. Nothing has changed
 * after any status that an operation has, as KV_OUT_OF_BOUNDS, where the result of that operation
 * has the number that is there; KV_DENIED: also if the user lacks a right for the list that would
 * not have been done; KV_LIMIT: appends and touches would write more than 64 MiB of values anew;
 * KV_UNSUPPORTED: the server is older, or its data are in a cluster and the keys in several shards.
 * A GET whose value others have made larger than the largest reply meanwhile has the result
 * KV_BUFFER_TOO_SMALL, and the rest is done. KV_USAGE, as for impossible options: too many steps,
 * or a key that is written twice. */
enum kv_status clientk_transact(struct clientk *client,
                                const struct clientk_transaction *transaction,
                                struct clientk_result *results,
                                struct clientk_transacted *transacted);

/* Reads `count` keys, 128 at most, at one moment: results[i] is what clientk_get gives for keys[i].
 * KV_OK, whatever their statuses. As clientk_get, it needs no message where reads need none. */
enum kv_status clientk_get_together(struct clientk *client, const struct kv_slice *keys,
                                    size_t count, struct clientk_result *results);

/* Decides what is to be written where entries[i] is what is at keys[i] (KV_NOT_FOUND: nothing):
 * sets then and then_count of *transaction, and durability if it likes, and nothing else. What
 * these point at stays until it is called again or the loop returns. Any status but KV_OK ends the
 * loop with that status, and nothing has changed. */
typedef enum kv_status (*clientk_compute)(void *context, const struct clientk_result *entries,
                                          struct clientk_transaction *transaction);

/* An optimistic loop: reads the keys at one moment, has `compute` decide, and does what it says if
 * none of the keys has changed meanwhile; else begins anew, `tries` times in all (0: 100).
 * `results`: as clientk_transact, of `then`; with room for what `compute` gives. KV_OK: done.
 * KV_VERSION_MISMATCH: a key had changed every time, and transacted->guard is its number. Others as
 * clientk_transact; timeout_ms is that of each message. */
enum kv_status clientk_transact_loop(struct clientk *client, const struct kv_slice *keys,
                                     size_t count, clientk_compute compute, void *context,
                                     uint32_t tries, struct clientk_result *results,
                                     struct clientk_transacted *transacted);

/* Pipelines: several messages in flight -------------------------------------------------------- */

struct clientk_pipeline;

/* Completes one operation that was submitted with `tag`. Called once for each, from within calls of
 * the pipeline, in the thread that makes them. It must not use the pipeline (KV_USAGE), but see
 * clientk_pipeline_fd. result->value lives until it returns. */
typedef void (*clientk_complete)(void *context, void *tag, const struct clientk_result *result);

/* Opens a pipeline, *pipeline: a session of its own, for one thread at a time, which may outlive
 * the handle. window: how many messages may be in flight (0, or more than the server grants: as
 * many as it grants); batch: how many operations a message may have (0: as many as fit); complete:
 * is called with `context`. Fails as clientk_open does. */
enum kv_status clientk_pipeline_open(struct clientk *client, uint32_t window, uint32_t batch,
                                     clientk_complete complete, void *context,
                                     struct clientk_pipeline **pipeline, struct kv_error *error);

/* Adds a copy of *operation, its key and value included; sends a message if one is full, and waits
 * for room in the window. Operations on one key take effect in the order of submission. KV_OK: the
 * operation will be completed, with `tag`; any other status: it was not added. */
enum kv_status clientk_pipeline_submit(struct clientk_pipeline *pipeline,
                                       const struct clientk_operation *operation, void *tag);

/* Sets the priority of operations that are submitted from now on; at first it is that of the
 * handle. Earlier operations keep theirs, and messages of different priority may be in flight
 * together; an operation still waits for those before it on the same key. KV_OK; KV_USAGE. */
enum kv_status clientk_pipeline_set_priority(struct clientk_pipeline *pipeline, unsigned priority);

/* Waits until all operations are complete. KV_OK, whatever their statuses; or the first status
 * since the last flush that stopped a message. */
enum kv_status clientk_pipeline_flush(struct clientk_pipeline *pipeline);

/* Event loops: a pipeline of a program that waits itself, for many things at once.
 *
 * clientk_pipeline_fd hands the pipeline, which must have nothing pending, to the program's loop,
 * and returns a descriptor for poll(2), epoll(7) and the like. The descriptor is readable when
 * there is something to do: replies, the end of the server, room in a request queue that was full,
 * a time that has come. It stays the same when the pipeline reconnects, and is closed with the
 * pipeline. -1: KV_LIMIT, KV_NO_MEMORY or KV_USAGE, as clientk_last_error says.
 *
 * From then on only flush and close wait. Submit copies what cannot be sent yet, and `complete` may
 * call it, too. An operation that cannot be sent is completed within timeout_ms of its submission,
 * one that was sent within timeout_ms of its sending. clientk_pipeline_pending helps to limit how
 * much is kept. */
int clientk_pipeline_fd(struct clientk_pipeline *pipeline);

/* Completes operations whose replies have come, and sends what was submitted, without waiting. The
 * program calls this when the descriptor is readable, and after it has submitted operations outside
 * of `complete`. One call processes a limited number of messages; the descriptor stays readable
 * while there are more. KV_OK; KV_LIMIT, KV_NO_MEMORY: the descriptor may miss something, call
 * again soon; KV_USAGE. */
enum kv_status clientk_pipeline_process(struct clientk_pipeline *pipeline);

/* Returns the number of operations that were submitted and are not complete. */
size_t clientk_pipeline_pending(const struct clientk_pipeline *pipeline);

/* Flushes the pipeline and frees it. NULL is harmless. */
void clientk_pipeline_close(struct clientk_pipeline *pipeline);

/* Changes: a watch tells what is put, deleted or expires --------------------------------------- */

struct clientk_watch;

enum clientk_change_kind {
    CLIENTK_CHANGE_PUT = 1, /* by whatever operation: value is the whole new value */
    CLIENTK_CHANGE_DELETE,  /* the key was removed */
    CLIENTK_CHANGE_EXPIRE   /* its time, expiry_ms, was over, and the entry was taken out */
};

/* One change; the slices live until the next call for the watch. */
struct clientk_change {
    enum clientk_change_kind kind;
    struct kv_slice key;
    struct kv_slice value; /* of a put; empty with keys_only */
    uint64_t version;      /* higher than that of every earlier change of the key */
    uint64_t expiry_ms;    /* of a put: since 1970, 0: never */
};

struct clientk_watch_options {
    struct kv_slice prefix; /* of the keys; empty: all. Copied */
    const char *since;      /* a text of clientk_watch_position: begin there; NULL: now */
    bool keys_only;         /* without the values */
    uint8_t reserved_bytes[7];
    uint64_t reserved[4];
};

/* Opens a watch, *watch: a session of its own, for one thread at a time, which may outlive the
 * handle. It tells each change that is made after this call has returned once; changes of one key
 * come in the order of their versions, those of different keys in any order. Restarts of the server
 * do not end the watch. options NULL: all changes from now on. Fails as clientk_open does;
 * KV_UNSUPPORTED: the server is older, or its data are elsewhere; KV_USAGE. */
enum kv_status clientk_watch_open(struct clientk *client,
                                  const struct clientk_watch_options *options,
                                  struct clientk_watch **watch, struct kv_error *error);

/* Returns the next change in *change. timeout_ms: how long to wait for one; 0: not at all; below 0:
 * for ever. KV_OK; KV_TIMEOUT: there is none yet (a server that is silent is asked again, and
 * nothing tells so), or the wait was interrupted; KV_MISSED: there were changes that the server
 * does not know any more (serverk --keep-changes), and the watch continues with those of now, so
 * that a copy of the entries has to be read anew. Others, as KV_NO_SERVER and KV_OVERLOADED: call
 * again, after a while, to continue. */
enum kv_status clientk_watch_next(struct clientk_watch *watch, int timeout_ms,
                                  struct clientk_change *change);

/* To which transaction a change belongs. All zeros: to none of several changes. */
struct clientk_change_transaction {
    uint64_t
        number;     /* the same in all of its changes; 0: they lie in one data file of the server */
    uint32_t parts; /* with a number: how many data files it has changed; 0: not known */
    bool goes_on;   /* the next change that the watch returns belongs to it, too */
    uint8_t reserved_bytes[3];
    uint64_t reserved[2];
};

/* Tells about the change that clientk_watch_next has returned last. The changes of a transaction in
 * one data file, its part, come one behind the other, the last without goes_on; the parts, which
 * have its number, in any order, others between them. A program has all of a transaction when it
 * has `parts` parts, or one where the number is 0; also over a new watch that continues at a
 * position behind a part. A part in which the program may see no key, or none with the prefix, does
 * not come, and nothing tells so. Numbers ascend from one transaction to the next. KV_OK; KV_USAGE:
 * no change was returned yet. A server that does not tell gives all zeros. */
enum kv_status clientk_watch_transaction(const struct clientk_watch *watch,
                                         struct clientk_change_transaction *transaction);

/* Returns a descriptor for poll(2), epoll(7) and the like. When it is readable, the program calls
 * clientk_watch_next with timeout_ms 0 until that returns KV_TIMEOUT. The descriptor stays the same
 * when the watch reconnects, and is closed with the watch. -1: KV_USAGE. */
int clientk_watch_fd(struct clientk_watch *watch);

/* Returns the place behind the last change that clientk_watch_next has returned in *text (letters,
 * digits, '-', '_', '.'; about 27 bytes for each data file of the server): a watch that is opened
 * with this text continues there, also after restarts of program and server. KV_OK;
 * KV_NO_MEMORY. */
enum kv_status clientk_watch_position(struct clientk_watch *watch, struct clientk_value *text);

/* Ends the session of the watch and frees it. NULL is harmless. */
void clientk_watch_close(struct clientk_watch *watch);

/* Facts ---------------------------------------------------------------------------------------- */

struct clientk_info {
    uint32_t server_pid;
    uint64_t max_value_bytes;
    uint32_t sessions;                 /* of this handle */
    uint32_t reply_depth, reply_bytes; /* geometry of its first reply queue or ring */
    uint32_t lane_bytes, bulk_bytes;   /* the largest messages that the server takes */
    uint64_t messages;                 /* sent by this handle */
    uint64_t operations;               /* in them */
    uint64_t reconnects;
    const char *replies;        /* "shared" or "queue": how replies come in its first session */
    const char *replies_reason; /* why not through shared memory; NULL: they come so */
    uint64_t direct_reads;      /* operations that needed no message */
    uint64_t direct_asks;       /* direct reads that were tried in vain, and went by message */
    const char *direct_reason;  /* a sentence: why reads go as they do; it lives for ever */
    enum clientk_direct direct; /* how they go now: OFF (by message), MAP, PREAD */
    uint32_t read_only;         /* 1: the server lets this user read only (serverk --read-group) */
    uint32_t in_cluster;        /* 1: the server's data are in a cluster (serverk --engine nats) */
    uint32_t reserved[3];
};
/* Fills in *info; with zeros if `client` is no handle of this process. */
void clientk_info(struct clientk *client, struct clientk_info *info);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
