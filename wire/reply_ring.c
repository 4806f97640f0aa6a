#include "wire/reply_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/memory/copy.h"
#include "common/memory/mapguard.h"
#include "common/report/error.h"
#include "wire/queue.h"

/* Older C libraries do not have it. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define LINE_BYTES  64u
#define SLOTS_BEGIN 128u

/* How long a writer waits for another one, in steps: if the whole machine, or the server as a
 * whole, stands still for a while, that ends no more than one step. */
#define LOCK_WAITS   20u
#define LOCK_WAIT_NS 50000000

/* The start of the object. */
struct head {
    _Atomic uint32_t bell;
    _Atomic uint32_t states[WIRE_RING_MAX_DEPTH];
    uint32_t not_used __attribute__((aligned(LINE_BYTES)));
    _Atomic uint32_t ended;
    struct wire_ring_reads reads;
};
_Static_assert(offsetof(struct head, bell) == 0 && offsetof(struct head, states) == 4 &&
                   offsetof(struct head, not_used) == 64 && offsetof(struct head, ended) == 68 &&
                   offsetof(struct head, reads) == 72 && sizeof(struct head) == SLOTS_BEGIN,
               "docs/PROTOCOL.md, 3.6");
_Static_assert(sizeof(_Atomic uint32_t) == sizeof(uint32_t), "a futex is a plain word");

struct wire_ring {
    struct head *head;
    uint8_t *slots;
    size_t stride;
    struct wire_geometry geometry;
    uint64_t bytes;
    unsigned next;            /* client: the slot to look at first, so that none waits for ever */
    struct mapguard *guard;   /* server */
    pthread_mutex_t *writing; /* server: held by the writer; forked children share it */
};

