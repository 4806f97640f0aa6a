/*
 * What gcc -fsanitize=thread calls at each access to memory and at each atomic operation. All
 * threads are fibers of one, so a plain operation does; before it, another thread may go on.
 *
 * Where a schedule delays stores, an atomic store is kept for its thread, and becomes visible to
 * others later, in an order that C11 and ARM permit: stores pass each other, except that a release
 * store, or one behind a release fence, passes none, and that those of one word keep their order.
 * So is the store of a sequentially consistent read-modify-write; others read the old value until
 * it is visible, but whoever changes the word finds the new one. The thread's own sequentially
 * consistent operations wait for those before them; its other loads do not, so they may pass a
 * sequentially consistent store, as ARM's LDAPR and LDR do. Locks, waits and system calls wait for
 * all. The thread itself sees its stores at once. Plain stores cannot be delayed, since the
 * compiler tells of them only, and loads see the newest visible value.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "tests/explore/fiber.h"
#include "tests/explore/machine_calls.h"
#include "tests/explore/seeded_schedule.h"

/* Called by code that includes no header for them. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wpedantic"

#define HERE __builtin_return_address(0)

#define DELAYED_MAX 8u

struct delayed_store {
    volatile void *address;
    struct memory_place place; /* the same for all mappings */
    uint64_t value;
    unsigned bytes;
    unsigned barrier;   /* release fences before it */
    bool is_release;    /* it passes no store */
    bool is_consistent; /* sequentially */
    bool is_change;     /* nothing may come between what it read and this */
};

static struct delayed_stores {
    unsigned count;
    unsigned barrier;
    struct delayed_store stores[DELAYED_MAX]; /* the oldest first */
} delayed[FIBERS_MAX];

void delayed_stores_reset(void)
{
    memset(delayed, 0, sizeof delayed);
}

static bool is_same_place(struct memory_place a, struct memory_place b)
{
    return a.object == b.object && a.offset == b.offset;
}

static void show(unsigned thread, unsigned index);

/* Shows the thread's stores up to that one. */
static void show_up_to(unsigned thread, unsigned index)
{
    for (unsigned i = 0; i <= index; i++)
        show(thread, 0);
}

/* Shows what other threads have changed the word to. */
static void show_changes_of(struct memory_place place, unsigned but_thread)
{
    for (unsigned thread = 0; thread < FIBERS_MAX; thread++)
        for (unsigned i = delayed[thread].count; thread != but_thread && i-- > 0;)
            if (delayed[thread].stores[i].is_change &&
                is_same_place(delayed[thread].stores[i].place, place)) {
                show_up_to(thread, i);
                break;
            }
}

static void show(unsigned thread, unsigned index)
{
    struct delayed_stores *buffer = &delayed[thread];
    struct delayed_store store = buffer->stores[index];
    buffer->count--;
    memmove(&buffer->stores[index], &buffer->stores[index + 1],
            (buffer->count - index) * sizeof store);
    show_changes_of(store.place, thread);
    memcpy((void *)(uintptr_t)store.address, &store.value, store.bytes);
}

void delayed_stores_flush(unsigned thread)
{
    while (delayed[thread].count > 0)
        show(thread, 0);
}

unsigned delayed_stores_count(unsigned thread)
{
    return delayed[thread].count;
}

/* Whether the store may be seen before those that are older. */
static bool may_pass(const struct delayed_stores *buffer, unsigned index)
{
    const struct delayed_store *store = &buffer->stores[index];
    for (unsigned i = 0; i < index; i++)
        if (store->is_release || buffer->stores[i].barrier < store->barrier ||
            is_same_place(buffer->stores[i].place, store->place))
            return false;
    return true;
}

bool delayed_stores_show(unsigned thread, unsigned index)
{
    if (index >= delayed[thread].count || !may_pass(&delayed[thread], index))
        return false;
    show(thread, index);
    return true;
}

static void delay(volatile void *address, uint64_t value, unsigned bytes, int order, bool is_change)
{
    struct delayed_stores *buffer = &delayed[schedule_thread()];
    if (buffer->count == DELAYED_MAX)
        show(schedule_thread(), 0);
    buffer->stores[buffer->count++] =
        (struct delayed_store){.address = address,
                               .place = memory_place((const void *)(uintptr_t)address),
                               .value = value,
                               .bytes = bytes,
                               .barrier = buffer->barrier,
                               .is_release = order != __ATOMIC_RELAXED,
                               .is_consistent = order == __ATOMIC_SEQ_CST,
                               .is_change = is_change};
}

