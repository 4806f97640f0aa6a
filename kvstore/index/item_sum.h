/*
 * item_sum: the sum over the items and bounds of an index, by which the next process tells whether
 * the index that it finds is as it was left. The sum depends on which items and bounds there are
 * and not on where they stand, so that each change can keep it up to date.
 */
#ifndef MQKV_KVSTORE_INDEX_ITEM_SUM_H
#define MQKV_KVSTORE_INDEX_ITEM_SUM_H

#include <stdint.h>

/* The part of an item or a bound `number` in the sum: hardly ever equal for two numbers. */
static inline uint64_t item_sum_part(uint64_t number)
{
    number *= UINT64_C(0x9e3779b97f4a7c15);
    number ^= number >> 32;
    return number * UINT64_C(0xd6e8feb86659fd93);
}

#endif
