#include "kvstore/kvcheck/walk.h"

#include "kvstore/kvstore.h"

/* In a gap each candidate costs a checksum over as many bytes as its header claims. A value full of
 * what looks like headers of huge records could make that quadratic; so the bytes checked may be no
 * more than those of a few large records plus CREDIT_PER_BYTE for each byte of the gap. */
#define FIRST_CREDIT_BYTES (UINT64_C(1) << 30)
#define CREDIT_PER_BYTE    256u

void walk_start(struct walk *walk, const struct source *source)
{
    *walk = (struct walk){
        .source = source, .offset = FILE_HEADER_BYTES, .credit_bytes = FIRST_CREDIT_BYTES};
}

static enum record_verdict read_at(const struct walk *walk, uint64_t offset, struct walk_step *step)
{
    const struct source *source = walk->source;
    return record_read(source->map + offset, source->size_bytes - offset, source->identity.salt,
                       offset, &step->record, &step->size_bytes);
}

/* As read_at, in a gap: nothing here vouches for the header. */
static bool resynchronises_at(struct walk *walk, uint64_t offset, struct walk_step *step)
{
    const struct source *source = walk->source;
    struct record record;
    uint64_t size_bytes;
    walk->credit_bytes += (uint64_t)CREDIT_PER_BYTE * RECORD_ALIGNMENT;
    if (record_parse(source->map + offset, source->size_bytes - offset, &record, &size_bytes) !=
            RECORD_VALID ||
        record.value.size > KVSTORE_MAX_VALUE_BYTES)
        return false;
    if (size_bytes > walk->credit_bytes) {
        walk->skipped++;
        return false;
    }
    walk->credit_bytes -= size_bytes;
    return read_at(walk, offset, step) == RECORD_VALID;
}

/* The place of the next valid record after `offset`, or where there can be none any more. */
static uint64_t find_next_record(struct walk *walk, uint64_t offset)
{
    struct walk_step found;
    for (offset += RECORD_ALIGNMENT; offset < walk->source->used_bytes; offset += RECORD_ALIGNMENT)
        if (resynchronises_at(walk, offset, &found))
            return offset;
    return offset;
}

static bool is_zero(const uint8_t *at, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++)
        if (at[i] != 0)
            return false;
    return true;
}

/* From the walk's offset, where no record is, to where one is or the log ends. */
static bool give_gap(struct walk *walk, struct walk_step *step)
{
    const struct source *source = walk->source;
    uint64_t start = walk->offset;
    uint64_t synced = source->progress.synced_offset;
    if (start >= source->used_bytes && start >= synced)
        return false;

    uint64_t end = start < source->used_bytes ? find_next_record(walk, start) : synced;
    if (end >= source->used_bytes && end < synced)
        end = synced;
    step->kind = start < synced ? WALK_DAMAGE : WALK_TORN;
    if (start < synced && synced < end)
        end = synced;
    step->offset = start;
    step->size_bytes = end - start;
    uint64_t there = start < source->size_bytes ? source->size_bytes - start : 0;
    step->all_zero = there >= step->size_bytes && is_zero(source->map + start, step->size_bytes);
    walk->offset = end;
    return true;
}

bool walk_next(struct walk *walk, struct walk_step *step)
{
    step->offset = walk->offset;
    if (walk->offset < walk->source->size_bytes &&
        read_at(walk, walk->offset, step) == RECORD_VALID) {
        step->kind = WALK_RECORD;
        walk->offset += step->size_bytes;
        return true;
    }
    return give_gap(walk, step);
}
