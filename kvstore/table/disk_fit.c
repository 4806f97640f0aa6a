#include "kvstore/table/disk_fit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "kvstore/format/file_name.h"
#include "kvstore/format/sizes.h"
#include "kvstore/log/logtail.h"
#include "kvstore/table/datafile.h"

#define BYTES_OF_BLOCK 512u /* of st_blocks */

static uint64_t file_disk_bytes(int dir_fd, struct file_name name)
{
    struct stat facts;
    return fstatat(dir_fd, name.text, &facts, AT_SYMLINK_NOFOLLOW) == 0
               ? (uint64_t)facts.st_blocks * BYTES_OF_BLOCK
               : 0;
}

/* Blocks that the store has or could have. False: not known. */
static bool room_there(int dir_fd, uint32_t datafiles, uint64_t *bytes)
{
    struct statvfs disk;
    if (fstatvfs(dir_fd, &disk) != 0)
        return false;
    *bytes = at_most((uint64_t)disk.f_bavail, UINT64_MAX / 16 / at_least(disk.f_frsize, 1)) *
             disk.f_frsize;
    for (uint32_t number = 0; number < datafiles; number++) {
        *bytes += file_disk_bytes(dir_fd, file_name(number, FILE_LOG));
        *bytes += file_disk_bytes(dir_fd, file_name(number, FILE_LOG_NEW));
    }
    return true;
}

/* A file is compacted when half of it is dead. Where they come to that one after the other, there
 * are half as many dead bytes as live ones, and beside them the copy of one file, with a quarter
 * for what is written meanwhile. */
uint64_t disk_fit_bytes(int dir_fd, uint32_t datafiles)
{
    uint64_t bytes;
    if (!room_there(dir_fd, datafiles, &bytes))
        return UINT64_MAX;
    bytes -= at_most(LOGTAIL_SPARE_BYTES + datafiles * (uint64_t)LOGFILE_UNIT_BYTES, bytes);
    return bytes / (6 * (uint64_t)datafiles + 5) * 4 * datafiles;
}

void disk_fit_bound(struct bound *bound, const struct store_context *context)
{
    uint64_t copy_bytes = 0;
    if (bound->evict == KVSTORE_EVICT_NONE)
        return;
    for (uint32_t number = 0; number < context->datafiles; number++) {
        lockset_read_lock(context->locks, number);
        copy_bytes = at_least(copy_bytes, generation_copy_bytes(context->files[number].current));
        lockset_read_unlock(context->locks, number);
    }
    atomic_store(&bound->reserve.copy_bytes, copy_bytes);
    uint64_t fitting_bytes =
        at_least(disk_fit_bytes(context->dir_fd, context->datafiles), KVSTORE_MIN_BOUND_BYTES);
    atomic_store(&bound->max_bytes, at_most(atomic_load(&bound->asked_bytes), fitting_bytes));
}
