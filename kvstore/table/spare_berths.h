/*
 * spare_berths: berths of a log whose content counts no more, since a later record of its key
 * stands behind it, and which may get another content. The pages of such a berth are in memory and
 * its blocks on disk, which costs a fifth to a twentieth of what fresh ones do.
 *
 * Only berths that were appended since the log was opened or last held (kvstore_hold_begin) become
 * spare: what is before that is never written again. So nothing is to be found out about older
 * berths at an open, and a backup copies what does not change.
 *
 * A crash must not find the old content overwritten and the record that replaced it lost: a berth
 * gets another content once that record is durable, or, where nobody waits for syncs, at once, if
 * no sync has promised the old one (generation.promised_end).
 *
 * Threads: none of its own; the caller holds the data file's lock for writing. Who holds it for
 * reading may read `bytes`.
 */
#ifndef MQKV_KVSTORE_TABLE_SPARE_BERTHS_H
#define MQKV_KVSTORE_TABLE_SPARE_BERTHS_H

#include <stdbool.h>
#include <stdint.h>

struct spare_berth {
    uint64_t offset; /* of the content in the log */
    uint64_t capacity_bytes;
    uint64_t position;   /* behind the record that replaced the content (kvstore_ticket) */
    uint64_t since_ms;   /* clock_monotonic_coarse_ms: when its content was replaced */
    uint32_t rejections; /* how often it was looked at, and not taken; from 0 */
};

/* The oldest first. Starts from {0}. */
struct spare_berths {
    struct spare_berth *ring;
    uint32_t first, count, capacity; /* the capacity is a power of two */
    uint64_t bytes;                  /* of the berths in the ring */
    uint64_t used_ms;                /* clock_monotonic_coarse_ms: when one was taken last */
};

/* What may be taken. */
struct spare_terms {
    uint64_t durable_position; /* what replaced the content is durable up to here */
    uint64_t promised_end;     /* contents from this offset on need not wait for that; UINT64_MAX:
                                  all wait */
    const void *context;
    bool (*is_read)(const void *context, uint64_t offset); /* its content is being read */
};

/* Adds `berth`. Without memory, or if there are too many, or it was rejected again and again, it is
 * left to the next compaction. */
void spare_berths_add(struct spare_berths *spares, const struct spare_berth *berth);

/* Takes a berth for a content of size_bytes, which fills at least four fifths of it: *offset.
 * *before_sync: what replaced its content may not be durable. False: none was found in a short
 * look. */
bool spare_berths_take(struct spare_berths *spares, uint64_t size_bytes,
                       const struct spare_terms *terms, uint64_t *offset, bool *before_sync);

/* Bytes that a compaction would give back, and that will soon be used again; 0 if none was taken
 * for some time, though there were some. */
uint64_t spare_berths_bytes_in_use(const struct spare_berths *spares);

/* Forgets all berths, and frees the memory. */
void spare_berths_forget(struct spare_berths *spares);

#endif
