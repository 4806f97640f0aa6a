/*
 * Ranges of keys in their order. Each data file has its keys in order (ordering.h); a range merges
 * them: it has a head in each file, the file's next key, and a heap of the heads.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert/assert.h"
#include "common/memory/reserved.h"
#include "kvstore/api/store.h"
#include "kvstore/format/sizes.h"
#include "kvstore/maintenance/order_filler.h"
#include "kvstore/table/ordering.h"

/* Entries that are looked at under the locks, about, and how many bytes of a record count as one
 * look. */
#define LOOKS_PER_HOLD 4096u
#define BYTES_PER_LOOK PAGE_BYTES

/* Room for the keys of one step of a deletion. */
#define DELETE_BYTES (UINT64_C(256) << 10)

/* The next key of a data file. */
struct range_head {
    struct datafile *file;
    struct key_leaf leaf;
    uint32_t at;         /* in the leaf; in a reverse range one more */
    struct kv_slice key; /* in the mapping, or in `copy` */
    uint64_t offset;     /* of its record */
    uint8_t *copy;       /* NULL: the log is mapped */
};

struct range_walk {
    struct kvstore *store;
    const struct kvstore_range *range;
    struct key_point from; /* goes on, where the locks were released before a visit */
    struct key_point to;
    kvstore_visit visit; /* NULL: entries are counted */
    void *visit_context;
    struct range_head *heads;
    struct range_head **heap; /* heap[0] has the next key of all */
    uint32_t heap_count;
    uint32_t *numbers; /* of all files */
    uint64_t looks_left;
    uint64_t visits_left;
    bool refused;
    enum kv_status status; /* KV_OK, or what was found first */
    struct kvstore_range_result result;
};

/* Heads ---------------------------------------------------------------------------------------- */

/* Notes what cannot be relied on. Holds: the file's lock. */
static void note_bad(struct range_walk *walk, struct range_head *head, enum kv_status status,
                     uint64_t offset)
{
    if (walk->status != KV_OK)
        return;
    walk->status = status;
    walk->result.bad_file = head->file->number;
    walk->result.bad_offset = offset;
}

static void note_bad_record(struct range_walk *walk, struct range_head *head,
                            enum record_verdict verdict, uint64_t offset)
{
    const struct store_context *context = &walk->store->context;
    note_bad(walk, head,
             verdict == RECORD_UNREADABLE
                 ? datafile_tell_unreadable(context, head->file, offset, errno)
                 : datafile_tell_damage(context, head->file, offset, kv_slice(NULL, 0)),
             offset);
}

/* The record of an item of the tree, if it is there, cannot be read, or its key is damaged. */
static void explain_item(struct range_walk *walk, struct range_head *head, uint64_t offset)
{
    struct record record;
    uint64_t size_bytes;
    if (offset == 0)
        return;
    enum record_verdict verdict =
        logfile_parse(&head->file->current->log, READ_BUFFER_KEY, offset, &record, &size_bytes);
    note_bad_record(walk, head, verdict, offset);
}

static bool copy_key(struct range_walk *walk, struct range_head *head)
{
    if (head->file->current->log.map)
        return true;
    uint8_t *copy = realloc(head->copy, head->key.size);
    if (!copy) {
        walk->status = KV_NO_MEMORY;
        return false;
    }
    head->copy = copy;
    memcpy(copy, head->key.data, head->key.size);
    head->key.data = copy;
    return true;
}

/* Moves by one item. False: the tree ends there. */
static bool step_head(struct range_walk *walk, struct range_head *head, uint32_t *item)
{
    const struct key_tree *tree = head->file->ordering->tree;
    if (walk->range->reverse) {
        while (head->at == 0) {
            if (!key_tree_previous(tree, &head->leaf))
                return false;
            head->at = head->leaf.count;
        }
        *item = --head->at;
        return true;
    }
    while (head->at == head->leaf.count) {
        if (!key_tree_next(tree, &head->leaf))
            return false;
        head->at = 0;
    }
    *item = head->at++;
    return true;
}

/* What is in the buffers may be of another file. */
static void begin_keys(const struct key_source *source)
{
    logfile_begin(source->log, READ_BUFFER_KEY);
    logfile_begin(source->log, READ_BUFFER_OTHER_KEY);
}

