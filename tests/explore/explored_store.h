/*
 * explored_store: what several harnesses need: a store in a directory of its own, in memory, and
 * the history of what threads saw of its keys.
 */
#ifndef MQKV_TESTS_EXPLORED_STORE_H
#define MQKV_TESTS_EXPLORED_STORE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "mqkv/kvstore.h"

#define EXPLORE_KEYS 3u

/* Values of this size are placed (placing.h), as the explorer has it. */
#define EXPLORE_LARGE_BYTES 800u

/* Makes the directory, with an empty store that was made with the options. Removed at the end of
 * the schedule; what is left of it when the process ends, by explore. */
const char *explore_directory(const struct kvstore_options *options);
void explore_directory_remove(void);

/* Removes what a process has left. */
void explore_remove_directories(pid_t process);

/* Removes what explorers that were killed have left. */
void explore_remove_stale_directories(void);

/* From here on most values have EXPLORE_LARGE_BYTES and more, or none does, as at first. */
void explore_values_are_large(bool large);

/* Opens a store there; what fails ends the schedule. */
struct kvstore *explore_store_open(const struct kvstore_options *options);
void explore_store_close(struct kvstore *store);

/* One operation on a key of 0 .. EXPLORE_KEYS - 1, drawn by the seed, noted in its history. Values
 * are numbers, padded so that some records are large. */
void explore_operation(struct kvstore *store);

/* The same, and waits until what it wrote is on disk (not at all, unless the store says so). */
void explore_durable_operation(struct kvstore *store);

/* A put of a new value, noted in the history of its key. */
void explore_put(struct kvstore *store, unsigned key);

/* A get, noted in the history of its key. */
void explore_get(struct kvstore *store, unsigned key);

/* The same for a read of another kind: what it found, or HISTORY_ABSENT. began_ns: explore_clock_ns
 * before it. */
void explore_note_read(unsigned key, int64_t found, uint64_t began_ns);

struct kv_slice explore_key(unsigned key);

/* The number that a value is of, or ends the schedule: a value that was never written. */
int64_t explore_value_number(struct kv_slice value);

/* Forgets all histories; then whether each key's can be explained (ends the schedule if not). */
void explore_history_begin(void);
void explore_history_judge(void);

#endif
