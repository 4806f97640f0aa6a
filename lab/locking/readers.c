#include "lab/locking/readers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "common/memory/machine_sizes.h"

#define WORD_BITS 64u
#define WORDS     (READERS_MAX / WORD_BITS)

struct reader {
    _Alignas(CACHE_LINE_BYTES) atomic_uint_fast64_t visits; /* odd: inside */
};

struct readers {
    struct reader places[READERS_MAX];
};

/* Numbers of threads: one bit each, set while a thread has the number. No lock, so that a process
 * which forks while another thread takes a number goes on with a bit lost at most. */
static atomic_uint_fast64_t numbers_taken[WORDS];
static pthread_key_t number_key; /* its destructor gives the number back */
static pthread_once_t number_key_once = PTHREAD_ONCE_INIT;
static int number_key_result;

/* The number plus 1; 0: the thread has none yet. */
static _Thread_local uint32_t own_number;

static void give_number_back(void *number_plus_1)
{
    uint32_t number = (uint32_t)(uintptr_t)number_plus_1 - 1;
    own_number = 0;
    atomic_fetch_and(&numbers_taken[number / WORD_BITS], ~(UINT64_C(1) << number % WORD_BITS));
}

static void make_number_key(void)
{
    number_key_result = pthread_key_create(&number_key, give_number_back);
}

/* The lowest free number, READERS_MAX if there is none. */
static uint32_t take_free_number(void)
{
    for (uint32_t word = 0; word < WORDS; word++) {
        uint_fast64_t taken = atomic_load(&numbers_taken[word]);
        while (taken != UINT64_MAX) {
            uint32_t bit = (uint32_t)__builtin_ctzll(~taken);
            if (atomic_compare_exchange_weak(&numbers_taken[word], &taken,
                                             taken | UINT64_C(1) << bit))
                return word * WORD_BITS + bit;
        }
    }
    return READERS_MAX;
}

static bool take_reader_number(void)
{
    uint32_t number = take_free_number();
    if (number == READERS_MAX)
        return false;
    void *plus_1 = (void *)(uintptr_t)(number + 1); /* NOLINT: a number, carried by a pointer */
    if (pthread_setspecific(number_key, plus_1) != 0) {
        give_number_back(plus_1);
        return false;
    }
    own_number = number + 1;
    return true;
}

struct readers *readers_create(void)
{
    pthread_once(&number_key_once, make_number_key);
    if (number_key_result != 0)
        return NULL;
    struct readers *readers = aligned_alloc(CACHE_LINE_BYTES, sizeof *readers);
    if (readers)
        memset(readers, 0, sizeof *readers);
    return readers;
}

void readers_free(struct readers *readers)
{
    free(readers);
}

/* Entering and then loading a pointer here, replacing the pointer and then looking who is inside in
 * readers_wait: all four are sequentially consistent, so that a reader who is not seen sees the new
 * pointer. */
struct reader *readers_enter(struct readers *readers)
{
    if (__builtin_expect(own_number == 0, 0) && !take_reader_number())
        return NULL;
    struct reader *reader = &readers->places[own_number - 1];
    uint_fast64_t visits = atomic_load_explicit(&reader->visits, memory_order_relaxed);
    KV_ASSERT(visits % 2 == 0); /* not twice at a time in one thread */
    atomic_store(&reader->visits, visits + 1);
    return reader;
}

void readers_leave(struct reader *reader)
{
    uint_fast64_t visits = atomic_load_explicit(&reader->visits, memory_order_relaxed);
    KV_ASSERT(visits % 2 == 1);
    atomic_store_explicit(&reader->visits, visits + 1, memory_order_release);
}

void readers_wait(struct readers *readers)
{
    for (uint32_t i = 0; i < READERS_MAX; i++) {
        atomic_uint_fast64_t *visits = &readers->places[i].visits;
        uint_fast64_t seen = atomic_load(visits);
        while (seen % 2 == 1 && atomic_load(visits) == seen)
            clock_sleep_ms(1);
    }
}

uint64_t readers_memory_bytes(void)
{
    return sizeof(struct readers);
}
