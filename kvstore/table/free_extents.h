/*
 * free_extents: extents of a log whose content counts no more, since a later record of its key
 * stands behind it, and which may get another content. The pages of such an extent are in memory
 * and its blocks on disk, which costs a fifth to a twentieth of what fresh ones do.
 *
 * Only extents that were appended since the log was opened or last held (kvstore_hold_begin) become
 * free: what is before that is never written again. So nothing is to be found out about older
 * extents at an open, and a backup copies what does not change.
 *
 * An extent is free, so that it may get another content,
 * - when the record that replaced its content is durable,
 * - or at once, if no sync that has begun will make the content durable (its version is above what
 *   was promised). A crash that finds it overwritten, and the record that replaced it lost, ends
 *   the log before the record that named it (recovery.h); that one had been promised to nobody.
 * What is free stays free: a sync that begins later covers the record that replaced the content.
 *
 * Threads: none of its own; the caller holds the data file's lock for writing. Who holds it for
 * reading may read `bytes`.
 */
#ifndef MQKV_KVSTORE_TABLE_FREE_EXTENTS_H
#define MQKV_KVSTORE_TABLE_FREE_EXTENTS_H

#include <stdbool.h>
#include <stdint.h>

/* Sizes of one class differ by at most a fourth: four classes for each power of two. */
#define EXTENT_CLASSES (4u * 36u)

struct free_extent {
    uint64_t offset; /* of the content in the log */
    uint64_t capacity_bytes;
    uint64_t position; /* behind the record that replaced the content (kvstore_ticket) */
    uint32_t next;     /* in its list: its number + 1; 0: it is the last */
};

/* Extents by their numbers in `each`, + 1; 0: there is none. */
struct extent_list {
    uint32_t first, last;
};

/* Starts from {0}. */
struct free_extents {
    struct free_extent *each;
    uint32_t count, capacity;                    /* of `each` */
    struct extent_list unused;                   /* places in `each` */
    struct extent_list waiting;                  /* for a sync, by position */
    struct extent_list by_class[EXTENT_CLASSES]; /* that of the last replaced content first */
    uint64_t bytes;                              /* of the extents that wait or are free */
    uint64_t used_ms; /* clock_monotonic_coarse_ms: when one was taken last, or added to none */
};

/* Adds `extent`, whose `next` does not count; `waits`: its content was promised. Without memory, or
 * if there are too many, it is left to the next compaction. */
void free_extents_add(struct free_extents *free_extents, const struct free_extent *extent,
                      bool waits);

/* What may be taken. */
struct free_extent_terms {
    uint64_t durable_position; /* what replaced a content is durable up to here */
    const void *context;
    bool (*is_read)(const void *context, uint64_t offset); /* the content there is being read */
};

/* Takes an extent for a content of size_bytes, which fills at least four fifths of it: *offset.
 * False: none was found in a short look. */
bool free_extents_take(struct free_extents *free_extents, uint64_t size_bytes,
                       const struct free_extent_terms *terms, uint64_t *offset);

/* Bytes that a compaction would give back, and that will soon be used again; 0 if none was taken
 * for some time, though there were some. */
uint64_t free_extents_bytes_in_use(const struct free_extents *free_extents);

/* Forgets all extents, and frees the memory. */
void free_extents_forget(struct free_extents *free_extents);

#endif
