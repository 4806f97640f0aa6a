#include "tests/explore/seeded_numbers.h"

uint64_t seeded_next(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t seeded_below(uint64_t *state, uint64_t bound)
{
    return seeded_next(state) % bound;
}

bool seeded_one_in(uint64_t *state, uint64_t n)
{
    return n != 0 && seeded_below(state, n) == 0;
}

uint64_t seeded_some_of(uint64_t *state, uint64_t most)
{
    uint64_t way = seeded_below(state, 3);
    return way == 0 ? 0 : way == 1 ? most : seeded_below(state, most + 1);
}
