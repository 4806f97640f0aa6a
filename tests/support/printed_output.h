/*
 * printed_output: for each test of a case an output of clientk whose text stays in memory.
 */
#ifndef MQKV_TESTS_SUPPORT_PRINTED_OUTPUT_H
#define MQKV_TESTS_SUPPORT_PRINTED_OUTPUT_H

#include <check.h>
#include <stddef.h>

#include "clientk/program/cli/output.h"

/* Of the test. The text is there after fflush(output.stream). */
extern struct output output;
extern char *printed;
extern size_t printed_bytes;

void printed_output_case_add(TCase *tcase);

#endif
