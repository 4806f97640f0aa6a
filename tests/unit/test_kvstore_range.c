/*
 * Ranges: what an ordered store gives is compared with a model, a sorted list of the keys, while
 * all that changes keys happens; and the trees are looked into.
 */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "kvstore/format/sizes.h"
#include "kvstore/table/ordering.h"
#include "kvstore/table/placing.h"
#include "tests/support/asked_transaction.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_case.h"
#include "tests/support/store_files.h"
#include "tests/support/store_variants.h"
#include "tests/support/test_suite.h"

#define KEY(text)  kv_slice_from_string(text)
#define MODEL_KEYS 4000u
#define LONG_BYTES 60000u /* of the beginning that some keys share */

static const struct kvstore_options ordered_options = {
    .create = true, .datafiles = 3, .ordered = true, .sweep_interval_ms = 5};

/* Trees ---------------------------------------------------------------------------------------- */

/* Every key of the index is in the tree once, in order and between the separators of its leaf. */
static void check_tree(const struct datafile *file)
{
    struct key_source source = ordering_source(file->current);
    struct key_leaf leaf;
    static uint8_t before[KVSTORE_MAX_KEY_BYTES];
    struct kv_slice previous = {before, 0};
    uint64_t keys = 0, leaves = 0;
    bool more = true;
    logfile_begin(source.log, READ_BUFFER_KEY);
    logfile_begin(source.log, READ_BUFFER_OTHER_KEY);
    for (key_tree_find(file->ordering->tree, key_point(KEY(""), KEY_BEFORE), &leaf); more;
         more = key_tree_next(file->ordering->tree, &leaf), leaves++) {
        for (uint32_t i = 0; i < leaf.count; i++, keys++) {
            struct kv_slice key;
            uint64_t offset;
            ck_assert(key_leaf_key(&leaf, &source, READ_BUFFER_KEY, i, &key, &offset));
            ck_assert_msg(key_compare(previous, key) < 0, "keys are out of order");
            ck_assert_int_ge(key_compare(key, leaf.bounds.low), 0);
            ck_assert(leaf.bounds.is_last || key_compare(key, leaf.bounds.high) < 0);
            memcpy(before, key.data, key.size);
            previous.size = key.size;
        }
    }
    struct key_tree_size size = key_tree_size(file->ordering->tree);
    ck_assert_uint_eq(keys, index_count(file->current->index));
    ck_assert_uint_eq(keys, size.keys);
    ck_assert_uint_eq(leaves, size.leaves);
}

static bool order_is_whole(void *unused)
{
    struct kvstore_order_facts facts;
    (void)unused;
    kvstore_order_facts(store, &facts);
    return facts.whole;
}

static void check_trees(void)
{
    ck_assert(wait_until(order_is_whole, NULL));
    for (uint32_t i = 0; i < store->context.datafiles; i++) {
        lockset_read_lock(store->context.locks, i);
        check_tree(&store->context.files[i]);
        lockset_read_unlock(store->context.locks, i);
    }
}

/* The model ------------------------------------------------------------------------------------ */

struct model_key {
    uint8_t *bytes;
    size_t size;
};

static struct model_key model[MODEL_KEYS];
static size_t model_count;
static uint8_t long_key[LONG_BYTES + 16];

static struct kv_slice model_slice(size_t at)
{
    return kv_slice(model[at].bytes, model[at].size);
}

