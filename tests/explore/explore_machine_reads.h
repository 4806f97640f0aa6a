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

/* Judges a copy of the store in that directory, which is none that is written to: it must be as the
 * store was at one of these moments, or, where `is_mixed`, each of its files. `what`: its name in a
 * finding. */
void machine_judge_copy(const char *path, const struct model_moment moments[], unsigned count,
                        bool is_mixed, const char *what);

bool machine_is_there(const char *path);

/* Removes the files of the directory; data.0000 goes first: then it is no store any more. False:
 * the disk has failed, and they may come back. */
bool machine_empty_directory(const char *path);

/* A read by the writer of the key. */
void machine_read_key(unsigned key);

#endif
