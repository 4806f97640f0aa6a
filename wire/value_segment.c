#include "wire/value_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/memory/copy.h"
#include "common/memory/mapguard.h"
#include "common/memory/whole_io.h"
#include "common/report/error.h"

/* Memory is taken in steps of this size, so that few accesses have to take any. */
#define BACKING_STEP_BYTES (256u * 1024u)

/* Older C libraries do not have it. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

struct wire_segment {
    int fd;                 /* -1: closed, since the mapping needs none */
    uint8_t *mapping;       /* NULL: not mapped */
    struct mapguard *guard; /* server: guards the mapping */
    uint64_t bytes;
    /* The bytes from the start of a mapping that are known to have memory; there may be more.
     * Touching a page that has none raises SIGBUS when /dev/shm is full, so wire_segment_at takes
     * memory first, which can fail. The counter lies apart since it changes in segments that are
     * const. */
    _Atomic uint64_t *backed_bytes;
};

/* Closes the segment, but keeps errno for the message. */
static void segment_discard(struct wire_segment *segment)
{
    int error_number = errno;
    wire_segment_close(segment);
    errno = error_number;
}

/* Makes a segment that owns `fd`. NULL: no memory, and `fd` is closed. */
static struct wire_segment *new_segment(int fd, uint64_t bytes)
{
    struct wire_segment *segment = calloc(1, sizeof *segment);
    _Atomic uint64_t *backed_bytes = calloc(1, sizeof *backed_bytes);
    if (!segment || !backed_bytes) {
        free(segment);
        free(backed_bytes);
        close(fd);
        return NULL;
    }
    *segment = (struct wire_segment){.fd = fd, .bytes = bytes, .backed_bytes = backed_bytes};
    return segment;
}

static bool map_segment(struct wire_segment *segment)
{
    void *mapping = mmap(NULL, segment->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, segment->fd, 0);
    if (mapping == MAP_FAILED)
        return false;
    segment->mapping = mapping;
    return true;
}

/* Takes memory for the bytes `from` to `to`. False with errno: there is none left. */
static bool segment_take_memory(const struct wire_segment *segment, uint64_t from, uint64_t to)
{
    if (segment->fd >= 0)
        return fallocate(segment->fd, FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(to - from)) == 0;
    return madvise(segment->mapping + from, to - from, MADV_POPULATE_WRITE) == 0;
}

/* Closes the descriptor if the kernel gives memory to a mapping without one (Linux 5.14). */
static void segment_drop_descriptor(struct wire_segment *segment)
{
    if (!segment->mapping || madvise(segment->mapping, 0, MADV_POPULATE_WRITE) != 0)
        return;
    close(segment->fd);
    segment->fd = -1;
}

/* Returns true if off_t and size_t can hold `bytes`, which must not be 0: nothing could be
 * mapped. */
static bool segment_size_possible(uint64_t bytes)
{
    return bytes > 0 && bytes <= INT64_MAX && bytes <= SIZE_MAX;
}

enum kv_status wire_segment_create(const char *name, uint64_t bytes, mode_t mode,
                                   struct wire_segment **segment, struct kv_error *error)
{
    if (!segment_size_possible(bytes))
        return kv_error_set(error, KV_USAGE, "a shared-memory segment of %llu bytes is impossible",
                            (unsigned long long)bytes);
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, mode);
    if (fd < 0)
        return kv_error_set_errno(error,
                                  "cannot create the shared-memory segment %s (is /dev/shm "
                                  "mounted, and writable?)",
                                  name);
    struct wire_segment *created = new_segment(fd, bytes);
    if (!created) {
        shm_unlink(name);
        return kv_error_set(error, KV_NO_MEMORY, "no memory for a segment");
    }
    if (fchmod(fd, mode) != 0 || ftruncate(fd, (off_t)bytes) != 0 || !map_segment(created)) {
        segment_discard(created);
        enum kv_status status =
            kv_error_set_errno(error, "cannot make the shared-memory segment %s of %llu bytes",
                               name, (unsigned long long)bytes);
        shm_unlink(name);
        return status;
    }
    *segment = created;
    return KV_OK;
}

/* Checks that the object is what the client said. */
static enum kv_status segment_check_object(int fd, const char *name, uint64_t bytes,
                                           uid_t creator_uid, struct kv_error *error)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0)
        return kv_error_set_errno(error, "cannot examine the shared-memory segment %s", name);
    if (facts.st_uid != creator_uid)
        return kv_error_set(
            error, KV_DENIED,
            "the shared-memory segment %s belongs to uid %u, not to the client's %u", name,
            (unsigned)facts.st_uid, (unsigned)creator_uid);
    if (!S_ISREG(facts.st_mode))
        return kv_error_set(error, KV_BAD_REQUEST, "%s is no shared-memory segment", name);
    if ((uint64_t)facts.st_size < bytes)
        return kv_error_set(error, KV_BAD_REQUEST,
                            "the shared-memory segment %s has %lld bytes, not the %llu offered",
                            name, (long long)facts.st_size, (unsigned long long)bytes);
    return KV_OK;
}

