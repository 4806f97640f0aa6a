/*
 * layout: what the data files of a store have in common, found even if some of them are damaged or
 * missing.
 */
#ifndef MQKV_KVSTORE_KVCHECK_LAYOUT_H
#define MQKV_KVSTORE_KVCHECK_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/error.h"
#include "kvstore/kvcheck/source.h"

struct layout {
    uint32_t datafiles; /* number of data files, at least 1 */
    uint64_t seed;
    bool sound; /* from a sound header; else datafiles is a count of files, and the seed unknown */
    const uint64_t *ends; /* of the logs (log_ends.h); NULL: they end for no transaction */
};

/* Takes the layout from data.0000 as the engine does, or else from the first file with a sound
 * header. KV_NOT_FOUND: there is no data file. */
enum kv_status layout_find(struct layout *layout, int dir_fd, const char *dir,
                           struct kv_error *error);

/* Bounds data file `number`, which was just opened, to its end in layout->ends. */
static inline void layout_bound(const struct layout *layout, struct source *source, uint32_t number)
{
    source->whole_end = layout->ends ? layout->ends[number] : UINT64_MAX;
}

/* Returns what is wrong with the header of a file that should be number `number` of this store;
 * NULL if nothing is. */
const char *layout_complaint(const struct layout *layout, const struct source *source,
                             uint32_t number);

/* Returns true if the file's sound header says that it belongs to another store. */
bool layout_is_foreign(const struct layout *layout, const struct source *source);

#endif
