/*
 * item_sum: the sum over the items and bounds of an index by which the next process tells whether
 * the index that it finds is as it was left. It depends on what is there and not on where, so that
 * it is kept up to date with each change.
 */
#ifndef MQKV_KVSTORE_INDEX_ITEM_SUM_H
#define MQKV_KVSTORE_INDEX_ITEM_SUM_H

#include <stdint.h>

/* What an item or a bound adds: for another one, hardly ever the same. */
static inline uint64_t item_sum_part(uint64_t number)
{
    number *= UINT64_C(0x9e3779b97f4a7c15);
    number ^= number >> 32;
    return number * UINT64_C(0xd6e8feb86659fd93);
}

#endif
