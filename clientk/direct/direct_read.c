/* libclientk needs no other library for the hash. */
#define XXH_INLINE_ALL
#include "clientk/direct/direct_read.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clientk/base/value_memory.h"
#include "common/assert/assert.h"
#include "common/memory/copy.h"
#include "common/memory/whole_io.h"
#include "common/time/pause.h"
#include "kvstore/format/file_name.h"
#include "kvstore/format/fileheader.h"
#include "kvstore/format/sizes.h"

/* How often a look is repeated. Moving an item takes some ten nanoseconds, splitting a segment a
 * microsecond or two: a look that was disturbed this often has met a writer that was preempted, or
 * one writer after the other. */
#define MAX_TRIES 64u

/* How much is read at first of a record in a file that is not mapped. */
#define FIRST_READ_BYTES 4096u

struct direct_place direct_place_of(const struct direct_store *store, struct kv_slice key)
{
    return (struct direct_place){
        .file = keyhash_file(store->store_seed, key, store->datafiles),
        .hash = keyhash_index(keyhash(&store->hash_key, key)),
    };
}

/* Looks ---------------------------------------------------------------------------------------- */

/* Fills in *look for the data file, except `moves`. */
static inline void direct_look_at_file(const struct direct_store *store,
                                       const struct direct_view *view, uint32_t file,
                                       struct direct_look *look)
{
    KV_ASSERT(file < store->datafiles);
    look->file = (const struct shared_file *)(view->base + store->files_offset) + file;
    look->generation = __atomic_load_n(&look->file->generation, __ATOMIC_ACQUIRE);
    look->state = &look->file->states[look->generation % 2];
    look->number = file;
    look->needs_more = false;
}

bool direct_look_begin(const struct direct_store *store, const struct direct_view *view,
                       uint32_t file, struct direct_look *look)
{
    direct_look_at_file(store, view, file, look);
    look->header = (const struct shared_store *)view->base;
    look->transacting = shared_store_transacting(look->header);
    look->moves = __atomic_load_n(&look->state->moves, __ATOMIC_ACQUIRE);
    return ((look->moves & 1) | (look->transacting & SHARED_STORE_TRANSACTING_MASK)) == 0;
}

/* Keeps reads of the bytes of a record, which are no atomic words, before the loads that follow.
 * (The thread sanitizer knows no fences, and sees another mapping than the one that is written
 * to.) */
static inline void order_reads_before(void)
{
#if !defined(__SANITIZE_THREAD__) || defined(MQKV_EXPLORED)
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}

bool direct_look_is_current(const struct direct_look *look)
{
    order_reads_before();
    return __atomic_load_n(&look->file->generation, __ATOMIC_ACQUIRE) == look->generation;
}

bool direct_look_holds(const struct direct_look *look)
{
    order_reads_before();
    return __atomic_load_n(&look->state->moves, __ATOMIC_ACQUIRE) == look->moves &&
           shared_store_transacting(look->header) == look->transacting &&
           direct_look_is_current(look);
}

/* Returns true if the log has its name still, once the daemon has ended: a daemon that came since,
 * and did not find the object to put it out of use, may have freed the log, but would have removed
 * its name before. */
__attribute__((noinline)) static bool log_has_name(const struct direct_store *store,
                                                   const struct direct_look *look)
{
    struct stat is;
    struct file_name name = file_name(look->number, FILE_LOG);
    return fstatat(store->dir_fd, name.text, &is, AT_SYMLINK_NOFOLLOW) == 0 &&
           is.st_dev == __atomic_load_n(&look->state->device, __ATOMIC_RELAXED) &&
           is.st_ino == __atomic_load_n(&look->state->inode, __ATOMIC_RELAXED);
}

bool direct_look_counts(const struct direct_store *store, const struct direct_look *look)
{
    return direct_look_is_current(look) &&
           (!direct_store_has_ended(store) || log_has_name(store, look));
}

uint32_t direct_look_depth(const struct direct_look *look)
{
    return shared_directory_depth(__atomic_load_n(&look->state->directory, __ATOMIC_ACQUIRE));
}