/* How many keys of the model are before the point. */
static size_t model_rank(struct key_point point)
{
    size_t low = 0, high = model_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (key_is_before(model_slice(middle), point))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void model_put(struct kv_slice key)
{
    size_t at = model_rank(key_point(key, KEY_BEFORE));
    if (at < model_count && kv_slice_equal(model_slice(at), key))
        return;
    ck_assert_uint_lt(model_count, MODEL_KEYS);
    memmove(&model[at + 1], &model[at], (model_count++ - at) * sizeof model[0]);
    model[at] = (struct model_key){malloc(key.size), key.size};
    memcpy(model[at].bytes, key.data, key.size);
}

static void model_delete(struct kv_slice key)
{
    size_t at = model_rank(key_point(key, KEY_BEFORE));
    if (at == model_count || !kv_slice_equal(model_slice(at), key))
        return;
    free(model[at].bytes);
    memmove(&model[at], &model[at + 1], (--model_count - at) * sizeof model[0]);
}

/* Few different bytes, so that keys begin alike, are the beginning of others, and meet again. Some
 * share 60,000 bytes. Valid until the next call. */
static struct kv_slice random_key(void)
{
    static const uint8_t letters[] = {0, 1, 'a', 254, 255};
    static uint8_t bytes[16];
    size_t size = (size_t)rand() % 7;
    for (size_t i = 0; i < size; i++)
        bytes[i] = letters[(size_t)rand() % sizeof letters];
    if (rand() % 12 == 0) {
        memcpy(long_key + LONG_BYTES, bytes, size);
        return kv_slice(long_key, LONG_BYTES + size);
    }
    bytes[size] = letters[(size_t)rand() % sizeof letters];
    return kv_slice(bytes, size + 1);
}

/* Comparing ------------------------------------------------------------------------------------ */

struct expected {
    size_t at; /* of the next key in the model */
    bool reverse;
    unsigned room;
};

static bool expect_key(void *context, const struct kvstore_scanned *entry)
{
    struct expected *expected = context;
    if (expected->room == 0)
        return false;
    expected->room--;
    size_t at = expected->reverse ? --expected->at : expected->at++;
    ck_assert_uint_lt(at, model_count);
    ck_assert_msg(kv_slice_equal(model_slice(at), entry->key), "another key than in the model");
    return true;
}

/* Walks a range, `max_entries` and `room` at a time, and compares. */
static void compare_range(struct kvstore_range range, uint32_t max_entries, unsigned room)
{
    static uint8_t last[KVSTORE_MAX_KEY_BYTES];
    size_t from = model_rank(key_point(range.from, range.behind_from ? KEY_BEHIND : KEY_BEFORE));
    size_t prefix_from = model_rank(key_point(range.prefix, KEY_BEFORE));
    size_t to = model_rank(key_point(range.prefix, KEY_BEHIND_PREFIX));
    size_t other_to = range.to.size > 0 ? model_rank(key_point(range.to, KEY_BEFORE)) : to;
    from = at_least(from, prefix_from);
    to = at_least(at_most(to, other_to), from);
    uint64_t count;
    ck_assert_int_eq(kvstore_range_count(store, &range, &count), KV_OK);
    ck_assert_uint_eq(count, to - from);

    struct expected expected = {.at = range.reverse ? to : from, .reverse = range.reverse};
    struct kvstore_range_result result;
    range.max_entries = max_entries;
    do {
        size_t began = expected.at;
        expected.room = room;
        ck_assert_int_eq(kvstore_range(store, &range, expect_key, &expected, &result), KV_OK);
        ck_assert_uint_eq(result.visited,
                          range.reverse ? began - expected.at : expected.at - began);
        if (!result.more || result.visited == 0)
            break;
        struct kv_slice key = model_slice(range.reverse ? expected.at : expected.at - 1);
        memcpy(last, key.data, key.size);
        if (range.reverse) {
            range.to = kv_slice(last, key.size);
        } else {
            range.from = kv_slice(last, key.size);
            range.behind_from = true;
        }
    } while (true);
    ck_assert_uint_eq(expected.at, range.reverse ? from : to);
}

static void compare_random_range(void)
{
    struct kvstore_range range = {.reverse = rand() % 2 == 0, .behind_from = rand() % 2 == 0};
    static uint8_t from[sizeof long_key], to[sizeof long_key], prefix[sizeof long_key];
    struct kv_slice key = random_key();
    if (rand() % 2 == 0)
        range.from = kv_slice(memcpy(from, key.data, key.size), key.size);
    key = random_key();
    if (rand() % 2 == 0)
        range.to = kv_slice(memcpy(to, key.data, key.size), key.size);
    key = random_key();
    if (rand() % 2 == 0)
        range.prefix = kv_slice(memcpy(prefix, key.data, key.size), (size_t)rand() % key.size);
    static const uint32_t sizes[] = {1, 3, 40, 0};
    compare_range(range, sizes[rand() % 4], rand() % 4 == 0 ? 2 : UINT32_MAX);
}

static void compare_all(void)
{
    check_trees();
    struct kvstore_range range = {.reverse = false};
    compare_range(range, 0, UINT32_MAX);
    range.reverse = true;
    compare_range(range, 50, UINT32_MAX);
    for (int i = 0; i < 30; i++)
        compare_random_range();
}

/* Changing ------------------------------------------------------------------------------------- */

/* A transaction that puts and deletes, and whose last write is refused: nothing has changed. */
static void change_nothing(void)
{
    static struct asked_transaction asked;
    asked = (struct asked_transaction){0};
    char names[4][24];
    for (int i = 0; i < 4; i++)
        snprintf(names[i], sizeof names[i], "a%d", rand() % 200);
    if (strcmp(names[0], names[1]) == 0)
        return;
    asked_then(&asked, KVSTORE_STEP_PUT, names[0], "value");
    asked_then(&asked, KVSTORE_STEP_DELETE, names[1], NULL);
    asked_then(&asked, KVSTORE_STEP_PUT, "q1", "value");
    asked_then(&asked, KVSTORE_STEP_PUT, "q2", "value");
    asked_then(&asked, KVSTORE_STEP_PUT, "q3", "value");
    ck_assert_int_eq(asked_do(&asked, store), KV_QUOTA);
}

static void change_something(void)
{
    struct kvstore_put_options expiring = {.expiry_ms = 1};
    char name[24];
    struct kv_slice key = random_key();
    unsigned percent = (unsigned)rand() % 100;
    if (percent < 4) {
        change_nothing();
    } else if (percent < 10) {
        snprintf(name, sizeof name, "a%d", rand() % 200);
        must_put(store, name, "value");
        model_put(KEY(name));
    } else if (percent < 55) {
        ck_assert_int_eq(kvstore_put(store, key, KEY("value"), NULL, NULL), KV_OK);
        model_put(key);
    } else if (percent < 62) { /* has expired at once, and is swept some time */
        ck_assert_int_eq(kvstore_put(store, key, KEY("value"), &expiring, NULL), KV_OK);
        model_delete(key);
    } else {
        enum kv_status status = kvstore_delete(store, key, 0, NULL);
        ck_assert(status == KV_OK || status == KV_NOT_FOUND);
        model_delete(key);
    }
}

static void begin_model(const struct kvstore_options *options)
{
    static const struct kvstore_quota quota = {.prefix = {.data = "q", .size = 1}, .max_keys = 2};
    srand(1);
    for (size_t i = 0; i < LONG_BYTES; i++)
        long_key[i] = (uint8_t)(i * 7);
    store = must_open(dir, options);
    struct kv_error error;
    ck_assert_int_eq(kvstore_set_quotas(store, &quota, 1, &error), KV_OK);
}

static void end_model(void)
{
    while (model_count > 0)
        free(model[--model_count].bytes);
}

static void reopen_model(const struct kvstore_options *options)
{
    must_close(store);
    store = NULL;
    struct kvstore_options without_order = *options;
    if (rand() % 2 == 0) { /* nobody keeps the order meanwhile */
        without_order.ordered = false;
        store = must_open(dir, &without_order);
        must_put(store, "unordered", "value");
        must_close(store);
        store = NULL;
        model_put(KEY("unordered"));
    }
    struct kv_error error;
    static const struct kvstore_quota quota = {.prefix = {.data = "q", .size = 1}, .max_keys = 2};
    store = must_open(dir, options);
    ck_assert_int_eq(kvstore_set_quotas(store, &quota, 1, &error), KV_OK);
}

START_TEST(ranges_are_as_in_a_model)
{
    struct kvstore_options options = ordered_options;
    bool by_calls = _i == locking_count(); /* each key of 60,000 bytes that is compared is read */
    options.io = by_calls ? KVSTORE_IO_PREAD : KVSTORE_IO_MMAP;
    options.locking = by_calls ? KVSTORE_FILE_RWLOCK : (enum kvstore_locking)_i;
    begin_model(&options);
    for (int round = 0; round < (by_calls ? 9 : 22); round++) {
        for (int i = 0; i < 400; i++)
            change_something();
        compare_all();
        if (round % 5 == 1)
            ck_assert_int_eq(kvstore_compact(store, (uint32_t)round % 3, NULL), KV_OK);
        if (round % 8 == 7)
            reopen_model(&options);
        if (round == 20) /* to nearly nothing, so that the trees become low */
            while (model_count > 5) {
                struct kv_slice key = model_slice((size_t)rand() % model_count);
                ck_assert_int_eq(kvstore_delete(store, key, 0, NULL), KV_OK);
                model_delete(key);
            }
    }
    end_model();
}
END_TEST

static void delete_range(const struct kvstore_range *range, uint64_t *deleted)
{
    bool more = true;
    *deleted = 0;
    while (more) {
        uint64_t of_step;
        ck_assert_int_eq(kvstore_range_delete(store, range, &of_step, &more), KV_OK);
        *deleted += of_step;
    }
}

START_TEST(a_range_is_deleted)
{
    uint64_t deleted, count;
    store = must_open(dir, &ordered_options);
    must_put_numbers(store, 0, 5000);
    ck_assert(wait_until(order_is_whole, NULL));
    struct kvstore_range range = {.prefix = KEY("key 1")};
    ck_assert_int_eq(kvstore_range_count(store, &range, &count), KV_OK);
    ck_assert_uint_eq(count, 1111);
    range.max_entries = 10;
    bool more;
    ck_assert_int_eq(kvstore_range_delete(store, &range, &deleted, &more), KV_OK);
    ck_assert(more);
    ck_assert_uint_eq(deleted, 10);
    range.max_entries = 0;
    delete_range(&range, &deleted);
    ck_assert_uint_eq(deleted, 1101);
    range.prefix = KEY("");
    delete_range(&range, &deleted);
    ck_assert_uint_eq(deleted, 5000 - 1111);
    check_trees();
}
END_TEST

/* Of so many keys in one file, some share the 32 bits of hash that the tree has of them. */
START_TEST(keys_of_one_hash_keep_their_order)
{
    enum { MANY = 300000 };
    struct kvstore_options options = ordered_options;
    options.datafiles = 1;
    store = must_open(dir, &options);
    for (int i = 0; i < MANY; i++)
        must_put(store, numbered("k", i), "");
    check_trees();
    struct kvstore_order_facts facts;
    kvstore_order_facts(store, &facts);
    ck_assert_uint_eq(facts.keys, MANY);
    ck_assert_msg(facts.bytes < 10 * facts.keys, "%llu bytes for %d keys",
                  (unsigned long long)facts.bytes, MANY);
    for (int i = 0; i < MANY; i += 2)
        ck_assert_int_eq(kvstore_delete(store, KEY(numbered("k", i)), 0, NULL), KV_OK);
    check_trees();
    must_close(store);
    store = must_open(dir, &options);
    check_trees();
    kvstore_order_facts(store, &facts);
    ck_assert_uint_eq(facts.keys, MANY / 2);
}
END_TEST

START_TEST(what_is_not_ordered_says_so)
{
    struct kvstore_options options = {.create = true, .datafiles = 3};
    struct kvstore_range range = {.max_entries = 1};
    struct kvstore_range_result result;
    struct kvstore_order_facts facts;
    struct kv_error error;
    uint64_t count;
    bool more;
    store = must_open(dir, &options);
    ck_assert_int_eq(kvstore_range(store, &range, NULL, NULL, &result), KV_UNSUPPORTED);
    ck_assert_int_eq(kvstore_range_count(store, &range, &count), KV_UNSUPPORTED);
    ck_assert_int_eq(kvstore_range_delete(store, &range, &count, &more), KV_UNSUPPORTED);
    kvstore_order_facts(store, &facts);
    ck_assert(!facts.ordered && !facts.whole && facts.bytes == 0);
    must_close(store);
    store = must_open(dir, &ordered_options);
    range.reserved[0] = 1;
    ck_assert_int_eq(kvstore_range(store, &range, NULL, NULL, &result), KV_UNSUPPORTED);
    must_close(store);
    store = NULL;
    options = (struct kvstore_options){.read_only = true, .ordered = true};
    ck_assert_int_eq(kvstore_open(dir, &options, &store, &error), KV_USAGE);
}
END_TEST

/* Beside writers ------------------------------------------------------------------------------- */

#define STAYING 3000

static atomic_bool ranging;

/* Keeps changing everything but which keys "sN" there are. */
static void *disturb_order(void *argument)
{
    unsigned seed = *(unsigned *)argument;
    char key[32];
    for (int i = 0; atomic_load(&ranging); i++) {
        struct kvstore_put_options expiring = {.expiry_ms = clock_realtime_ms() + 3};
        snprintf(key, sizeof key, "s%d", rand_r(&seed) % STAYING);
        must_put(store, key, "another value");
        snprintf(key, sizeof key, "%s%d",
                 rand_r(&seed) % 2 == 0 ? "r" : "s1:", rand_r(&seed) % 4000);
        if (rand_r(&seed) % 3 == 0)
            kvstore_delete(store, KEY(key), 0, NULL);
        else
            kvstore_put(store, KEY(key), KEY("value"), rand_r(&seed) % 4 == 0 ? &expiring : NULL,
                        NULL);
        if (i % 500 == 499)
            ck_assert_int_eq(kvstore_compact(store, (uint32_t)rand_r(&seed) % 3, NULL), KV_OK);
    }
    return NULL;
}

struct seen {
    unsigned counts[STAYING];
    char last[64];
    bool reverse;
};

static bool note_seen(void *context, const struct kvstore_scanned *entry)
{
    struct seen *seen = context;
    char text[64] = "", *end;
    memcpy(text, entry->key.data, entry->key.size);
    int order = strcmp(text, seen->last);
    ck_assert_msg(seen->last[0] == '\0' || (seen->reverse ? order < 0 : order > 0),
                  "\"%s\" comes after \"%s\"", text, seen->last);
    strcpy(seen->last, text);
    long number = strtol(text + 1, &end, 10);
    if (text[0] == 's' && *end == '\0')
        seen->counts[number]++;
    return true;
}

static void see_all(bool reverse)
{
    static struct seen seen;
    struct kvstore_range_result result;
    struct kvstore_range range = {.reverse = reverse, .max_entries = 37};
    char last[64];
    seen = (struct seen){.reverse = reverse};
    do {
        ck_assert_int_eq(kvstore_range(store, &range, note_seen, &seen, &result), KV_OK);
        strcpy(last, seen.last);
        range.behind_from = true;
        if (reverse)
            range.to = KEY(last);
        else
            range.from = KEY(last);
    } while (result.more);
    for (int i = 0; i < STAYING; i++)
        ck_assert_msg(seen.counts[i] == 1, "s%d was visited %u times", i, seen.counts[i]);
}

START_TEST(what_stays_is_visited_once_beside_writers)
{
    struct kvstore_options options = ordered_options;
    unsigned seeds[2] = {1, 2};
    pthread_t writers[2];
    options.keep_changes_ms = _i % 2 == 0 ? 0 : 1000; /* then an expired entry goes by a record */
    if (_i == 2) {
        options.max_bytes = UINT64_C(1) << 30;
        options.evict = KVSTORE_EVICT_S3FIFO;
    }
    store = must_open(dir, &options);
    for (int i = 0; i < STAYING; i++) {
        char key[32];
        snprintf(key, sizeof key, "s%d", i);
        must_put(store, key, "value");
    }
    ck_assert(wait_until(order_is_whole, NULL));
    atomic_store(&ranging, true);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&writers[i], NULL, disturb_order, &seeds[i]), 0);
    for (int i = 0; i < 60; i++)
        see_all(i % 2 == 0);
    atomic_store(&ranging, false);
    for (int i = 0; i < 2; i++)
        pthread_join(writers[i], NULL);
    check_trees();
}
END_TEST

