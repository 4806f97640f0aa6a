#include "serverk/pidfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIDFILE_MODE 0644
#define TEXT_BYTES   32

struct pidfile {
    const char *path;
    int fd;
};

/* The path names the file that is open. A daemon that ends removes the name while it still holds the
 * lock: whoever opened the file before then has locked one without a name. */
static bool is_named(const struct pidfile *pidfile)
{
    struct stat open_file, named;
    return fstat(pidfile->fd, &open_file) == 0 && stat(pidfile->path, &named) == 0 &&
           open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

/* O_NONBLOCK: what is no regular file may not keep the daemon waiting. */
static enum kv_status open_file(struct pidfile *pidfile, struct kv_error *error)
{
    struct stat facts;
    pidfile->fd =
        open(pidfile->path, O_RDWR | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, PIDFILE_MODE);
    if (pidfile->fd < 0 || fstat(pidfile->fd, &facts) != 0)
        return kv_error_set_errno(error, "cannot write the pid file %s (--pidfile)", pidfile->path);
    if (!S_ISREG(facts.st_mode))
        return kv_error_set(error, KV_IO,
                            "the pid file %s (--pidfile) is there and no regular file",
                            pidfile->path);
    return KV_OK;
}

/* A file system that has no locks goes without. */
static enum kv_status lock_file(const struct pidfile *pidfile, struct kv_error *error)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(pidfile->fd, F_SETLK, &lock) == 0 || (errno != EACCES && errno != EAGAIN))
        return KV_OK;
    long owner = fcntl(pidfile->fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK ? lock.l_pid : 0;
    return kv_error_set(
        error, KV_BUSY,
        "the pid file %s (--pidfile) is that of process %ld, which lives: stop that "
        "daemon, or name another file",
        pidfile->path, owner);
}

static enum kv_status write_pid(const struct pidfile *pidfile, struct kv_error *error)
{
    char text[TEXT_BYTES];
    int size = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(pidfile->fd, 0) == 0 && write(pidfile->fd, text, (size_t)size) == size)
        return KV_OK;
    return kv_error_set_errno(error, "cannot write the pid file %s (--pidfile)", pidfile->path);
}

static enum kv_status take_file(struct pidfile *pidfile, struct kv_error *error)
{
    for (;;) {
        enum kv_status status = open_file(pidfile, error);
        if (status == KV_OK)
            status = lock_file(pidfile, error);
        if (status != KV_OK || is_named(pidfile))
            return status;
        close(pidfile->fd);
    }
}

enum kv_status pidfile_create(const char *path, struct pidfile **result, struct kv_error *error)
{
    struct pidfile *pidfile = malloc(sizeof *pidfile);
    if (!pidfile)
        return kv_error_set(error, KV_NO_MEMORY, "out of memory");
    *pidfile = (struct pidfile){.path = path, .fd = -1};
    enum kv_status status = take_file(pidfile, error);
    if (status == KV_OK) {
        status = write_pid(pidfile, error);
        if (status == KV_OK) {
            *result = pidfile;
            return KV_OK;
        }
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
