#include "tools/transfer/refused_lines.h"

#include <string.h>

#include "clientk/program/cli/output.h"

bool refused_lines_add(struct refused_lines *refused, const struct refused_line *line)
{
    refused->lines[refused->count++] = *line;
    return ++refused->in_a_row > REFUSED_IN_A_ROW;
}

size_t refused_lines_pass(struct refused_lines *refused, uint64_t line)
{
    size_t alone = 0;
    refused->in_a_row = 0;
    while (alone < refused->count && refused->lines[alone].last_sent < line)
        alone++;
    return alone;
}

void refused_lines_drop(struct refused_lines *refused, size_t count)
{
    refused->count -= count;
    memmove(refused->lines, refused->lines + count, refused->count * sizeof refused->lines[0]);
}
