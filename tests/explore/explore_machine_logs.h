/*
 * explore_machine_logs: what the data files and the commit log of a store on the machine say, read
 * without the engine: what the engine finds must be that.
 */
#ifndef MQKV_TESTS_EXPLORE_EXPLORE_MACHINE_LOGS_H
#define MQKV_TESTS_EXPLORE_EXPLORE_MACHINE_LOGS_H

#include "tests/explore/store_model.h"

/* Reads the files of the store, which is to be there if it was opened before. */
void machine_read_logs(void);

/* Compares what was found in the store that was opened next. */
void machine_compare_logs(const struct model_finding found[MODEL_KEYS]);

#endif
