#include "kvstore/table/whole_transactions.h"

#include <stdlib.h>

#include "common/assert/assert.h"
#include "common/report/error.h"
#include "kvstore/format/sizes.h"
#include "kvstore/shared/shared_store.h"
#include "kvstore/table/datafile.h"
#include "kvstore/table/recovery.h"

uint64_t whole_transactions_settled(const struct store_context *context)
{
    uint64_t settled = 0;
    for (uint32_t number = 0; number < context->datafiles; number++)
        settled = at_least(settled, context->files[number].current->log.progress.settled);
    return settled;
}

/* Where the file's part of the transaction begins; UINT64_MAX: it has none. Parts ascend, since the
 * number of a transaction is given under the locks of its files. */
static uint64_t find_part(const struct datafile *file, uint64_t transaction)
{
    const struct recovery *recovery = &file->recovery;
    size_t low = 0, high = recovery->part_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (recovery->parts[middle].transaction < transaction)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < recovery->part_count && recovery->parts[low].transaction == transaction;
    return found ? recovery->parts[low].begin : UINT64_MAX;
}

/* Whether the file that `part` names has the next one, before its end in `ends`. */
static bool has_next(const struct store_context *context, const struct transaction_part *part,
                     const uint64_t *ends)
{
    if (part->next_file >= context->datafiles)
        return false;
    const struct datafile *next = &context->files[part->next_file];
    return next->taken_over || find_part(next, part->transaction) < ends[part->next_file];
}

/* Moves the end of the file to before its first part without a next one. True: it has moved. */
static bool move_end(const struct store_context *context, uint32_t number, uint64_t *ends)
{
    const struct recovery *recovery = &context->files[number].recovery;
    for (size_t i = 0; i < recovery->part_count; i++) {
        const struct transaction_part *part = &recovery->parts[i];
        if (part->begin >= ends[number])
            return false;
        if (!has_next(context, part, ends)) {
            ends[number] = part->begin;
            return true;
        }
    }
    return false;
}

/* Each end that has moved may leave others without a next part. */
static void find_ends(const struct store_context *context, uint64_t *ends)
{
    bool moved;
    do {
        moved = false;
        for (uint32_t number = 0; number < context->datafiles; number++)
            moved |= move_end(context, number, ends);
    } while (moved);
}

static void note_last(const struct store_context *context)
{
    struct shared_store *shared = context->shared;
    uint64_t last = at_least(shared->last_transaction, shared->settled);
    for (uint32_t number = 0; number < context->datafiles; number++)
        last = at_least(last, context->files[number].recovery.last_transaction);
    shared->last_transaction = last;
}

/* Cuts the file at its end, which may be further before then: *again. */
static enum kv_status cut_file(const struct store_context *context, uint32_t number, uint64_t *end,
                               bool *again, struct kv_error *error)
{
    struct datafile *file = &context->files[number];
    const struct logfile *log = &file->current->log;
    if (*end == UINT64_MAX || log->tail <= *end)
        return KV_OK;
    KV_ASSERT(!file->taken_over);
    enum kv_status status = recovery_cut(file->current, context->dir, *end, &file->recovery, error);
    *again |= log->tail < *end;
    *end = log->tail;
    return status;
}

enum kv_status whole_transactions_keep(const struct store_context *context, struct kv_error *error)
{
    bool any = false;
    enum kv_status status = KV_OK;
    note_last(context);
    for (uint32_t number = 0; number < context->datafiles; number++)
        any |= context->files[number].recovery.part_count > 0;
    if (!any)
        return KV_OK;
    uint64_t *ends = malloc(context->datafiles * sizeof *ends);
    if (!ends)
        return kv_error_set(error, KV_NO_MEMORY, "%s: no memory", context->dir);
    for (uint32_t number = 0; number < context->datafiles; number++)
        ends[number] = UINT64_MAX;
    bool again;
    do {
        again = false;
        find_ends(context, ends);
        for (uint32_t number = 0; number < context->datafiles && status == KV_OK; number++)
            status = cut_file(context, number, &ends[number], &again, error);
    } while (again && status == KV_OK);
    free(ends);
    return status;
}
