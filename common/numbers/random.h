/*
 * random: a small, fast, seedable generator for load and for tests (xoshiro256**, Blackman and
 * Vigna, public domain algorithm, seeded through splitmix64), and the kernel's randomness for
 * secrets.
 */
#ifndef MQKV_COMMON_NUMBERS_RANDOM_H
#define MQKV_COMMON_NUMBERS_RANDOM_H

#include <stdint.h>

struct random_state {
    uint64_t s[4];
};

void random_seed(struct random_state *state, uint64_t seed);
uint64_t random_next(struct random_state *state);

/* Uniform over 0 .. bound-1 without modulo bias worth speaking of (multiply-shift, Lemire);
 * bound > 0. */
uint64_t random_below(struct random_state *state, uint64_t bound);

/* Uniform in [0, 1). */
double random_unit(struct random_state *state);

/* 64 bits from getrandom(2), for session cookies and file salts. Aborts if the kernel has none. */
uint64_t random_secret(void);

#endif
