#include "kvstore/log/read_buffer.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "common/assert/assert.h"
#include "common/memory/machine_sizes.h"
#include "kvstore/log/fileio.h"
#include "kvstore/format/sizes.h"

/* The least that is read. A record and its neighbours share a page of the file, so that reading
 * less would save nothing but the copying. */
#define LOOK_BYTES PAGE_BYTES
#define WALK_BYTES (UINT64_C(1) << 20)

/* A disk reads two pages as fast as one; with two, a record with a value of 4 KiB takes one read.
 * */
#define DIRECT_LOOK_BYTES (2 * PAGE_BYTES)

struct stretch {
    uint8_t *bytes;
    uint64_t capacity;
    uint64_t offset; /* in the file, of the first byte */
    uint64_t size;   /* 0: holds nothing */
};

static _Thread_local struct stretch stretches[READ_BUFFER_COUNT];
static _Thread_local bool has_large; /* a stretch may have more than READ_BUFFER_KEPT_BYTES */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t end_of_thread;
static bool has_key;

static void free_stretches(void *of_thread)
{
    struct stretch *own = of_thread;
    for (int i = 0; i < READ_BUFFER_COUNT; i++) {
        free(own[i].bytes);
        own[i] = (struct stretch){0};
    }
}

/* Without the key (a process has 1,024) the memory is lost with the thread. */
static void make_key(void)
{
    has_key = pthread_key_create(&end_of_thread, free_stretches) == 0;
}

/* The contents of the stretch may be lost. */
static bool ensure_capacity(struct stretch *stretch, uint64_t size)
{
    if (size <= stretch->capacity)
        return true;
    pthread_once(&once, make_key);
    if (has_key && !pthread_getspecific(end_of_thread))
        pthread_setspecific(end_of_thread, stretches);
    free(stretch->bytes);
    size = round_up(size, PAGE_BYTES); /* whole pages, as O_DIRECT needs them */
    stretch->bytes = aligned_alloc(PAGE_BYTES, size);
    stretch->capacity = stretch->bytes ? size : 0;
    stretch->size = 0;
    has_large = has_large || size > READ_BUFFER_KEPT_BYTES;
    return stretch->bytes != NULL;
}

void read_buffer_forget(enum read_buffer buffer)
{
    struct stretch *stretch = &stretches[buffer];
    stretch->size = 0;
    if (stretch->capacity > READ_BUFFER_KEPT_BYTES) {
        free(stretch->bytes);
        *stretch = (struct stretch){0};
    }
}

void read_buffer_trim(void)
{
    for (int i = 0; has_large && i < READ_BUFFER_COUNT; i++)
        if (stretches[i].capacity > READ_BUFFER_KEPT_BYTES)
            read_buffer_forget((enum read_buffer)i);
    has_large = false;
}

static bool stretch_holds(const struct stretch *stretch, uint64_t offset, uint64_t size)
{
    return offset >= stretch->offset && offset - stretch->offset <= stretch->size &&
           size <= stretch->size - (offset - stretch->offset);
}

bool read_buffer_holds(enum read_buffer buffer, uint64_t offset, uint64_t size)
{
    return stretch_holds(&stretches[buffer], offset, size);
}

static const uint8_t *out_of_memory(void)
{
    errno = ENOMEM;
    return NULL;
}

/* After a read to the stretch: false and errno if it failed (got < 0) or gave less than needed. */
static bool take_what_came(struct stretch *stretch, uint64_t offset, ssize_t got, uint64_t needed)
{
    bool enough = got >= 0 && (uint64_t)got >= needed;
    if (got >= 0 && !enough)
        errno = ENODATA;
    stretch->offset = offset;
    stretch->size = enough ? (uint64_t)got : 0;
    return enough;
}

const uint8_t *read_buffer_read(enum read_buffer buffer, int fd, uint64_t offset, uint64_t size,
                                uint64_t end)
{
    struct stretch *stretch = &stretches[buffer];
    KV_ASSERT(offset <= end && buffer < READ_BUFFER_COUNT);
    if (!stretch_holds(stretch, offset, size)) {
        uint64_t least = buffer == READ_BUFFER_WALK ? WALK_BYTES : LOOK_BYTES;
        uint64_t wanted = at_least(size, at_most(end - offset, least));
        /* No bytes at all, at the end of a file, have a place too: NULL is an error. */
        if (!ensure_capacity(stretch, at_least(wanted, 1)))
            return out_of_memory();
        ssize_t got = fileio->read_at(fd, stretch->bytes, wanted, (off_t)offset);
        if (!take_what_came(stretch, offset, got, size))
            return NULL;
    }
    KV_ASSERT(stretch->size <= stretch->capacity);
    return stretch->bytes + (offset - stretch->offset);
}

const uint8_t *read_buffer_read_direct(enum read_buffer buffer, int fd, uint64_t offset,
                                       uint64_t size, uint64_t end)
{
    struct stretch *stretch = &stretches[buffer];
    if (!stretch_holds(stretch, offset, size)) {
        uint64_t from = offset / PAGE_BYTES * PAGE_BYTES;
        uint64_t last = offset + at_least(size, at_most(end - offset, DIRECT_LOOK_BYTES));
        uint64_t wanted = round_up(at_least(last, from + 1), PAGE_BYTES) - from;
        if (!ensure_capacity(stretch, wanted))
            return out_of_memory();
        ssize_t got = fileio->read_direct_at(fd, stretch->bytes, wanted, (off_t)from);
        if (got > 0)
            got = (ssize_t)at_most((uint64_t)got, at_least(end, offset + size) - from);
        if (!take_what_came(stretch, from, got, offset - from + size))
            return NULL;
    }
    return stretch->bytes + (offset - stretch->offset);
}

uint8_t *read_buffer_reserve(enum read_buffer buffer, uint64_t size)
{
    struct stretch *stretch = &stretches[buffer];
    read_buffer_forget(buffer);
    return ensure_capacity(stretch, size) ? stretch->bytes : NULL;
}
