/*
 * dump and load: all entries as portable text (dump_format.h) and back, byte for byte and with their
 * expiry; versions are the store's own and stay behind.
 */
#ifndef MQKV_CLIENTK_PROGRAM_DUMP_H
#define MQKV_CLIENTK_PROGRAM_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clientk/program/arguments.h"
#include "clientk/program/context.h"

struct dump_options {
    const char *prefix;
    bool force; /* write over a file that is there */
};
extern const struct option_row dump_option_rows[];
extern const struct dump_options dump_option_defaults;
int dump_run(struct context *context, const void *options, const struct word *operands,
             size_t count);

struct load_options {
    bool force;     /* load also a damaged dump */
    bool if_absent; /* leave keys alone that are there */
    uint64_t from;  /* the first line to load; 0: all */
};
extern const struct option_row load_option_rows[];
extern const struct load_options load_option_defaults;
int load_run(struct context *context, const void *options, const struct word *operands,
             size_t count);

#endif
