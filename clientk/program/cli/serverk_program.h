/*
 * serverk_program: the daemon's program, for commands that let it do something.
 */
#ifndef MQKV_CLIENTK_PROGRAM_CLI_SERVERK_PROGRAM_H
#define MQKV_CLIENTK_PROGRAM_CLI_SERVERK_PROGRAM_H

#include <limits.h>
#include <stdbool.h>

/* The serverk that was installed beside this clientk: no program that another user named. False:
 * there is none, or this user may not execute it. */
bool serverk_program_find(char path[PATH_MAX]);

#endif
