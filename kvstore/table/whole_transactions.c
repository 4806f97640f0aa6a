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

static void note_last(const struct store_context *context)
{
    struct shared_store *shared = context->shared;
    uint64_t last = at_least(shared->last_transaction, shared->settled);
    for (uint32_t number = 0; number < context->datafiles; number++)
        last = at_least(last, context->files[number].recovery.last_transaction);
    shared->last_transaction = last;
}

/* Cuts the file at the end of its log, which may be further before then: *again. */
static enum kv_status cut_file(const struct store_context *context, uint32_t number,
                               struct parted_log *ended, bool *again, struct kv_error *error)
{
    struct datafile *file = &context->files[number];
    const struct logfile *log = &file->current->log;
    if (ended->end == UINT64_MAX || log->tail <= ended->end)
        return KV_OK;
    KV_ASSERT(!file->taken_over);
    enum kv_status status =
        recovery_cut(file->current, context->dir, ended->end, &file->recovery, error);
    *again |= log->tail < ended->end;
    ended->end = log->tail;
    return status;
}

enum kv_status whole_transactions_keep(const struct store_context *context, struct kv_error *error)
{
    bool any = false;
    enum kv_status status = KV_OK;
    note_last(context);
    for (uint32_t number = 0; number < context->datafiles; number++)
        any |= context->files[number].recovery.parts.count > 0;
    if (!any)
        return KV_OK;
    struct parted_log *logs = malloc(context->datafiles * sizeof *logs);
    if (!logs)
        return kv_error_set(error, KV_NO_MEMORY, "%s: no memory", context->dir);
    for (uint32_t number = 0; number < context->datafiles; number++) {
        const struct datafile *file = &context->files[number];
        logs[number] = (struct parted_log){&file->recovery.parts, file->taken_over, UINT64_MAX};
    }
    bool again;
    do {
        again = false;
        transaction_parts_end_logs(logs, context->datafiles, 0);
        for (uint32_t number = 0; number < context->datafiles && status == KV_OK; number++)
            status = cut_file(context, number, &logs[number], &again, error);
    } while (again && status == KV_OK);
    free(logs);
    return status;
}
