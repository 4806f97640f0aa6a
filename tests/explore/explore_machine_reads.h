/*
 * explore_machine_reads: what is found in a store on the machine, and what the model says to it.
 */
#ifndef MQKV_TESTS_EXPLORE_EXPLORE_MACHINE_READS_H
#define MQKV_TESTS_EXPLORE_EXPLORE_MACHINE_READS_H

#include "mqkv/kvstore.h"
#include "tests/explore/store_model.h"

struct model_circumstances machine_circumstances(void);

/* Reads all keys. False: one cannot be read. */
bool machine_find_all(struct kvstore *store, struct model_finding found[MODEL_KEYS]);

/* All keys of what the last process has left in run.store. */
void machine_judge_store(struct kvstore *store);

/* A read by the writer of the key. */
void machine_read_key(unsigned key);

#endif
