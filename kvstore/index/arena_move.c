#include "kvstore/index/arena_move.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/memory/whole_io.h"
#include "kvstore/index/arena_chunks.h"

int arena_object(const struct arena *arena)
{
    return fcntl(arena->backing.fd, F_DUPFD_CLOEXEC, 0);
}

/* How many bytes of a chunk, from its beginning, the object has and may be touched. */
static uint64_t bytes_to_move(const struct chunk *chunk)
{
    if (chunk->kind == CHUNK_FREE || chunk->is_own)
        return 0;
    return chunk->kind == CHUNK_WHOLE ? ARENA_CHUNK_BYTES
                                      : whole_steps((uint64_t)chunk->ready * ARENA_BLOCK_BYTES);
}

static uint32_t chunks_of_object(const struct arena *arena)
{
    return chunks_before(arena->backing.file_bytes);
}

/* Holds: the arena's mutex. */
static bool allocate_chunk(const struct arena *arena, uint32_t number, int fd)
{
    KV_ASSERT(mutex_is_held(&arena->mutex));
    struct backing object = {.fd = fd};
    uint64_t bytes = bytes_to_move(&arena->chunks[number]);
    return bytes == 0 || backing_allocate(&object, (uint64_t)number * ARENA_CHUNK_BYTES, bytes);
}

bool arena_prepare_move(struct arena *arena, int fd)
{
    bool has_room = true;
    bool is_last = false;
    for (uint32_t number = 0; has_room && !is_last; number++) {
        pthread_mutex_lock(&arena->mutex);
        has_room = allocate_chunk(arena, number, fd);
        is_last = number + 1 >= chunks_of_object(arena);
        pthread_mutex_unlock(&arena->mutex);
    }
    return has_room;
}

/* Copies from the mapping `from`, since free parts of the arena's mapping must not be touched
 * (arena_chunks.h). */
static bool copy_chunks(const struct arena *arena, const char *from, int fd)
{
    struct shared_store header = *(const struct shared_store *)from;
    header.condition = SHARED_STORE_BEING_MADE;
    bool copied = whole_write(fd, &header, sizeof header, 0);
    uint64_t offset = sizeof header;
    for (uint32_t number = 0; copied && number < chunks_of_object(arena); number++) {
        uint64_t begin = (uint64_t)number * ARENA_CHUNK_BYTES;
        uint64_t bytes = bytes_to_move(&arena->chunks[number]);
        uint64_t at = begin < offset ? offset : begin, end = begin + bytes;
        copied = end <= at || whole_write(fd, from + at, end - at, (off_t)at);
    }
    return copied;
}

static bool copy_arena_to(const struct arena *arena, int fd)
{
    uint64_t bytes = arena->backing.file_bytes;
    struct backing object = {.fd = fd};
    if (!backing_allocate(&object, bytes - 1, 1)) /* as long as the old one (without ftruncate,
                                                     which serverk's sandbox refuses) */
        return false;
    for (uint32_t number = 0; number < chunks_of_object(arena); number++)
        if (!allocate_chunk(arena, number, fd))
            return false;
    char *from = mmap(NULL, bytes, PROT_READ, MAP_SHARED, arena->backing.fd, 0);
    if (from == MAP_FAILED)
        return false;
    bool copied = copy_chunks(arena, from, fd);
    munmap(from, bytes);
    return copied;
}

/* Shows the object in every range that is not the arena's own memory. */
static bool show_object(const struct arena *arena)
{
    uint32_t from = 0;
    bool shown = true;
    for (uint32_t number = 0; shown && number <= arena->chunk_room; number++) {
        if (number < arena->chunk_room && !arena->chunks[number].is_own)
            continue;
        shown = from == number || backing_show(&arena->backing, (uint64_t)from * ARENA_CHUNK_BYTES,
                                               (uint64_t)(number - from) * ARENA_CHUNK_BYTES);
        from = number + 1;
    }
    return shown;
}

/* The number of the descriptor stays the same, so that no thread has to learn a new one. */
static bool replace_object(const struct arena *arena, int fd)
{
    int old = arena_object(arena);
    if (old < 0)
        return false;
    bool replaced = dup3(fd, arena->backing.fd, O_CLOEXEC) >= 0;
    if (replaced && !show_object(arena)) {
        int reason = errno;
        replaced = false;
        dup3(old, arena->backing.fd, O_CLOEXEC);
        show_object(arena);
        errno = reason;
    }
    int reason = errno;
    close(old);
    errno = reason;
    return replaced;
}

bool arena_move(struct arena *arena, int fd)
{
    pthread_mutex_lock(&arena->mutex);
    bool moved = copy_arena_to(arena, fd) && replace_object(arena, fd);
    pthread_mutex_unlock(&arena->mutex);
    if (moved)
        close(fd);
    return moved;
}

void arena_restore_large_pages(struct arena *arena)
{
    bool is_last = false;
    for (uint32_t number = 0; !is_last; number++) {
        pthread_mutex_lock(&arena->mutex);
        const struct chunk *chunk = &arena->chunks[number];
        if (chunk->is_large && bytes_to_move(chunk) == ARENA_CHUNK_BYTES)
            backing_want_large_pages(&arena->backing, chunk_offset(arena, chunk), ARENA_CHUNK_BYTES,
                                     false);
        is_last = number + 1 >= chunks_of_object(arena);
        pthread_mutex_unlock(&arena->mutex);
    }
}
