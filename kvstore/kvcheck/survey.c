#include "kvstore/kvcheck/survey.h"

#include <stdlib.h>

#include "common/time/clock.h"
#include "common/numbers/random.h"
#include "kvstore/kvcheck/running_store.h"
#include "kvstore/format/sizes.h"
#include "kvstore/table/generation.h"

/* The place to which the index points for a key. */
struct newest {
    bool found;
    struct index_probe probe;
    uint64_t offset;
    struct record record;
    uint64_t size_bytes;
};

static uint32_t survey_hash(const struct survey *survey, const struct record *record)
{
    return keyhash_index(keyhash(&survey->hash_key, record->key));
}

static void find_newest(const struct survey *survey, struct kv_slice key, uint32_t hash,
                        struct newest *newest)
{
    const struct source *source = survey->source;
    newest->found = false;
    index_probe_start(&newest->probe, survey->newest, hash);
    while (!newest->found && index_probe_next(&newest->probe, &newest->offset))
        newest->found =
            record_parse(source->map + newest->offset, source->size_bytes - newest->offset,
                         &newest->record, &newest->size_bytes) == RECORD_VALID &&
            kv_slice_equal(newest->record.key, key);
}

static void survey_count_key(struct survey *survey, const struct record *record,
                             uint64_t size_bytes, uint64_t one)
{
    survey->keys += one;
    survey->live_bytes += one * size_bytes;
    survey->expiring_keys += record->expiry_ms != 0 ? one : 0;
    survey->expired_keys += record_has_expired(record, survey->now_ms) ? one : 0;
}

/* Counts the key no more whose newest record is replaced, if that was a put with a content. */
static void uncount_key(struct survey *survey, const struct newest *replaced)
{
    bool is_placed = replaced->record.kind == RECORD_POINTER;
    uint64_t size_bytes =
        is_placed ? placed_values_replace(&survey->placed, replaced->offset) : replaced->size_bytes;
    if (replaced->record.kind == RECORD_PUT || (is_placed && size_bytes > 0))
        survey_count_key(survey, &replaced->record, size_bytes, UINT64_MAX); /* one less */
}

/* An extent, or the content of one whose head is damaged, counts by the value pointer that names
 * it.
 */
static bool is_of_extent(const struct record *record)
{
    return record->kind == RECORD_EXTENT || (record->in_extent && record->content_at == 0);
}

static bool note_extent(struct survey *survey, const struct walk_step *step)
{
    return offset_list_add(&survey->strays,
                           step->offset +
                               (step->record.kind == RECORD_EXTENT ? RECORD_EXTENT_HEAD_BYTES : 0));
}

/* Adds what is known of the value pointer, which becomes the newest of its key. superseded_since:
 * that of the newest so far. */
static bool note_placed(struct survey *survey, const struct walk_step *step,
                        uint64_t superseded_since)
{
    struct placed_value value = {.offset = step->offset};
    if (step->kind == WALK_SUPERSEDED)
        value.superseded_since = superseded_since != 0 ? superseded_since : step->offset;
    else
        value.content_bytes = record_entry_bytes(&step->record, step->size_bytes);
    return placed_values_add(&survey->placed, &value);
}

/* Has the record be the newest of its key, unless another one is newer. A later record of an equal
 * version wins, as in a recovery. A superseded pointer is as good as another, until it is known
 * that none follows. False: there is no memory. */
static bool take_newest(struct survey *survey, const struct walk_step *step)
{
    struct newest newest;
    const struct record *record = &step->record;
    uint32_t hash = survey_hash(survey, record);
    uint64_t superseded_since = 0;
    find_newest(survey, record->key, hash, &newest);
    if (newest.found && newest.record.version > record->version)
        return true;
    if (newest.found) {
        const struct placed_value *superseded =
            placed_values_superseded(&survey->placed, newest.offset);
        superseded_since = superseded ? superseded->superseded_since : 0;
        uncount_key(survey, &newest);
        index_probe_replace(&newest.probe, step->offset);
    } else {
        if (!index_reserve(survey->newest, hash))
            return false;
        index_insert(survey->newest, hash, step->offset);
    }
    if (step->kind == WALK_RECORD && record->kind == RECORD_PUT)
        survey_count_key(survey, record, record_entry_bytes(record, step->size_bytes), 1);
    return record->content_at == 0 || note_placed(survey, step, superseded_since);
}

