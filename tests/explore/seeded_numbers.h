/*
 * seeded_numbers: numbers that follow from a seed, for what is no part of the code that is explored
 * (splitmix64: Steele, Lea, Flood, OOPSLA 2014). `state` is the seed at first.
 */
#ifndef MQKV_TESTS_EXPLORE_SEEDED_NUMBERS_H
#define MQKV_TESTS_EXPLORE_SEEDED_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

uint64_t seeded_next(uint64_t *state);

/* 0 .. bound - 1 */
uint64_t seeded_below(uint64_t *state, uint64_t bound);

/* True once in n times; n = 0: never, and nothing is drawn. */
bool seeded_one_in(uint64_t *state, uint64_t n);

/* None, all, or any number between. */
uint64_t seeded_some_of(uint64_t *state, uint64_t most);

#endif