/* Goes on to the head's next key. False: there is none within the range. */
static bool advance_head(struct range_walk *walk, struct range_head *head)
{
    struct key_source source = ordering_source(head->file->current);
    uint32_t item;
    begin_keys(&source);
    while (walk->status != KV_NO_MEMORY && step_head(walk, head, &item)) {
        if (!key_leaf_key(&head->leaf, &source, READ_BUFFER_KEY, item, &head->key, &head->offset)) {
            explain_item(walk, head, head->offset);
            continue;
        }
        if (walk->range->reverse ? key_is_before(head->key, walk->from)
                                 : !key_is_before(head->key, walk->to))
            return false;
        return copy_key(walk, head);
    }
    return false;
}

static bool begin_head(struct range_walk *walk, struct range_head *head)
{
    struct key_source source = ordering_source(head->file->current);
    struct key_point point = walk->range->reverse ? walk->to : walk->from;
    begin_keys(&source);
    key_tree_find(head->file->ordering->tree, point, &head->leaf);
    head->at = key_leaf_rank(&head->leaf, &source, point);
    return advance_head(walk, head);
}

/* The heap ------------------------------------------------------------------------------------- */

static bool comes_first(const struct range_walk *walk, uint32_t a, uint32_t b)
{
    int order = key_compare(walk->heap[a]->key, walk->heap[b]->key);
    return walk->range->reverse ? order > 0 : order < 0;
}

static void sink(struct range_walk *walk, uint32_t at)
{
    for (;;) {
        uint32_t first = at;
        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2; child++)
            if (child < walk->heap_count && comes_first(walk, child, first))
                first = child;
        if (first == at)
            return;
        struct range_head *head = walk->heap[at];
        walk->heap[at] = walk->heap[first];
        walk->heap[first] = head;
        at = first;
    }
}

static void begin_heads(struct range_walk *walk)
{
    walk->heap_count = 0;
    for (uint32_t i = 0; i < walk->store->context.datafiles; i++) {
        if (begin_head(walk, &walk->heads[i]))
            walk->heap[walk->heap_count++] = &walk->heads[i];
    }
    for (uint32_t at = walk->heap_count / 2; at-- > 0;)
        sink(walk, at);
}

/* The head at the top goes on. */
static void advance_top(struct range_walk *walk)
{
    if (!advance_head(walk, walk->heap[0]))
        walk->heap[0] = walk->heap[--walk->heap_count];
    sink(walk, 0);
}

/* Visiting ------------------------------------------------------------------------------------- */

/* Shows the record of the head at the top, if it is live. Holds: all locks, for reading. */
static void show_top(struct range_walk *walk)
{
    struct range_head *head = walk->heap[0];
    const struct logfile *log = &head->file->current->log;
    const struct store_context *context = &walk->store->context;
    KV_ASSERT(lockset_is_held(context->locks, head->file->number));
    struct record record;
    uint64_t size_bytes = 0;
    uint32_t mark = mapguard_mark(log->guard);
    enum record_verdict verdict;
    bool without_value = !walk->visit || walk->range->keys_only;
    logfile_begin(log, READ_BUFFER_VISIT);
    if (without_value)
        verdict = logfile_parse(log, READ_BUFFER_VISIT, head->offset, &record, &size_bytes);
    else if (!context->options.no_read_verify || logfile_is_broken(log))
        verdict = logfile_read(log, READ_BUFFER_VISIT, head->offset, &record, &size_bytes);
    else
        verdict = logfile_load(log, READ_BUFFER_VISIT, head->offset, &record, &size_bytes);
    uint64_t looks =
        verdict == RECORD_VALID && !without_value ? at_least(size_bytes / BYTES_PER_LOOK, 1) : 1;
    walk->looks_left -= at_most(looks, walk->looks_left);
    if (verdict != RECORD_VALID) {
        note_bad_record(walk, head, verdict, head->offset);
        return;
    }
    if (!record_is_live(&record))
        return;
    struct kvstore_scanned entry = {record.key, without_value ? kv_slice(NULL, 0) : record.value,
                                    record.version, record.expiry_ms};
    bool taken = !walk->visit || walk->visit(walk->visit_context, &entry);
    if (!mapguard_held(log->guard, mark)) { /* what the visitor saw may be zeros */
        walk->status = KV_OK;               /* nothing that was found before is worse */
        note_bad(walk, head, datafile_tell_broken(context, head->file, log), 0);
        walk->refused = true;
        return;
    }
    walk->refused = !taken;
    walk->result.visited += taken;
    walk->visits_left -= taken;
}

