#include "kvstore/kvcheck/survey.h"

#include <stdlib.h>

#include "common/time/clock.h"
#include "common/numbers/random.h"
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
    if (record->kind != RECORD_PUT)
        return;
    survey->keys += one;
    survey->live_bytes += one * size_bytes;
    survey->expiring_keys += record->expiry_ms != 0 ? one : 0;
    survey->expired_keys += record_has_expired(record, clock_realtime_ms()) ? one : 0;
}

/* A berth, or the content of one whose head is damaged, counts by the placed record that names it.
 */
static bool is_of_berth(const struct record *record)
{
    return record->kind == RECORD_BERTH || (record->in_berth && record->content_at == 0);
}

#define STRAYS_AT_FIRST 64u

static enum kv_status note_berth(struct survey *survey, const struct walk_step *step)
{
    if (survey->stray_count == survey->stray_capacity) {
        size_t capacity = at_least(2 * survey->stray_capacity, STRAYS_AT_FIRST);
        uint64_t *strays = realloc(survey->strays, capacity * sizeof *strays);
        if (!strays)
            return KV_NO_MEMORY;
        survey->strays = strays;
        survey->stray_capacity = capacity;
    }
    survey->strays[survey->stray_count++] =
        step->offset + (step->record.kind == RECORD_BERTH ? RECORD_BERTH_HEAD_BYTES : 0);
    return KV_OK;
}

/* Has the record be the newest of its key, unless another one is newer. A later record of an equal
 * version wins, as in a recovery. */
static enum kv_status take_newest(struct survey *survey, const struct walk_step *step)
{
    struct newest newest;
    uint32_t hash = survey_hash(survey, &step->record);
    uint64_t offset = record_entry_offset(&step->record, step->offset);
    find_newest(survey, step->record.key, hash, &newest);
    if (!newest.found) {
        if (!index_reserve(survey->newest, hash))
            return KV_NO_MEMORY;
        index_insert(survey->newest, hash, offset);
    } else {
        if (newest.record.version > step->record.version)
            return KV_OK;
        index_probe_replace(&newest.probe, offset);
        survey_count_key(survey, &newest.record, newest.size_bytes, UINT64_MAX); /* one less */
    }
    survey_count_key(survey, &step->record, record_entry_bytes(&step->record, step->size_bytes), 1);
    return KV_OK;
}

static enum kv_status take_record(struct survey *survey, const struct walk_step *step)
{
    survey->records++;
    survey->record_bytes += step->size_bytes;
    survey->max_version = at_least(survey->max_version, step->record.version);
    return is_of_berth(&step->record) ? note_berth(survey, step) : take_newest(survey, step);
}

/* Keeps of the contents of berths those that damage behind them has made strays: without it, or
 * where there is a record of that version, what no record names was never acknowledged. */
static enum kv_status take_strays(struct survey *survey)
{
    size_t count = survey->stray_count;
    enum kv_status status = KV_OK;
    survey->stray_count = 0;
    for (size_t i = 0; i < count && status == KV_OK; i++) {
        struct walk_step step;
        struct newest newest;
        if (survey->strays[i] >= survey->damage_end ||
            !walk_read_content(survey->source, survey->strays[i], &step))
            continue;
        find_newest(survey, step.record.key, survey_hash(survey, &step.record), &newest);
        if (newest.found && newest.record.version >= step.record.version)
            continue;
        survey->max_version = at_least(survey->max_version, step.record.version);
        survey->strays[survey->stray_count++] = step.offset;
        status = take_newest(survey, &step);
    }
    return status;
}

static bool is_misplaced(const struct layout *layout, const struct source *source,
                         const struct record *record)
{
    return !is_of_berth(record) && layout->sound && source->header == SOURCE_HEADER_SOUND &&
           keyhash_file(layout->seed, record->key, layout->datafiles) != source->identity.number;
}

enum kv_status survey_run(struct survey *survey, const struct source *source,
                          const struct layout *layout, survey_observer observer, void *context)
{
    *survey = (struct survey){.source = source,
                              .hash_key = {{random_secret(), random_secret()}},
                              .arena = arena_create(-1, SHARED_STORE_HEADER_BYTES)};
    if (survey->arena)
        survey->newest = index_create(survey->arena, &survey->words);
    if (!survey->newest)
        return KV_NO_MEMORY;
    if (source->header == SOURCE_HEADER_LOST)
        return KV_OK;

    struct walk walk;
    struct walk_step step;
    walk_start(&walk, source);
    while (walk_next(&walk, &step)) {
        bool misplaced = step.kind == WALK_RECORD && is_misplaced(layout, source, &step.record);
        if (step.kind == WALK_RECORD) {
            survey->after_damage += survey->damaged_bytes + survey->torn_bytes > 0;
            survey->after_hole += survey->hole_at != 0;
            if (take_record(survey, &step) != KV_OK)
                return KV_NO_MEMORY;
        } else if (step.kind == WALK_DAMAGE) {
            survey->damaged_bytes += step.size_bytes;
        } else {
            survey->torn_bytes += step.size_bytes;
            if (step.kind == WALK_HOLE && survey->hole_at == 0)
                survey->hole_at = step.offset;
        }
        survey->misplaced += misplaced;
        if (step.kind == WALK_DAMAGE || step.kind == WALK_HOLE)
            survey->damage_end = step.offset + step.size_bytes;
        if (observer && (misplaced || step.kind != WALK_RECORD))
            observer(context, &step);
    }
    survey->skipped = walk.skipped;
    return take_strays(survey);
}

void survey_free(struct survey *survey)
{
    index_free(survey->newest);
    arena_free(survey->arena);
    free(survey->strays);
    survey->newest = NULL;
    survey->arena = NULL;
    survey->strays = NULL;
}

bool survey_next(const struct survey *survey, struct walk *walk, size_t *stray,
                 struct walk_step *step)
{
    while (*stray == 0 && walk_next(walk, step))
        if (step->kind != WALK_RECORD || !is_of_berth(&step->record))
            return true;
    return *stray < survey->stray_count &&
           walk_read_content(survey->source, survey->strays[(*stray)++], step);
}

bool survey_is_live(const struct survey *survey, const struct walk_step *step)
{
    if (step->kind != WALK_RECORD || step->record.kind != RECORD_PUT)
        return false;
    struct newest newest;
    find_newest(survey, step->record.key, survey_hash(survey, &step->record), &newest);
    return newest.found && newest.offset == record_entry_offset(&step->record, step->offset);
}
