/*
 * mutation: changes of bytes that decoders tend to take ill: flipped bits, numbers at their limits,
 * pieces cut out, doubled, put in from elsewhere, cut off and added. The same random state, the
 * same changes.
 */
#ifndef MQKV_TESTS_HOSTILE_MUTATION_H
#define MQKV_TESTS_HOSTILE_MUTATION_H

#include <stddef.h>
#include <stdint.h>

#include "common/numbers/random.h"

/* Changes the bytes one to four times, or now and then not at all; returns their new size, at most
 * `capacity`. `other` is where pieces come from. */
size_t mutate(struct random_state *random, uint8_t *bytes, size_t size, size_t capacity,
              const uint8_t *other, size_t other_size);

#endif
