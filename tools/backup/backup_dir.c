#include "tools/backup/backup_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/backup/file_copy.h"
#include "common/memory/whole_io.h"
#include "common/report/error.h"
#include "kvstore/format/file_name.h"

#define NEW_MANIFEST_NAME BACKUP_MANIFEST_NAME ".new"

enum kv_status backup_dir_lock(int dir_fd, const char *dir, bool exclusive, int *fd,
                               struct kv_error *error)
{
    int flags = exclusive ? O_RDWR | O_CREAT : O_RDONLY;
    *fd = openat(dir_fd, LOCK_FILE_NAME, flags | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (*fd < 0 && !exclusive)
        return KV_OK;
    if (*fd < 0)
        return kv_error_set_errno(error, "%s/" LOCK_FILE_NAME ": cannot open the lock file", dir);
    struct flock wanted = {.l_type = exclusive ? F_WRLCK : F_RDLCK, .l_whence = SEEK_SET};
    if (fcntl(*fd, F_SETLK, &wanted) == 0)
        return KV_OK;
    int failure = errno;
    bool is_known = fcntl(*fd, F_GETLK, &wanted) == 0 && wanted.l_type != F_UNLCK;
    close(*fd);
    *fd = -1;
    errno = failure;
    if (failure != EACCES && failure != EAGAIN)
        return kv_error_set_errno(error, "%s/" LOCK_FILE_NAME ": cannot lock the file", dir);
    return kv_error_set(error, KV_BUSY, "%s: process %ld uses the directory", dir,
                        is_known ? (long)wanted.l_pid : 0L);
}

/* Returns the text, which the caller frees; NULL: errno. */
static char *read_manifest_text(int fd, size_t *size)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0)
        return NULL;
    if (!S_ISREG(facts.st_mode) || facts.st_size > (off_t)BACKUP_MANIFEST_MAX_BYTES) {
        errno = EFBIG;
        return NULL;
    }
    char *text = malloc((size_t)facts.st_size + 1);
    ssize_t got = text ? whole_read(fd, text, (size_t)facts.st_size, 0, 1) : -1;
    if (got < 0) {
        free(text);
        return NULL;
    }
    *size = (size_t)got;
    return text;
}

enum kv_status backup_dir_read_manifest(int dir_fd, const char *dir,
                                        struct backup_manifest *manifest, struct kv_error *error)
{
    size_t size = 0;
    int fd = openat(dir_fd, BACKUP_MANIFEST_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return kv_error_set(error, KV_NOT_FOUND,
                            "%s: no backup there: it has no file " BACKUP_MANIFEST_NAME, dir);
    char *text = fd >= 0 ? read_manifest_text(fd, &size) : NULL;
    enum kv_status status;
    struct kv_error bare = {0};
    if (!text) {
        status =
            kv_error_set_errno(error, "%s/" BACKUP_MANIFEST_NAME ": cannot read the file", dir);
    } else {
        status = backup_manifest_parse(manifest, text, size, &bare);
        if (status != KV_OK)
            kv_error_set(error, status, "%s/%s", dir, bare.text);
    }
    free(text);
    if (fd >= 0)
        close(fd);
    return status;
}

static int write_new(int dir_fd, const char *text, size_t size)
{
    int fd = openat(dir_fd, NEW_MANIFEST_NAME,
                    O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    int result = file_copy_write(fd, text, size, 0) == 0 && fsync(fd) == 0 ? 0 : -1;
    int failure = errno;
    close(fd);
    errno = failure;
    return result;
}

enum kv_status backup_dir_write_manifest(int dir_fd, const char *dir,
                                         const struct backup_manifest *manifest,
                                         struct kv_error *error)
{
    size_t size;
    char *text = backup_manifest_print(manifest, &size);
    if (!text)
        return kv_error_set(error, KV_NO_MEMORY, "no memory for a backup");
    enum kv_status status = KV_OK;
    if (write_new(dir_fd, text, size) != 0 ||
        renameat(dir_fd, NEW_MANIFEST_NAME, dir_fd, BACKUP_MANIFEST_NAME) != 0 ||
        fsync(dir_fd) != 0) {
        status =
            kv_error_set_errno(error, "%s/" BACKUP_MANIFEST_NAME ": cannot write the file", dir);
        unlinkat(dir_fd, NEW_MANIFEST_NAME, 0);
    }
    free(text);
    return status;
}
