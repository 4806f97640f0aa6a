#include "kvstore/order/key_source.h"

#include "kvstore/format/keyhash.h"

/* Records of one hash that are looked at. The hash is secret: nobody makes more of them. */
#define CANDIDATES_MAX 16u

bool key_source_read(const struct key_source *source, enum read_buffer buffer, uint32_t hash,
                     uint64_t offset, struct kv_slice *key)
{
    struct record record;
    uint64_t size_bytes;
    if (logfile_parse(source->log, buffer, offset, &record, &size_bytes) != RECORD_VALID ||
        record.key.size == 0 ||
        keyhash_index(keyhash(&source->log->identity.hash_key, record.key)) != hash)
        return false;
    *key = record.key;
    return true;
}

void key_source_prefetch(const struct key_source *source, const uint32_t *hashes, uint32_t count,
                         uint32_t step)
{
    if (!source->log->map)
        return;
    for (uint32_t i = 0; i < count; i += step)
        index_prefetch(source->index, hashes[i]);
    for (uint32_t i = 0; i < count; i += step) {
        struct index_probe probe;
        uint64_t offset;
        index_probe_start(&probe, source->index, hashes[i]);
        if (index_probe_next(&probe, &offset))
            logfile_prefetch(source->log, offset);
    }
}

/* Reads a candidate into `buffer`. False: it is none, since it cannot be read, is out of bounds or
 * excepted. */
static bool read_candidate(const struct key_source *source, enum read_buffer buffer, uint32_t hash,
                           uint64_t offset, const struct key_bounds *bounds, struct kv_slice except,
                           struct kv_slice *key)
{
    return key_source_read(source, buffer, hash, offset, key) && key_is_within(*key, bounds) &&
           !kv_slice_equal(*key, except);
}

/* Several records have the hash. */
__attribute__((noinline)) static bool
find_by_rank(const struct key_source *source, enum read_buffer buffer, uint32_t hash,
             const uint64_t *offsets, uint32_t count, const struct key_bounds *bounds,
             uint32_t rank, struct kv_slice except, struct kv_slice *key, uint64_t *offset)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t before = 0;
        struct kv_slice other;
        if (!read_candidate(source, buffer, hash, offsets[i], bounds, except, key))
            continue;
        for (uint32_t j = 0; j < count; j++)
            before += j != i &&
                      read_candidate(source, READ_BUFFER_OTHER_KEY, hash, offsets[j], bounds,
                                     except, &other) &&
                      key_compare(other, *key) < 0;
        if (before != rank)
            continue;
        *offset = offsets[i];
        return true;
    }
    return false;
}

static uint32_t collect_offsets(const struct key_source *source, uint32_t hash,
                                uint64_t offsets[CANDIDATES_MAX])
{
    struct index_probe probe;
    uint32_t count = 0;
    index_probe_start(&probe, source->index, hash);
    while (count < CANDIDATES_MAX && index_probe_next(&probe, &offsets[count]))
        count++;
    return count;
}

bool key_source_find(const struct key_source *source, enum read_buffer buffer, uint32_t hash,
                     const struct key_bounds *bounds, uint32_t rank, struct kv_slice except,
                     struct kv_slice *key, uint64_t *offset)
{
    uint64_t offsets[CANDIDATES_MAX];
    uint32_t count = collect_offsets(source, hash, offsets);
    if (count > 0 &&
        find_by_rank(source, buffer, hash, offsets, count, bounds, rank, except, key, offset))
        return true;
    *offset = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!key_source_read(source, buffer, hash, offsets[i], key))
            *offset = offsets[i];
    return false;
}

struct key_others key_source_others(const struct key_source *source, uint32_t hash,
                                    const struct key_bounds *bounds, struct kv_slice key)
{
    uint64_t offsets[CANDIDATES_MAX];
    uint32_t count = collect_offsets(source, hash, offsets);
    struct key_others others = {0, 0};
    for (uint32_t i = 0; i < count; i++) {
        struct kv_slice other;
        if (!read_candidate(source, READ_BUFFER_OTHER_KEY, hash, offsets[i], bounds, key, &other))
            continue;
        others.count++;
        others.before += key_compare(other, key) < 0;
    }
    return others;
}
