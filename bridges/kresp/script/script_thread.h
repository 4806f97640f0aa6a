/*
 * script_thread: the VM of each thread that runs scripts.
 */
#ifndef MQKV_KRESP_SCRIPT_SCRIPT_THREAD_H
#define MQKV_KRESP_SCRIPT_SCRIPT_THREAD_H

#include "bridges/kresp/script/script_vm.h"

/* Returns the VM of the thread that executes the job; the first call makes it. NULL: no memory. */
struct script_vm *script_thread_vm(const struct redis_job *job);

/* The VM ends: the next script of the thread gets a new one. */
void script_thread_discard(const struct redis_job *job);

#endif
