#include "kvstore/window.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "kvstore/fileio.h"
#include "kvstore/sizes.h"

/* What is read at least. A record and its neighbours share a page of the file, so that less saves
 * nothing but the copying. */
#define LOOK_BYTES UINT64_C(4096)
#define WALK_BYTES (UINT64_C(1) << 20)

struct stretch {
    uint8_t *bytes;
    uint64_t capacity;
    uint64_t offset; /* in the file, of the first byte */
    uint64_t size;   /* 0: holds nothing */
};

static _Thread_local struct stretch stretches[WINDOW_COUNT];
static _Thread_local bool has_large; /* one may have more than WINDOW_KEPT_BYTES */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t end_of_thread;
static bool has_key;

static void free_stretches(void *of_thread)
{
    struct stretch *own = of_thread;
    for (int i = 0; i < WINDOW_COUNT; i++) {
        free(own[i].bytes);
        own[i] = (struct stretch){0};
    }
}

/* Without the key (a process has 1,024) the memory is lost with the thread. */
static void make_key(void)
{
    has_key = pthread_key_create(&end_of_thread, free_stretches) == 0;
}

/* What the stretch holds may be lost. */
static bool ensure_capacity(struct stretch *stretch, uint64_t size)
{
    if (size <= stretch->capacity)
        return true;
    pthread_once(&once, make_key);
    if (has_key && !pthread_getspecific(end_of_thread))
        pthread_setspecific(end_of_thread, stretches);
    free(stretch->bytes);
    stretch->bytes = malloc(size);
    stretch->capacity = stretch->bytes ? size : 0;
    stretch->size = 0;
    has_large = has_large || size > WINDOW_KEPT_BYTES;
    return stretch->bytes != NULL;
}

void window_forget(enum window window)
{
    struct stretch *stretch = &stretches[window];
    stretch->size = 0;
    if (stretch->capacity > WINDOW_KEPT_BYTES) {
        free(stretch->bytes);
        *stretch = (struct stretch){0};
    }
}

void window_end(void)
{
    for (int i = 0; has_large && i < WINDOW_COUNT; i++)
        if (stretches[i].capacity > WINDOW_KEPT_BYTES)
            window_forget((enum window)i);
    has_large = false;
}

static bool holds(const struct stretch *stretch, uint64_t offset, uint64_t size)
{
    return offset >= stretch->offset && offset - stretch->offset <= stretch->size &&
           size <= stretch->size - (offset - stretch->offset);
}

bool window_holds(enum window window, uint64_t offset, uint64_t size)
{
    return holds(&stretches[window], offset, size);
}

const uint8_t *window_read(enum window window, int fd, uint64_t offset, uint64_t size, uint64_t end)
{
    struct stretch *stretch = &stretches[window];
    if (!holds(stretch, offset, size)) {
        uint64_t least = window == WINDOW_WALK ? WALK_BYTES : LOOK_BYTES;
        uint64_t wanted = at_least(size, at_most(end - offset, least));
        /* No bytes at all, at the end of a file, have a place too: NULL is an error. */
        if (!ensure_capacity(stretch, at_least(wanted, 1))) {
            errno = ENOMEM;
            return NULL;
        }
        ssize_t got = fileio->read_at(fd, stretch->bytes, wanted, (off_t)offset);
        stretch->offset = offset;
        stretch->size = got > 0 ? (uint64_t)got : 0;
        if (got >= 0 && (uint64_t)got < size)
            errno = ENODATA;
        if (got < 0 || (uint64_t)got < size) {
            stretch->size = 0;
            return NULL;
        }
    }
    return stretch->bytes + (offset - stretch->offset);
}

uint8_t *window_room(enum window window, uint64_t size)
{
    struct stretch *stretch = &stretches[window];
    window_forget(window);
    return ensure_capacity(stretch, size) ? stretch->bytes : NULL;
}