enum kv_status wire_segment_open(const char *name, uint64_t bytes, uid_t creator_uid, bool map,
                                 struct wire_segment **segment, struct kv_error *error)
{
    if (!segment_size_possible(bytes))
        return kv_error_set(error, KV_BAD_REQUEST,
                            "a shared-memory segment of %llu bytes is impossible",
                            (unsigned long long)bytes);
    /* Without O_NONBLOCK a lease that its owner holds on the object keeps the caller asleep for as
     * long as /proc/sys/fs/lease-break-time says, 45 s. */
    int fd = shm_open(name, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0 && errno == EAGAIN)
        return kv_error_set(
            error, KV_DENIED,
            "the shared-memory segment %s cannot be opened at once: somebody holds a "
            "lease on it; offer one without",
            name);
    if (fd < 0)
        return kv_error_set_errno(error, "cannot open the shared-memory segment %s", name);
    enum kv_status status = segment_check_object(fd, name, bytes, creator_uid, error);
    if (status != KV_OK) {
        close(fd);
        return status;
    }
    struct wire_segment *opened = new_segment(fd, bytes);
    if (!opened)
        return kv_error_set(error, KV_NO_MEMORY, "no memory for a segment");
    if (map && !map_segment(opened)) {
        segment_discard(opened);
        return kv_error_set_errno(error, "cannot map the shared-memory segment %s", name);
    }
    if (map)
        opened->guard = mapguard_add(opened->mapping, bytes);
    segment_drop_descriptor(opened);
    *segment = opened;
    return KV_OK;
}

void wire_segment_close(struct wire_segment *segment)
{
    if (!segment)
        return;
    mapguard_remove(segment->guard);
    if (segment->mapping)
        munmap(segment->mapping, segment->bytes);
    if (segment->fd >= 0)
        close(segment->fd);
    free(segment->backed_bytes);
    free(segment);
}

uint64_t wire_segment_bytes(const struct wire_segment *segment)
{
    return segment->bytes;
}

bool wire_segment_is_broken(const struct wire_segment *segment)
{
    return mapguard_is_broken(segment->guard);
}

bool wire_segment_is_mapped(const struct wire_segment *segment)
{
    return segment->mapping != NULL;
}

static bool segment_has_range(const struct wire_segment *segment, uint64_t offset, uint64_t size)
{
    return offset <= segment->bytes && size <= segment->bytes - offset;
}

/* Takes memory for the bytes before `end`, which lie within the segment, unless they have it.
 * False: there is none left. Several threads may do this at once: taking memory twice is harmless,
 * and a smaller count that is stored last only costs another call. */
static bool segment_ensure_memory(const struct wire_segment *segment, uint64_t end)
{
    uint64_t backed = atomic_load_explicit(segment->backed_bytes, memory_order_relaxed);
    KV_ASSERT(end <= segment->bytes && backed <= segment->bytes);
    if (end <= backed)
        return true;
    uint64_t step_end = (end + BACKING_STEP_BYTES - 1) / BACKING_STEP_BYTES * BACKING_STEP_BYTES;
    if (step_end > segment->bytes)
        step_end = segment->bytes;
    bool backed_now;
    do
        backed_now = segment_take_memory(segment, backed, step_end);
    while (!backed_now && errno == EINTR);
    if (!backed_now)
        return false;
    atomic_store_explicit(segment->backed_bytes, step_end, memory_order_relaxed);
    return true;
}

void *wire_segment_at(const struct wire_segment *segment, uint64_t offset, uint64_t size)
{
    if (!segment->mapping || !segment_has_range(segment, offset, size) ||
        !segment_ensure_memory(segment, offset + size))
        return NULL;
    return segment->mapping + offset;
}

bool wire_segment_read(const struct wire_segment *segment, uint64_t offset, void *data,
                       uint64_t size)
{
    if (!segment_has_range(segment, offset, size))
        return false;
    if (segment->mapping) {
        const void *from = wire_segment_at(segment, offset, size);
        if (from)
            copy_bytes(data, from, size);
        return from != NULL;
    }
    return whole_read(segment->fd, data, size, (off_t)offset, 1) == (ssize_t)size;
}

bool wire_segment_write(const struct wire_segment *segment, uint64_t offset, const void *data,
                        uint64_t size)
{
    if (!segment_has_range(segment, offset, size))
        return false;
    if (segment->mapping) {
        void *to = wire_segment_at(segment, offset, size);
        if (to)
            copy_bytes(to, data, size);
        return to != NULL;
    }
    return whole_write(segment->fd, data, size, (off_t)offset);
}
