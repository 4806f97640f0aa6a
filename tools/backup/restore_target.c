#include "tools/backup/restore_target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/backup/backup_dir.h"
#include "tools/backup/file_copy.h"
#include "clientk/program/cli/interrupt.h"
#include "common/report/error.h"
#include "kvstore/format/file_name.h"

#define PIECE_BYTES (1u << 20)

struct restore_target {
    const char *dir;
    int dir_fd, lock_fd;
    bool was_made;
    uint32_t files; /* number of files named data.NNNN.new */
};

static enum kv_status check_restore_directory(const struct restore_target *target,
                                              struct kv_error *error)
{
    DIR *stream = fdopendir(openat(target->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!stream)
        return kv_error_set_errno(error, "%s: cannot read the directory", target->dir);
    enum kv_status status = KV_OK;
    for (const struct dirent *entry; status == KV_OK && (entry = readdir(stream));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            strcmp(entry->d_name, LOCK_FILE_NAME) != 0 && strcmp(entry->d_name, "lost+found") != 0)
            status = kv_error_set(error, KV_USAGE,
                                  "%s is not empty (%.64s): a store is restored to an empty "
                                  "directory",
                                  target->dir, entry->d_name);
    closedir(stream);
    return status;
}

static enum kv_status open_restore_directory(struct restore_target *target, struct kv_error *error)
{
    if (mkdir(target->dir, 0700) == 0)
        target->was_made = true;
    else if (errno != EEXIST)
        return kv_error_set_errno(error, "%s: cannot make the directory", target->dir);
    target->dir_fd = open(target->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (target->dir_fd < 0)
        return kv_error_set_errno(error, "%s: cannot open the directory", target->dir);
    enum kv_status status = check_restore_directory(target, error);
    if (status == KV_OK)
        status = backup_dir_lock(target->dir_fd, target->dir, true, &target->lock_fd, error);
    return status;
}

static enum kv_status copy_bytes_of(const struct source_file *file, int to, const char *name,
                                    struct kv_error *error)
{
    char *piece = malloc(PIECE_BYTES);
    if (!piece)
        return kv_error_set(error, KV_NO_MEMORY, "no memory to restore");
    enum kv_status status = KV_OK;
    for (uint64_t done = 0; done < file->bytes && status == KV_OK;) {
        uint64_t left = file->bytes - done;
        ssize_t got = pread(file->fd, piece, left < PIECE_BYTES ? left : PIECE_BYTES, (off_t)done);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            status = kv_error_set_errno(error, "cannot read %s of the backup", name);
        else if (got > 0 && file_copy_write(to, piece, (size_t)got, done) != 0)
            status = kv_error_set_errno(error, "cannot write %s", name);
        else if (interrupt_pending())
            status = kv_error_set(error, KV_TIMEOUT, "interrupted");
        done += got > 0 ? (uint64_t)got : 0;
    }
    free(piece);
    return status;
}

static enum kv_status copy_file(struct restore_target *target, const struct source_file *file,
                                struct kv_error *error)
{
    struct file_name name = file_name(file->number, FILE_LOG_NEW);
    int fd = openat(target->dir_fd, name.text, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                    0600);
    if (fd < 0)
        return kv_error_set_errno(error, "%s/%s: cannot make the file", target->dir, name.text);
    target->files++;
    enum kv_status status = copy_bytes_of(file, fd, name.text, error);
    if (status == KV_OK && fsync(fd) != 0)
        status = kv_error_set_errno(error, "%s/%s: cannot write the file", target->dir, name.text);
    close(fd);
    return status;
}

static enum kv_status copy_data_files(struct restore_target *target, struct backup_source *source,
                                      struct kv_error *error)
{
    for (;;) {
        struct source_file file;
        bool end;
        enum kv_status status = backup_source_next(source, &file, &end, error);
        if (status != KV_OK || end)
            return status;
        status = copy_file(target, &file, error);
        source_file_close(&file);
        if (status != KV_OK)
            return status;
    }
}

/* Gives the files their names; data.0000, which makes the directory a store, comes last. */
static enum kv_status give_names(struct restore_target *target, struct kv_error *error)
{
    for (uint32_t number = target->files; number-- > 0; target->files--)
        if (renameat(target->dir_fd, file_name(number, FILE_LOG_NEW).text, target->dir_fd,
                     file_name(number, FILE_LOG).text) != 0)
            return kv_error_set_errno(error, "%s: cannot rename the data files", target->dir);
    if (fsync(target->dir_fd) != 0)
        return kv_error_set_errno(error, "%s: cannot sync the directory", target->dir);
    return KV_OK;
}

enum kv_status restore_to_directory(struct backup_source *source, const char *dir,
                                    struct kv_error *error)
{
    struct restore_target target = {.dir = dir, .dir_fd = -1, .lock_fd = -1};
    enum kv_status status = open_restore_directory(&target, error);
    if (status == KV_OK)
        status = copy_data_files(&target, source, error);
    if (status == KV_OK)
        status = give_names(&target, error);
    bool is_complete = status == KV_OK;
    for (uint32_t number = 0; number < target.files; number++)
        unlinkat(target.dir_fd, file_name(number, FILE_LOG_NEW).text, 0);
    if (!is_complete && target.lock_fd >= 0)
        unlinkat(target.dir_fd, LOCK_FILE_NAME, 0);
    if (!is_complete && target.was_made)
        rmdir(target.dir);
    if (target.lock_fd >= 0)
        close(target.lock_fd);
    if (target.dir_fd >= 0)
        close(target.dir_fd);
    return status;
}