/* Keeps the key at the top for the caller, if the call ends with it. */
static void keep_last(struct range_walk *walk)
{
    struct kv_slice key = walk->heap[0]->key;
    if (!walk->range->last || (walk->looks_left > 0 && walk->visits_left > 0))
        return;
    memcpy(walk->range->last, key.data, key.size);
    walk->result.last_bytes = key.size;
}

static bool walk_is_over(const struct range_walk *walk)
{
    return walk->heap_count == 0 || walk->refused || walk->visits_left == 0 ||
           walk->status == KV_NO_MEMORY;
}

/* Whether the files can be walked. Holds: all locks. */
static enum kv_status check_orderings(struct range_walk *walk)
{
    const struct store_context *context = &walk->store->context;
    for (uint32_t i = 0; i < context->datafiles; i++) {
        struct datafile *file = &context->files[i];
        if (!ordering_is_whole(file->ordering))
            return KV_BUSY;
        if (logfile_is_broken(&file->current->log)) { /* keys may be zeros */
            walk->result.bad_file = i;
            return KV_IO;
        }
    }
    return KV_OK;
}

/* Keeps the key at the top for the next hold of the locks, which begins with it. */
static enum kv_status keep_place(struct range_walk *walk, uint8_t **kept)
{
    struct kv_slice key = walk->heap[0]->key;
    uint8_t *copy = malloc(key.size);
    if (!copy)
        return KV_NO_MEMORY;
    memcpy(copy, key.data, key.size);
    free(*kept);
    *kept = copy;
    if (walk->range->reverse)
        walk->to = key_point(kv_slice(copy, key.size), KEY_BEHIND);
    else
        walk->from = key_point(kv_slice(copy, key.size), KEY_BEFORE);
    return KV_OK;
}

/* Walks under one hold of the locks. True: to go on, with another hold, since nothing was visited
 * but entries that have expired. */
static bool walk_once(struct range_walk *walk, uint8_t **kept)
{
    const struct store_context *context = &walk->store->context;
    bool again = false;
    walk->looks_left = LOOKS_PER_HOLD;
    lockset_lock_several(context->locks, walk->numbers, context->datafiles, false);
    enum kv_status status = check_orderings(walk);
    if (status == KV_OK)
        begin_heads(walk);
    else
        walk->status = status;
    while (status == KV_OK && !walk_is_over(walk) && walk->looks_left > 0) {
        show_top(walk);
        if (!walk->refused) {
            keep_last(walk);
            advance_top(walk);
        }
    }
    if (status == KV_OK && !walk_is_over(walk) && walk->result.visited == 0 && !walk->range->last) {
        again = keep_place(walk, kept) == KV_OK;
        if (!again)
            walk->status = KV_NO_MEMORY;
    }
    walk->result.more = walk->heap_count > 0;
    lockset_unlock_several(context->locks, walk->numbers, context->datafiles, false);
    logfile_end(context->options.io);
    return again;
}

static bool allocate_walk(struct range_walk *walk)
{
    uint32_t count = walk->store->context.datafiles;
    walk->heads = calloc(count, sizeof *walk->heads);
    walk->heap = calloc(count, sizeof(struct range_head *));
    walk->numbers = calloc(count, sizeof *walk->numbers);
    for (uint32_t i = 0; walk->heads && walk->numbers && i < count; i++) {
        walk->heads[i].file = &walk->store->context.files[i];
        walk->numbers[i] = i;
    }
    return walk->heads && walk->heap && walk->numbers;
}

static void free_walk(struct range_walk *walk)
{
    for (uint32_t i = 0; walk->heads && i < walk->store->context.datafiles; i++)
        free(walk->heads[i].copy);
    free(walk->heads);
    free(walk->heap);
    free(walk->numbers);
}

