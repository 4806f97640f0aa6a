/*
 * denied: what lets this user send to a queue that refuses him, in names. The daemon's sandbox may
 * not look names up, this program may.
 */
#ifndef MQKV_CLIENTK_PROGRAM_CLI_DENIED_H
#define MQKV_CLIENTK_PROGRAM_CLI_DENIED_H

#include <stdbool.h>

#include "mqkv/error.h"

/* Writes the command that makes this user a member of the group that the queue lets in. False: it
 * lets no group in, or user or group have no name. */
bool denied_command(const char *queue, char command[160]);

/* Adds names, and that command, to the sentence of a queue that refuses this user. */
void denied_explain(const char *queue, struct kv_error *error);

#endif