/* The thread's own last store that is still delayed. */
static bool forward(const volatile void *address, uint64_t *value)
{
    const struct delayed_stores *buffer = &delayed[schedule_thread()];
    if (buffer->count == 0)
        return false;
    for (unsigned i = buffer->count; i-- > 0;)
        if (buffer->stores[i].address == address) {
            *value = buffer->stores[i].value;
            return true;
        }
    return false;
}

static void flush_own(void)
{
    if (schedule_delays_stores())
        delayed_stores_flush(schedule_thread());
}

/* A sequentially consistent operation follows. */
void delayed_stores_keep_order(void)
{
    const struct delayed_stores *buffer = &delayed[schedule_thread()];
    for (unsigned i = schedule_delays_stores() ? buffer->count : 0; i-- > 0;)
        if (buffer->stores[i].is_consistent) {
            show_up_to(schedule_thread(), i);
            return;
        }
}

/* A plain access, or the C library, meets what a store of the thread's own has changed. */
static void flush_at(const void *address, size_t bytes)
{
    const struct delayed_stores *buffer = &delayed[schedule_thread()];
    for (unsigned i = 0; i < buffer->count; i++) {
        const char *stored = (const char *)(uintptr_t)buffer->stores[i].address;
        if (stored < (const char *)address + bytes &&
            (const char *)address < stored + buffer->stores[i].bytes) {
            delayed_stores_flush(schedule_thread());
            return;
        }
    }
}

/* A plain store is not delayed: what stands before the thread's last release fence is seen before
 * it. */
static void flush_for_store(const void *address, size_t bytes)
{
    const struct delayed_stores *buffer = &delayed[schedule_thread()];
    for (unsigned i = buffer->count; i-- > 0;)
        if (buffer->stores[i].barrier < buffer->barrier) {
            show_up_to(schedule_thread(), i);
            break;
        }
    flush_at(address, bytes);
}

/* Before a read-modify-write: the word is what the last of all who changed it made of it. */
static void prepare_change(volatile void *at, int order)
{
    if (!schedule_delays_stores())
        return;
    const struct delayed_stores *buffer = &delayed[schedule_thread()];
    struct memory_place place = memory_place((const void *)(uintptr_t)at);
    if (order != __ATOMIC_RELAXED && order != __ATOMIC_ACQUIRE && order != __ATOMIC_CONSUME)
        flush_own();
    for (unsigned i = buffer->count; i-- > 0;)
        if (is_same_place(buffer->stores[i].place, place)) {
            show_up_to(schedule_thread(), i);
            break;
        }
    show_changes_of(place, FIBERS_MAX);
}

/* After one that has made `value` of `before`. */
static void delay_change(volatile void *at, uint64_t before, uint64_t value, unsigned bytes,
                         int order)
{
    if (!schedule_delays_stores() || order != __ATOMIC_SEQ_CST || before == value)
        return;
    memcpy((void *)(uintptr_t)at, &before, bytes);
    delay(at, value, bytes, order, true);
}

void __tsan_init(void)
{
}

void __tsan_func_entry(void *place)
{
    (void)place;
}

/* What a thread has stored on its own stack is seen before the room is used again. */
void __tsan_func_exit(void)
{
    const struct delayed_stores *buffer = &delayed[schedule_thread()];
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    for (unsigned i = 0; i < buffer->count; i++)
        if ((uintptr_t)buffer->stores[i].address - here < FIBER_STACK_BYTES) {
            delayed_stores_flush(schedule_thread());
            return;
        }
}

#define PLAIN(name, flush)            \
    void __tsan_##name(void *address) \
    {                                 \
        schedule_step(HERE);          \
        flush(address, 16);           \
    }
