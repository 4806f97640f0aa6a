#include "tests/support/store_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mqkv/kvstore.h"
#include "tests/support/test_names.h"

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "store_files: %s: %s\n", what, strerror(errno));
    abort();
}

void store_dir_make(char dir[STORE_DIR_BYTES])
{
    test_path(dir, STORE_DIR_BYTES, "mqkv-test-XXXXXX");
    require(mkdtemp(dir) != NULL, "mkdtemp");
}

int store_io_count(void)
{
    char path[STORE_DIR_BYTES];
    char *page = aligned_alloc(4096, 4096);
    test_path(path, sizeof path, "mqkv-test-XXXXXX");
    int fd = page ? mkstemp(path) : -1;
    require(fd >= 0, path);
    memset(page, 0, 4096);
    bool has = write(fd, page, 4096) == 4096;
    int direct_fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    has = has && direct_fd >= 0 && pread(direct_fd, page, 4096, 0) == 4096;
    if (direct_fd >= 0)
        close(direct_fd);
    close(fd);
    unlink(path);
    free(page);
    return has ? KVSTORE_IO_COUNT : KVSTORE_IO_DIRECT;
}

bool store_lies_in_memory(const char *dir)
{
    struct statfs facts;
    require(statfs(dir, &facts) == 0, dir);
    return facts.f_type == TMPFS_MAGIC;
}

static void empty_directory(int dir_fd)
{
    DIR *listing = fdopendir(dup(dir_fd));
    require(listing != NULL, "fdopendir");
    rewinddir(listing);
    for (const struct dirent *entry; (entry = readdir(listing));)
        if (entry->d_name[0] != '.')
            unlinkat(dir_fd, entry->d_name, 0);
    closedir(listing);
}

/* What a killed process has left (kvstore/shared/shared_store.h). */
static void remove_shared_index(int dir_fd)
{
    char name[64];
    struct stat facts;
    require(fstat(dir_fd, &facts) == 0, "fstat");
    snprintf(name, sizeof name, "/mqkv.store.%jx.%jx", (uintmax_t)facts.st_dev,
             (uintmax_t)facts.st_ino);
    shm_unlink(name);
}

void store_dir_remove(const char *dir)
{
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY);
    if (dir_fd < 0)
        return;
    empty_directory(dir_fd);
    remove_shared_index(dir_fd);
    close(dir_fd);
    require(rmdir(dir) == 0, dir);
}

void store_checkpoint_remove(const char *dir)
{
    char path[STORE_DIR_BYTES + 32];
    snprintf(path, sizeof path, "%s/data.0000.index", dir);
    require(unlink(path) == 0, path);
}

void store_file_flip(const char *dir, off_t at)
{
    char path[STORE_DIR_BYTES + 16];
    uint8_t byte;
    snprintf(path, sizeof path, "%s/data.0000", dir);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    require(fd >= 0, path);
    require(pread(fd, &byte, 1, at) == 1, path);
    byte ^= 1;
    require(pwrite(fd, &byte, 1, at) == 1, path);
    close(fd);
}

static void take_file(struct image_file *file, int dir_fd, const char *name)
{
    struct stat facts;
    int fd = openat(dir_fd, name, O_RDONLY);
    require(fd >= 0 && fstat(fd, &facts) == 0, name);
    require(strlen(name) < sizeof file->name, name);
    strcpy(file->name, name);
    file->size = (size_t)facts.st_size;
    file->bytes = malloc(file->size + 1);
    require(file->bytes && read(fd, file->bytes, file->size) == (ssize_t)file->size, name);
    close(fd);
}

void image_take(struct image *image, const char *dir)
{
    image->count = 0;
    DIR *listing = opendir(dir);
    require(listing != NULL, dir);
    for (const struct dirent *entry; (entry = readdir(listing));) {
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, "lock") == 0)
            continue;
        require(image->count < IMAGE_MAX_FILES, "too many files for an image");
        take_file(&image->files[image->count++], dirfd(listing), entry->d_name);
    }
    closedir(listing);
}

void image_free(struct image *image)
{
    for (size_t i = 0; i < image->count; i++)
        free(image->files[i].bytes);
    image->count = 0;
}

void image_put(const struct image *image, const char *dir)
{
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY);
    require(dir_fd >= 0, dir);
    empty_directory(dir_fd);
    for (size_t i = 0; i < image->count; i++) {
        const struct image_file *file = &image->files[i];
        int fd = openat(dir_fd, file->name, O_WRONLY | O_CREAT | O_EXCL, 0600);
        require(fd >= 0 && write(fd, file->bytes, file->size) == (ssize_t)file->size, file->name);
        close(fd);
    }
    close(dir_fd);
}

struct image_file *image_find(struct image *image, const char *name)
{
    for (size_t i = 0; i < image->count; i++)
        if (strcmp(image->files[i].name, name) == 0)
            return &image->files[i];
    return NULL;
}

static const char *kvcheck_path(void)
{
    static char path[256];
    const char *build = getenv("MQKV_BUILD");
    snprintf(path, sizeof path, "%s/kvcheck", build ? build : "build");
    return path;
}

bool have_kvcheck(void)
{
    return access(kvcheck_path(), X_OK) == 0;
}

static void read_all(int fd, char *output, size_t output_bytes)
{
    size_t used = 0;
    char drained[4096];
    for (;;) {
        size_t room = output_bytes - 1 - used;
        ssize_t got = room > 0 ? read(fd, output + used, room) : read(fd, drained, sizeof drained);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        used += room > 0 ? (size_t)got : 0;
    }
    output[used] = '\0';
}

int run_kvcheck(const char *arg1, const char *arg2, const char *arg3, char *output,
                size_t output_bytes)
{
    const char *path = kvcheck_path();
    int ends[2];
    require(pipe(ends) == 0, "pipe");
    pid_t child = fork();
    require(child >= 0, "fork");
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl(path, "kvcheck", arg1, arg2, arg3, (char *)NULL);
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        _exit(127);
    }
    close(ends[1]);
    read_all(ends[0], output, output_bytes);
    close(ends[0]);
    int status;
    require(waitpid(child, &status, 0) == child, "waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