const struct index_segment *direct_look_segment(struct direct_look *look,
                                                const struct direct_view *view, uint32_t hash)
{
    uint64_t directory = __atomic_load_n(&look->state->directory, __ATOMIC_ACQUIRE);
    uint32_t depth = shared_directory_depth(directory);
    if (depth > SEGMENT_HASH_BITS)
        return NULL;
    uint64_t entry = (uint64_t)hash >> (SEGMENT_HASH_BITS - depth);
    const uint32_t *at =
        direct_view_at(view, shared_directory_offset(directory) + entry * sizeof *at, sizeof *at);
    look->needs_more = !at;
    if (!at)
        return NULL;
    uint32_t reference = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    if (reference == 0)
        return NULL;
    const struct index_segment *segment =
        direct_view_at(view, (uint64_t)reference * SHARED_STORE_REFERENCE_UNIT, sizeof *segment);
    look->needs_more = !segment;
    return segment;
}

static void prefetch_index(const struct direct_store *store, const struct direct_view *view,
                           struct direct_place place)
{
    struct direct_look look;
    direct_look_at_file(store, view, place.file, &look);
    const struct index_segment *segment = direct_look_segment(&look, view, place.hash);
    if (segment)
        __builtin_prefetch(&segment->slots[place.hash & SEGMENT_HOME_MASK]);
}

static void prefetch_record(const struct direct_store *store, const struct direct_view *view,
                            struct direct_place place)
{
    struct direct_look look;
    struct segment_probe probe;
    uint64_t offset;
    direct_look_at_file(store, view, place.file, &look);
    const struct index_segment *segment = direct_look_segment(&look, view, place.hash);
    const struct direct_log *log = direct_store_known_log(store, place.file, look.generation);
    if (!segment || !log || !log->map)
        return;
    segment_probe_start(&probe, segment, place.hash);
    if (!segment_probe_next(&probe, &offset) || offset >= log->map_bytes)
        return;
    __builtin_prefetch(log->map + offset);
    __builtin_prefetch(log->map + offset + CACHE_LINE_BYTES);
}

void direct_prefetch(const struct direct_store *store, const struct direct_place *places,
                     size_t count)
{
    const struct direct_view *view = direct_store_view(store);
    for (size_t i = 0; i < count; i++)
        prefetch_index(store, view, places[i]);
    for (size_t i = 0; i < count; i++)
        prefetch_record(store, view, places[i]);
}

/* Records -------------------------------------------------------------------------------------- */

/* Reads `size` bytes of the record into the room, which has the first `known` of them already. */
static bool load_record_bytes(const struct direct_log *log, uint64_t offset, uint64_t known,
                              uint64_t size, struct clientk_value *room)
{
    return size <= known || (value_reserve(room, size) &&
                             whole_read(log->fd, (uint8_t *)room->data + known, size - known,
                                        (off_t)(offset + known), 1) == (ssize_t)(size - known));
}

/* Reads the record with calls into the room: all of it if `whole`, else without its value. */
__attribute__((noinline)) static enum record_verdict read_record(const struct direct_log *log,
                                                                 uint64_t available, bool whole,
                                                                 struct clientk_value *room,
                                                                 struct direct_found *found)
{
    uint64_t known = at_most(available, FIRST_READ_BYTES);
    if (known < RECORD_HEADER_BYTES || !load_record_bytes(log, found->offset, 0, known, room))
        return RECORD_UNREADABLE;
    enum record_verdict verdict =
        record_parse(room->data, available, &found->record, &found->size_bytes);
    if (verdict != RECORD_VALID)
        return verdict;
    uint64_t head =
        (uint64_t)((const uint8_t *)found->record.value.data - (const uint8_t *)room->data);
    if (!load_record_bytes(log, found->offset, known, whole ? found->size_bytes : head, room))
        return RECORD_UNREADABLE;
    found->at = room->data; /* the room may have moved */
    return record_parse(found->at, available, &found->record, &found->size_bytes);
}

