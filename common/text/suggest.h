/*
 * suggest: the known name that a mistyped one is most like.
 */
#ifndef MQKV_COMMON_TEXT_SUGGEST_H
#define MQKV_COMMON_TEXT_SUGGEST_H

#include <stddef.h>

/* Keeps the best candidate seen; start from SUGGESTION_NONE. */
struct suggestion {
    const char *name; /* NULL: nothing was near enough */
    size_t distance;
};
#define SUGGESTION_NONE ((struct suggestion){NULL, (size_t)-1})

/* Considers `name`: near enough are names at an edit distance (Levenshtein, with swapped neighbours
 * as one edit, letter case aside) of at most a third of their length, and names that begin with
 * what was typed. */
void suggest_consider(struct suggestion *best, const char *typed, const char *name);

#endif
