/*
 * stats: the server's statistics as tables for people, or as the JSON that it sent; and top, which
 * shows once a second what changed.
 */
#ifndef MQKV_CLIENTK_PROGRAM_STATS_H
#define MQKV_CLIENTK_PROGRAM_STATS_H

#include <stddef.h>
#include <stdio.h>

#include "clientk/program/context.h"
#include "clientk/program/json.h"
#include "clientk/program/line.h"

int stats_run(struct context *context, const void *options, const struct word *operands,
              size_t count);

/* Prints any JSON as headed lists and tables. A number's unit is in its name: NAME_bytes and NAME_ns
 * are shown in fitting units too. */
void stats_print(FILE *stream, const struct json *document);

/* Writes a number as stats_print shows it; buffer of 48 bytes, which is returned. */
char *stats_format_number(const char *name, const struct json *number, char buffer[48]);

#endif