/* Entries are evicted while the order is being built, and after. */
START_TEST(evicted_keys_leave_the_order)
{
    struct kvstore_options options = ordered_options;
    options.max_bytes = KVSTORE_MIN_BOUND_BYTES;
    options.evict = _i == 0 ? KVSTORE_EVICT_S3FIFO : KVSTORE_EVICT_TTL;
    struct kvstore_put_options expiring = {.expiry_ms = clock_realtime_ms() + 3600000};
    store = must_open(dir, &options);
    for (int i = 0; i < 5000; i++)
        ck_assert_int_eq(kvstore_put(store, KEY(numbered("key", i)), KEY("value"), &expiring, NULL),
                         KV_OK);
    check_trees();
    uint64_t count;
    struct kvstore_range range = {.prefix = KEY("key")};
    ck_assert_int_eq(kvstore_range_count(store, &range, &count), KV_OK);
    ck_assert_uint_eq(count, total_statistics(store).keys);
    ck_assert_uint_lt(count, 5000);
}
END_TEST

/* Many keys that have expired and are not swept: a range goes past them. */
/* Opens the store with that many entries which have expired and are still there: the sweep at the
 * open, which begins late on a busy machine, must not find them expired. */
static void open_with_expired(int count)
{
    struct kvstore_options options = ordered_options;
    struct kvstore_put_options expiring = {.expiry_ms = clock_realtime_ms() + 1500};
    options.sweep_interval_ms = 3600000;
    store = must_open(dir, &options);
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(kvstore_put(store, KEY(numbered("key", i)), KEY("value"), &expiring, NULL),
                         KV_OK);
    while (clock_realtime_ms() <= expiring.expiry_ms)
        clock_sleep_ms(10);
}

