/*
 * System calls on files, of the machine if one runs and has the file (machine.h), else those of the
 * operating system.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tests/explore/explore.h"
#include "tests/explore/kernel_calls.h"
#include "tests/explore/machine_calls.h"
#include "tests/explore/seeded_schedule.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define HERE __builtin_return_address(0)

int explored_fstat(int descriptor, struct stat *facts)
{
    if (!machine_has(descriptor))
        return kernel_fstat(descriptor, facts);
    machine_fstat(descriptor, facts);
    return 0;
}

int explored_fstatat(int directory, const char *path, struct stat *facts, int flags)
{
    int result;
    if (machine_runs() && machine_fstatat(directory, path, facts, &result))
        return result;
    return fstatat(directory, path, facts, flags);
}

int explored_faccessat(int directory, const char *path, int mode, int flags)
{
    int result;
    if (machine_runs() && machine_fstatat(directory, path, NULL, &result))
        return result;
    return faccessat(directory, path, mode, flags);
}

int explored_fchmod(int descriptor, mode_t mode)
{
    return machine_has(descriptor) ? machine_fchmod(descriptor, mode)
                                   : kernel_fchmod(descriptor, mode);
}

int explored_fchown(int descriptor, uid_t user, gid_t group)
{
    return machine_has(descriptor) ? 0 : kernel_fchown(descriptor, user, group);
}

int explored_fstatvfs(int descriptor, struct statvfs *facts)
{
    if (!machine_has(descriptor))
        return fstatvfs(descriptor, facts);
    machine_statvfs(facts);
    return 0;
}

static bool blocks_move;

void explore_blocks_move(bool now)
{
    blocks_move = now;
}

int explored_fstatfs(int descriptor, struct statfs *facts)
{
    int result = 0;
    if (machine_has(descriptor))
        *facts = (struct statfs){.f_type = EXT4_SUPER_MAGIC};
    else
        result = fstatfs(descriptor, facts);
    if (blocks_move)
        facts->f_type = BTRFS_SUPER_MAGIC;
    return result;
}

off_t explored_lseek(int descriptor, off_t offset, int whence)
{
    return machine_has(descriptor) ? machine_lseek(descriptor, offset, whence)
                                   : lseek(descriptor, offset, whence);
}

int explored_fallocate(int descriptor, int mode, off_t offset, off_t bytes)
{
    if (!machine_has(descriptor))
        return fallocate(descriptor, mode, offset, bytes);
    return mode & FALLOC_FL_PUNCH_HOLE ? machine_punch(descriptor, bytes, HERE)
                                       : machine_allocate(descriptor, offset, bytes, HERE);
}

int explored_ftruncate(int descriptor, off_t bytes)
{
    return machine_has(descriptor) ? machine_truncate(descriptor, bytes, HERE)
                                   : ftruncate(descriptor, bytes);
}

int explored_fdatasync(int descriptor)
{
    return machine_has(descriptor) ? machine_fsync(descriptor, HERE) : fdatasync(descriptor);
}

int explored_fsync(int descriptor)
{
    return machine_has(descriptor) ? machine_fsync(descriptor, HERE) : fsync(descriptor);
}

int explored_renameat(int from_directory, const char *from, int to_directory, const char *to)
{
    int result;
    if (machine_runs() && machine_rename(from_directory, from, to, false, &result, HERE))
        return result;
    return renameat(from_directory, from, to_directory, to);
}

int explored_renameat2(int from_directory, const char *from, int to_directory, const char *to,
                       unsigned flags)
{
    int result;
    if (machine_runs() &&
        machine_rename(from_directory, from, to, flags & RENAME_EXCHANGE, &result, HERE))
        return result;
    return renameat2(from_directory, from, to_directory, to, flags);
}

int explored_unlinkat(int directory, const char *path, int flags)
{
    int result;
    if (machine_runs() && machine_unlink(directory, path, &result, HERE))
        return result;
    return unlinkat(directory, path, flags);
}

/* Memory --------------------------------------------------------------------------------------- */

int explored_madvise(void *at, size_t bytes, int advice)
{
    return machine_has_memory(at) ? 0 : madvise(at, bytes, advice);
}

int explored_mprotect(void *at, size_t bytes, int protection)
{
    return machine_has_memory(at) || machine_runs() ? 0 : mprotect(at, bytes, protection);
}

int explored_mincore(void *at, size_t bytes, unsigned char *pages)
{
    if (!machine_has_memory(at))
        return mincore(at, bytes, pages);
    machine_in_memory(at, bytes, pages);
    return 0;
}

int explored_posix_fadvise(int descriptor, off_t offset, off_t bytes, int advice)
{
    if (!machine_has(descriptor))
        return posix_fadvise(descriptor, offset, bytes, advice);
    machine_forget(descriptor, offset);
    return 0;
}

/* Listing -------------------------------------------------------------------------------------- */

/* Of the machine's: a pointer into these, whose place is the descriptor's. */
static char listings[1024];
static int listed[sizeof listings];

static bool is_machines(const DIR *listing)
{
    return (const char *)listing >= listings && (const char *)listing < listings + sizeof listings;
}

static int descriptor_of(const DIR *listing)
{
    return listed[(const char *)listing - listings];
}

int explored_mkdir(const char *path, mode_t mode)
{
    int result;
    if (!machine_runs() || !machine_fstatat(AT_FDCWD, path, NULL, &result))
        return mkdir(path, mode);
    errno = result == 0 ? EEXIST : ENOENT; /* the machine has the directories that it has */
    return -1;
}

DIR *explored_fdopendir(int descriptor)
{
    if (!machine_has(descriptor))
        return fdopendir(descriptor);
    size_t place = (size_t)descriptor % sizeof listings;
    listed[place] = descriptor;
    return (DIR *)(void *)&listings[place];
}

/* What kernel_calls.c opens is the machine's, too (explore.mk wraps opendir). */
DIR *__real_opendir(const char *path);

DIR *__wrap_opendir(const char *path)
{
    int descriptor;
    if (!machine_runs() || !machine_openat(AT_FDCWD, path, O_DIRECTORY, 0, &descriptor, HERE))
        return __real_opendir(path);
    return descriptor < 0 ? NULL : explored_fdopendir(descriptor);
}

struct dirent *explored_readdir(DIR *listing)
{
    return is_machines(listing) ? machine_list(descriptor_of(listing)) : readdir(listing);
}

int explored_closedir(DIR *listing)
{
    return is_machines(listing) ? machine_close(descriptor_of(listing), HERE) : closedir(listing);
}

int explored_dirfd(DIR *listing)
{
    return is_machines(listing) ? descriptor_of(listing) : dirfd(listing);
}
