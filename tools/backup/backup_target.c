#include "tools/backup/backup_target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/backup/backup_dir.h"
#include "tools/backup/file_copy.h"
#include "common/memory/whole_io.h"
#include "common/report/error.h"
#include "kvstore/format/file_chapters.h"
#include "kvstore/format/file_name.h"

/* The last bytes of an earlier backup, of this number, are compared with those of the store. */
#define OVERLAP_BYTES 4096u

#define SECTOR_BYTES 512u /* of a disk */

static const char *log_name(uint32_t number, struct file_name *name)
{
    *name = file_name(number, FILE_LOG);
    return name->text;
}

/* Opening -------------------------------------------------------------------------------------- */

/* Checks that the directory has nothing but a backup: else nothing may be written there. */
static enum kv_status check_vacant(const struct backup_target *target, struct kv_error *error)
{
    DIR *stream = fdopendir(openat(target->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!stream)
        return kv_error_set_errno(error, "%s: cannot read the directory", target->dir);
    enum kv_status status = KV_OK;
    for (const struct dirent *entry; status == KV_OK && (entry = readdir(stream));) {
        const char *name = entry->d_name, *end = strrchr(name, '.');
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
            strcmp(name, LOCK_FILE_NAME) == 0 || strcmp(name, "lost+found") == 0 ||
            strcmp(name, BACKUP_MANIFEST_NAME ".new") == 0 ||
            (strncmp(name, "data.", 5) == 0 && end && strcmp(end, ".new") == 0))
            continue;
        status = kv_error_set(error, KV_USAGE,
                              "%s has other files (%.64s) and no earlier backup: take an empty "
                              "directory",
                              target->dir, name);
    }
    closedir(stream);
    return status;
}

