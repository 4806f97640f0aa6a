/*
 * direct: reads without messages (DIRECT in clientk(3)), as the calls of a handle use them.
 *
 * Linearizable, together with all reads and writes by message. A write by message is answered after
 * the daemon has stored the slot that shows it; a slot that was stored is seen by every later look,
 * of any process. So a direct read that begins after a write was answered sees it, and one that
 * begins after another read saw something, whichever way, sees that or something later. What a
 * look gives was so at one moment between its beginning and its end (direct_read.h). A thread
 * therefore reads its own writes, and those of other threads of its handle, as soon as their calls
 * have returned. A write that is under way, in another thread, in a pipeline, or after KV_TIMEOUT
 * or KV_OUTCOME_UNKNOWN, takes effect at a moment that nobody knows yet: a direct read sees it or
 * not, as one by message would. Expired entries are told by CLOCK_REALTIME of this process, which
 * is the daemon's.
 *
 * When the daemon is replaced: the next one serves the same object or retires it before it answers
 * anything, so that a reader that finds it in use reads what counts. If it cannot find it (its name
 * was removed), readers see that the daemon has ended. A daemon that makes the object anew, since
 * its name was removed, retires the old one before anything changes in the new one alone; readers
 * ask by message until they have found that. All of that is looked at after the last byte
 * was read: a reader may have stood still at any instruction, for as long as all of that takes.
 *
 * Threads: any. The handle's threads share one struct direct; each has a struct direct_reader.
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
#include "mqkv/clientk.h"
#include "wire/message.h"

struct direct {
    struct direct_readers readers;
    struct direct_store *_Atomic store; /* NULL: reads go by message */
    atomic_bool has_offer;              /* that was not taken up yet, */
    _Atomic uint64_t look_ms;           /* nor is to be looked at before (coarse clock) */
    enum clientk_direct mode;           /* constant, as is the next */
    uint32_t stale_ms;

    pthread_mutex_t lock; /* guards the rest, and who changes `store` */
    struct direct_offer offer;
    enum direct_reason reason;
};

void direct_init(struct direct *direct, const struct client_settings *settings);

/* No thread may be in a call. */
void direct_free(struct direct *direct);

/* A session began: what WELCOME says, who the server is. The descriptor stays the caller's.
 * What is offered is looked at by the first read that could use it, and by later ones while its
 * object is not there. */
void direct_welcome(struct direct *direct, const struct wire_welcome *welcome, uid_t server_uid,
                    struct direct_server server);

/* Reads one key, 1 to 65,535 bytes. True: *status is the read's; false: by message. */
bool direct_get(struct direct *direct, struct direct_reader *reader, struct kv_slice key,
                bool with_bytes, struct clientk_value *value, enum kv_status *status);

/* Executes the operations, in order, if all of them are GET or EXISTS, as far as that goes without
 * a message. Returns how many, from the first on, were executed. */
size_t direct_execute(struct direct *direct, struct direct_reader *reader,
                      const struct clientk_operation *operations, size_t count,
                      struct clientk_result *results);

/* Whether reads may go without messages: what a call looks at first. */
static inline bool direct_is_on(const struct direct *direct)
{
    return atomic_load_explicit(&direct->store, memory_order_relaxed) != NULL ||
           atomic_load_explicit(&direct->has_offer, memory_order_relaxed);
}

/* How often a read is begun: again, once, when the daemon is seen to have ended meanwhile. */
#define DIRECT_ATTEMPTS 2u

/* How long it takes until an offer whose object was not there is looked at again. */
#define DIRECT_LOOK_PAUSE_MS 1000u

/* Begins to read: the store to read from, which stays until direct_end; NULL: by message, and
 * nothing is to be ended. */
struct direct_store *direct_begin(struct direct *direct, struct direct_reader *reader);

/* Ends it. False: the object was put out of use, or the daemon is not seen to run any more, so that
 * another one may have freed what was read: it counts for nothing. (What follows from an end that
 * was known when the read began, the read itself looks at: direct_look_counts.) */
static inline bool direct_end(struct direct_store *store, struct direct_reader *reader)
{
    const struct shared_store *header = (const struct shared_store *)direct_store_view(store)->base;
    bool counts =
        direct_store_is_usable(store, header) && direct_store_has_ended(store) == reader->saw_end;
    direct_reader_end(reader);
    return counts;
}

/* For clientk_info. Takes up what is offered. */
void direct_add_info(struct direct *direct, struct clientk_info *info);

#endif
