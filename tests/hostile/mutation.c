#include "tests/hostile/mutation.h"

#include <string.h>

#include "common/memory/cursor.h"

#define FLIPPED_BITS_MAX 8
#define PIECE_MAX        256

static const uint64_t telling[] = {0,
                                   1,
                                   2,
                                   7,
                                   47,
                                   48,
                                   49,
                                   127,
                                   255,
                                   4095,
                                   4096,
                                   4097,
                                   8191,
                                   8192,
                                   65535,
                                   65536,
                                   INT32_MAX,
                                   (uint64_t)INT32_MAX + 1,
                                   UINT32_MAX - 7,
                                   UINT32_MAX,
                                   INT64_MAX,
                                   (uint64_t)INT64_MAX + 1,
                                   UINT64_MAX - 7,
                                   UINT64_MAX};

static size_t below(struct random_state *random, size_t bound)
{
    return bound ? (size_t)random_below(random, bound) : 0;
}

static void flip_bits(struct random_state *random, uint8_t *bytes, size_t size)
{
    for (size_t flips = 1 + below(random, FLIPPED_BITS_MAX); flips > 0 && size > 0; flips--)
        bytes[below(random, size)] ^= (uint8_t)(1u << below(random, 8));
}

/* A telling number of 1, 2, 4 or 8 bytes at a place of that alignment, or near the old one. */
static void set_number(struct random_state *random, uint8_t *bytes, size_t size)
{
    unsigned shift = (unsigned)below(random, 4);
    size_t width = (size_t)1 << shift;
    if (size < width)
        return;
    size_t at = below(random, size >> shift) << shift;
    uint64_t number = telling[below(random, sizeof telling / sizeof telling[0])];
    uint8_t whole[8] = {0};
    if (random_below(random, 3) == 0) {
        memcpy(whole, bytes + at, width);
        number = load_u64(whole) + random_below(random, 5) - 2;
    }
    store_u64(whole, number);
    memcpy(bytes + at, whole, width);
}

static size_t cut_out(struct random_state *random, uint8_t *bytes, size_t size)
{
    size_t at = below(random, size), piece = below(random, PIECE_MAX);
    if (piece > size - at)
        piece = size - at;
    memmove(bytes + at, bytes + at + piece, size - at - piece);
    return size - piece;
}

/* Puts a piece of `from` in at some place, its rest moved back. */
static size_t put_in(struct random_state *random, uint8_t *bytes, size_t size, size_t capacity,
                     const uint8_t *from, size_t from_size)
{
    size_t at = below(random, size + 1), start = below(random, from_size);
    size_t piece = below(random, PIECE_MAX);
    if (piece > from_size - start)
        piece = from_size - start;
    if (piece > capacity - size)
        piece = capacity - size;
    uint8_t copy[PIECE_MAX];
    if (piece == 0)
        return size;
    memcpy(copy, from + start, piece);
    memmove(bytes + at + piece, bytes + at, size - at);
    memcpy(bytes + at, copy, piece);
    return size + piece;
}

static size_t lengthen(struct random_state *random, uint8_t *bytes, size_t size, size_t capacity)
{
    size_t more = below(random, capacity - size + 1);
    if (random_below(random, 2))
        more = more < 16 ? more : below(random, 16);
    uint8_t filling = (uint8_t)(random_below(random, 2) ? 0 : random_next(random));
    memset(bytes + size, filling, more);
    return size + more;
}

/* The end of `other` behind the start of the bytes, at the same place in both. */
static size_t cross_over(struct random_state *random, uint8_t *bytes, size_t size, size_t capacity,
                         const uint8_t *other, size_t other_size)
{
    size_t at = below(random, (size < other_size ? size : other_size) + 1);
    size_t new_size = other_size < capacity ? other_size : capacity;
    if (at < new_size)
        memmove(bytes + at, other + at, new_size - at);
    return new_size;
}

static size_t mutate_once(struct random_state *random, uint8_t *bytes, size_t size, size_t capacity,
                          const uint8_t *other, size_t other_size)
{
    switch (random_below(random, 9)) {
    case 0:
    case 1:
        flip_bits(random, bytes, size);
        return size;
    case 2:
    case 3:
        set_number(random, bytes, size);
        return size;
    case 4:
        return below(random, size + 1);
    case 5:
        return lengthen(random, bytes, size, capacity);
    case 6:
        return cut_out(random, bytes, size);
    case 7:
        return random_below(random, 2) ? put_in(random, bytes, size, capacity, bytes, size)
                                       : put_in(random, bytes, size, capacity, other, other_size);
    default:
        return cross_over(random, bytes, size, capacity, other, other_size);
    }
}

size_t mutate(struct random_state *random, uint8_t *bytes, size_t size, size_t capacity,
              const uint8_t *other, size_t other_size)
{
    if (random_below(random, 16) == 0)
        return size;
    for (uint64_t times = 1 + random_below(random, 4); times > 0; times--)
        size = mutate_once(random, bytes, size, capacity, other, other_size);
    return size;
}
