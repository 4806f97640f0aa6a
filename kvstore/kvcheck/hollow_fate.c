#include "kvstore/kvcheck/hollow_fate.h"

#include "common/memory/cursor.h"
#include "common/time/clock.h"
#include "kvstore/format/record.h"
#include "kvstore/format/sizes.h"

/* Looks once more at a content that a daemon may be overwriting: it loses its version first. */
static bool is_as_written(const struct source *source, const struct record *placed, uint64_t offset)
{
    struct record record;
    uint64_t size_bytes;
    if (record_walk(source->map, source->size_bytes, source->identity.salt, offset, &record,
                    &size_bytes) == RECORD_VALID)
        return true;
    uint64_t at = record_placed_at(placed, offset);
    uint64_t version = at != 0 ? load_u64(source->map + at + RECORD_VERSION_AT) : 0;
    return version == RECORD_NO_VERSION_YET || version > placed->version;
}

enum hollow_fate hollow_fate(const struct source *source, uint64_t offset, bool is_of_transaction)
{
    struct record placed;
    uint64_t size_bytes;
    if (record_parse(source->map + offset, source->size_bytes - offset, &placed, &size_bytes) !=
            RECORD_VALID ||
        placed.kind != RECORD_PLACED)
        return HOLLOW_LOST;
    if (source->is_live)
        return is_as_written(source, &placed, offset) ? HOLLOW_OVERWRITTEN : HOLLOW_LOST;
    /* As the engine takes it (recovery.h); of a transaction all counts or nothing. */
    return source->overwrites && source->boot == BOOT_EARLIER &&
                   offset >= source->progress.synced_offset && !is_of_transaction
               ? HOLLOW_TAKEN
               : HOLLOW_LOST;
}