/* Parses the record if the log, as it was opened, has it. */
static inline enum record_verdict parse_known(struct direct_log *log, uint64_t tail, bool whole,
                                              struct clientk_value *room,
                                              struct direct_found *found)
{
    uint64_t end = at_most(tail, atomic_load_explicit(&log->usable_bytes, memory_order_acquire));
    if (found->offset < FILE_HEADER_BYTES || found->offset >= end)
        return RECORD_UNREADABLE;
    found->log = log;
    if (!log->map)
        return read_record(log, end - found->offset, whole, room, found);
    found->at = log->map + found->offset;
    __builtin_prefetch(found->at + CACHE_LINE_BYTES); /* key and value will be looked at */
    return record_parse(found->at, end - found->offset, &found->record, &found->size_bytes);
}

/* Opens the log, which was not opened yet or has grown. NULL: it cannot be had. */
__attribute__((noinline)) static struct direct_log *
look_for_log(struct direct_store *store, const struct direct_look *look, uint64_t tail)
{
    const struct shared_generation *state = look->state;
    struct direct_log_facts facts = {
        .file = look->number,
        .generation = look->generation,
        .salt = __atomic_load_n(&state->salt, __ATOMIC_RELAXED),
        .device = __atomic_load_n(&state->device, __ATOMIC_RELAXED),
        .inode = __atomic_load_n(&state->inode, __ATOMIC_RELAXED),
        .tail = tail,
    };
    return direct_look_is_current(look) ? direct_store_log(store, &facts) : NULL;
}

enum record_verdict direct_look_record(struct direct_store *store, const struct direct_look *look,
                                       uint64_t offset, bool whole, struct clientk_value *room,
                                       struct direct_found *found)
{
    uint64_t tail = __atomic_load_n(&look->state->tail, __ATOMIC_ACQUIRE);
    found->offset = offset;
    struct direct_log *log = direct_store_known_log(store, look->number, look->generation);
    enum record_verdict verdict =
        log ? parse_known(log, tail, whole, room, found) : RECORD_UNREADABLE;
    if (verdict == RECORD_VALID)
        return verdict;
    if (log && tail <= atomic_load_explicit(&log->usable_bytes, memory_order_relaxed))
        return verdict;
    log = look_for_log(store, look, tail);
    return log ? parse_known(log, tail, whole, room, found) : RECORD_UNREADABLE;
}

static bool each_read_is_verified(const struct direct_store *store)
{
    const struct shared_store *header = (const struct shared_store *)direct_store_view(store)->base;
    return __atomic_load_n(&header->verify_every_read, __ATOMIC_RELAXED) != 0;
}

bool direct_found_is_sound(const struct direct_store *store, const struct direct_found *found)
{
    struct direct_log *log = found->log;
    bool remembered =
        log->map && found->size_bytes >= VERIFIED_MIN_BYTES && !each_read_is_verified(store);
    const struct verified_bitmap *verified = remembered ? direct_log_verified(log) : NULL;
    if (verified && verified_bitmap_has(verified, found->offset, found->size_bytes))
        return true;
    if (!record_is_sound(found->at, &found->record, log->salt, found->offset))
        return false;
    if (verified)
        verified_bitmap_note(verified, found->offset, found->size_bytes);
    return true;
}

/* Returns true if the head of the record is what it was, and it has its version: what is being
 * written has none, and may be whole, and in the index, a moment later. */
static bool head_stays(const struct direct_found *found)
{
    const struct direct_log *log = found->log;
    const struct record *was = &found->record;
    uint8_t head[RECORD_MAX_HEADER_BYTES];
    struct record is;
    uint64_t size_bytes;
    order_reads_before();
    if (!log->map &&
        whole_read(log->fd, head, sizeof head, (off_t)found->offset, 1) != (ssize_t)sizeof head)
        return false;
    return record_parse(log->map ? log->map + found->offset : head, found->size_bytes, &is,
                        &size_bytes) == RECORD_VALID &&
           is.version == was->version && is.version != RECORD_NO_VERSION_YET &&
           size_bytes == found->size_bytes && is.key.size == was->key.size &&
           is.value.size == was->value.size && is.expiry_ms == was->expiry_ms;
}

