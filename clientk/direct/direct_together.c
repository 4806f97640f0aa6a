#include "clientk/direct/direct_together.h"

#include "clientk/direct/direct_read.h"
#include "common/assert/assert.h"
#include "common/time/clock.h"

/* Only a key that others change all the time needs more. */
#define MAX_PASSES 16u

/* More values than this go by message, which costs little beside copying them, and has a limit. */
#define MAX_BYTES ((size_t)256 * 1024)

struct together {
    struct direct_store *store;
    const struct clientk_operation *operations;
    size_t count;
    struct clientk_result *results;
    struct direct_place places[CLIENTK_MAX_TRANSACTION_STEPS];
    struct direct_sight sights[CLIENTK_MAX_TRANSACTION_STEPS];
};

static void begin_passes(struct together *together)
{
    for (size_t i = 0; i < together->count; i++) {
        together->places[i] = direct_place_of(together->store, together->operations[i].key);
        together->sights[i].offset = DIRECT_UNSEEN;
        together->results[i].found = false;
        together->results[i].number = 0;
    }
    direct_prefetch(together->store, together->places, together->count);
}

enum pass_end { PASS_UNCHANGED, PASS_CHANGED, PASS_ASK };

/* Reads the key anew if it is not as it was seen. */
static enum pass_end read_if_changed(struct together *together, size_t i)
{
    const struct clientk_operation *operation = &together->operations[i];
    struct clientk_result *result = &together->results[i];
    struct direct_sight *sight = &together->sights[i];
    if (sight->offset != DIRECT_UNSEEN &&
        direct_is_as_seen(together->store, operation->key, together->places[i], sight))
        return PASS_UNCHANGED;
    bool read =
        direct_read(together->store, operation->key, together->places[i],
                    operation->opcode == CLIENTK_GET, &result->value, &result->status, sight);
    return read && result->status != KV_NO_MEMORY ? PASS_CHANGED : PASS_ASK;
}

static enum pass_end pass_over_keys(struct together *together)
{
    enum pass_end end = PASS_UNCHANGED;
    size_t bytes = 0;
    for (size_t i = 0; i < together->count && end != PASS_ASK; i++) {
        enum pass_end end_of_key = read_if_changed(together, i);
        end = end_of_key != PASS_UNCHANGED ? end_of_key : end;
        bytes +=
            together->operations[i].opcode == CLIENTK_GET ? together->results[i].value.size : 0;
        end = bytes > MAX_BYTES ? PASS_ASK : end;
    }
    return end;
}

static bool any_expires(const struct together *together)
{
    for (size_t i = 0; i < together->count; i++)
        if (together->results[i].value.expiry_ms != 0)
            return true;
    return false;
}

/* What has expired at now_ms is absent. */
static void expire_together(struct together *together, uint64_t now_ms)
{
    for (size_t i = 0; i < together->count; i++) {
        struct clientk_result *result = &together->results[i];
        if (result->value.expiry_ms == 0 || result->value.expiry_ms > now_ms)
            continue;
        result->status = KV_NOT_FOUND;
        direct_clear_value(&result->value);
    }
}

static bool read_at_one_moment(struct together *together)
{
    uint64_t now_ms = 0;
    begin_passes(together);
    enum pass_end end = pass_over_keys(together);
    for (unsigned passes = 1; end == PASS_CHANGED && passes < MAX_PASSES; passes++) {
        /* What was seen until here, and is seen again from here on, holds at this moment. */
        now_ms = any_expires(together) ? clock_realtime_ms() : 0;
        end = pass_over_keys(together);
    }
    if (end == PASS_UNCHANGED)
        expire_together(together, now_ms);
    return end == PASS_UNCHANGED;
}

bool direct_read_together(struct direct *direct, struct direct_reader *reader,
                          const struct clientk_operation *operations, size_t count,
                          struct clientk_result *results)
{
    struct together together; /* 4 KiB: not cleared */
    uint64_t looked_ms = 0;
    KV_ASSERT(count > 0 && count <= CLIENTK_MAX_TRANSACTION_STEPS);
    for (size_t i = 0; i < count; i++)
        if (!direct_may_execute(&operations[i]))
            return false;
    together.operations = operations;
    together.count = count;
    together.results = results;
    bool read = false, counts = false;
    for (unsigned attempt = 0; attempt < DIRECT_ATTEMPTS && !counts; attempt++) {
        together.store = direct_begin(direct, reader);
        if (!together.store)
            break;
        read = direct_store_keeps_logs(together.store) && read_at_one_moment(&together);
        looked_ms = atomic_load_explicit(&together.store->looked_ms, memory_order_relaxed);
        counts = direct_end(together.store, reader) || !read;
    }
    if (read && counts) {
        direct_note_results(direct, reader, results, count, looked_ms);
        return true;
    }
    direct_reader_count(&reader->asks, count);
    for (size_t i = 0; i < count; i++)
        direct_clear_value(&results[i].value);
    return false;
}