PLAIN(read1, flush_at)
PLAIN(read2, flush_at)
PLAIN(read4, flush_at)
PLAIN(read8, flush_at)
PLAIN(read16, flush_at)
PLAIN(write1, flush_for_store)
PLAIN(write2, flush_for_store)
PLAIN(write4, flush_for_store)
PLAIN(write8, flush_for_store)
PLAIN(write16, flush_for_store)
PLAIN(unaligned_read2, flush_at)
PLAIN(unaligned_read4, flush_at)
PLAIN(unaligned_read8, flush_at)
PLAIN(unaligned_read16, flush_at)
PLAIN(unaligned_write2, flush_for_store)
PLAIN(unaligned_write4, flush_for_store)
PLAIN(unaligned_write8, flush_for_store)
PLAIN(unaligned_write16, flush_for_store)
PLAIN(volatile_read1, flush_at)
PLAIN(volatile_read2, flush_at)
PLAIN(volatile_read4, flush_at)
PLAIN(volatile_read8, flush_at)
PLAIN(volatile_write1, flush_for_store)
PLAIN(volatile_write2, flush_for_store)
PLAIN(volatile_write4, flush_for_store)
PLAIN(volatile_write8, flush_for_store)

void __tsan_read_range(void *address, uintptr_t bytes)
{
    schedule_step(HERE);
    flush_at(address, bytes);
}

void __tsan_write_range(void *address, uintptr_t bytes)
{
    schedule_step(HERE);
    flush_for_store(address, bytes);
}

void __tsan_atomic_thread_fence(int order)
{
    schedule_step(HERE);
    if (order == __ATOMIC_SEQ_CST)
        flush_own();
    else if (order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL)
        delayed[schedule_thread()].barrier++;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void __tsan_atomic_signal_fence(int order)
{
    (void)order;
}

#define CHANGE(bits, name, builtin)                                                                \
    uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t *at, uint##bits##_t value, \
                                                int order)                                         \
    {                                                                                              \
        schedule_step(HERE);                                                                       \
        prepare_change(at, order);                                                                 \
        uint##bits##_t before = builtin(at, value, __ATOMIC_SEQ_CST);                              \
        delay_change(at, before, *at, bits / 8, order);                                            \
        return before;                                                                             \
    }

#define COMPARE(bits, name)                                                                        \
    int __tsan_atomic##bits##_compare_exchange_##name(volatile uint##bits##_t *at,                 \
                                                      uint##bits##_t *expected,                    \
                                                      uint##bits##_t value, int order, int failed) \
    {                                                                                              \
        (void)failed;                                                                              \
        schedule_step(HERE);                                                                       \
        prepare_change(at, order);                                                                 \
        if (!__atomic_compare_exchange_n(at, expected, value, 0, __ATOMIC_SEQ_CST,                 \
                                         __ATOMIC_SEQ_CST))                                        \
            return 0;                                                                              \
        delay_change(at, *expected, value, bits / 8, order);                                       \
        return 1;                                                                                  \
    }