START_TEST(what_has_expired_is_passed_over)
{
    open_with_expired(20000);
    must_put(store, "a", "first");
    must_put(store, "z", "last");
    ck_assert(wait_until(order_is_whole, NULL));
    model_put(KEY("a"));
    model_put(KEY("z"));
    for (int reverse = 0; reverse < 2; reverse++)
        compare_range((struct kvstore_range){.reverse = reverse == 1}, 1, UINT32_MAX);
    end_model();
}
END_TEST

static bool refuse_values(void *context, const struct kvstore_scanned *entry)
{
    *(unsigned *)context += 1;
    return entry->value.size == 0;
}

/* With `last` each call is one hold of the locks, and tells the key that it came to. */
START_TEST(a_call_tells_the_key_that_it_came_to)
{
    static uint8_t last[KVSTORE_MAX_KEY_BYTES];
    struct kvstore_range_result result;
    open_with_expired(10000);
    must_put(store, "a", "first");
    must_put(store, "z", "last");
    ck_assert(wait_until(order_is_whole, NULL));
    for (int reverse = 0; reverse < 2; reverse++) {
        struct kvstore_range range = {.reverse = reverse == 1, .keys_only = true, .last = last};
        unsigned calls = 0, visited = 0;
        do {
            ck_assert_int_eq(kvstore_range(store, &range, refuse_values, &visited, &result), KV_OK);
            ck_assert(!result.more || result.last_bytes > 0);
            if (reverse)
                range.to = kv_slice(last, result.last_bytes);
            else
                range.from = kv_slice(last, result.last_bytes);
            range.behind_from = true;
            calls++;
        } while (result.more);
        ck_assert_uint_eq(visited, 2);
        ck_assert_uint_ge(calls, 3);
    }
    struct kvstore_range first = {.max_entries = 1, .last = last};
    ck_assert_int_eq(kvstore_range(store, &first, NULL, NULL, &result), KV_OK);
    ck_assert_uint_eq(result.visited, 1);
    ck_assert_uint_eq(result.last_bytes, 1);
    ck_assert_uint_eq(last[0], 'a');
}
END_TEST

