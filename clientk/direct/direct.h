/*
 * direct: reads without messages (DIRECT in clientk(3)), as the calls of a handle use them.
 *
 * Direct reads are linearizable, together with all reads and writes by message. The daemon answers
 * a write after it has stored the slot that shows the write, and every later look, of any process,
 * sees a slot that was stored. So a direct read that begins after a write was answered sees that
 * write, and a read that begins after another read saw a state, either way, sees that state or a
 * later one. What a look gives was so at one moment between its beginning and its end
 * (direct_read.h). A thread therefore reads its own writes, and those of other threads of its
 * handle, as soon as their calls have returned. A write that is under way, in another thread, in a
 * pipeline, or after KV_TIMEOUT or KV_OUTCOME_UNKNOWN, takes effect at a moment that nobody knows
 * yet: a direct read sees it or not, as a read by message would. Entries expire by CLOCK_REALTIME
 * of this process, which is also the daemon's.
 *
 * When a daemon is replaced, the next one serves the same object, or retires it before it answers
 * anything; so what a reader finds in use counts. If the next daemon cannot find the object,
 * because its name was removed, readers see that the first daemon has ended. A daemon that makes a
 * new object, because the name was removed, retires the old object before anything changes in the
 * new one alone; readers ask by message until they have found the new one. A reader checks all of
 * this after it has read the last byte: it may have stood still at any instruction, for as long as
 * all of that takes.
 *
 * Threads: any. The threads of a handle share one struct direct; each has a struct direct_reader.
 */
#ifndef MQKV_CLIENTK_DIRECT_DIRECT_H
#define MQKV_CLIENTK_DIRECT_DIRECT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "clientk/base/client_settings.h"
#include "clientk/direct/direct_readers.h"
#include "clientk/direct/direct_reason.h"
#include "clientk/direct/direct_store.h"
#include "clientk/direct/direct_telling.h"
#include "mqkv/clientk.h"
#include "wire/message.h"

struct direct {
    struct direct_readers readers;
    struct direct_telling telling;
    struct direct_store *_Atomic store; /* NULL: reads go by message */
    atomic_bool has_offer;              /* there is an offer that was not taken up yet ... */
    _Atomic uint64_t look_ms;           /* ... and is to be looked at then (coarse clock) */
    enum clientk_direct mode;           /* constant, as is stale_ms */
    uint32_t stale_ms;

    pthread_mutex_t lock; /* guards the rest, and changes of `store` */
    struct direct_offer offer;
    enum direct_reason reason;
};

/* Prepares `direct` for a handle with these settings, before its first session. */
void direct_init(struct direct *direct, const struct client_settings *settings);

/* Closes the store and the offer. No thread may be in a call. */
void direct_free(struct direct *direct);

/* Notes that a session has begun: its *welcome, the uid of the server, and its descriptor, which
 * stays the caller's. The first read that could use the offer looks at it, and so do later ones
 * while the object is not there. */
void direct_welcome(struct direct *direct, const struct wire_welcome *welcome, uid_t server_uid,
                    struct direct_server server);

/* Reads `key` into *value; only version, expiry and size if !with_bytes. True: *status is that of
 * the read; false: the read has to go by message. */
bool direct_get(struct direct *direct, struct direct_reader *reader, struct kv_slice key,
                bool with_bytes, struct clientk_value *value, enum kv_status *status);

/* Executes `count` operations in order, if all of them are GET or EXISTS, as far as that goes
 * without a message, and fills `results`. Returns how many, from the first on, were executed. */
size_t direct_execute(struct direct *direct, struct direct_reader *reader,
                      const struct clientk_operation *operations, size_t count,
                      struct clientk_result *results);

/* Returns true if the operation can be executed without a message. */
bool direct_may_execute(const struct clientk_operation *operation);

/* Notes that `count` operations were executed without a message, with these results. looked_ms: the
 * tick at which the server was seen last. */
void direct_note_results(struct direct *direct, struct direct_reader *reader,
                         const struct clientk_result *results, size_t count, uint64_t looked_ms);

/* Returns true if reads may go without messages: a call looks at this first. */
static inline bool direct_is_on(const struct direct *direct)
{
    return atomic_load_explicit(&direct->store, memory_order_relaxed) != NULL ||
           atomic_load_explicit(&direct->has_offer, memory_order_relaxed);
}

/* How often a read is begun: once more if the daemon turns out to have ended meanwhile. */
#define DIRECT_ATTEMPTS 2u

/* How long it takes until an offer whose object was not there is looked at again, in
 * milliseconds. */
#define DIRECT_LOOK_PAUSE_MS 1000u

/* Begins to read. Returns the store to read from, which stays until direct_end; NULL: reads go by
 * message, and there is nothing to end. */
struct direct_store *direct_begin(struct direct *direct, struct direct_reader *reader);

/* Ends what direct_begin began. False: what was read does not count, since the object was put out
 * of use, or the daemon does not seem to run any more, so that another one may have freed what was
 * read. (If the end of the daemon was known when the read began, the read itself checks:
 * direct_look_counts.) */
static inline bool direct_end(struct direct_store *store, struct direct_reader *reader)
{
    const struct shared_store *header = (const struct shared_store *)direct_store_view(store)->base;
    bool counts =
        direct_store_is_usable(store, header) && direct_store_has_ended(store) == reader->saw_end;
    direct_reader_end(reader);
    return counts;
}

/* Adds to *info how reads go, and why; looks at an offer before. */
void direct_add_info(struct direct *direct, struct clientk_info *info);

#endif
