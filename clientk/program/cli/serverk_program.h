/*
 * serverk_program: finds the program serverk, for commands that start a daemon of their own.
 */
#ifndef MQKV_CLIENTK_PROGRAM_CLI_SERVERK_PROGRAM_H
#define MQKV_CLIENTK_PROGRAM_CLI_SERVERK_PROGRAM_H

#include <limits.h>
#include <stdbool.h>

/* Finds the serverk that was installed beside this clientk, never a program that another user
 * named. False: there is none, or this user may not execute it. */
bool serverk_program_find(char path[PATH_MAX]);

#endif