/* A forked child reads ranges, and waits for no thread that it has not. */
START_TEST(a_child_reads_ranges)
{
    store = must_open(dir, &ordered_options);
    must_put_numbers(store, 0, 300);
    ck_assert(wait_until(order_is_whole, NULL));
    for (int whole = 1; whole >= 0; whole--) {
        if (!whole)
            atomic_store(&store->context.files[0].ordering->filled_to, 0);
        kvstore_fork_begin(store);
        pid_t pid = fork();
        if (pid == 0) {
            uint64_t count;
            kvstore_fork_in_child(store);
            enum kv_status status =
                kvstore_range_count(store, &(struct kvstore_range){.reverse = false}, &count);
            _exit(whole ? status != KV_OK || count != 300 : status != KV_BUSY);
        }
        kvstore_fork_end(store);
        int status;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
    }
}
END_TEST

/* Damage --------------------------------------------------------------------------------------- */

static bool count_visited(void *context, const struct kvstore_scanned *entry)
{
    (void)entry;
    ++*(unsigned *)context;
    return true;
}

START_TEST(a_damaged_record_is_told_and_left_out)
{
    struct kvstore_options options = ordered_options;
    struct kvstore_range range = {.max_entries = 0};
    struct kvstore_range_result result;
    unsigned visited = 0;
    options.datafiles = 1;
    store = must_open(dir, &options);
    must_put_numbers(store, 0, 300);
    ck_assert(wait_until(order_is_whole, NULL));
    for (int part = 0; part < 2; part++) { /* its value; then its header, so that it has no key */
        struct lookup lookup;
        struct kv_slice key = KEY("key 17");
        struct generation *current = store->context.files[0].current;
        generation_find(current, keyhash_index(keyhash(&store->context.hash_key, key)), key,
                        &lookup);
        ck_assert(lookup.found || part == 1);
        uint64_t at = lookup.offset + (part == 0 ? lookup.size_bytes - 10 : 0);
        for (int i = 0; i < (part == 0 ? 1 : 8); i++)
            current->log.map[at + (uint64_t)i] ^= 0x55;
        visited = 0;
        ck_assert_int_eq(kvstore_range(store, &range, count_visited, &visited, &result),
                         KV_CORRUPT);
        ck_assert_uint_eq(visited, 299);
        ck_assert_uint_eq(result.bad_offset, lookup.offset);
        ck_assert(!result.more);
    }
    must_put_numbers(store, 300, 2000); /* around it, too */
    ck_assert_int_eq(kvstore_delete(store, KEY("key 17"), 0, NULL), KV_OK);
    check_trees();
    must_put_numbers(store, 17, 18);
    visited = 0;
    ck_assert_int_eq(kvstore_range(store, &range, count_visited, &visited, &result), KV_OK);
    ck_assert_uint_eq(visited, 2000);
}
END_TEST

