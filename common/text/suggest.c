#include "common/text/suggest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#define LONGEST_NAME 31

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Optimal string alignment distance (Levenshtein with adjacent transpositions), three rows of the
 * usual table at a time. Both texts have at most LONGEST_NAME bytes. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t rows[3][LONGEST_NAME + 1];
    size_t a_size = strlen(a), b_size = strlen(b);
    for (size_t j = 0; j <= b_size; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_size; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            size_t change = above[j - 1] + !same(a[i - 1], b[j - 1]);
            row[j] = least(change, least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
                row[j] = least(row[j], two_above[j - 2] + 1);
        }
    }
    return rows[a_size % 3][b_size];
}

void suggest_consider(struct suggestion *best, const char *typed, const char *name)
{
    size_t typed_size = strlen(typed), name_size = strlen(name);
    if (typed_size == 0 || typed_size > LONGEST_NAME || name_size > LONGEST_NAME)
        return;
    size_t distance = edit_distance(typed, name);
    bool begins = typed_size < name_size && strncasecmp(typed, name, typed_size) == 0;
    bool near = distance <= (name_size < 4 ? 1 : name_size / 3);
    if (begins && distance > 1)
        distance = 1;
    if ((near || begins) && distance < best->distance)
        *best = (struct suggestion){name, distance};
}
