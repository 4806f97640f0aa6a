/*
 * What gcc -fsanitize=thread calls at each access to memory and at each atomic operation. All
 * threads are fibers of one, so a plain operation does; before it, another thread may go on.
 *
 * Where a schedule delays stores, an atomic store that is not sequentially consistent goes into a
 * buffer of its thread, in whose order it becomes visible, at the latest with the thread's next
 * read-modify-write, sequentially consistent operation or wait. The thread itself sees it at once.
 * That is what C11 permits and x86 does (of stores and later loads); plain stores cannot be
 * delayed, since the compiler tells of them only.
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

static struct delayed_stores {
    unsigned count;
    struct {
        volatile void *address;
        uint64_t value;
        unsigned bytes;
    } stores[DELAYED_MAX];
} delayed[FIBERS_MAX];

void delayed_stores_reset(void)
{
    memset(delayed, 0, sizeof delayed);
}

static void flush_first(struct delayed_stores *buffer)
{
    memcpy((void *)(uintptr_t)buffer->stores[0].address, &buffer->stores[0].value,
           buffer->stores[0].bytes);
    memmove(&buffer->stores[0], &buffer->stores[1], sizeof buffer->stores - sizeof *buffer->stores);
    buffer->count--;
}

void delayed_stores_flush(unsigned thread)
{
    while (delayed[thread].count > 0)
        flush_first(&delayed[thread]);
}

bool delayed_stores_are_there(unsigned thread)
{
    return delayed[thread].count > 0;
}

bool delayed_stores_flush_first(unsigned thread)
{
    if (delayed[thread].count == 0)
        return false;
    flush_first(&delayed[thread]);
    return true;
}

static bool delay(volatile void *address, uint64_t value, unsigned bytes, int order)
{
    struct delayed_stores *buffer = &delayed[schedule_thread()];
    if (!schedule_delays_stores() || order == __ATOMIC_SEQ_CST)
        return false;
    if (buffer->count == DELAYED_MAX)
        flush_first(buffer);
    buffer->stores[buffer->count].address = address;
    buffer->stores[buffer->count].value = value;
    buffer->stores[buffer->count].bytes = bytes;
    buffer->count++;
    return true;
}

/* The thread's own last store that is still delayed. */
static bool forward(const volatile void *address, uint64_t *value)
{
    if (!schedule_delays_stores())
        return false;
    const struct delayed_stores *buffer = &delayed[schedule_thread()];
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

/* A plain access, or the C library, meets what a store of the thread's own has changed. */
static void flush_at(const void *address, size_t bytes)
{
    if (!schedule_delays_stores())
        return;
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

void __tsan_init(void)
{
}

void __tsan_func_entry(void *place)
{
    (void)place;
}

void __tsan_func_exit(void)
{
}

#define PLAIN(name)                   \
    void __tsan_##name(void *address) \
    {                                 \
        schedule_step(HERE);          \
        flush_at(address, 16);        \
    }
PLAIN(read1)
PLAIN(read2)
PLAIN(read4)
PLAIN(read8)
PLAIN(read16)
PLAIN(write1)
PLAIN(write2)
PLAIN(write4)
PLAIN(write8)
PLAIN(write16)
PLAIN(unaligned_read2)
PLAIN(unaligned_read4)
PLAIN(unaligned_read8)
PLAIN(unaligned_read16)
PLAIN(unaligned_write2)
PLAIN(unaligned_write4)
PLAIN(unaligned_write8)
PLAIN(unaligned_write16)
PLAIN(volatile_read1)
PLAIN(volatile_read2)
PLAIN(volatile_read4)
PLAIN(volatile_read8)
PLAIN(volatile_write1)
PLAIN(volatile_write2)
PLAIN(volatile_write4)
PLAIN(volatile_write8)

void __tsan_read_range(void *address, uintptr_t bytes)
{
    schedule_step(HERE);
    flush_at(address, bytes);
}

void __tsan_write_range(void *address, uintptr_t bytes)
{
    schedule_step(HERE);
    flush_at(address, bytes);
}

void __tsan_atomic_thread_fence(int order)
{
    schedule_step(HERE);
    if (order == __ATOMIC_SEQ_CST)
        flush_own();
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
        (void)order;                                                                               \
        schedule_step(HERE);                                                                       \
        flush_own();                                                                               \
        return builtin(at, value, __ATOMIC_SEQ_CST);                                               \
    }

#define COMPARE(bits, name)                                                                        \
    int __tsan_atomic##bits##_compare_exchange_##name(volatile uint##bits##_t *at,                 \
                                                      uint##bits##_t *expected,                    \
                                                      uint##bits##_t value, int order, int failed) \
    {                                                                                              \
        (void)order, (void)failed;                                                                 \
        schedule_step(HERE);                                                                       \
        flush_own();                                                                               \
        return __atomic_compare_exchange_n(at, expected, value, 0, __ATOMIC_SEQ_CST,               \
                                           __ATOMIC_SEQ_CST);                                      \
    }

#define ATOMICS(bits)                                                                              \
    uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *at, int order)        \
    {                                                                                              \
        uint64_t own;                                                                              \
        (void)order;                                                                               \
        schedule_step(HERE);                                                                       \
        return forward(at, &own) ? (uint##bits##_t)own : __atomic_load_n(at, __ATOMIC_SEQ_CST);    \
    }                                                                                              \
    void __tsan_atomic##bits##_store(volatile uint##bits##_t *at, uint##bits##_t value, int order) \
    {                                                                                              \
        schedule_step(HERE);                                                                       \
        if (!delay(at, value, bits / 8, order)) {                                                  \
            flush_own();                                                                           \
            __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                         \
        }                                                                                          \
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

void *explored_memcpy(void *to, const void *from, size_t bytes)
{
    schedule_step(HERE);
    flush_at(from, bytes);
    flush_at(to, bytes);
    if (bytes < 16)
        return memcpy(to, from, bytes);
    size_t part = (bytes / PARTS + 7) & ~(size_t)7;
    for (size_t done = 0; done < bytes; done += part) {
        memcpy((char *)to + done, (const char *)from + done,
               done + part < bytes ? part : bytes - done);
        schedule_step(HERE);
    }
    return to;
}

void *explored_memmove(void *to, const void *from, size_t bytes)
{
    schedule_step(HERE);
    flush_at(from, bytes);
    flush_at(to, bytes);
    memmove(to, from, bytes);
    schedule_step(HERE);
    return to;
}

void *explored_memset(void *to, int byte, size_t bytes)
{
    schedule_step(HERE);
    flush_at(to, bytes);
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
    return pwrite(descriptor, from, bytes, offset);
}

ssize_t explored_pread(int descriptor, void *to, size_t bytes, off_t offset)
{
    if (machine_has(descriptor))
        return machine_pread(descriptor, to, bytes, offset, HERE);
    schedule_step(HERE);
    flush_own();
    return pread(descriptor, to, bytes, offset);
}
