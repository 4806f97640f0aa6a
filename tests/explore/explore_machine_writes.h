/*
 * explore_machine_writes: what the workers of a life do to the store, noted in the model.
 */
#ifndef MQKV_TESTS_EXPLORE_EXPLORE_MACHINE_WRITES_H
#define MQKV_TESTS_EXPLORE_EXPLORE_MACHINE_WRITES_H

#define ACTIONS_MOST 15u

/* A worker's thread; `argument` is its number, as a pointer. */
void machine_work(void *argument);

#endif
