#include "common/report/written_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/report/error.h"

static enum kv_status refuse_link(const struct written_file *file, struct kv_error *error)
{
    return kv_error_set(
        error, KV_DENIED,
        "the %s %s is a symbolic link, which is not followed: remove it, or name the "
        "file itself",
        file->noun, file->path);
}

static enum kv_status refuse_foreign(const struct written_file *file, uid_t owner,
                                     struct kv_error *error)
{
    return kv_error_set(
        error, KV_DENIED,
        "the %s %s exists and belongs to uid %u, not to %u: have it removed, or name a "
        "file where only you can make one",
        file->noun, file->path, (unsigned)owner, (unsigned)geteuid());
}

static enum kv_status check_opened_file(const struct written_file *file, const struct stat *facts,
                                        struct kv_error *error)
{
    if (file->must_be_regular && !S_ISREG(facts->st_mode))
        return kv_error_set(error, KV_IO, "the %s %s exists and is not a regular file", file->noun,
                            file->path);
    if (!S_ISCHR(facts->st_mode) && facts->st_uid != geteuid() && facts->st_uid != 0)
        return refuse_foreign(file, facts->st_uid, error);
    if (S_ISREG(facts->st_mode) && facts->st_nlink > 1)
        return kv_error_set(
            error, KV_DENIED,
            "the %s %s has a second name (a hard link), and is not written to: remove "
            "it, or name another file",
            file->noun, file->path);
    return KV_OK;
}

/* Why the file could not be opened: errno. */
static enum kv_status explain_open_failure(const struct written_file *file, struct kv_error *error)
{
    struct stat facts;
    int error_number = errno;
    bool there = lstat(file->path, &facts) == 0;
    if (error_number == ELOOP || (error_number == EACCES && there && S_ISLNK(facts.st_mode)))
        return refuse_link(file, error);
    if (error_number == EACCES && there && facts.st_uid != geteuid())
        return refuse_foreign(file, facts.st_uid, error);
    errno = error_number;
    return kv_error_set_errno(error, "cannot write the %s %s", file->noun, file->path);
}

/* /dev/stderr and its like are links that only root could make: they lead nobody astray. */
static bool is_in_dev(const char *path)
{
    static const char dev[] = "/dev/";
    size_t length = sizeof dev - 1;
    return strncmp(path, dev, length) == 0 && !strchr(path + length, '/');
}

enum kv_status written_file_open(const struct written_file *file, int flags, int *fd,
                                 struct kv_error *error)
{
    struct stat facts;
    int follow = is_in_dev(file->path) ? 0 : O_NOFOLLOW;
    *fd =
        open(file->path, flags | O_CREAT | follow | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, file->mode);
    if (*fd < 0)
        return explain_open_failure(file, error);
    enum kv_status status =
        fstat(*fd, &facts) == 0
            ? check_opened_file(file, &facts, error)
            : kv_error_set_errno(error, "cannot write the %s %s", file->noun, file->path);
    if (status != KV_OK) {
        close(*fd);
        *fd = -1;
    }
    return status;
}

static enum kv_status check_parent_directory(const struct written_file *file,
                                             struct kv_error *error)
{
    char *copy = strdup(file->path);
    if (!copy)
        return kv_error_set(error, KV_NO_MEMORY, "out of memory");
    enum kv_status status = KV_OK;
    const char *directory = dirname(copy);
    if (faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) != 0)
        status = kv_error_set_errno(error, "the %s %s cannot be made: %s", file->noun, file->path,
                                    directory);
    free(copy);
    return status;
}

enum kv_status written_file_check(const struct written_file *file, struct kv_error *error)
{
    struct stat facts;
    bool follow = is_in_dev(file->path);
    if (fstatat(AT_FDCWD, file->path, &facts, follow ? 0 : AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? check_parent_directory(file, error)
                               : explain_open_failure(file, error);
    if (S_ISLNK(facts.st_mode))
        return refuse_link(file, error);
    if (faccessat(AT_FDCWD, file->path, W_OK, AT_EACCESS) != 0)
        return explain_open_failure(file, error);
    return check_opened_file(file, &facts, error);
}
