/*
 * nearest: which of the known names did somebody mean who mistyped one.
 */
#ifndef MQKV_CLIENTK_PROGRAM_NEAREST_H
#define MQKV_CLIENTK_PROGRAM_NEAREST_H

#include <stddef.h>

/* Keeps the best candidate seen; start from NEAREST_NONE. */
struct nearest {
    const char *name; /* NULL: nothing was near enough */
    size_t distance;
};
#define NEAREST_NONE ((struct nearest){NULL, (size_t)-1})

/* Considers `name`: near enough are names at an edit distance (Levenshtein, with swapped neighbours
 * as one edit, letter case aside) of at most a third of their length, and names that begin with
 * what was typed. */
void nearest_consider(struct nearest *nearest, const char *typed, const char *name);

#endif
