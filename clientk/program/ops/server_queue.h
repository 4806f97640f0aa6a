/*
 * server_queue: which queue the server of a process serves.
 */
#ifndef MQKV_CLIENTK_PROGRAM_OPS_SERVER_QUEUE_H
#define MQKV_CLIENTK_PROGRAM_OPS_SERVER_QUEUE_H

#include <stdbool.h>
#include <sys/types.h>

#include "wire/queue_name.h"

/* Writes into `name` the queue whose claim (NAME.lock) the process `pid` holds. False: none that is
 * seen in /dev/mqueue and that this user may open. */
bool server_queue_of(pid_t pid, char name[WIRE_QUEUE_NAME_BYTES]);

#endif