/* A byte of a key that has changed: the record is no other key's, wherever that would be. */
START_TEST(a_damaged_key_misleads_no_range)
{
    struct kvstore_options options = ordered_options;
    struct kvstore_range range = {.prefix = KEY("key 1")};
    struct kvstore_range_result result;
    struct kv_slice key = KEY("key 17");
    struct lookup lookup;
    unsigned visited;
    options.datafiles = _i < 2 ? 1 : 3;
    store = must_open(dir, &options);
    must_put_numbers(store, 0, 300);
    ck_assert(wait_until(order_is_whole, NULL));
    struct key_place place = key_place(&store->context, key);
    uint8_t *map = place.file->current->log.map;
    generation_find(place.file->current, keyhash_index(place.hash), key, &lookup);
    ck_assert(lookup.found);
    map[(const uint8_t *)lookup.record.key.data - map] ^= _i % 2 == 0 ? 0x14 : 0x6a;
    for (int reverse = 0; reverse < 2; reverse++) {
        visited = 0;
        range.reverse = reverse == 1;
        ck_assert_int_eq(kvstore_range(store, &range, count_visited, &visited, &result),
                         KV_CORRUPT);
        ck_assert_uint_eq(visited, 110); /* 1, 10 to 19, 100 to 199, but for 17 */
        ck_assert_uint_eq(result.bad_offset, lookup.offset);
    }
    must_put_numbers(store, 300, 2000); /* around it */
    must_put_numbers(store, 17, 18);
    ck_assert(wait_until(order_is_whole, NULL));
    visited = 0;
    kvstore_range(store, &range, count_visited, &visited, &result);
    ck_assert_uint_eq(visited, 1111);
}
END_TEST

