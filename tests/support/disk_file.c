#include "tests/support/disk_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvstore/log/fileio.h"

#define PAGE_BYTES   4096u
#define SECTOR_BYTES 512u
#define MAX_PENDING  64

struct disk_file {
    int fd;
    ino_t inode;
    size_t size; /* as programs see it */
    uint8_t *disk;
    size_t disk_size;
    size_t pending_sizes[MAX_PENDING]; /* which the file had since disk_size, oldest first */
    size_t pending_count;
};

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "disk_file: %s: %s\n", what, strerror(errno));
    abort();
}

static bool one_in(struct random_state *random, uint64_t n)
{
    return random_below(random, n) == 0;
}

size_t disk_some_of(struct random_state *random, size_t most)
{
    switch (random_below(random, 3)) {
    case 0:
        return 0;
    case 1:
        return most;
    default:
        return random_below(random, most + 1);
    }
}

static void set_disk_size(struct disk_file *file, size_t size)
{
    if (size > file->disk_size) {
        file->disk = realloc(file->disk, size);
        require(file->disk != NULL, "realloc");
        memset(file->disk + file->disk_size, 0, size - file->disk_size);
    }
    file->disk_size = size;
}

/* The first `count` of the pending lengths get to the disk. */
static void commit_sizes(struct disk_file *file, size_t count)
{
    for (size_t i = 0; i < count; i++)
        set_disk_size(file, file->pending_sizes[i]);
    file->pending_count -= count;
    memmove(file->pending_sizes, file->pending_sizes + count,
            file->pending_count * sizeof file->pending_sizes[0]);
}

void disk_file_note_size(struct disk_file *file)
{
    struct stat facts;
    require(fstat(file->fd, &facts) == 0, "fstat");
    if ((size_t)facts.st_size == file->size)
        return;
    if (file->pending_count == MAX_PENDING)
        commit_sizes(file, 1);
    file->size = (size_t)facts.st_size;
    file->pending_sizes[file->pending_count++] = file->size;
}