/* When the file is read again, a superseded pointer is left out: an older record of its key counts.
 * */
static bool take_record(struct survey *survey, const struct walk_step *step)
{
    survey->records++;
    survey->record_bytes += step->size_bytes;
    survey->max_version = at_least(survey->max_version, step->record.version);
    if (is_of_extent(&step->record))
        return note_extent(survey, step);
    return (step->kind == WALK_SUPERSEDED && survey->is_read_again &&
            !offset_list_has(&survey->bare, step->offset)) ||
           take_newest(survey, step);
}

/* Keeps of the contents of extents those that damage behind them has made strays: without it, or
 * where there is a record of that version, what no record names was never acknowledged. */
static bool take_strays(struct survey *survey)
{
    struct offset_list *strays = &survey->strays;
    size_t count = strays->count;
    strays->count = 0;
    for (size_t i = 0; i < count; i++) {
        struct walk_step step;
        struct newest newest;
        if (strays->at[i] >= survey->damage_end ||
            !walk_read_content(survey->source, strays->at[i], &step))
            continue;
        find_newest(survey, step.record.key, survey_hash(survey, &step.record), &newest);
        if (newest.found && newest.record.version >= step.record.version)
            continue;
        survey->max_version = at_least(survey->max_version, step.record.version);
        strays->at[strays->count++] = step.offset;
        if (!take_newest(survey, &step))
            return false;
    }
    return true;
}

static bool is_misplaced(const struct layout *layout, const struct source *source,
                         const struct record *record)
{
    return !is_of_extent(record) && layout->sound && source->header == SOURCE_HEADER_SOUND &&
           keyhash_file(layout->seed, record->key, layout->datafiles) != source->identity.number;
}

#define FAULTS_AT_FIRST 16u

static bool note_fault(struct survey *survey, const struct walk_step *step)
{
    if (survey->fault_count == survey->fault_capacity) {
        size_t capacity = at_least(2 * survey->fault_capacity, FAULTS_AT_FIRST);
        struct survey_fault *faults = realloc(survey->faults, capacity * sizeof *faults);
        if (!faults)
            return false;
        survey->faults = faults;
        survey->fault_capacity = capacity;
    }
    survey->faults[survey->fault_count++] = (struct survey_fault){
        step->kind, step->offset, step->size_bytes, step->kind != WALK_RECORD && step->all_zero};
    return true;
}

static bool take_gap(struct survey *survey, const struct walk_step *step)
{
    if (step->kind == WALK_DAMAGE)
        survey->damaged_bytes += step->size_bytes;
    else
        survey->torn_bytes += step->size_bytes;
    if (step->kind == WALK_HOLE && survey->hole_at == 0)
        survey->hole_at = step->offset;
    if (step->kind != WALK_TORN)
        survey->damage_end = at_most(step->offset + step->size_bytes, survey->damage_limit);
    return note_fault(survey, step);
}

static bool take_walk_step(struct survey *survey, const struct layout *layout,
                           const struct walk_step *step)
{
    if (step->kind != WALK_RECORD && step->kind != WALK_SUPERSEDED)
        return take_gap(survey, step);
    survey->after_damage += survey->damaged_bytes + survey->torn_bytes > 0;
    survey->after_hole += survey->hole_at != 0;
    survey->last_at = step->kind == WALK_RECORD ? step->offset : survey->last_at;
    if (step->kind == WALK_RECORD && is_misplaced(layout, survey->source, &step->record)) {
        survey->misplaced++;
        if (!note_fault(survey, step))
            return false;
    }
    return take_record(survey, step);
}

/* Reads the file once. */
static bool survey_read(struct survey *survey, const struct layout *layout)
{
    struct walk walk;
    struct walk_step step;
    walk_start(&walk, survey->source, &survey->lost);
    while (walk_next(&walk, &step))
        if (!take_walk_step(survey, layout, &step))
            return false;
    survey->skipped = walk.skipped;
    return take_strays(survey);
}

/* Where nothing follows a superseded pointer, and it was not synced, the log ends before it: then
 * the one that it follows of its key is one that none follows, too. */