/* Returns true if the index has the record, by its hash, at this moment. */
static bool is_in_index(const struct direct_store *store, uint32_t hash,
                        const struct direct_found *found)
{
    const struct direct_view *view = direct_store_view(store);
    struct direct_look look;
    struct segment_probe probe;
    uint64_t offset;
    if (!direct_look_begin(store, view, found->log->file, &look) ||
        look.generation != found->log->generation)
        return false;
    const struct index_segment *segment = direct_look_segment(&look, view, hash);
    if (!segment)
        return false;
    segment_probe_start(&probe, segment, hash);
    while (segment_probe_next(&probe, &offset))
        if (offset == found->offset)
            return direct_look_holds(&look);
    return false;
}

/* Who gives an extent another content takes the version from the old one before its bytes change,
 * and no version is given twice: if the version is there after all was read, all is of that
 * version. That the index pointed there meanwhile says that it counts; looked at after the version,
 * it may point to what came since. */
bool direct_content_stays(struct direct_store *store, uint32_t hash,
                          const struct direct_found *found)
{
    return is_in_index(store, hash, found) && head_stays(found);
}

/* Reading a key -------------------------------------------------------------------------------- */

enum finding { FINDING_FOUND, FINDING_ABSENT, FINDING_AGAIN, FINDING_MORE, FINDING_ASK };

/* The finding if nothing was moved meanwhile. */
static inline enum finding finding_if_unmoved(const struct direct_look *look, enum finding finding)
{
    return direct_look_holds(look) ? finding : FINDING_AGAIN;
}

struct key_read {
    struct direct_store *store;
    const struct direct_view *view;
    struct kv_slice key;
    struct direct_place place;
    bool with_bytes;
    struct clientk_value *room; /* for a record that is read with calls */
    struct direct_look look;
    struct direct_found *found;
};

/* Returns true if all of the record that was found is at hand. */
static inline bool is_whole(const struct key_read *reading)
{
    return reading->with_bytes || reading->found->log->map;
}

__attribute__((always_inline)) static inline enum finding find_key(struct key_read *reading)
{
    struct direct_look *look = &reading->look;
    struct direct_found *found = reading->found;
    struct segment_probe probe;
    uint64_t offset;
    if (!direct_look_begin(reading->store, reading->view, reading->place.file, look))
        return FINDING_AGAIN;
    const struct index_segment *segment =
        direct_look_segment(look, reading->view, reading->place.hash);
    if (!segment)
        return finding_if_unmoved(look, look->needs_more ? FINDING_MORE : FINDING_ASK);
    segment_probe_start(&probe, segment, reading->place.hash);
    while (segment_probe_next(&probe, &offset)) {
        if (direct_look_record(reading->store, look, offset, reading->with_bytes, reading->room,
                               found) != RECORD_VALID)
            return finding_if_unmoved(look, FINDING_ASK);
        if (kv_slice_equal(found->record.key, reading->key))
            return finding_if_unmoved(look, FINDING_FOUND);
        if (!direct_found_stays(reading->store, reading->place.hash, found))
            return FINDING_AGAIN;
        /* Another key of the same 32 bits is rare; mostly it is the key itself, damaged. */
        if (!is_whole(reading) || !direct_found_is_sound(reading->store, found))
            return finding_if_unmoved(look, FINDING_ASK);
    }
    return finding_if_unmoved(look, FINDING_ABSENT);
}

/* Copies the value to where it is wanted; false: no memory. */
static bool copy_record_value(const struct key_read *reading, struct clientk_value *value)
{
    const struct record *record = &reading->found->record;
    size_t size = record->value.size;
    if (reading->found->log->map) {
        if (!value_reserve(value, size))
            return false;
        copy_bytes(value->data, record->value.data, size);
    } else { /* the value's memory is the room, which is larger */
        memmove(value->data, record->value.data, size);
    }
    ((char *)value->data)[size] = '\0';
    return true;
}

