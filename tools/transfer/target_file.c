#include "tools/transfer/target_file.h"
#include "common/report/error.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PRIVATE_MODE 0600

static int create_temporary(struct target_file *target, mode_t mode)
{
    if (asprintf(&target->temporary, "%s.XXXXXX", target->path) < 0) {
        target->temporary = NULL;
        return -1;
    }
    int fd = mkostemp(target->temporary, O_CLOEXEC);
    if (fd >= 0 && fchmod(fd, mode & 0777) == 0)
        return fd;
    if (fd >= 0) {
        close(fd);
        unlink(target->temporary);
    }
    free(target->temporary);
    target->temporary = NULL;
    return -1;
}

static int open_descriptor(struct target_file *target, bool replace)
{
    struct stat there;
    target->is_new = lstat(target->path, &there) != 0;
    if (target->is_new || !replace)
        return open(target->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, PRIVATE_MODE);
    int fd = S_ISREG(there.st_mode) ? create_temporary(target, there.st_mode) : -1;
    return fd >= 0 ? fd
                   : open(target->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, PRIVATE_MODE);
}

enum kv_status target_file_open(struct target_file *target, const char *path, bool replace,
                                struct kv_error *error)
{
    *target = (struct target_file){.path = path};
    int fd = open_descriptor(target, replace);
    if (fd < 0 && errno == EEXIST)
        return kv_error_set(error, KV_USAGE, "%.200s exists already (--force replaces it)", path);
    if (fd < 0)
        return kv_error_set_errno(error, "cannot write %.200s", path);
    target->stream = fdopen(fd, "w");
    if (target->stream)
        return KV_OK;
    close(fd);
    target_file_discard(target);
    return kv_error_set(error, KV_NO_MEMORY, "no memory to write %.200s", path);
}

/* Syncs the directory, so that the name of the file outlives a power cut. A directory that may not
 * be read cannot be synced. */
static bool sync_directory(const char *path)
{
    char *copy = strdup(path);
    int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    free(copy);
    if (fd < 0)
        return true;
    bool synced = fsync(fd) == 0 || errno == EINVAL || errno == EROFS;
    int failure = errno;
    close(fd);
    errno = failure;
    return synced;
}

enum kv_status target_file_keep(struct target_file *target, struct kv_error *error)
{
    /* A device or a pipe has nothing to sync: EINVAL. */
    if (!(fflush(target->stream) == 0 && !ferror(target->stream) &&
          (fsync(fileno(target->stream)) == 0 || errno == EINVAL || errno == EROFS)) ||
        (target->temporary && rename(target->temporary, target->path) != 0)) {
        enum kv_status status = kv_error_set_errno(error, "writing %.200s", target->path);
        target_file_discard(target);
        return status;
    }
    bool has_new_name = target->temporary || target->is_new;
    fclose(target->stream);
    free(target->temporary);
    if (has_new_name && !sync_directory(target->path))
        return kv_error_set_errno(error, "%.200s is complete, but its directory cannot be synced",
                                  target->path);
    return KV_OK;
}

void target_file_discard(struct target_file *target)
{
    if (target->stream)
        fclose(target->stream);
    if (target->temporary || target->is_new)
        unlink(target->temporary ? target->temporary : target->path);
    free(target->temporary);
}