static bool note_lost(struct survey *survey, const struct placed_value *value)
{
    const struct source *source = survey->source;
    bool ends_log = !source->is_live && value->offset >= source->progress.synced_offset &&
                    value->offset > survey->last_at;
    return offset_list_add(&survey->lost, value->offset) &&
           (!ends_log || value->superseded_since == value->offset ||
            offset_list_add(&survey->lost, value->superseded_since));
}

/* Sorts the superseded pointers that none follows by what became of their contents. */
static bool weigh_superseded(struct survey *survey)
{
    const struct source *source = survey->source;
    const struct placed_values *placed = &survey->placed;
    bool is_settled = false;
    for (size_t i = 0; i < placed->count; i++) {
        const struct placed_value *value = &placed->each[i];
        if (value->is_replaced || value->content_bytes > 0)
            continue;
        bool is_overwritten = running_store_overwrites(source, value->offset);
        if (!is_overwritten && source->is_live && !is_settled) {
            running_store_settle();
            is_settled = true;
            is_overwritten = running_store_overwrites(source, value->offset);
        }
        survey->overwritten += is_overwritten;
        if (!(is_overwritten ? offset_list_add(&survey->bare, value->offset)
                             : note_lost(survey, value)))
            return false;
    }
    offset_list_sort(&survey->lost);
    return true;
}

static bool survey_begin(struct survey *survey, const struct source *source, uint64_t now_ms)
{
    *survey = (struct survey){.source = source,
                              .now_ms = now_ms,
                              .damage_limit = UINT64_MAX,
                              .hash_key = {{random_secret(), random_secret()}},
                              .arena = arena_create(-1, SHARED_STORE_HEADER_BYTES)};
    if (survey->arena)
        survey->newest = index_create(survey->arena, &survey->words);
    return survey->newest != NULL;
}

/* Reads the file once more, now that it is known which records have lost their contents: of their
 * keys an older record may be the newest that is intact. Those that are damaged are gaps. */
static bool survey_again(struct survey *survey, const struct layout *layout)
{
    struct survey first = *survey;
    bool began = survey_begin(survey, first.source, first.now_ms);
    survey->is_read_again = true;
    survey->lost = first.lost;
    survey->bare = first.bare;
    survey->damage_limit = first.damage_end; /* no stray was named by those that are gaps now */
    survey->overwritten = first.overwritten;
    first.lost = first.bare = (struct offset_list){0};
    survey_free(&first);
    return began && survey_read(survey, layout);
}

enum kv_status survey_run(struct survey *survey, const struct source *source,
                          const struct layout *layout)
{
    if (!survey_begin(survey, source, clock_realtime_ms()))
        return KV_NO_MEMORY;
    if (source->header == SOURCE_HEADER_LOST)
        return KV_OK;
    if (!survey_read(survey, layout) || !weigh_superseded(survey) ||
        (survey->lost.count > 0 && !survey_again(survey, layout)))
        return KV_NO_MEMORY;
    survey->keys += survey->overwritten;
    return KV_OK;
}

void survey_free(struct survey *survey)
{
    index_free(survey->newest);
    arena_free(survey->arena);
    free(survey->faults);
    offset_list_free(&survey->strays);
    placed_values_free(&survey->placed);
    offset_list_free(&survey->lost);
    offset_list_free(&survey->bare);
    survey->newest = NULL;
    survey->arena = NULL;
    survey->faults = NULL;
}

void survey_walk_start(struct survey_walk *walk, const struct survey *survey)
{
    *walk = (struct survey_walk){.survey = survey};
    walk_start(&walk->walk, survey->source, &survey->lost);
}

bool survey_walk_next(struct survey_walk *walk, struct walk_step *step)
{
    const struct survey *survey = walk->survey;
    while (walk->stray == 0 && walk_next(&walk->walk, step))
        if (step->kind != WALK_RECORD || !is_of_extent(&step->record))
            return true;
    return walk->stray < survey->strays.count &&
           walk_read_content(survey->source, survey->strays.at[walk->stray++], step);
}

bool survey_is_live(const struct survey *survey, const struct walk_step *step)
{
    if (step->kind != WALK_RECORD || step->record.kind != RECORD_PUT)
        return false;
    struct newest newest;
    find_newest(survey, step->record.key, survey_hash(survey, &step->record), &newest);
    return newest.found && newest.offset == step->offset;
}