/* What lies beyond a truncation that is not on disk yet has other blocks there. */
static size_t writable_size(const struct disk_file *file)
{
    size_t size = file->disk_size;
    for (size_t i = 0; i < file->pending_count; i++) {
        size_t page_end = (file->pending_sizes[i] + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
        size = page_end < size ? page_end : size;
    }
    return size;
}

/* What programs see of the file, followed by zeros up to `size`. */
static uint8_t *read_content(const struct disk_file *file, size_t size)
{
    uint8_t *content = calloc(1, size + 1);
    require(content && fileio_system.read_at(file->fd, content, size, 0) >= 0, "read");
    return content;
}

/* A sector on its way to the disk when the power goes: some of the bytes that change, from the
 * first on, get there. */
static void tear_sector(struct random_state *random, uint8_t *disk, const uint8_t *content,
                        size_t size)
{
    size_t first = 0;
    while (first < size && disk[first] == content[first])
        first++;
    while (size > first && disk[size - 1] == content[size - 1])
        size--;
    memcpy(disk + first, content + first, disk_some_of(random, size - first));
}

static void tear_page(struct random_state *random, uint8_t *disk, const uint8_t *content,
                      size_t size)
{
    for (size_t at = 0; at < size; at += SECTOR_BYTES)
        tear_sector(random, disk + at, content + at,
                    size - at < SECTOR_BYTES ? size - at : SECTOR_BYTES);
}

static void write_some_pages(struct disk_file *file, struct random_state *random)
{
    size_t size = writable_size(file);
    uint8_t *content = read_content(file, size);
    uint64_t percent = random_below(random, 2) == 0 ? disk_some_of(random, 100) : 80;
    for (size_t at = 0; at < size; at += PAGE_BYTES) {
        size_t page_size = size - at < PAGE_BYTES ? size - at : PAGE_BYTES;
        if (memcmp(file->disk + at, content + at, page_size) == 0)
            continue;
        if (random_below(random, 100) < percent)
            memcpy(file->disk + at, content + at, page_size);
        else if (one_in(random, 8))
            tear_page(random, file->disk + at, content + at, page_size);
    }
    free(content);
}

void disk_file_write_back(struct disk_file *file, struct random_state *random)
{
    commit_sizes(file, disk_some_of(random, file->pending_count));
    if (file->pending_count > 0 && file->pending_sizes[0] > file->disk_size && one_in(random, 2))
        set_disk_size(file, file->disk_size +
                                random_below(random, file->pending_sizes[0] - file->disk_size));
    write_some_pages(file, random);
}

void disk_file_sync(struct disk_file *file)
{
    commit_sizes(file, file->pending_count);
    uint8_t *content = read_content(file, file->disk_size);
    free(file->disk);
    file->disk = content;
}

struct disk_file *disk_file_watch(int dir_fd, const char *name, size_t disk_size)
{
    struct stat facts;
    struct disk_file *file = calloc(1, sizeof *file);
    require(file != NULL, "calloc");
    file->fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    require(file->fd >= 0 && fstat(file->fd, &facts) == 0, name);
    file->inode = facts.st_ino;
    file->size = file->disk_size = disk_size;
    file->disk = read_content(file, disk_size);
    disk_file_note_size(file);
    return file;
}

void disk_file_free(struct disk_file *file)
{
    close(file->fd);
    free(file->disk);
    free(file);
}

ino_t disk_file_inode(const struct disk_file *file)
{
    return file->inode;
}

void disk_file_restore(const struct disk_file *file, int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    require(fd >= 0 && fileio_system.write_at(fd, file->disk, file->disk_size, 0) ==
                           (ssize_t)file->disk_size,
            name);
    close(fd);
}

#define MAX_FATES 12u /* of pages, each there or not */

/* The file as it is with the first `sizes` of the new lengths on disk. */
static struct disk_file with_sizes(const struct disk_file *file, size_t sizes)
{
    struct disk_file copy = *file;
    copy.disk = malloc(file->disk_size + 1);
    require(copy.disk != NULL, "malloc");
    memcpy(copy.disk, file->disk, file->disk_size);
    commit_sizes(&copy, sizes);
    return copy;
}

/* Brings those pages to the disk whose fate is a bit that is set; returns how many there are that
 * could be. */
static size_t choose_pages(struct disk_file *file, uint64_t fates)
{
    size_t size = writable_size(file), pages = 0;
    uint8_t *content = read_content(file, size);
    for (size_t at = 0; at < size; at += PAGE_BYTES) {
        size_t page_size = size - at < PAGE_BYTES ? size - at : PAGE_BYTES;
        if (memcmp(file->disk + at, content + at, page_size) == 0)
            continue;
        if (fates >> (pages++ % MAX_FATES) & 1)
            memcpy(file->disk + at, content + at, page_size);
    }
    free(content);
    return pages;
}

static uint64_t states_with_sizes(const struct disk_file *file, size_t sizes)
{
    struct disk_file copy = with_sizes(file, sizes);
    size_t pages = choose_pages(&copy, 0);
    free(copy.disk);
    return UINT64_C(1) << (pages < MAX_FATES ? pages : MAX_FATES);
}

uint64_t disk_file_states(const struct disk_file *file)
{
    uint64_t states = 0;
    for (size_t sizes = 0; sizes <= file->pending_count; sizes++)
        states += states_with_sizes(file, sizes);
    return states;
}

void disk_file_restore_state(const struct disk_file *file, uint64_t state, int dir_fd,
                             const char *name)
{
    size_t sizes = 0;
    for (uint64_t states; sizes < file->pending_count; sizes++, state -= states)
        if (state < (states = states_with_sizes(file, sizes)))
            break;
    struct disk_file copy = with_sizes(file, sizes);
    choose_pages(&copy, state);
    disk_file_restore(&copy, dir_fd, name);
    free(copy.disk);
}
