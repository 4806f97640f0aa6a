#include "kvstore/kvcheck/running_store.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/memory/cursor.h"
#include "kvstore/format/fileheader.h"
#include "kvstore/format/record.h"
#include "kvstore/format/sizes.h"
#include "kvstore/kvcheck/source_open.h"
#include "kvstore/shared/store_objects.h"

/* longer than any single write takes */
#define SETTLE_NS 300000000L

static bool is_that_store(const struct running_store *live, const struct layout *layout)
{
    const struct shared_store *shared = live->shared;
    return shared->magic == SHARED_STORE_MAGIC && shared->layout == SHARED_STORE_LAYOUT &&
           __atomic_load_n(&shared->condition, __ATOMIC_ACQUIRE) == SHARED_STORE_IN_USE &&
           shared->datafiles == layout->datafiles && shared->store_seed == layout->seed &&
           shared->files_offset >= SHARED_STORE_HEADER_BYTES &&
           shared->files_offset % _Alignof(struct shared_file) == 0 &&
           shared->files_offset + (uint64_t)layout->datafiles * sizeof(struct shared_file) <=
               live->shared_bytes;
}

struct object_search {
    struct running_store *live;
    const struct layout *layout;
    dev_t device;
    ino_t inode;
};

/* Maps all of the object. False: it has no header, or cannot be mapped. */
static bool map_whole(struct running_store *live, int fd)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0 || facts.st_size < (off_t)SHARED_STORE_HEADER_BYTES)
        return false;
    void *at = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return false;
    if (live->shared)
        munmap((void *)(uintptr_t)live->shared, live->shared_bytes);
    live->shared = at;
    live->shared_bytes = (size_t)facts.st_size;
    live->shared_fd = fd;
    return true;
}

static bool map_object(void *context, uint64_t number)
{
    const struct object_search *search = context;
    struct running_store *live = search->live;
    struct shared_store_name name =
        shared_store_numbered_name(search->device, search->inode, number);
    int fd = shm_open(name.text, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return false;
    if (!map_whole(live, fd))
        close(fd);
    else if (!is_that_store(live, search->layout))
        running_store_close(live);
    return live->shared != NULL;
}

void running_store_grow(struct running_store *live)
{
    if (__atomic_load_n(&live->shared->shared_bytes, __ATOMIC_ACQUIRE) > live->shared_bytes)
        (void)map_whole(live, live->shared_fd);
}

void running_store_open(struct running_store *live, int dir_fd, const struct layout *layout)
{
    struct stat dir, lock;
    *live = (struct running_store){.dir_fd = dir_fd, .datafiles = layout->datafiles};
    /* The owner of the daemon's lock file tells its uid. */
    if (fstat(dir_fd, &dir) != 0 ||
        fstatat(dir_fd, LOCK_FILE_NAME, &lock, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    struct object_search search = {live, layout, dir.st_dev, dir.st_ino};
    store_objects_find(dir.st_dev, dir.st_ino, lock.st_uid, map_object, &search);
}

void running_store_close(struct running_store *live)
{
    if (!live->shared)
        return;
    munmap((void *)(uintptr_t)live->shared, live->shared_bytes);
    close(live->shared_fd);
    live->shared = NULL;
}

/* Returns where the log ends; 0: not known. */
static uint64_t tail_of(const struct running_store *live, const struct source *source)
{
    uint32_t number = source->identity.number;
    if (!live->shared || number >= live->datafiles || source->header != SOURCE_HEADER_SOUND)
        return 0;
    const struct shared_file *file =
        (const struct shared_file *)((const char *)live->shared + live->shared->files_offset) +
        number;
    uint64_t generation = __atomic_load_n(&file->generation, __ATOMIC_ACQUIRE);
    const struct shared_generation *state = &file->states[generation % 2];
    uint64_t tail = __atomic_load_n(&state->tail, __ATOMIC_ACQUIRE);
    bool is_this = state->salt == source->identity.salt &&
                   __atomic_load_n(&file->generation, __ATOMIC_ACQUIRE) == generation;
    return is_this && tail >= FILE_HEADER_BYTES ? tail : 0;
}

bool running_store_bound(const struct running_store *live, struct source *source)
{
    uint64_t tail = tail_of(live, source);
    /* The daemon may have made the file longer since it was mapped. */
    if (at_least(tail, source->progress.synced_offset) > source->size_bytes)
        (void)source_grow(source);
    if (tail == 0 || tail > source->size_bytes)
        return false;
    source->size_bytes = tail;
    source->used_bytes = tail;
    source->progress.synced_offset = tail;
    return true;
}

void running_store_settle(void)
{
    nanosleep(&(struct timespec){.tv_nsec = SETTLE_NS}, NULL);
}

bool running_store_gap_stays(const struct source *source, uint64_t offset)
{
    struct record record;
    uint64_t size_bytes;
    running_store_settle();
    return record_walk(source->map, source->size_bytes, source->identity.salt, offset, &record,
                       &size_bytes) != RECORD_VALID;
}

bool running_store_overwrites(const struct source *source, uint64_t offset)
{
    struct record placed, record;
    uint64_t size_bytes;
    if (!source->is_live ||
        record_parse(source->map + offset, source->size_bytes - offset, &placed, &size_bytes) !=
            RECORD_VALID ||
        placed.kind != RECORD_POINTER)
        return false;
    if (record_walk(source->map, source->size_bytes, source->identity.salt, offset, &record,
                    &size_bytes) == RECORD_VALID)
        return true; /* it is as it was written */
    /* A content loses its version before it is overwritten. */
    uint64_t at = record_placed_at(&placed, offset);
    uint64_t version = at != 0 ? load_u64(source->map + at + RECORD_VERSION_AT) : 0;
    return version == RECORD_NO_VERSION_YET || version > placed.version;
}

bool running_store_was_replaced(const struct running_store *live, const struct source *source)
{
    struct stat here, there;
    return fstat(source->fd, &here) != 0 ||
           fstatat(live->dir_fd, source->name.text, &there, AT_SYMLINK_NOFOLLOW) != 0 ||
           here.st_dev != there.st_dev || here.st_ino != there.st_ino;
}
