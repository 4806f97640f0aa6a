#include "lab/locking/optimistic.h"

#include "common/time/pause.h"
#include "lab/locking/readers.h"
#include "kvstore/shared/shared_store.h"
#include "kvstore/table/datafile.h"

/* Moving an item takes some ten nanoseconds, splitting a segment a microsecond or two: a lookup
 * that has failed this often has met a writer that was preempted, or one writer after the other. */
#define MAX_RETRIES 64u

/* Looks the key up where nothing is moved, and no transaction done, meanwhile. */
static bool find_undisturbed(const struct store_context *context,
                             const struct generation *generation, uint32_t hash,
                             struct kv_slice key, struct lookup *lookup)
{
    uint64_t transacting = shared_store_transacting(context->shared);
    uint64_t moves = index_moves(generation->index);
    if (moves % 2 != 0 || (transacting & SHARED_STORE_TRANSACTING_MASK) != 0)
        return false;
    generation_find(generation, hash, key, lookup);
    return index_moves(generation->index) == moves &&
           shared_store_transacting(context->shared) == transacting;
}

/* The generation that was looked at, NULL if no lookup was left alone by writers. */
static const struct generation *find_without_lock(const struct store_context *context,
                                                  struct datafile *file, uint32_t hash,
                                                  struct kv_slice key, struct lookup *lookup)
{
    const struct generation *generation = datafile_current(file);
    unsigned retries = 0;
    bool found;
    while (!(found = find_undisturbed(context, generation, hash, key, lookup)) &&
           retries < MAX_RETRIES) {
        retries++;
        pause_cpu();
        generation = datafile_current(file);
    }
    if (retries > 0) /* once for all: writers use the same cache line */
        atomic_fetch_add_explicit(&file->read_retries, retries, memory_order_relaxed);
    return found ? generation : NULL;
}

struct reader *optimistic_find(const struct store_context *context, struct datafile *file,
                               uint32_t hash, struct kv_slice key,
                               const struct generation **generation, struct lookup *lookup)
{
    struct reader *reader = readers_enter(context->readers);
    if (reader) {
        *generation = find_without_lock(context, file, hash, key, lookup);
        if (*generation)
            return reader;
        readers_leave(reader);
    }
    atomic_fetch_add_explicit(&file->read_fallbacks, 1, memory_order_relaxed);
    return NULL;
}
