/*
 * machine_maps: the memory of the machine's processes that goes with them: mappings of files, and
 * of the operating system's; and the objects in shared memory, which go with the power.
 */
#ifndef MQKV_TESTS_EXPLORE_MACHINE_MAPS_H
#define MQKV_TESTS_EXPLORE_MACHINE_MAPS_H

/* Nothing is mapped any more. */
void machine_maps_forget(void);

/* What a process that has died has mapped. */
void machine_maps_bury(unsigned process);

/* Shared memory is empty. */
void machine_shared_forget(void);

#endif
