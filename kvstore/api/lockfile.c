#include "kvstore/api/lockfile.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/memory/fork_mutex.h"
#include "common/report/error.h"
#include "kvstore/format/fileheader.h"
#include "kvstore/log/fileio.h"

#define PID_TEXT_BYTES 32

struct lockfile {
    dev_t device;
    ino_t inode;
    int fd; /* -1: a read-only store without a lock file */
    struct lockfile *next;
};

/* The stores open in this process. */
FORK_MUTEX(registry_mutex);
static struct lockfile *registry;

/* Holds: registry_mutex. */
static bool is_registered(const struct lockfile *wanted)
{
    for (const struct lockfile *entry = registry; entry; entry = entry->next)
        if (entry->device == wanted->device && entry->inode == wanted->inode)
            return true;
    return false;
}

static bool register_store(struct lockfile *lockfile)
{
    pthread_mutex_lock(&registry_mutex);
    bool free_to_take = !is_registered(lockfile);
    if (free_to_take) {
        lockfile->next = registry;
        registry = lockfile;
    }
    pthread_mutex_unlock(&registry_mutex);
    return free_to_take;
}

/* The pid that the kernel knows, or, of an owner in another pid namespace, what the file says. */
static enum kv_status report_owner(int fd, struct flock wanted, const char *dir,
                                   struct kv_error *error)
{
    char text[PID_TEXT_BYTES] = "";
    if (fcntl(fd, F_GETLK, &wanted) == 0 && wanted.l_type != F_UNLCK && wanted.l_pid > 0) {
        snprintf(text, sizeof text, "%ld", (long)wanted.l_pid);
    } else {
        ssize_t size = fileio->read_at(fd, text, sizeof text - 1, 0);
        text[size > 0 ? strspn(text, "0123456789") : 0] = '\0';
    }
    return kv_error_set(error, KV_BUSY, "%s: the store is in use by process %s; stop that first",
                        dir, text[0] ? text : "(unknown)");
}

static enum kv_status take_lock(struct lockfile *lockfile, const char *dir, int dir_fd, bool shared,
                                struct kv_error *error)
{
    int flags = shared ? O_RDONLY | O_NOFOLLOW : O_RDWR | O_CREAT | O_NOFOLLOW;
    lockfile->fd = fileio->open_at(dir_fd, LOCK_FILE_NAME, flags, 0600);
    if (lockfile->fd < 0 && shared && errno == ENOENT)
        return KV_OK;
    if (lockfile->fd < 0)
        return kv_error_set_errno(error, "%s/%s: cannot open the lock file", dir, LOCK_FILE_NAME);

    struct flock wanted = {.l_type = shared ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(lockfile->fd, F_SETLK, &wanted) != 0) {
        if (errno == EACCES || errno == EAGAIN)
            return report_owner(lockfile->fd, wanted, dir, error);
        return kv_error_set_errno(error, "%s/%s: cannot lock the file", dir, LOCK_FILE_NAME);
    }
    if (!shared) {
        char text[PID_TEXT_BYTES];
        int size = snprintf(text, sizeof text, "%ld\n", (long)getpid());
        /* A courtesy: the lock holds whether it succeeds or not. */
        if (fileio->write_at(lockfile->fd, text, (size_t)size, 0) > 0)
            fileio->truncate(lockfile->fd, size);
    }
    return KV_OK;
}

enum kv_status lockfile_acquire(const char *dir, int dir_fd, bool shared,
                                struct lockfile **lockfile, struct kv_error *error)
{
    struct stat facts;
    if (fstat(dir_fd, &facts) != 0)
        return kv_error_set_errno(error, "%s: cannot stat the directory", dir);
    struct lockfile *created = calloc(1, sizeof *created);
    if (!created)
        return kv_error_set(error, KV_NO_MEMORY, "%s: no memory", dir);
    created->device = facts.st_dev;
    created->inode = facts.st_ino;
    created->fd = -1;
    if (!register_store(created)) {
        free(created);
        return kv_error_set(error, KV_BUSY, "%s: the store is open already in this process (%ld)",
                            dir, (long)getpid());
    }
    enum kv_status status = take_lock(created, dir, dir_fd, shared, error);
    if (status == KV_OK)
        *lockfile = created;
    else
        lockfile_release(created);
    return status;
}

void lockfile_release(struct lockfile *lockfile)
{
    if (!lockfile)
        return;
    if (lockfile->fd >= 0)
        close(lockfile->fd);
    /* After the close: it would take the lock away from a store opened in between. */
    pthread_mutex_lock(&registry_mutex);
    for (struct lockfile **link = &registry; *link; link = &(*link)->next) {
        if (*link == lockfile) {
            *link = lockfile->next;
            break;
        }
    }
    pthread_mutex_unlock(&registry_mutex);
    free(lockfile);
}
