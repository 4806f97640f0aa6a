/*
 * refused_lines: lines of a dump that the server had no room for (status_lacks_room), until it is
 * known what that means. If the server takes a line that was sent later, only the refused one
 * fails; after more than REFUSED_IN_A_ROW refusals it takes no more lines.
 *
 * Answers do not come in the order of the lines: lines that were in flight when a refusal came tell
 * nothing about it.
 */
#ifndef MQKV_TOOLS_TRANSFER_REFUSED_LINES_H
#define MQKV_TOOLS_TRANSFER_REFUSED_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/status.h"

#define REFUSED_LINES 1024u

struct refused_line {
    uint64_t line;
    uint64_t last_sent; /* the last line that had been sent when this one was refused */
    enum kv_status status;
};

/* All zero: none. */
struct refused_lines {
    struct refused_line lines[REFUSED_LINES]; /* in the order of their answers */
    size_t count;
    unsigned in_a_row; /* refusals since a line was taken */
};

/* Adds a line; count is below REFUSED_LINES. True: the server takes no more lines. */
bool refused_lines_add(struct refused_lines *refused, const struct refused_line *line);

/* Notes that the server took `line`. Returns how many of the refused lines, from the first, failed
 * alone. */
size_t refused_lines_pass(struct refused_lines *refused, uint64_t line);

/* Forgets the first `count` lines. */
void refused_lines_drop(struct refused_lines *refused, size_t count);

#endif
