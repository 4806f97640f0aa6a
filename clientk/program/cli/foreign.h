/*
 * foreign: the commands of other key-value stores (Redis, memcached) that people type from habit, and what
 * does the same here.
 */
#ifndef MQKV_CLIENTK_PROGRAM_CLI_FOREIGN_H
#define MQKV_CLIENTK_PROGRAM_CLI_FOREIGN_H

/* What to use instead of the command `name` (letter case aside), as half a sentence that follows "mqkv has no
 * NAME: ". NULL: no such command is known. */
const char *foreign_advice(const char *name);

#endif
