#include "kvstore/shared/store_leftovers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "kvstore/shared/shared_store.h"

#define SHM_DIR "/dev/shm"

enum verdict { STAYS, GONE, UNSURE };

void store_leftovers_lock(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    fcntl(fd, F_OFD_SETLK, &lock); /* one daemon has a store: nobody else can hold it */
}

static bool is_held(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

static bool read_store_header(int fd, struct shared_store *header)
{
    return pread(fd, header, sizeof *header, 0) == (ssize_t)sizeof *header &&
           header->magic == SHARED_STORE_MAGIC && header->layout == SHARED_STORE_LAYOUT &&
           header->dir[0] == '/' && memchr(header->dir, '\0', sizeof header->dir);
}

/* Daemons of earlier versions hold no lock. */
static bool daemon_has_ended(const struct shared_store *header)
{
    pid_t pid = (pid_t)header->daemon_pid;
    int pidfd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    if (pidfd < 0)
        return pid > 0 && errno == ESRCH;
    struct pollfd end = {.fd = pidfd, .events = POLLIN};
    bool ended = poll(&end, 1, 0) == 1;
    close(pidfd);
    return ended;
}

/* Cuts the path to what is there of it. */
static bool find_what_is_there(char *path, struct stat *is)
{
    while (stat(path, is) != 0) {
        char *slash = strrchr(path, '/');
        if ((errno != ENOENT && errno != ENOTDIR) || !slash || strcmp(path, "/") == 0)
            return false;
        slash[slash == path] = '\0';
    }
    return true;
}

static enum verdict judge_directory(char *path, uint64_t device, uint64_t inode)
{
    struct stat is;
    size_t length = strlen(path);
    if (!find_what_is_there(path, &is))
        return STAYS;
    bool whole = strlen(path) == length;
    if (is.st_dev != device)
        return UNSURE;
    return whole && is.st_ino == inode ? STAYS : GONE;
}

static enum verdict judge_leftover(int fd, const char *name, struct stat *is)
{
    static _Thread_local struct shared_store header;
    uint64_t device, inode, number;
    if (!shared_store_parse_name(name, &device, &inode, &number) || fstat(fd, is) != 0 ||
        !S_ISREG(is->st_mode) || is->st_uid != geteuid() || is_held(fd) ||
        !read_store_header(fd, &header) || !daemon_has_ended(&header))
        return STAYS;
    return judge_directory(header.dir, device, inode);
}

static void consider_leftover(int shm_fd, const char *name, struct store_leftovers *left)
{
    struct stat is;
    if (strncmp(name, "mqkv.store.", strlen("mqkv.store.")) != 0)
        return;
    int fd = openat(shm_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return;
    enum verdict verdict = judge_leftover(fd, name, &is);
    close(fd);
    if (verdict == UNSURE) {
        left->unsure_objects++;
        left->unsure_bytes += (uint64_t)is.st_blocks * 512;
        snprintf(left->unsure_name, sizeof left->unsure_name, "%.63s", name);
    }
    if (verdict == GONE && unlinkat(shm_fd, name, 0) == 0) {
        left->objects++;
        left->bytes += (uint64_t)is.st_blocks * 512;
    }
}

struct store_leftovers store_leftovers_remove(uint32_t within_ms)
{
    struct store_leftovers left = {.objects = 0};
    uint64_t until_ms = clock_monotonic_coarse_ms() + within_ms;
    DIR *shm = opendir(SHM_DIR);
    if (!shm)
        return left;
    for (struct dirent *entry; clock_monotonic_coarse_ms() < until_ms && (entry = readdir(shm));)
        consider_leftover(dirfd(shm), entry->d_name, &left);
    closedir(shm);
    return left;
}
