#include "clientk/direct/direct.h"

#include <fcntl.h>
#include <unistd.h>

#include "clientk/direct/direct_read.h"
#include "common/assert/assert.h"
#include "common/memory/reserved.h"
#include "wire/operation.h"

/* How many keys of a batch are looked for together: the cache lines of some come while others are
 * looked at. */
#define KEYS_TOGETHER 16u

void direct_init(struct direct *direct, const struct client_settings *settings)
{
    *direct = (struct direct){.mode = settings->direct,
                              .stale_ms = settings->direct_stale_ms,
                              .offer = {.server = {.fd = -1}}};
    if (direct->mode == CLIENTK_DIRECT_OFF)
        direct->reason = DIRECT_SWITCHED_OFF;
    direct_readers_init(&direct->readers);
    direct_telling_init(&direct->telling);
    pthread_mutex_init(&direct->lock, NULL);
}

/* Returns true if some thread holds direct->lock; for assertions. */
static bool direct_is_locked(struct direct *direct)
{
    if (pthread_mutex_trylock(&direct->lock) != 0)
        return true;
    pthread_mutex_unlock(&direct->lock);
    return false;
}

static void drop_offer(struct direct *direct)
{
    if (direct->offer.server.fd >= 0)
        close(direct->offer.server.fd);
    direct->offer.server.fd = -1;
    atomic_store(&direct->has_offer, false);
}

void direct_free(struct direct *direct)
{
    drop_offer(direct);
    direct_readers_release_all(&direct->readers);
    direct_store_close(atomic_load(&direct->store));
    direct_telling_free(&direct->telling);
    pthread_mutex_destroy(&direct->lock);
}

/* Offers --------------------------------------------------------------------------------------- */

/* Holds: direct->lock. */
static void replace_store(struct direct *direct, struct direct_store *store)
{
    struct direct_store *old = atomic_exchange(&direct->store, store);
    KV_ASSERT(direct_is_locked(direct));
    if (old)
        direct_readers_retire(&direct->readers, &old->retired);
}

/* Returns true if the offer of *welcome is in use, or was made before. Holds: direct->lock. */
static bool offer_is_known(const struct direct *direct, const struct wire_welcome *welcome)
{
    const struct direct_offer *offer = &direct->offer;
    bool taken_up = atomic_load(&direct->store) || atomic_load(&direct->has_offer);
    return taken_up && offer->server_instance == welcome->instance &&
           offer->device == welcome->store_device && offer->inode == welcome->store_inode &&
           offer->number == welcome->store_number;
}

void direct_welcome(struct direct *direct, const struct wire_welcome *welcome, uid_t server_uid,
                    struct direct_server server)
{
    if (direct->mode == CLIENTK_DIRECT_OFF)
        return;
    pthread_mutex_lock(&direct->lock);
    enum direct_reason reason = welcome->direct == WIRE_DIRECT_OFFERED  ? DIRECT_IN_USE
                                : welcome->direct == WIRE_DIRECT_OTHERS ? DIRECT_OFFERED_TO_OTHERS
                                                                        : DIRECT_NOT_OFFERED;
    if (reason != DIRECT_IN_USE || !offer_is_known(direct, welcome)) {
        replace_store(direct, NULL);
        drop_offer(direct);
        direct->reason = reason;
        direct->offer = (struct direct_offer){.server_instance = welcome->instance,
                                              .device = welcome->store_device,
                                              .inode = welcome->store_inode,
                                              .number = welcome->store_number,
                                              .server_uid = server_uid,
                                              .of_any_user = direct->mode != CLIENTK_DIRECT_AUTO,
                                              .server = {.fd = -1, .is_lane = server.is_lane}};
        if (reason == DIRECT_IN_USE)
            direct->offer.server.fd = fcntl(server.fd, F_DUPFD_CLOEXEC, 0);
        if (reason == DIRECT_IN_USE && direct->offer.server.fd < 0)
            direct->reason = DIRECT_NO_MEMORY;
        atomic_store(&direct->look_ms, 0);
        atomic_store(&direct->has_offer, direct->offer.server.fd >= 0);
    }
    pthread_mutex_unlock(&direct->lock);
}

/* Returns true if the reason may pass: a server that sees that its object was removed makes a new
 * one. */
static bool object_may_come(enum direct_reason reason)
{
    return reason == DIRECT_NO_OBJECT || reason == DIRECT_OBJECT_FOREIGN ||
           reason == DIRECT_DAMAGED || reason == DIRECT_SERVER_ENDED;
}

