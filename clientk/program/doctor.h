/*
 * doctor: is everything there that clients need? Kernel limits and what they allow, the server and
 * its queues, permissions, shared memory; with the lines that change what is wrong.
 */
#ifndef MQKV_CLIENTK_PROGRAM_DOCTOR_H
#define MQKV_CLIENTK_PROGRAM_DOCTOR_H

#include <stddef.h>

#include "clientk/program/context.h"
#include "clientk/program/line.h"

/* Exit code 0: all well; 3: no server; 4: something stands in the way. */
int doctor_run(struct context *context, const void *options, const struct word *operands,
               size_t count);

#endif
