/*
 * queue_lengths: how many jobs queues have: of one, of all that the store has.
 */
#ifndef MQKV_CLIENTK_PROGRAM_COMMANDS_QUEUE_LENGTHS_H
#define MQKV_CLIENTK_PROGRAM_COMMANDS_QUEUE_LENGTHS_H

#include "clientk/program/cli/cli_context.h"
#include "mqkv/clientk_queue.h"

/* Prints the lengths of the queue. Returns the exit code. */
int queue_lengths_print(struct cli_context *context, struct clientk_queue *queue);

/* Connects, and prints names and lengths of all queues, in the order of their names. Returns the
 * exit code. */
int queue_lengths_print_all(struct cli_context *context);

#endif