/* Looks at the offer, now and then for as long as its object is not there. */
__attribute__((noinline)) static void take_up_offer(struct direct *direct)
{
    if (clock_monotonic_coarse_ms() < atomic_load_explicit(&direct->look_ms, memory_order_relaxed))
        return;
    pthread_mutex_lock(&direct->lock);
    if (atomic_load(&direct->has_offer)) {
        KV_ASSERT(direct_is_locked(direct));
        KV_ASSERT(direct->offer.server.fd >= 0 && direct->mode != CLIENTK_DIRECT_OFF);
        struct direct_store *store =
            direct_store_open(&direct->offer, direct->mode != CLIENTK_DIRECT_PREAD,
                              direct->stale_ms, &direct->readers, &direct->reason);
        if (store) {
            direct->offer.server.fd = -1;
            atomic_store(&direct->has_offer, false);
            replace_store(direct, store);
        } else if (object_may_come(direct->reason)) {
            atomic_store(&direct->look_ms, clock_monotonic_coarse_ms() + DIRECT_LOOK_PAUSE_MS);
        } else {
            drop_offer(direct);
        }
    }
    pthread_mutex_unlock(&direct->lock);
}

/* Renews the offer if a server that still runs has put the object out of use: there will be another
 * one. */
__attribute__((noinline)) static void offer_again(struct direct *direct)
{
    pthread_mutex_lock(&direct->lock);
    struct direct_store *store = atomic_load(&direct->store);
    if (store && !atomic_load(&direct->has_offer) && direct_store_is_replaced(store)) {
        direct->offer.server.fd = fcntl(store->server.fd, F_DUPFD_CLOEXEC, 0);
        direct->reason = DIRECT_NO_OBJECT;
        atomic_store(&direct->has_offer, direct->offer.server.fd >= 0);
    }
    pthread_mutex_unlock(&direct->lock);
}

/* Reading -------------------------------------------------------------------------------------- */

/* Like direct_store_is_usable, for a store whose daemon has ended. */
__attribute__((noinline)) static bool store_is_usable_still(struct direct_store *store,
                                                            const struct shared_store *header)
{
    return direct_store_is_usable(store, header);
}

struct direct_store *direct_begin(struct direct *direct, struct direct_reader *reader)
{
    if (atomic_load_explicit(&direct->has_offer, memory_order_relaxed))
        take_up_offer(direct);
    direct_reader_begin(&direct->readers, reader);
    struct direct_store *store = atomic_load(&direct->store);
    bool is_out_of_use = false;
    if (store) {
        const struct shared_store *header =
            (const struct shared_store *)direct_store_view(store)->base;
        bool in_use = direct_store_in_use(header);
        reader->saw_end = direct_store_has_ended(store);
        if (in_use && (!reader->saw_end || store_is_usable_still(store, header)))
            return store;
        is_out_of_use = !in_use && !reader->saw_end;
    }
    direct_reader_end(reader);
    if (is_out_of_use && !atomic_load_explicit(&direct->has_offer, memory_order_relaxed))
        offer_again(direct);
    return NULL;
}

/* Counts reads of single keys. looked_ms: the tick at which the server was seen last. */
static inline void direct_count_keys(struct direct *direct, struct direct_reader *reader,
                                     uint64_t found, uint64_t absent, uint64_t looked_ms)
{
    direct_reader_count(&reader->found, found);
    direct_reader_count(&reader->absent, absent);
    direct_telling_look(&direct->telling, &direct->readers, looked_ms);
}

static bool direct_key_is_valid(struct kv_slice key)
{
    return key.size > 0 && key.size <= WIRE_MAX_KEY_BYTES;
}

/* Reads the key as direct_get does. False: by message. *counts: the read need not be repeated. */
static inline bool read_key(struct direct *direct, struct direct_reader *reader,
                            struct kv_slice key, bool with_bytes, struct clientk_value *value,
                            enum kv_status *status, bool *counts)
{
    struct direct_store *store = direct_begin(direct, reader);
    KV_ASSERT(!store == (atomic_load(&reader->era) == 0));
    *counts = true;
    if (!store)
        return false;
    bool read =
        direct_read(store, key, direct_place_of(store, key), with_bytes, value, status, NULL);
    uint64_t looked_ms = atomic_load_explicit(&store->looked_ms, memory_order_relaxed);
    *counts = direct_end(store, reader) || !read;
    direct_reader_count(read ? &reader->reads : &reader->asks, *counts);
    if (read && *counts)
        direct_count_keys(direct, reader, *status != KV_NOT_FOUND, *status == KV_NOT_FOUND,
                          looked_ms);
    return read && *counts;
}

