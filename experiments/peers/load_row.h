/*
 * load_row: what a load program of the peers prints at its end, as `clientk bench` does.
 */
#ifndef MQKV_EXPERIMENTS_PEERS_LOAD_ROW_H
#define MQKV_EXPERIMENTS_PEERS_LOAD_ROW_H

#include <stdint.h>

#include "common/numbers/histogram.h"

/* Prints a CSV header and one row: so many threads did the operations of *latency in took_s. */
void load_row_print(uint64_t threads, const struct histogram *latency, double took_s);

#endif
