#include "kvstore/format/verified_bitmap.h"

#include <stddef.h>
#include <sys/mman.h>

#include "common/assert/assert.h"

#define WORD_BITS 64u

void verified_bitmap_init(struct verified_bitmap *verified, uint64_t log_bytes)
{
    uint64_t words = 1 + log_bytes / VERIFIED_MIN_BYTES / WORD_BITS + 1;
    verified->bytes = words * sizeof *verified->words;
    void *at = mmap(NULL, verified->bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    verified->words = at == MAP_FAILED ? NULL : at;
}

void verified_bitmap_free(struct verified_bitmap *verified)
{
    if (verified->words)
        munmap(verified->words, verified->bytes);
    verified->words = NULL;
}

static _Atomic uint64_t *block_word(const struct verified_bitmap *verified, uint64_t offset)
{
    KV_ASSERT((1 + offset / VERIFIED_MIN_BYTES / WORD_BITS) * 8 < verified->bytes);
    return &verified->words[1 + offset / VERIFIED_MIN_BYTES / WORD_BITS];
}

static uint64_t block_bit(uint64_t offset)
{
    return UINT64_C(1) << offset / VERIFIED_MIN_BYTES % WORD_BITS;
}

void verified_bitmap_note_large(const struct verified_bitmap *verified, uint64_t offset)
{
    if (verified->words)
        atomic_fetch_or_explicit(block_word(verified, offset), block_bit(offset),
                                 memory_order_relaxed);
}

bool verified_bitmap_has_large(const struct verified_bitmap *verified, uint64_t offset)
{
    return verified->words &&
           (atomic_load_explicit(block_word(verified, offset), memory_order_relaxed) &
            block_bit(offset)) != 0 &&
           atomic_load_explicit(&verified->words[0], memory_order_relaxed) == 0;
}

void verified_bitmap_distrust(const struct verified_bitmap *verified)
{
    if (verified->words)
        atomic_store_explicit(&verified->words[0], 1, memory_order_relaxed);
}