/* Gives the record that was found to the caller: *value and *status. */
static enum finding give_record(const struct key_read *reading, struct clientk_value *value,
                                enum kv_status *status)
{
    const struct direct_found *found = reading->found;
    bool live = record_is_live(&found->record);
    *status = live ? KV_OK : KV_NOT_FOUND;
    bool wants_bytes = reading->with_bytes || !live;
    uint32_t hash = reading->place.hash;
    if (wants_bytes && (!is_whole(reading) || !direct_found_is_sound(reading->store, found)))
        return direct_look_is_current(&reading->look) &&
                       direct_found_stays(reading->store, hash, found)
                   ? FINDING_ASK
                   : FINDING_AGAIN;
    struct record record = found->record;
    if (live && wants_bytes && !copy_record_value(reading, value))
        *status = KV_NO_MEMORY;
    if (!direct_look_counts(reading->store, &reading->look))
        return direct_look_is_current(&reading->look) ? FINDING_ASK : FINDING_AGAIN;
    if (!direct_found_stays(reading->store, hash, found))
        return FINDING_AGAIN;
    if (mapguard_is_broken(found->log->guard)) /* the copy may have zeros in it */
        return FINDING_ASK;
    if (*status == KV_OK) {
        value->version = record.version;
        value->expiry_ms = record.expiry_ms;
        value->size = record.value.size;
    } else {
        direct_clear_value(value);
    }
    return FINDING_FOUND;
}

static struct direct_sight sight_of(const struct key_read *reading, enum finding finding)
{
    return (struct direct_sight){.generation = reading->look.generation,
                                 .version =
                                     finding == FINDING_FOUND ? reading->found->record.version : 0,
                                 .offset = finding == FINDING_FOUND    ? reading->found->offset
                                           : finding == FINDING_ABSENT ? DIRECT_ABSENT
                                                                       : DIRECT_UNSEEN,
                                 .moves = reading->look.moves};
}

static inline enum finding read_key_once(struct key_read *reading, struct clientk_value *value,
                                         enum kv_status *status)
{
    reading->view = direct_store_view(reading->store);
    enum finding finding = find_key(reading);
    if (finding == FINDING_FOUND)
        finding = give_record(reading, value, status);
    if (finding == FINDING_ABSENT) {
        direct_clear_value(value);
        *status = KV_NOT_FOUND;
    }
    return mapguard_is_broken(reading->view->guard) ? FINDING_ASK : finding;
}

bool direct_read(struct direct_store *store, struct kv_slice key, struct direct_place place,
                 bool with_bytes, struct clientk_value *value, enum kv_status *status,
                 struct direct_sight *sight)
{
    struct clientk_value unused = {0};
    /* find_key fills in the rest: clearing all of it would take as long as a look. */
    struct key_read reading;
    struct direct_found found;
    reading.store = store;
    reading.key = key;
    reading.place = place;
    reading.with_bytes = with_bytes;
    reading.room = with_bytes ? value : &unused;
    reading.found = &found;
    enum finding finding = FINDING_AGAIN;
    for (unsigned tries = 0; tries < MAX_TRIES && finding == FINDING_AGAIN; tries++) {
        if (tries > 0)
            pause_cpu();
        finding = read_key_once(&reading, value, status);
        if (finding == FINDING_MORE && direct_store_grow(store))
            finding = FINDING_AGAIN;
    }
    free(unused.data);
    if (sight)
        *sight = sight_of(&reading, finding);
    return finding == FINDING_FOUND || finding == FINDING_ABSENT;
}

bool direct_is_as_seen(struct direct_store *store, struct kv_slice key, struct direct_place place,
                       const struct direct_sight *sight)
{
    struct clientk_value unused = {0};
    struct direct_found found;
    struct key_read reading = {.store = store,
                               .view = direct_store_view(store),
                               .key = key,
                               .place = place,
                               .room = &unused,
                               .found = &found};
    struct direct_sight now = sight_of(&reading, find_key(&reading));
    free(unused.data);
    return now.offset != DIRECT_UNSEEN && now.offset == sight->offset &&
           now.version == sight->version && now.generation == sight->generation &&
           (now.offset != DIRECT_ABSENT || now.moves == sight->moves) &&
           !mapguard_is_broken(reading.view->guard);
}
