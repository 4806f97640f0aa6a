#include "clientk/program/ops/store_leftovers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvstore/shared/shared_store.h"

#define SHM_DIR "/dev/shm"

/* The directory that the name stands for. */
static bool parse_name(const char *name, uint64_t *device, uint64_t *inode)
{
    if (sscanf(name, "mqkv.store.%" SCNx64 ".%" SCNx64, device, inode) != 2)
        return false;
    struct shared_store_name right = shared_store_name((dev_t)*device, (ino_t)*inode);
    return strcmp(right.text + 1, name) == 0;
}

static bool read_header(int fd, struct shared_store *header)
{
    return pread(fd, header, sizeof *header, 0) == (ssize_t)sizeof *header &&
           header->magic == SHARED_STORE_MAGIC && header->layout == SHARED_STORE_LAYOUT &&
           header->dir[0] == '/' && memchr(header->dir, '\0', sizeof header->dir);
}

static bool daemon_has_ended(const struct shared_store *header)
{
    pid_t pid = (pid_t)header->daemon_pid;
    return pid > 0 && kill(pid, 0) != 0 && errno == ESRCH;
}

static bool directory_is_gone(const struct shared_store *header, uint64_t device, uint64_t inode)
{
    struct stat is;
    if (stat(header->dir, &is) != 0)
        return errno == ENOENT || errno == ENOTDIR;
    return is.st_dev != device || is.st_ino != inode;
}

/* Its size; 0: it is to stay. */
static uint64_t size_if_left(int shm_fd, const char *name)
{
    static struct shared_store header;
    struct stat is;
    uint64_t device, inode, size = 0;
    if (!parse_name(name, &device, &inode))
        return 0;
    int fd = openat(shm_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return 0;
    if (fstat(fd, &is) == 0 && S_ISREG(is.st_mode) && is.st_uid == geteuid() &&
        read_header(fd, &header) && daemon_has_ended(&header) &&
        directory_is_gone(&header, device, inode))
        size = (uint64_t)is.st_blocks * 512 + 1;
    close(fd);
    return size;
}

struct store_leftovers store_leftovers_remove(void)
{
    struct store_leftovers left = {.objects = 0};
    DIR *shm = opendir(SHM_DIR);
    if (!shm)
        return left;
    for (struct dirent *entry; (entry = readdir(shm));) {
        uint64_t size = size_if_left(dirfd(shm), entry->d_name);
        if (size == 0 || unlinkat(dirfd(shm), entry->d_name, 0) != 0)
            continue;
        left.objects++;
        left.bytes += size;
    }
    closedir(shm);
    return left;
}
