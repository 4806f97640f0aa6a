/*
 * completion: the words that a half-typed word at the prompt can become.
 */
#ifndef MQKV_TOOLS_PROMPT_COMPLETION_H
#define MQKV_TOOLS_PROMPT_COMPLETION_H

#include <stddef.h>

#include "clientk/program/cli/cli_context.h"

#define COMPLETION_CANDIDATES 64

/* Candidates are words as they would be typed (quoted where needed); free with completion_free. */
struct completion {
    size_t count;
    char *candidates[COMPLETION_CANDIDATES];
    size_t typed; /* bytes before the cursor that a candidate replaces */
};

/* For the text before the cursor: names of commands for the first word and after help, options
 * after "--"; and, while the prompt is connected, keys of the store (one short scan), sections of
 * the statistics and names of settings, as the server has them. */
void completion_find(struct completion *completion, struct cli_context *context, const char *text,
                     size_t size);
void completion_free(struct completion *completion);

/* Returns how many bytes all candidates have in common at their start. */
size_t completion_common_bytes(const struct completion *completion);

#endif