#define ATOMICS(bits)                                                                              \
    uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *at, int order)        \
    {                                                                                              \
        uint64_t own;                                                                              \
        schedule_step(HERE);                                                                       \
        if (order == __ATOMIC_SEQ_CST)                                                             \
            delayed_stores_keep_order();                                                           \
        return forward(at, &own) ? (uint##bits##_t)own : __atomic_load_n(at, __ATOMIC_SEQ_CST);    \
    }                                                                                              \
    void __tsan_atomic##bits##_store(volatile uint##bits##_t *at, uint##bits##_t value, int order) \
    {                                                                                              \
        schedule_step(HERE);                                                                       \
        if (schedule_delays_stores())                                                              \
            delay(at, value, bits / 8, order, false);                                              \
        else                                                                                       \
            __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                         \
    }                                                                                              \
    CHANGE(bits, exchange, __atomic_exchange_n)                                                    \
    CHANGE(bits, fetch_add, __atomic_fetch_add)                                                    \
    CHANGE(bits, fetch_sub, __atomic_fetch_sub)                                                    \
    CHANGE(bits, fetch_and, __atomic_fetch_and)                                                    \
    CHANGE(bits, fetch_or, __atomic_fetch_or)                                                      \
    CHANGE(bits, fetch_xor, __atomic_fetch_xor)                                                    \
    COMPARE(bits, strong)                                                                          \
    COMPARE(bits, weak)                                                                            \
    uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(                                     \
        volatile uint##bits##_t *at, uint##bits##_t expected, uint##bits##_t value, int order,     \
        int failed)                                                                                \
    {                                                                                              \
        __tsan_atomic##bits##_compare_exchange_strong(at, &expected, value, order, failed);        \
        return expected;                                                                           \
    }

ATOMICS(8)
ATOMICS(16)
ATOMICS(32)
ATOMICS(64)

/* Copies are not one step: another thread may see a part of one. */

#define PARTS 4u

/* From this size on files are copied in parts, where the harness says so. */
#define FILE_PARTS_MIN_BYTES 256u

static bool has_parts(size_t bytes)
{
    return bytes >= FILE_PARTS_MIN_BYTES && schedule_has_files_in_parts();
}

void *explored_memcpy(void *to, const void *from, size_t bytes)
{
    schedule_step(HERE);
    flush_at(from, bytes);
    flush_for_store(to, bytes);
    if (bytes < 16)
        return memcpy(to, from, bytes);
    size_t part = (bytes / PARTS + 7) & ~(size_t)7;
    for (size_t done = 0; done < bytes; done += part) {
        memcpy((char *)to + done, (const char *)from + done,
               done + part < bytes ? part : bytes - done);
        if (has_parts(bytes))
            schedule_file_step(HERE);
        else
            schedule_step(HERE);
    }
    return to;
}

void *explored_memmove(void *to, const void *from, size_t bytes)
{
    schedule_step(HERE);
    flush_at(from, bytes);
    flush_for_store(to, bytes);
    memmove(to, from, bytes);
    schedule_step(HERE);
    return to;
}

void *explored_memset(void *to, int byte, size_t bytes)
{
    schedule_step(HERE);
    flush_for_store(to, bytes);
    if (bytes < 16)
        return memset(to, byte, bytes);
    size_t half = bytes / 2;
    memset(to, byte, half);
    schedule_step(HERE);
    memset((char *)to + half, byte, bytes - half);
    return to;
}

int explored_memcmp(const void *a, const void *b, size_t bytes)
{
    schedule_step(HERE);
    flush_at(a, bytes);
    flush_at(b, bytes);
    return memcmp(a, b, bytes);
}

XXH64_hash_t explored_XXH3_64bits(const void *from, size_t bytes)
{
    flush_at(from, bytes);
    return XXH3_64bits(from, bytes);
}

XXH64_hash_t explored_XXH3_64bits_withSeed(const void *from, size_t bytes, XXH64_hash_t seed)
{
    flush_at(from, bytes);
    return XXH3_64bits_withSeed(from, bytes, seed);
}

XXH_errorcode explored_XXH3_64bits_update(XXH3_state_t *state, const void *from, size_t bytes)
{
    flush_at(from, bytes);
    return XXH3_64bits_update(state, from, bytes);
}

/* What is given back may be somebody else's at once. */
void explored_free(void *memory)
{
    flush_own();
    free(memory);
}

void *explored_realloc(void *memory, size_t bytes)
{
    flush_own();
    return realloc(memory, bytes);
}

ssize_t explored_pwrite(int descriptor, const void *from, size_t bytes, off_t offset)
{
    if (machine_has(descriptor))
        return machine_pwrite(descriptor, from, bytes, offset, HERE);
    schedule_step(HERE);
    flush_own();
    unsigned parts = has_parts(bytes) ? PARTS : 1;
    unsigned first = parts > 1 ? (unsigned)(schedule_random() % parts) : 0;
    size_t part = bytes / parts;
    for (unsigned i = 0; i < parts; i++) {
        unsigned number = (first + i) % parts;
        size_t done = number * part, size = number + 1 == parts ? bytes - done : part;
        ssize_t put = pwrite(descriptor, (const char *)from + done, size, offset + (off_t)done);
        if (put != (ssize_t)size)
            return parts == 1 ? put : -1;
        if (parts > 1)
            schedule_file_step(HERE);
    }
    return (ssize_t)bytes;
}

ssize_t explored_pread(int descriptor, void *to, size_t bytes, off_t offset)
{
    if (machine_has(descriptor))
        return machine_pread(descriptor, to, bytes, offset, HERE);
    schedule_step(HERE);
    flush_own();
    size_t part = has_parts(bytes) ? bytes / PARTS : bytes, done = 0;
    while (bytes - done > part) {
        ssize_t got = pread(descriptor, (char *)to + done, part, offset + (off_t)done);
        if (got != (ssize_t)part)
            return got < 0 ? got : (ssize_t)done + got;
        done += part;
        schedule_file_step(HERE);
    }
    ssize_t got = pread(descriptor, (char *)to + done, bytes - done, offset + (off_t)done);
    return got < 0 ? got : (ssize_t)done + got;
}