__attribute__((noinline)) static bool
read_key_again(struct direct *direct, struct direct_reader *reader, struct kv_slice key,
               bool with_bytes, struct clientk_value *value, enum kv_status *status)
{
    bool counts;
    bool read = read_key(direct, reader, key, with_bytes, value, status, &counts);
    direct_reader_count(&reader->asks, !counts);
    return read;
}

bool direct_get(struct direct *direct, struct direct_reader *reader, struct kv_slice key,
                bool with_bytes, struct clientk_value *value, enum kv_status *status)
{
    bool counts;
    if (!direct_key_is_valid(key))
        return false;
    bool read = read_key(direct, reader, key, with_bytes, value, status, &counts);
    return counts ? read : read_key_again(direct, reader, key, with_bytes, value, status);
}

bool direct_may_execute(const struct clientk_operation *operation)
{
    return (operation->opcode == CLIENTK_GET || operation->opcode == CLIENTK_EXISTS) &&
           RESERVED_IS_CLEAR(operation->reserved) && direct_key_is_valid(operation->key);
}

/* Executes at most KEYS_TOGETHER operations. Returns how many, from the first on, were executed. */
static size_t execute_together(struct direct_store *store,
                               const struct clientk_operation *operations, size_t count,
                               struct clientk_result *results)
{
    struct direct_place places[KEYS_TOGETHER];
    for (size_t i = 0; i < count; i++)
        places[i] = direct_place_of(store, operations[i].key);
    direct_prefetch(store, places, count);
    for (size_t i = 0; i < count; i++) {
        bool with_bytes = operations[i].opcode == CLIENTK_GET;
        results[i].found = false;
        results[i].number = 0;
        if (!direct_read(store, operations[i].key, places[i], with_bytes, &results[i].value,
                         &results[i].status, NULL))
            return i;
    }
    return count;
}

void direct_note_results(struct direct *direct, struct direct_reader *reader,
                         const struct clientk_result *results, size_t count, uint64_t looked_ms)
{
    size_t absent = 0;
    for (size_t i = 0; i < count; i++)
        absent += results[i].status == KV_NOT_FOUND;
    direct_reader_count(&reader->reads, count);
    direct_count_keys(direct, reader, count - absent, absent, looked_ms);
}

size_t direct_execute(struct direct *direct, struct direct_reader *reader,
                      const struct clientk_operation *operations, size_t count,
                      struct clientk_result *results)
{
    size_t done = 0;
    uint64_t looked_ms = 0;
    for (size_t i = 0; i < count; i++)
        if (!direct_may_execute(&operations[i]))
            return 0;
    for (unsigned attempt = 0; done < count && attempt < DIRECT_ATTEMPTS;) {
        struct direct_store *store = direct_begin(direct, reader);
        if (!store)
            break;
        size_t left = count - done;
        size_t together = left < KEYS_TOGETHER ? left : KEYS_TOGETHER;
        size_t read = execute_together(store, operations + done, together, results + done);
        looked_ms = atomic_load_explicit(&store->looked_ms, memory_order_relaxed);
        bool counts = direct_end(store, reader);
        done += counts ? read : 0;
        attempt = counts ? 0 : attempt + 1;
        if (read < together)
            break;
    }
    direct_reader_count(&reader->asks, count - done);
    if (done > 0)
        direct_note_results(direct, reader, results, done, looked_ms);
    return done;
}

/* Facts ---------------------------------------------------------------------------------------- */

/* Why reads go as they go at this moment. Holds: direct->lock. */
static enum direct_reason find_reason(const struct direct *direct)
{
    struct direct_store *store = atomic_load(&direct->store);
    if (!store || atomic_load(&direct->has_offer))
        return direct->reason;
    if (!direct_store_is_served(store))
        return DIRECT_SERVER_ENDED;
    return atomic_load(&store->no_log_ms) == 0 ? DIRECT_IN_USE : DIRECT_FILE_DENIED;
}

void direct_add_info(struct direct *direct, struct clientk_info *info)
{
    if (atomic_load(&direct->has_offer))
        take_up_offer(direct);
    pthread_mutex_lock(&direct->lock);
    enum direct_reason reason = find_reason(direct);
    const struct direct_store *store = atomic_load(&direct->store);
    info->direct = CLIENTK_DIRECT_OFF;
    if (reason == DIRECT_IN_USE)
        info->direct = store->map_logs ? CLIENTK_DIRECT_MAP : CLIENTK_DIRECT_PREAD;
    info->direct_reason = direct_reason_sentence(reason);
    pthread_mutex_unlock(&direct->lock);
    direct_readers_sum(&direct->readers, &info->direct_reads, &info->direct_asks);
}
