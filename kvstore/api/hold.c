/* Data files as they were at one moment, while others write. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/report/error.h"
#include "common/time/clock.h"
#include "kvstore/api/store.h"
#include "kvstore/format/sizes.h"
#include "kvstore/log/fileio.h"
#include "kvstore/maintenance/holds.h"

struct held_log {
    int fd; /* a descriptor of the hold's own, which outlasts a compaction */
    uint64_t salt;
    uint64_t bytes;
    uint64_t max_version;
};

struct kvstore_hold {
    struct listed_hold held;
    struct kvstore *store;
    struct held_log logs[];
};

static void close_logs(struct kvstore_hold *hold)
{
    for (uint32_t i = 0; i < hold->store->context.datafiles; i++)
        if (hold->logs[i].fd >= 0)
            close(hold->logs[i].fd);
}

/* Holds: the lock of the file. */
static enum kv_status hold_log(const struct store_context *context, uint32_t number,
                               struct held_log *log, struct kv_error *error)
{
    KV_ASSERT(lockset_is_held(context->locks, number));
    const struct generation *current = context->files[number].current;
    if (logfile_is_broken(&current->log))
        return kv_error_set(error, KV_IO, "%s/%s: the file has lost bytes", context->dir,
                            file_name(number, FILE_LOG).text);
    *log = (struct held_log){.fd = fcntl(current->log.fd, F_DUPFD_CLOEXEC, 0),
                             .salt = current->log.identity.salt,
                             .bytes = current->log.tail,
                             .max_version = current->words->max_version};
    if (log->fd >= 0)
        return KV_OK;
    return kv_error_set_errno(error,
                              "%s: cannot hold %u data files, which takes as many "
                              "descriptors (ulimit -n)",
                              context->dir, context->datafiles);
}

/* Counts those who want no large values to be under way in the files by one more, or less. Holds:
 * all locks. */
static void bar_placings(const struct store_context *context, int one)
{
    for (uint32_t i = 0; i < context->datafiles; i++)
        context->files[i].placings_barred += (uint32_t)one;
}

static bool has_placings(const struct store_context *context)
{
    for (uint32_t i = 0; i < context->datafiles; i++)
        if (context->files[i].placings)
            return true;
    return false;
}

/* Takes all locks while no large value is being written. What is copied of a log would else have
 * a value half written, which the log refers to later, when the next backup copies on. */
static void lock_without_placings(const struct store_context *context)
{
    lockset_write_lock_all(context->locks);
    bar_placings(context, 1);
    while (has_placings(context)) {
        lockset_write_unlock_all(context->locks);
        clock_sleep_ms(1);
        lockset_write_lock_all(context->locks);
    }
    bar_placings(context, -1);
}

enum kv_status kvstore_hold_begin(struct kvstore *store, struct kvstore_hold **hold,
                                  struct kv_error *error)
{
    const struct store_context *context = &store->context;
    struct kvstore_hold *created =
        calloc(1, sizeof *created + context->datafiles * sizeof created->logs[0]);
    if (!created)
        return kv_error_set(error, KV_NO_MEMORY, "%s: no memory to hold it", context->dir);
    created->store = store;
    for (uint32_t i = 0; i < context->datafiles; i++)
        created->logs[i].fd = -1;
    enum kv_status status = KV_OK;
    lock_without_placings(context);
    for (uint32_t i = 0; i < context->datafiles && status == KV_OK; i++)
        status = hold_log(context, i, &created->logs[i], error);
    for (uint32_t i = 0; i < context->datafiles && status == KV_OK; i++)
        generation_fix(context->files[i].current); /* for the next backup, too, which copies on */
    if (status == KV_OK)                           /* before a compaction can replace one of them */
        holds_add(store->holds, &created->held);
    lockset_write_unlock_all(context->locks);
    if (status != KV_OK) {
        close_logs(created);
        free(created);
        return status;
    }
    *hold = created;
    return KV_OK;
}

void kvstore_hold_end(struct kvstore_hold *hold)
{
    if (!hold)
        return;
    holds_remove(hold->store->holds, &hold->held);
    close_logs(hold);
    free(hold);
}

bool kvstore_hold_touch(struct kvstore_hold *hold)
{
    return holds_touch(hold->store->holds, &hold->held);
}

void kvstore_hold_facts(const struct kvstore_hold *hold, struct kvstore_hold_facts *facts)
{
    const struct store_context *context = &hold->store->context;
    *facts = (struct kvstore_hold_facts){
        .dir = context->dir, .store_seed = context->seed, .datafiles = context->datafiles};
}

void kvstore_hold_file(const struct kvstore_hold *hold, uint32_t number,
                       struct kvstore_held_file *file)
{
    const struct held_log *log = &hold->logs[number];
    *file = (struct kvstore_held_file){.generation = log->salt, .bytes = log->bytes};
}

/* The header page as the file's end at the moment has it: all before it is on disk once the copy
 * is. */
static int read_held_header(const struct held_log *log, uint8_t *page)
{
    if (fileio->read_at(log->fd, page, FILE_HEADER_BYTES, 0) != (ssize_t)FILE_HEADER_BYTES)
        return -1;
    struct file_progress progress = {0};
    fileheader_read_progress(page, log->salt, &progress);
    progress.version_floor = at_least(progress.version_floor, log->max_version);
    progress.synced_offset = log->bytes;
    for (progress.sequence = 1; progress.sequence <= 2; progress.sequence++)
        fileheader_write_progress(page, log->salt, &progress);
    return 0;
}

static ssize_t read_held_log(const struct held_log *log, uint64_t offset, uint8_t *buffer,
                             size_t size)
{
    if (offset >= FILE_HEADER_BYTES)
        return fileio->read_at(log->fd, buffer, size, (off_t)offset);
    uint8_t page[FILE_HEADER_BYTES];
    if (read_held_header(log, page) != 0)
        return -1;
    size_t part = at_most(size, FILE_HEADER_BYTES - offset);
    memcpy(buffer, page + offset, part);
    return (ssize_t)part;
}

enum kv_status kvstore_hold_read(struct kvstore_hold *hold, uint32_t number, uint64_t offset,
                                 void *buffer, size_t size, size_t *got)
{
    *got = 0;
    if (number >= hold->store->context.datafiles || offset > hold->logs[number].bytes)
        return KV_USAGE;
    const struct held_log *log = &hold->logs[number];
    size = at_most(size, log->bytes - offset);
    ssize_t result = size > 0 ? read_held_log(log, offset, buffer, size) : 0;
    if (!kvstore_hold_touch(hold)) /* after the read: it may have been of zeros */
        return KV_BUSY;
    if (result < 0 || (result == 0 && size > 0))
        return KV_IO;
    *got = (size_t)result;
    return KV_OK;
}
