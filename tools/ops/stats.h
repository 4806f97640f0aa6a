/*
 * stats: the command that prints the statistics of the server as tables, or as the JSON that it
 * sent.
 */
#ifndef MQKV_TOOLS_OPS_STATS_H
#define MQKV_TOOLS_OPS_STATS_H

#include <stddef.h>
#include <stdio.h>

#include "clientk/program/cli/cli_context.h"
#include "clientk/program/cli/json_reader.h"
#include "clientk/program/cli/line.h"

int stats_run(struct cli_context *context, const void *options, const struct word *operands,
              size_t count);

/* Prints any JSON as lists and tables with headings. The unit of a number is in its name:
 * NAME_bytes and NAME_ns are also shown in larger units. */
void stats_print(FILE *stream, const struct json_value *document);

/* Writes a number as stats_print shows it; buffer of 48 bytes, which is returned. */
char *stats_format_number(const char *name, const struct json_value *number, char buffer[48]);

#endif
