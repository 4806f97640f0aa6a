#include "kvstore/kvcheck/walk.h"

#include "kvstore/log/holes.h"
#include "mqkv/kvstore.h"
#include "kvstore/format/sizes.h"

/* Each candidate in a gap costs a checksum over as many bytes as its header claims. A value full of
 * what looks like headers of huge records could make that quadratic, so the bytes that are checked
 * are limited to those of a few large records plus CREDIT_PER_BYTE for each byte of the gap. */
#define FIRST_CREDIT_BYTES (UINT64_C(1) << 30)
#define CREDIT_PER_BYTE    256u

void walk_start(struct walk *walk, const struct source *source, const struct offset_list *lost)
{
    *walk = (struct walk){.source = source,
                          .lost = lost,
                          .offset = FILE_HEADER_BYTES,
                          .credit_bytes = FIRST_CREDIT_BYTES};
}

/* Returns true if a value pointer at `offset` names what cannot be all its own: more bytes are in
 * use then than the log has. No daemon writes that. To verify and to salvage it would take time and
 * room without end. */
static bool is_named_twice(const struct walk *walk, uint64_t offset)
{
    const struct source *source = walk->source;
    struct record placed, content;
    uint64_t size_bytes;
    if (record_parse(source->map + offset, source->size_bytes - offset, &placed, &size_bytes) !=
            RECORD_VALID ||
        placed.kind != RECORD_POINTER)
        return false;
    uint64_t at = record_placed_at(&placed, offset);
    return at != 0 &&
           record_parse(source->map + at, offset - at, &content, &size_bytes) == RECORD_VALID &&
           record_take_place(&placed, at, &content) &&
           walk->used_bytes + size_bytes > offset - FILE_HEADER_BYTES;
}

/* Counts what was given. Contents that are found by themselves count when they are named. */
static void count_used(struct walk *walk, const struct walk_step *step)
{
    if (step->record.kind == RECORD_EXTENT ||
        (step->record.in_extent && step->record.content_at == 0))
        return;
    walk->used_bytes += step->size_bytes;
    if (step->kind == WALK_RECORD && step->record.content_at != 0)
        walk->used_bytes += record_entry_bytes(&step->record, 0);
}

/* False: there is no record that counts. */
static bool walk_read_record(struct walk *walk, uint64_t offset, struct walk_step *step)
{
    const struct source *source = walk->source;
    if (is_named_twice(walk, offset)) {
        walk->gap_is_made = true;
        return false;
    }
    enum record_verdict verdict =
        record_walk(source->map, source->size_bytes, source->identity.salt, offset, &step->record,
                    &step->size_bytes);
    step->kind = verdict == RECORD_SUPERSEDED ? WALK_SUPERSEDED : WALK_RECORD;
    return verdict == RECORD_VALID ||
           (verdict == RECORD_SUPERSEDED && !(walk->lost && offset_list_has(walk->lost, offset)));
}

/* Like read_at, but in a gap, where nothing vouches for the header. */
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
    return walk_read_record(walk, offset, step);
}

/* Returns the first place at or after `offset` where a record may begin. None begins in a hole of
 * the file, except in the 8 bytes before its end, since a checksum and a size may be zeros.
 * `data_end`: the end of the stretch of data that was found last. */
static uint64_t skip_hole(const struct walk *walk, uint64_t offset, uint64_t *data_end)
{
    struct stretch_of_data data;
    if (offset < *data_end)
        return offset;
    if (!holes_next_data(walk->source->fd, offset, walk->source->used_bytes, &data))
        return walk->source->used_bytes;
    *data_end = data.to;
    return at_least(offset, data.from / RECORD_ALIGNMENT * RECORD_ALIGNMENT - RECORD_ALIGNMENT);
}

/* Finds the place of the next valid record after `offset`; false: there is none. */
static bool find_next_record(struct walk *walk, uint64_t *offset)
{
    struct walk_step found;
    uint64_t data_end = 0;
    for (uint64_t at = *offset + RECORD_ALIGNMENT; at < walk->source->used_bytes;
         at += RECORD_ALIGNMENT) {
        at = skip_hole(walk, at, &data_end);
        if (at < walk->source->used_bytes && resynchronises_at(walk, at, &found)) {
            *offset = at;
            return true;
        }
    }
    *offset = round_up(walk->source->used_bytes, RECORD_ALIGNMENT);
    return false;
}

/* Returns true if the range is all zeros. Holes of the file are not read. */
static bool range_is_zero(const struct source *source, uint64_t from, uint64_t size)
{
    struct stretch_of_data data;
    uint64_t end = from + size;
    for (; holes_next_data(source->fd, from, end, &data); from = data.to)
        for (uint64_t at = data.from; at < data.to; at++)
            if (source->map[at] != 0)
                return false;
    return true;
}

static enum walk_kind gap_kind(const struct walk *walk, uint64_t start, bool record_follows)
{
    if (start < walk->source->progress.synced_offset)
        return WALK_DAMAGE;
    return record_follows ? WALK_HOLE : WALK_TORN;
}

/* Gives the gap that begins at the walk's offset, where no record is, and lasts to the next record
 * or the end of the log. */
static bool give_gap(struct walk *walk, struct walk_step *step)
{
    const struct source *source = walk->source;
    uint64_t start = walk->offset;
    uint64_t synced = source->progress.synced_offset;
    if (start >= source->used_bytes && start >= synced)
        return false;

    uint64_t end = start;
    bool record_follows = start < source->used_bytes && find_next_record(walk, &end);
    if (!record_follows && end < synced)
        end = synced;
    if (start < synced && synced < end)
        end = synced;
    step->kind = gap_kind(walk, start, record_follows || walk->gap_is_made);
    walk->gap_is_made = false;
    step->offset = start;
    step->size_bytes = end - start;
    uint64_t there = start < source->size_bytes ? source->size_bytes - start : 0;
    step->all_zero = there >= step->size_bytes && range_is_zero(source, start, step->size_bytes);
    walk->offset = end;
    return true;
}

/* Gives what stands behind the end of the log, if there is something. */
static bool give_rest(struct walk *walk, struct walk_step *step)
{
    uint64_t end = round_up(walk->source->used_bytes, RECORD_ALIGNMENT);
    if (walk->offset >= end)
        return false;
    *step = (struct walk_step){
        .kind = WALK_TORN, .offset = walk->offset, .size_bytes = end - walk->offset};
    walk->offset = end;
    return true;
}

bool walk_next(struct walk *walk, struct walk_step *step)
{
    if (walk->offset >= walk->source->whole_end)
        return give_rest(walk, step);
    step->offset = walk->offset;
    if (walk->offset < walk->source->size_bytes && walk_read_record(walk, walk->offset, step)) {
        walk->offset += step->size_bytes;
        count_used(walk, step);
        return true;
    }
    return give_gap(walk, step);
}

bool walk_read_content(const struct source *source, uint64_t offset, struct walk_step *step)
{
    *step = (struct walk_step){.kind = WALK_RECORD, .offset = offset};
    return offset < source->size_bytes &&
           record_read(source->map + offset, source->size_bytes - offset, source->identity.salt,
                       offset, &step->record, &step->size_bytes) == RECORD_VALID &&
           step->record.in_extent;
}
