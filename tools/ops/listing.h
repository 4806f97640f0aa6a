/*
 * listing: prints an array of JSON objects in every format of answers: as a table with headings, as
 * lines of fields with tabs between them (raw), as JSON, as CSV.
 */
#ifndef MQKV_TOOLS_OPS_LISTING_H
#define MQKV_TOOLS_OPS_LISTING_H

#include <stdbool.h>
#include <stddef.h>

#include "clientk/program/cli/output.h"
#include "clientk/program/cli/json_reader.h"

/* A column shows a member of the objects. The last column is as wide as it needs to be. */
struct listing_column {
    const char *member;
    const char *heading;
    bool is_number; /* aligned to the right */
};

#define LISTING_MAX_COLUMNS 16u

/* Prints the document with these columns, at most LISTING_MAX_COLUMNS; in the format JSON it prints
 * `json`, the text of the document. */
void listing_print(struct output *output, struct kv_slice json, const struct json_value *document,
                   const struct listing_column *columns, size_t count);

/* Prints the text of a member of the first object as a line. False: there is no such member;
 * nothing was printed. */
bool listing_print_cell(struct output *output, const struct json_value *document,
                        const char *member);

/* Like listing_print, for text from a server, which it parses first. KV_IO: it is no JSON. */
enum kv_status listing_print_text(struct output *output, struct kv_slice json,
                                  const struct listing_column *columns, size_t count);

#endif