static size_t ring_stride(struct wire_geometry geometry)
{
    return (geometry.message_bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

uint64_t wire_ring_bytes(struct wire_geometry geometry)
{
    if (geometry.depth == 0 || geometry.depth > WIRE_RING_MAX_DEPTH ||
        geometry.message_bytes == 0 || geometry.message_bytes > WIRE_RING_MAX_MESSAGE_BYTES)
        return 0;
    return SLOTS_BEGIN + geometry.depth * ring_stride(geometry);
}

/* Maps the object. NULL with errno: no memory. */
static struct wire_ring *ring_map_object(int descriptor, struct wire_geometry geometry)
{
    struct wire_ring *ring = calloc(1, sizeof *ring);
    if (!ring)
        return NULL;
    uint64_t bytes = wire_ring_bytes(geometry);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) {
        free(ring);
        return NULL;
    }
    *ring = (struct wire_ring){.head = memory,
                               .slots = (uint8_t *)memory + SLOTS_BEGIN,
                               .stride = ring_stride(geometry),
                               .geometry = geometry,
                               .bytes = bytes};
    return ring;
}

/* Takes memory for all of the object, so that no writer finds /dev/shm full in the middle of a
 * message. False with errno: there is none left. */
static bool ring_take_memory(int descriptor, uint64_t bytes)
{
    int result;
    do
        result = fallocate(descriptor, 0, 0, (off_t)bytes);
    while (result != 0 && errno == EINTR);
    return result == 0;
}

static enum kv_status ring_explain_create(const char *name, uint64_t bytes, struct kv_error *error)
{
    if (errno == EEXIST)
        return kv_error_set(error, KV_EXISTS, "the shared-memory object %s exists", name);
    if (errno == ENOSPC || errno == ENOMEM)
        return kv_error_set(error, KV_LIMIT,
                            "no memory in /dev/shm for the %llu bytes of %s: df /dev/shm",
                            (unsigned long long)bytes, name);
    return kv_error_set_errno(error, "cannot create the shared-memory object %s", name);
}

enum kv_status wire_ring_create(const char *name, struct wire_geometry geometry, int *descriptor,
                                struct wire_ring **ring, struct kv_error *error)
{
    uint64_t bytes = wire_ring_bytes(geometry);
    if (bytes == 0)
        return kv_error_set(error, KV_USAGE, "a ring of %u messages of %u bytes is impossible",
                            geometry.depth, geometry.message_bytes);
    int created = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (created < 0)
        return ring_explain_create(name, bytes, error);
    *ring = NULL;
    if (fchmod(created, 0600) == 0 && ring_take_memory(created, bytes))
        *ring = ring_map_object(created, geometry);
    if (*ring) {
        *descriptor = created;
        return KV_OK;
    }
    enum kv_status status = ring_explain_create(name, bytes, error);
    shm_unlink(name);
    close(created);
    return status;
}

enum kv_status wire_ring_open(const char *name, int *descriptor, struct kv_error *error)
{
    /* Without O_NONBLOCK a lease that its owner holds would keep the caller asleep. */
    int opened = shm_open(name, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, 0);
    struct stat facts;
    if (opened < 0 && errno == ENOENT)
        return kv_error_set(error, KV_NO_SERVER, "there is no shared-memory object %s", name);
    if (opened < 0 && (errno == EMFILE || errno == ENFILE))
        return kv_error_set(error, KV_LIMIT, "no descriptor is left for %s: raise ulimit -n", name);
    if (opened < 0)
        return kv_error_set_errno(error, "cannot open the shared-memory object %s", name);
    if (fstat(opened, &facts) == 0 && S_ISREG(facts.st_mode)) {
        *descriptor = opened;
        return KV_OK;
    }
    close(opened);
    return kv_error_set(error, KV_BAD_REQUEST, "%s is no shared-memory object", name);
}

/* Takes memory for all of the mapping, and its pages. False: there is none left. */
static bool ring_populate(const struct wire_ring *ring, int descriptor)
{
    if (madvise(ring->head, ring->bytes, MADV_POPULATE_WRITE) == 0)
        return true;
    return errno == EINVAL && ring_take_memory(descriptor, ring->bytes); /* before Linux 5.14 */
}

/* Makes a lock that forked children share, and that survives a child that dies while it holds it.
 * NULL: no memory. */
static pthread_mutex_t *ring_make_lock(void)
{
    pthread_mutexattr_t attributes;
    pthread_mutex_t *lock =
        mmap(NULL, sizeof *lock, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (lock == MAP_FAILED)
        return NULL;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return lock;
}

enum kv_status wire_ring_map(int descriptor, struct wire_geometry geometry, struct wire_ring **ring,
                             struct kv_error *error)
{
    uint64_t bytes = wire_ring_bytes(geometry);
    struct stat facts;
    if (bytes == 0)
        return kv_error_set(error, KV_BAD_REQUEST,
                            "replies of %u bytes in %u slots are impossible: 1 to %u bytes in 1 to "
                            "%u slots",
                            geometry.message_bytes, geometry.depth, WIRE_RING_MAX_MESSAGE_BYTES,
                            WIRE_RING_MAX_DEPTH);
    if (fstat(descriptor, &facts) != 0 || (uint64_t)facts.st_size < bytes)
        return kv_error_set(error, KV_BAD_REQUEST,
                            "the shared memory for replies has fewer than %llu bytes",
                            (unsigned long long)bytes);
    struct wire_ring *mapped = ring_map_object(descriptor, geometry);
    if (!mapped)
        return kv_error_set_errno(error, "cannot map the shared memory for replies");
    mapped->guard = mapguard_add(mapped->head, bytes);
    mapped->writing = ring_make_lock();
    if (mapped->writing && ring_populate(mapped, descriptor)) {
        *ring = mapped;
        return KV_OK;
    }
    wire_ring_close(mapped);
    return kv_error_set(error, KV_NO_MEMORY, "the shared memory for replies has no memory");
}

void wire_ring_close(struct wire_ring *ring)
{
    if (!ring)
        return;
    mapguard_remove(ring->guard);
    if (ring->writing)
        munmap(ring->writing, sizeof *ring->writing);
    munmap(ring->head, ring->bytes);
    free(ring);
}

static long futex(_Atomic uint32_t *word, int operation, uint32_t value,
                  const struct timespec *timeout)
{
    return syscall(SYS_futex, word, operation, value, timeout, NULL, 0);
}

/* Writing -------------------------------------------------------------------------------------- */

/* Wakes the client if it sleeps. The caller has stored a state before: either the client sees that
 * when it looks once more before it sleeps, or this function sees the bell. */
static void ring_bell(struct head *head)
{
    if (atomic_load(&head->bell) != 0 && atomic_exchange(&head->bell, 0) != 0)
        futex(&head->bell, FUTEX_WAKE, 1, NULL);
}

/* Takes the lock. False: the writer that holds it has been stopped. */
static bool ring_lock_for_writing(pthread_mutex_t *lock)
{
    int result = pthread_mutex_trylock(lock);
    for (unsigned i = 0; result == EBUSY && i < LOCK_WAITS; i++) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until); /* a jump of that clock changes one wait only */
        until.tv_nsec += LOCK_WAIT_NS;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        result = pthread_mutex_timedlock(lock, &until);
        if (result == ETIMEDOUT)
            result = EBUSY;
    }
    /* A writer that died with the lock has left nothing half done: a slot has a message only from
     * the store of its state on. */
    return result == 0 || (result == EOWNERDEAD && pthread_mutex_consistent(lock) == 0);
}

/* Holds: ring->writing. */
static bool ring_put_into_empty_slot(struct wire_ring *ring, const void *message, size_t size)
{
    struct head *head = ring->head;
    unsigned slot = 0;
    KV_ASSERT(pthread_mutex_trylock(ring->writing) != 0);
    while (slot < ring->geometry.depth &&
           atomic_load_explicit(&head->states[slot], memory_order_acquire) != 0)
        slot++;
    if (slot == ring->geometry.depth)
        return false;
    copy_bytes(ring->slots + slot * ring->stride, message, size);
    atomic_exchange(&head->states[slot], (uint32_t)size);
    return true;
}