/* A range holds the locks of all files, which are more than a transaction's keys here. */
START_TEST(a_range_is_of_many_files)
{
    struct kvstore_options options = ordered_options;
    struct kvstore_range range = {.max_entries = 0};
    uint64_t count;
    options.datafiles = 256;
    store = must_open(dir, &options);
    must_put_numbers(store, 0, 1000);
    ck_assert(wait_until(order_is_whole, NULL));
    ck_assert_int_eq(kvstore_range_count(store, &range, &count), KV_OK);
    ck_assert_uint_eq(count, 1000);
}
END_TEST

/* A start after kill -9 takes the index over, and builds the order from it. */
START_TEST(the_order_is_built_again_after_a_kill)
{
    struct kvstore_options options = ordered_options;
    options.direct = KVSTORE_DIRECT_OWNER;
    pid_t child = fork();
    if (child == 0) {
        store = must_open(dir, &options);
        must_put_numbers(store, 0, 3000);
        kill(getpid(), SIGKILL);
    }
    int result;
    ck_assert_int_eq(waitpid(child, &result, 0), child);
    store = must_open(dir, &options);
    for (int i = 0; i < 3000; i += 3)
        ck_assert_int_eq(kvstore_delete(store, KEY(numbered("key", i)), 0, NULL), KV_OK);
    must_put_numbers(store, 3000, 4000);
    check_trees();
    for (int i = 0; i < 4000; i++)
        if (i % 3 != 0 || i >= 3000)
            model_put(KEY(numbered("key", i)));
    compare_range((struct kvstore_range){.max_entries = 0}, 100, UINT32_MAX);
    end_model();
}
END_TEST