static enum kv_status open_backup_directory(struct backup_target *target, struct kv_error *error)
{
    if (mkdir(target->dir, 0700) == 0)
        target->was_made = true;
    else if (errno != EEXIST)
        return kv_error_set_errno(error, "%s: cannot make the directory", target->dir);
    target->dir_fd = open(target->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (target->dir_fd < 0)
        return kv_error_set_errno(error, "%s: cannot open the directory", target->dir);
    return KV_OK;
}

enum kv_status backup_target_open(struct backup_target *target, const char *dir,
                                  struct kv_error *error)
{
    *target = (struct backup_target){.dir = dir, .dir_fd = -1, .lock_fd = -1};
    enum kv_status status = open_backup_directory(target, error);
    bool has_base = status == KV_OK &&
                    faccessat(target->dir_fd, BACKUP_MANIFEST_NAME, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    if (status == KV_OK && !has_base)
        status = check_vacant(target, error);
    if (status == KV_OK)
        status = backup_dir_lock(target->dir_fd, dir, true, &target->lock_fd, error);
    if (status == KV_OK && has_base)
        status = backup_dir_read_manifest(target->dir_fd, dir, &target->base, error);
    if (status != KV_OK)
        backup_target_close(target);
    return status;
}

enum kv_status backup_target_begin(struct backup_target *target,
                                   const struct backup_manifest *manifest, struct kv_error *error)
{
    const struct backup_manifest *base = &target->base;
    if (base->count > 0 &&
        (base->store_seed != manifest->store_seed || base->count != manifest->count))
        return kv_error_set(error, KV_USAGE,
                            "%s has a backup of another store: take another directory",
                            target->dir);
    target->files = calloc(manifest->count, sizeof *target->files);
    if (!target->files || !backup_manifest_init(&target->next, manifest->count))
        return kv_error_set(error, KV_NO_MEMORY, "no memory for a backup");
    memcpy(target->next.files, manifest->files, manifest->count * sizeof manifest->files[0]);
    target->next.store_seed = manifest->store_seed;
    target->next.time_ms = manifest->time_ms;
    if (base->count == 0)
        return KV_OK;
    struct backup_manifest marked = *base;
    marked.under_way = true;
    target->is_marked = true;
    return backup_dir_write_manifest(target->dir_fd, target->dir, &marked, error);
}

/* Data files ----------------------------------------------------------------------------------- */

static enum kv_status refuse_changed(const struct backup_target *target, const char *name,
                                     struct kv_error *error)
{
    return kv_error_set(error, KV_USAGE,
                        "%s/%s has changed since the last backup: a server was started on it, or "
                        "it was copied there; take another directory",
                        target->dir, name);
}

/* Compares the earlier backup, whose header page is `page`, with the store: if the store has the
 * same before the end of that backup, both have its last record in the same chapter. The last bytes
 * are compared, too, because a daemon of an older version continues the chapter of a newer one. */
static enum kv_status compare_end(struct held_file *file, int fd, const uint8_t *page,
                                  const struct backup_file *base, bool *equal,
                                  struct kv_error *error)
{
    struct file_chapters of_base, of_store;
    uint8_t here[OVERLAP_BYTES], there[OVERLAP_BYTES];
    uint64_t end = base->bytes;
    uint64_t from =
        end >= BACKUP_HEADER_BYTES + OVERLAP_BYTES ? end - OVERLAP_BYTES : BACKUP_HEADER_BYTES;
    size_t size = (size_t)(end - from);
    file_chapters_read(page, base->generation, &of_base);
    file_chapters_read(file->header, base->generation, &of_store);
    uint64_t chapter = file_chapters_at(&of_base, end);
    bool is_same = chapter != 0 && chapter == file_chapters_at(&of_store, end);
    *equal = (size == 0 || is_same) && whole_read(fd, here, size, (off_t)from, 1) == (ssize_t)size;
    enum kv_status status = *equal ? held_file_read(file, from, there, size, error) : KV_OK;
    *equal = *equal && status == KV_OK && memcmp(here, there, size) == 0;
    return status;
}

/* Looks whether the file, whose header page is read here, is as the earlier backup left it or,
 * after an interrupted backup, begins with it. */
static enum kv_status look_as_left(const struct backup_target *target, uint32_t number, int fd,
                                   uint8_t page[BACKUP_HEADER_BYTES], bool *as_left,
                                   struct kv_error *error)
{
    const struct backup_file *base = &target->base.files[number];
    struct stat facts;
    struct file_name name;
    ssize_t got = whole_read(fd, page, BACKUP_HEADER_BYTES, 0, 1);
    if (got < 0 || fstat(fd, &facts) != 0)
        return kv_error_set_errno(error, "%s/%s: cannot read the file", target->dir,
                                  log_name(number, &name));
    *as_left = got == (ssize_t)BACKUP_HEADER_BYTES &&
               backup_header_check(page) == base->header_check &&
               (target->base.under_way ? (uint64_t)facts.st_size >= base->bytes
                                       : (uint64_t)facts.st_size == base->bytes);
    return KV_OK;
}

/* Decides whether the open file belongs to an earlier backup which the new one continues. */
static enum kv_status plan_of(struct backup_target *target, struct held_file *file, int fd,
                              enum backup_plan *plan, struct kv_error *error)
{
    const struct backup_file *base = &target->base.files[file->number];
    const struct backup_file *next = &target->next.files[file->number];
    uint8_t page[BACKUP_HEADER_BYTES];
    struct file_name name;
    bool as_left = false, equal = false;
    *plan = BACKUP_REPLACE;
    enum kv_status status = look_as_left(target, file->number, fd, page, &as_left, error);
    if (status != KV_OK)
        return status;
    if (!as_left)
        return target->base.under_way
                   ? KV_OK
                   : refuse_changed(target, log_name(file->number, &name), error);
    if (base->generation != next->generation || base->bytes > next->bytes)
        return KV_OK;
    status = compare_end(file, fd, page, base, &equal, error);
    if (status == KV_OK && equal)
        *plan = base->bytes == next->bytes ? BACKUP_KEEP : BACKUP_APPEND;
    return status;
}

static enum kv_status open_new(struct backup_target *target, struct held_file *file, int *fd,
                               struct kv_error *error)
{
    struct file_name name = file_name(file->number, FILE_LOG_NEW);
    struct backup_target_file *to = &target->files[file->number];
    to->plan = BACKUP_REPLACE;
    to->offset = BACKUP_HEADER_BYTES;
    target->next.files[file->number].header_check = backup_header_check(file->header);
    *fd = openat(target->dir_fd, name.text, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                 0600);
    if (*fd >= 0)
        return KV_OK;
    return kv_error_set_errno(error, "%s/%s: cannot make the file", target->dir, name.text);
}

/* Cuts the file to where the earlier backup ended, whatever a later one that failed has added. */
static enum kv_status start_append(struct backup_target *target, const struct held_file *file,
                                   enum backup_plan plan, int fd, struct kv_error *error)
{
    struct backup_target_file *to = &target->files[file->number];
    const struct backup_file *base = &target->base.files[file->number];
    struct file_name name;
    to->plan = plan;
    to->offset = base->bytes;
    target->next.files[file->number].header_check = base->header_check;
    if (ftruncate(fd, (off_t)base->bytes) != 0)
        return kv_error_set_errno(error, "%s/%s: cannot cut the file", target->dir,
                                  log_name(file->number, &name));
    if (plan == BACKUP_KEEP)
        return KV_OK;
    to->header = malloc(BACKUP_HEADER_BYTES);
    if (!to->header)
        return kv_error_set(error, KV_NO_MEMORY, "no memory for a backup");
    memcpy(to->header, file->header, BACKUP_HEADER_BYTES);
    target->next.files[file->number].header_check = backup_header_check(file->header);
    return KV_OK;
}

enum kv_status backup_target_start_file(struct backup_target *target, struct held_file *file,
                                        int *fd, struct kv_error *error)
{
    struct file_name name;
    enum backup_plan plan = BACKUP_REPLACE;
    *fd = -1;
    if (target->base.count > 0)
        *fd = openat(target->dir_fd, log_name(file->number, &name),
                     O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    enum kv_status status = *fd >= 0 ? plan_of(target, file, *fd, &plan, error) : KV_OK;
    if (status == KV_OK && *fd >= 0 && plan != BACKUP_REPLACE)
        status = start_append(target, file, plan, *fd, error);
    if (*fd >= 0 && (status != KV_OK || plan != BACKUP_APPEND)) {
        close(*fd);
        *fd = -1;
    }
    return status == KV_OK && plan == BACKUP_REPLACE ? open_new(target, file, fd, error) : status;
}

enum kv_status backup_target_end_file(struct backup_target *target, const struct held_file *file,
                                      int fd, struct kv_error *error)
{
    const struct backup_target_file *to = &target->files[file->number];
    struct file_name name;
    enum kv_status status = KV_OK;
    if (to->plan == BACKUP_REPLACE &&
        file_copy_write(fd, file->header, BACKUP_HEADER_BYTES, 0) != 0)
        status = kv_error_set_errno(error, "%s/%s: cannot write the file", target->dir,
                                    log_name(file->number, &name));
    sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* so that sync_files has less to wait for */
    close(fd);
    return status;
}

/* The end -------------------------------------------------------------------------------------- */

/* Syncs what was copied. Syncing many files together takes a fraction of the time of syncing each
 * when it is made: what a file system must write for one of them covers all. */
static enum kv_status sync_files(const struct backup_target *target, struct kv_error *error)
{
    for (uint32_t number = 0; number < target->next.count; number++) {
        enum backup_plan plan = target->files[number].plan;
        struct file_name name = file_name(number, plan == BACKUP_REPLACE ? FILE_LOG_NEW : FILE_LOG);
        /* What an interrupted backup had added was cut off: a file that is longer than the manifest
         * says is refused. */
        bool was_cut = plan == BACKUP_KEEP && target->base.under_way;
        if (plan != BACKUP_REPLACE && plan != BACKUP_APPEND && !was_cut)
            continue;
        int fd = openat(target->dir_fd, name.text, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        int result = fd >= 0 ? fsync(fd) : -1;
        if (result != 0)
            kv_error_set_errno(error, "%s/%s: cannot write the file", target->dir, name.text);
        if (fd >= 0)
            close(fd);
        if (result != 0)
            return KV_IO;
    }
    return KV_OK;
}

/* A power failure may tear each sector that is written. The header says twice, in the second sector
 * and in the third, up to where the file is synced: one of both is always whole. */
static int write_header(int fd, const uint8_t *header)
{
    if (file_copy_write(fd, header, SECTOR_BYTES, 0) != 0 ||
        file_copy_write(fd, header + 2 * SECTOR_BYTES, BACKUP_HEADER_BYTES - 2 * SECTOR_BYTES,
                        2 * SECTOR_BYTES) != 0 ||
        fsync(fd) != 0)
        return -1;
    return file_copy_write(fd, header + SECTOR_BYTES, SECTOR_BYTES, SECTOR_BYTES) == 0 ? fsync(fd)
                                                                                       : -1;
}

static int put_header(const struct backup_target *target, uint32_t number)
{
    struct file_name name;
    int fd = openat(target->dir_fd, log_name(number, &name), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int result = write_header(fd, target->files[number].header);
    int failure = errno;
    close(fd);
    errno = failure;
    return result;
}

/* A file whose header was perhaps written is not cut any more: the header says how long it is. */
static int commit_file(const struct backup_target *target, uint32_t number)
{
    struct file_name name, new_name = file_name(number, FILE_LOG_NEW);
    enum backup_plan plan = target->files[number].plan;
    if (plan == BACKUP_REPLACE &&
        renameat(target->dir_fd, new_name.text, target->dir_fd, log_name(number, &name)) != 0)
        return -1;
    target->files[number].plan = BACKUP_KEEP;
    return plan == BACKUP_APPEND ? put_header(target, number) : 0;
}

enum kv_status backup_target_commit(struct backup_target *target, struct kv_error *error)
{
    struct file_name name;
    enum kv_status synced = sync_files(target, error);
    if (synced != KV_OK)
        return synced;
    if (target->base.count == 0) { /* else the directory would be refused if the process dies */
        struct backup_manifest marked = target->next;
        marked.under_way = true;
        enum kv_status status =
            backup_dir_write_manifest(target->dir_fd, target->dir, &marked, error);
        if (status != KV_OK)
            return status;
    }
    target->is_marked = false; /* from here on the new backup cannot be undone */
    for (uint32_t number = target->next.count;
         number-- > 0;) { /* data.0000, which makes the directory a store, comes last */
        if (commit_file(target, number) != 0)
            return kv_error_set_errno(error, "%s/%s: cannot put the file in its place", target->dir,
                                      log_name(number, &name));
    }
    enum kv_status status = KV_OK;
    if (fsync(target->dir_fd) != 0)
        status = kv_error_set_errno(error, "%s: cannot sync the directory", target->dir);
    else
        status = backup_dir_write_manifest(target->dir_fd, target->dir, &target->next, error);
    target->is_complete = status == KV_OK;
    return status;
}

/* Removes what was copied of one file. False: it may still be at the end of the earlier one. */
static bool undo_file(const struct backup_target *target, uint32_t number)
{
    struct file_name name;
    if (target->files[number].plan == BACKUP_REPLACE)
        unlinkat(target->dir_fd, file_name(number, FILE_LOG_NEW).text, 0);
    if (target->files[number].plan != BACKUP_APPEND)
        return true;
    int fd = openat(target->dir_fd, log_name(number, &name), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool undone = ftruncate(fd, (off_t)target->base.files[number].bytes) == 0 && fsync(fd) == 0;
    close(fd);
    return undone;
}

/* Removes the files of a first backup that failed, however late. */
static void remove_new_files(const struct backup_target *target)
{
    struct file_name name;
    for (uint32_t number = 0; target->files && number < target->next.count; number++)
        if (target->files[number].plan == BACKUP_KEEP)
            unlinkat(target->dir_fd, log_name(number, &name), 0);
    if (target->files) /* last, since data files alone would be taken for somebody's store */
        unlinkat(target->dir_fd, BACKUP_MANIFEST_NAME, 0);
    if (!target->was_made)
        return;
    unlinkat(target->dir_fd, LOCK_FILE_NAME, 0);
    rmdir(target->dir);
}

void backup_target_close(struct backup_target *target)
{
    bool undone = true;
    for (uint32_t number = 0; target->files && number < target->next.count; number++) {
        undone = undo_file(target, number) && undone;
        free(target->files[number].header);
    }
    if (target->is_marked && undone) /* the earlier backup is whole, if it was before */
        backup_dir_write_manifest(target->dir_fd, target->dir, &target->base, NULL);
    if (target->base.count == 0 && target->lock_fd >= 0 && !target->is_complete)
        remove_new_files(target);
    if (target->lock_fd >= 0)
        close(target->lock_fd);
    if (target->dir_fd >= 0)
        close(target->dir_fd);
    free(target->files);
    backup_manifest_free(&target->base);
    backup_manifest_free(&target->next);
}