static enum kv_status walk_range(struct range_walk *walk)
{
    const struct kvstore_range *range = walk->range;
    struct kvstore *store = walk->store;
    uint8_t *kept = NULL;
    if (!RESERVED_IS_CLEAR(range->reserved) || !store->order_filler)
        return KV_UNSUPPORTED;
    walk->visits_left = range->max_entries == 0
                            ? KVSTORE_RANGE_ENTRIES
                            : at_most(range->max_entries, KVSTORE_RANGE_ENTRIES);
    walk->from = key_range_begin(range->from, range->behind_from, range->prefix);
    walk->to = key_range_end(range->to, range->prefix);
    if (allocate_walk(walk))
        while (walk_once(walk, &kept))
            ;
    else
        walk->status = KV_NO_MEMORY;
    free(kept);
    free_walk(walk);
    if (walk->status == KV_BUSY)
        order_filler_wake(store->order_filler);
    return walk->status;
}

enum kv_status kvstore_range(struct kvstore *store, const struct kvstore_range *range,
                             kvstore_visit visit, void *context,
                             struct kvstore_range_result *result)
{
    struct range_walk walk = {
        .store = store, .range = range, .visit = visit, .visit_context = context};
    enum kv_status status = walk_range(&walk);
    if (result)
        *result = walk.result;
    return status;
}

/* Counting and deleting ------------------------------------------------------------------------ */

enum kv_status kvstore_range_count(struct kvstore *store, const struct kvstore_range *range,
                                   uint64_t *count)
{
    struct kvstore_range rest = *range;
    enum kv_status status = KV_OK;
    bool more = true;
    *count = 0;
    rest.last = malloc(KVSTORE_MAX_KEY_BYTES);
    if (!rest.last)
        return KV_NO_MEMORY;
    rest.max_entries = 0;
    rest.reverse = false;
    while (more) {
        struct range_walk walk = {.store = store, .range = &rest};
        enum kv_status of_step = walk_range(&walk);
        if (status == KV_OK)
            status = of_step;
        *count += walk.result.visited;
        more = walk.result.more && (of_step == KV_OK || of_step == KV_CORRUPT || of_step == KV_IO);
        if (walk.result.last_bytes > 0) {
            rest.from = kv_slice(rest.last, walk.result.last_bytes);
            rest.behind_from = true;
        }
    }
    free(rest.last);
    return status;
}

/* The keys of one step, each with its size before it. */
struct range_step {
    uint8_t *keys;
    size_t used;
    size_t room;
};

static bool keep_range_key(void *context, const struct kvstore_scanned *entry)
{
    struct range_step *step = context;
    uint16_t size = (uint16_t)entry->key.size;
    if (step->used + sizeof size + size > step->room)
        return false;
    memcpy(step->keys + step->used, &size, sizeof size);
    memcpy(step->keys + step->used + sizeof size, entry->key.data, size);
    step->used += sizeof size + size;
    return true;
}

enum kv_status kvstore_range_delete(struct kvstore *store, const struct kvstore_range *range,
                                    uint64_t *deleted, bool *more)
{
    struct range_step step = {.keys = malloc(DELETE_BYTES), .room = DELETE_BYTES};
    *deleted = 0;
    *more = false;
    if (!step.keys)
        return KV_NO_MEMORY;
    struct kvstore_range keys = *range;
    keys.keys_only = true;
    keys.last = NULL;
    struct range_walk walk = {
        .store = store, .range = &keys, .visit = keep_range_key, .visit_context = &step};
    enum kv_status status = walk_range(&walk);
    enum kv_status of_key = KV_OK;
    uint16_t size;
    for (size_t at = 0; at < step.used && (of_key == KV_OK || of_key == KV_NOT_FOUND);
         at += sizeof size + size) {
        memcpy(&size, step.keys + at, sizeof size);
        of_key = kvstore_delete(store, kv_slice(step.keys + at + sizeof size, size), 0, NULL);
        *deleted += of_key == KV_OK;
    }
    free(step.keys);
    *more = walk.result.more;
    return of_key == KV_OK || of_key == KV_NOT_FOUND ? status : of_key;
}