/* Large values, which are written apart, have their keys in the order like others. */
START_TEST(keys_of_large_values_are_in_order)
{
    static char value[PLACE_MIN_BYTES];
    memset(value, 'v', sizeof value);
    store = must_open(dir, &ordered_options);
    check_trees();
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 20; i++)
            ck_assert_int_eq(kvstore_put(store, KEY(numbered("key", i)),
                                         kv_slice(value, sizeof value), NULL, NULL),
                             KV_OK);
        check_trees();
    }
    for (int i = 0; i < 20; i += 2)
        ck_assert_int_eq(kvstore_delete(store, KEY(numbered("key", i)), 0, NULL), KV_OK);
    check_trees();
}
END_TEST

TEST_SUITE(kvstore_range)
{
    TCase *tests = tcase_create("range");
    store_case_add(tests);
    tcase_add_loop_test(tests, ranges_are_as_in_a_model, 0, locking_count() + 1);
    tcase_add_test(tests, a_range_is_deleted);
    tcase_add_test(tests, keys_of_large_values_are_in_order);
    tcase_add_test(tests, keys_of_one_hash_keep_their_order);
    tcase_add_test(tests, what_is_not_ordered_says_so);
    tcase_add_loop_test(tests, what_stays_is_visited_once_beside_writers, 0, 3);
    tcase_add_loop_test(tests, evicted_keys_leave_the_order, 0, 2);
    tcase_add_test(tests, what_has_expired_is_passed_over);
    tcase_add_test(tests, a_call_tells_the_key_that_it_came_to);
    tcase_add_test(tests, a_child_reads_ranges);
    tcase_add_test(tests, a_damaged_record_is_told_and_left_out);
    tcase_add_loop_test(tests, a_damaged_key_misleads_no_range, 0, 4);
    tcase_add_test(tests, a_range_is_of_many_files);
    tcase_add_test(tests, the_order_is_built_again_after_a_kill);
    tcase_set_timeout(tests, 180);
    suite_add_tcase(suite, tests);
}