bool wire_ring_put(struct wire_ring *ring, const void *message, size_t size)
{
    KV_ASSERT(ring->writing != NULL);
    if (size == 0 || size > ring->geometry.message_bytes || !ring_lock_for_writing(ring->writing))
        return false;
    bool is_in = ring_put_into_empty_slot(ring, message, size);
    pthread_mutex_unlock(ring->writing);
    if (is_in)
        ring_bell(ring->head);
    return is_in;
}

void wire_ring_end(struct wire_ring *ring)
{
    KV_ASSERT(ring->writing != NULL);
    atomic_store(&ring->head->ended, 1);
    ring_bell(ring->head);
}

bool wire_ring_is_broken(const struct wire_ring *ring)
{
    return mapguard_is_broken(ring->guard);
}

/* Reading -------------------------------------------------------------------------------------- */

/* Takes the message of `size` bytes, as its state says, out of the slot. */
static ssize_t ring_take_slot(struct wire_ring *ring, unsigned slot, uint32_t size, void *message)
{
    bool good = size <= ring->geometry.message_bytes;
    KV_ASSERT(size > 0 && slot < ring->geometry.depth);
    if (good)
        copy_bytes(message, ring->slots + slot * ring->stride, size);
    atomic_store_explicit(&ring->head->states[slot], 0, memory_order_release);
    ring->next = slot + 1 < ring->geometry.depth ? slot + 1 : 0;
    if (good)
        return (ssize_t)size;
    errno = EBADMSG;
    return -1;
}

ssize_t wire_ring_take(struct wire_ring *ring, void *message)
{
    unsigned slot = ring->next;
    KV_ASSERT(slot < ring->geometry.depth);
    for (unsigned looked = 0; looked < ring->geometry.depth; looked++) {
        uint32_t size = atomic_load_explicit(&ring->head->states[slot], memory_order_acquire);
        if (size != 0)
            return ring_take_slot(ring, slot, size, message);
        slot = slot + 1 < ring->geometry.depth ? slot + 1 : 0;
    }
    return 0;
}

static bool ring_is_empty(const struct wire_ring *ring)
{
    for (unsigned slot = 0; slot < ring->geometry.depth; slot++)
        if (atomic_load(&ring->head->states[slot]) != 0)
            return false;
    return true;
}

bool wire_ring_has_ended(const struct wire_ring *ring)
{
    return atomic_load(&ring->head->ended) != 0;
}

void wire_ring_sleep(struct wire_ring *ring, uint32_t timeout_ms)
{
    struct timespec timeout = {.tv_sec = timeout_ms / 1000,
                               .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
    _Atomic uint32_t *bell = &ring->head->bell;
    atomic_store(bell, 1);
    if (ring_is_empty(ring) && !wire_ring_has_ended(ring))
        futex(bell, FUTEX_WAIT, 1, &timeout);
    atomic_store_explicit(bell, 0, memory_order_relaxed);
}

const char *wire_replies_name(int replies)
{
    static const char *const names[WIRE_REPLIES_CHOICES] = {[WIRE_REPLIES_AUTO] = "auto",
                                                            [WIRE_REPLIES_QUEUE] = "queue",
                                                            [WIRE_REPLIES_SHARED] = "shared"};
    return replies >= 0 && replies < WIRE_REPLIES_CHOICES ? names[replies] : NULL;
}

enum wire_ring_offer wire_ring_look_for_offer(const char *base, uid_t server_uid)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    mqd_t lock;
    wire_queue_name(name, base, WIRE_LOCK, 0, 0);
    if (wire_queue_open(name, true, &lock, NULL, NULL) != KV_OK)
        return WIRE_RING_NOT_OFFERED;
    uint64_t shown = wire_queue_uid(lock) == server_uid ? wire_lock_shown(lock) : 0;
    close((int)lock);
    if (shown == 0)
        return WIRE_RING_NOT_OFFERED;
    return shown == wire_shm_number() ? WIRE_RING_OFFERED : WIRE_RING_OTHER_MEMORY;
}

struct wire_ring_reads *wire_ring_map_reads(int descriptor)
{
    void *memory = mmap(NULL, SLOTS_BEGIN, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    return memory == MAP_FAILED ? NULL : &((struct head *)memory)->reads;
}

void wire_ring_unmap_reads(struct wire_ring_reads *reads)
{
    if (reads)
        munmap((uint8_t *)reads - offsetof(struct head, reads), SLOTS_BEGIN);
}

void wire_ring_add_reads(const struct wire_ring *ring, uint64_t *found, uint64_t *absent)
{
    *found += atomic_load_explicit(&ring->head->reads.found, memory_order_relaxed);
    *absent += atomic_load_explicit(&ring->head->reads.absent, memory_order_relaxed);
}

uint64_t wire_shm_number(void)
{
    struct stat facts;
    return stat("/dev/shm", &facts) == 0 ? (uint64_t)facts.st_dev + 1 : 0;
}
