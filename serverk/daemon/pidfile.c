#include "serverk/daemon/pidfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/report/error.h"
#include "common/report/written_file.h"

#define PIDFILE_MODE 0644
#define TEXT_BYTES   32

struct pidfile {
    const char *path;
    int fd;
};

/* Returns whether the path still names the open file. A daemon that ends removes the name while it
 * still holds the lock: a process that opened the file before then has locked one without a
 * name. */
static bool is_named(const struct pidfile *pidfile)
{
    struct stat open_file, named;
    return fstat(pidfile->fd, &open_file) == 0 && lstat(pidfile->path, &named) == 0 &&
           open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

/* The mode keeps others from taking a lock before this process has one (write_pid). */
static enum kv_status open_file(struct pidfile *pidfile, struct kv_error *error)
{
    const struct written_file file = {
        .path = pidfile->path, .noun = "pid file", .must_be_regular = true, .mode = 0600};
    return written_file_open(&file, O_RDWR, &pidfile->fd, error);
}

static enum kv_status refuse_living(const struct pidfile *pidfile, pid_t owner,
                                    struct kv_error *error)
{
    return kv_error_set(
        error, KV_BUSY,
        "the pid file %s (--pidfile) belongs to process %ld, which is running: stop that "
        "daemon, or name another file",
        pidfile->path, (long)owner);
}

/* Locks the file; on a file system without locks it stays unlocked. A read lock is not a daemon's:
 * whoever may read the file can take one. *again: such a file gave up its name, for a new one. */
static enum kv_status lock_file(const struct pidfile *pidfile, bool *again, struct kv_error *error)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    *again = false;
    if (fcntl(pidfile->fd, F_SETLK, &lock) == 0 || (errno != EACCES && errno != EAGAIN))
        return KV_OK;
    if (fcntl(pidfile->fd, F_GETLK, &lock) != 0 || lock.l_type == F_WRLCK)
        return refuse_living(pidfile, lock.l_type == F_WRLCK ? lock.l_pid : 0, error);
    *again = true;
    if (lock.l_type == F_RDLCK && is_named(pidfile) && unlink(pidfile->path) != 0)
        return kv_error_set_errno(error, "cannot replace the pid file %s (--pidfile)",
                                  pidfile->path);
    return KV_OK;
}

static enum kv_status write_pid(const struct pidfile *pidfile, struct kv_error *error)
{
    char text[TEXT_BYTES];
    int size = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    mode_t withheld = umask(0);
    umask(withheld);
    if (ftruncate(pidfile->fd, 0) == 0 && write(pidfile->fd, text, (size_t)size) == size &&
        fchmod(pidfile->fd, PIDFILE_MODE & ~withheld) == 0)
        return KV_OK;
    return kv_error_set_errno(error, "cannot write the pid file %s (--pidfile)", pidfile->path);
}

static enum kv_status take_pid_file(struct pidfile *pidfile, struct kv_error *error)
{
    for (;;) {
        bool again = false;
        enum kv_status status = open_file(pidfile, error);
        if (status == KV_OK)
            status = lock_file(pidfile, &again, error);
        if (status != KV_OK || (!again && is_named(pidfile)))
            return status;
        close(pidfile->fd);
        pidfile->fd = -1;
    }
}

enum kv_status pidfile_create(const char *path, struct pidfile **result, struct kv_error *error)
{
    struct pidfile *pidfile = malloc(sizeof *pidfile);
    if (!pidfile)
        return kv_error_set(error, KV_NO_MEMORY, "out of memory");
    *pidfile = (struct pidfile){.path = path, .fd = -1};
    enum kv_status status = take_pid_file(pidfile, error);
    if (status == KV_OK) {
        status = write_pid(pidfile, error);
        if (status == KV_OK) {
            *result = pidfile;
            return KV_OK;
        }
        if (is_named(pidfile))
            unlink(path);
    }
    if (pidfile->fd >= 0)
        close(pidfile->fd);
    free(pidfile);
    return status;
}

void pidfile_remove(struct pidfile *pidfile)
{
    if (!pidfile)
        return;
    if (is_named(pidfile))
        unlink(pidfile->path);
    close(pidfile->fd);
    free(pidfile);
}
