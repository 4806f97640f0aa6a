/*
 * A transaction that fails when some of its writes are done takes them back: entries, index, sums,
 * statistics and quotas are as before, now and after the next start, also after a kill -9; and the
 * store goes on.
 */
#include <check.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/report/log.h"
#include "common/time/clock.h"
#include "tests/support/asked_transaction.h"
#include "tests/support/fault.h"
#include "tests/support/index_facts.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_case.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define KEY(text)   kv_slice_from_string(text)
#define KEYS        48
#define STATE_BYTES (1u << 20)

static struct asked_transaction asked;

static const struct kvstore_quota quotas[] = {
    {.prefix = {.data = "q:", .size = 2}, .max_keys = 3},
    {.prefix = {.data = "key", .size = 3}, .max_bytes = 1u << 20},
};
#define QUOTAS 2

/* The state of a store ------------------------------------------------------------------------ */

struct store_state {
    char *entries; /* as text, in the order of a scan */
    size_t length;
    struct index_facts index;
    struct kvstore_file_statistics total;
    struct kvstore_quota_usage usage[QUOTAS];
    uint64_t bound_bytes;
};

static bool note_entry(void *context, const struct kvstore_scanned *entry)
{
    struct store_state *state = context;
    state->length +=
        (size_t)snprintf(state->entries + state->length, STATE_BYTES - state->length,
                         "%.*s: %zu bytes, %.*s, version %" PRIu64 ", expiry %" PRIu64 "\n",
                         (int)entry->key.size, (const char *)entry->key.data, entry->value.size,
                         entry->value.size > 40 ? 40 : (int)entry->value.size,
                         (const char *)entry->value.data, entry->version, entry->expiry_ms);
    ck_assert_uint_lt(state->length, STATE_BYTES);
    return true;
}

static void take_entries(struct store_state *state, struct kvstore *of)
{
    uint64_t cursor = 0;
    state->length = 0;
    state->entries = malloc(STATE_BYTES);
    state->entries[0] = '\0';
    do {
        struct kvstore_scan_result result = {0};
        enum kv_status status =
            kvstore_scan(of, &cursor, kv_slice(NULL, 0), 1000, note_entry, state, &result);
        if (status == KV_CORRUPT)
            state->length += (size_t)sprintf(state->entries + state->length,
                                             "damaged: %" PRIu64 "\n", result.bad_offset);
        else
            ck_assert_int_eq(status, KV_OK);
    } while (cursor != 0);
}

static struct store_state take_state(struct kvstore *of)
{
    struct store_state state = {0};
    take_entries(&state, of); /* which may find damaged records */
    state.total = total_statistics(of);
    for (uint32_t i = 0; i < kvstore_datafiles(of); i++) {
        struct kvstore_file_statistics statistics;
        kvstore_file_statistics(of, i, &statistics);
        state.total.damaged_records += statistics.damaged_records;
        state.total.damaged_at += statistics.damaged_at;
    }
    index_facts_take(&state.index, of);
    for (uint32_t i = 0; i < state.index.datafiles; i++)
        state.index.words[i].max_version = 0; /* what was taken back keeps its version */
    for (uint32_t i = 0; i < QUOTAS; i++)
        kvstore_quota_usage(of, i, &state.usage[i]);
    struct kvstore_bound_statistics bound;
    kvstore_bound_statistics(of, &bound);
    state.bound_bytes = bound.live_bytes;
    return state;
}

static void free_state(struct store_state *state)
{
    free(state->entries);
    index_facts_free(&state->index);
}

static void assert_same_sums(const struct store_state *before, const struct store_state *now,
                             const char *context)
{
#define SAME(field)                                                                         \
    ck_assert_msg(before->field == now->field, "%s: " #field ": %" PRIu64 ", was %" PRIu64, \
                  context, (uint64_t)now->field, (uint64_t)before->field)
    SAME(total.keys);
    SAME(total.expiring_keys);
    SAME(total.live_bytes);
    SAME(total.dead_bytes);
    SAME(total.appended_bytes);
    SAME(total.damaged_records);
    SAME(total.damaged_at);
    SAME(bound_bytes);
    for (int i = 0; i < QUOTAS; i++) {
        SAME(usage[i].bytes);
        SAME(usage[i].keys);
    }
#undef SAME
}

/* Checks that the store is as it was in `before`. */
static void assert_state(const struct store_state *before, const char *context)
{
    struct store_state now = take_state(store);
    ck_assert_msg(strcmp(before->entries, now.entries) == 0, "%s: entries were\n%s\nand are\n%s",
                  context, before->entries, now.entries);
    const char *difference = index_facts_difference(&before->index, &now.index);
    ck_assert_msg(!difference, "%s: the index differs: %s", context, difference);
    assert_same_sums(before, &now, context);
    free_state(&now);
}

static void assert_entries(const struct store_state *before, struct kvstore *of,
                           const char *context)
{
    struct store_state now = {0};
    take_entries(&now, of);
    ck_assert_msg(strcmp(before->entries, now.entries) == 0, "%s: entries were\n%s\nand are\n%s",
                  context, before->entries, now.entries);
    free(now.entries);
}

/* Opens the files as a kill -9 at this moment would leave them. */
static void assert_entries_after_kill(const struct store_state *before, const char *context)
{
    char copy_dir[STORE_DIR_BYTES];
    struct image image;
    store_dir_make(copy_dir);
    image_take(&image, dir);
    image_put(&image, copy_dir);
    image_free(&image);
    struct kvstore *copy = must_open(copy_dir, &(struct kvstore_options){0});
    assert_entries(before, copy, context);
    must_close(copy);
    store_dir_remove(copy_dir);
}

/* What is there before, and the transaction --------------------------------------------------- */

static void fill(struct kvstore_options options)
{
    store = must_open(dir, &options);
    uint64_t later_ms = clock_realtime_ms() + 10000000;
    for (int i = 0; i < KEYS; i++) {
        struct kvstore_put_options expiring = {.expiry_ms = i % 3 == 0 ? later_ms + i : 0};
        ck_assert_int_eq(
            kvstore_put(store, KEY(numbered("key", i)), KEY(numbered("", i)), &expiring, NULL),
            KV_OK);
    }
    for (int i = 0; i < KEYS; i += 5)
        must_put(store, numbered("key", i), "17");
    must_put(store, "q:there", "x");
    must_put(store, "q:two", "x");
}

/* Writes of all kinds to keys in all files. */
static void ask_for_all_kinds(void)
{
    static char keys[KEYS + 12][16];
    uint64_t later_ms = clock_realtime_ms() + 20000000;
    asked = (struct asked_transaction){0};
    for (int i = 0; i < KEYS + 12; i++) {
        const enum kvstore_step_kind kinds[] = {KVSTORE_STEP_PUT, KVSTORE_STEP_DELETE,
                                                KVSTORE_STEP_APPEND, KVSTORE_STEP_TOUCH,
                                                KVSTORE_STEP_GET};
        strcpy(keys[i], numbered("key", i));
        enum kvstore_step_kind kind = i % 5 == 0 ? KVSTORE_STEP_ADD : kinds[i / 2 % 5];
        bool has_value = kind == KVSTORE_STEP_PUT || kind == KVSTORE_STEP_APPEND;
        struct kvstore_step *step = asked_then(&asked, kind, keys[i], has_value ? "new" : NULL);
        step->delta = 5;
        step->expiry_ms = i % 4 == 0 ? later_ms : 0;
    }
}

/* Adds writes that are more than quota 0 allows. */
static void ask_for_too_many_keys(void)
{
    asked_then(&asked, KVSTORE_STEP_PUT, "q:new 1", "x");
    asked_then(&asked, KVSTORE_STEP_PUT, "q:new 2", "x");
}

/* Quotas -------------------------------------------------------------------------------------- */

static const struct variant {
    uint32_t datafiles;
    enum kvstore_io io;
    enum kvstore_evict evict;
    enum kvstore_durability durability;
    uint64_t cache_bytes;
    bool shared;
} variants[] = {
    {1, KVSTORE_IO_MMAP, KVSTORE_EVICT_NONE, KVSTORE_SYNC_INTERVAL, 0, false},
    {2, KVSTORE_IO_PREAD, KVSTORE_EVICT_NONE, KVSTORE_SYNC_INTERVAL, 1u << 20, false},
    {8, KVSTORE_IO_MMAP, KVSTORE_EVICT_TTL, KVSTORE_SYNC_ALWAYS, 0, true},
    {3, KVSTORE_IO_MMAP, KVSTORE_EVICT_S3FIFO, KVSTORE_SYNC_NONE, 1u << 20, false},
};
#define VARIANTS ((int)(sizeof variants / sizeof *variants))

static struct kvstore_options options_of(int variant)
{
    const struct variant *of = &variants[variant];
    return (struct kvstore_options){.create = true,
                                    .datafiles = of->datafiles,
                                    .io = of->io,
                                    .evict = of->evict,
                                    .max_bytes = 4u << 20,
                                    .durability = of->durability,
                                    .cache_bytes = of->cache_bytes,
                                    .direct =
                                        of->shared ? KVSTORE_DIRECT_OWNER : KVSTORE_DIRECT_OFF,
                                    .quota_count = QUOTAS,
                                    .quotas = quotas};
}

static void assert_over_quota(const char *context)
{
    ck_assert_int_eq(asked_do(&asked, store), KV_QUOTA);
    ck_assert(asked.told.held && !asked.told.in_guard);
    struct kv_slice key = asked.then[asked.told.at].key;
    ck_assert_msg(key.size > 2 && memcmp(key.data, "q:", 2) == 0, "%s: step %u", context,
                  asked.told.at);
}

START_TEST(a_quota_that_the_last_write_exceeds)
{
    struct kvstore_options options = options_of(_i);
    fill(options);
    char buffer[64];
    for (int i = 0; i < KEYS; i++) /* into the cache */
        ck_assert_int_eq(kvstore_get(store, KEY(numbered("key", i)), buffer, sizeof buffer, NULL),
                         KV_OK);
    ck_assert_int_eq(kvstore_sync(store), KV_OK);
    for (int round = 0; round < 2; round++) { /* also when the files know transactions already */
        struct store_state before = take_state(store);
        for (int again = 0; again < 3; again++) {
            ask_for_all_kinds();
            ask_for_too_many_keys();
            assert_over_quota("quota");
            assert_state(&before, "refused");
        }
        assert_entries_after_kill(&before, "killed");
        free_state(&before);
        /* The store goes on: the same without the last step. */
        asked.asked.then_count--;
        ck_assert_int_eq(asked_do(&asked, store), KV_OK);
        for (uint32_t i = 0; i < asked.asked.then_count; i++)
            if (asked.results[i].written.ticket.position > 0)
                ck_assert_int_eq(kvstore_wait_durable(store, asked.results[i].written.ticket),
                                 KV_OK);
        struct store_state after = take_state(store);
        ck_assert_uint_eq(after.usage[0].keys, 3);
        assert_entries_after_kill(&after, "done and killed");
        must_close(store);
        options.create = round == 0;
        store = must_open(dir, &options);
        assert_entries(&after, store, "done and closed");
        struct store_state reopened = take_state(store);
        reopened.total.appended_bytes = after.total.appended_bytes;
        reopened.total.damaged_records = after.total.damaged_records;
        assert_same_sums(&after, &reopened, "done and closed");
        free_state(&after);
        free_state(&reopened);
        ck_assert_int_eq(kvstore_delete(store, KEY("q:new 1"), 0, NULL), KV_OK);
    }
}
END_TEST

/* Far more is taken back than the log has: the commit log must not take that for written. */
START_TEST(what_was_taken_back_is_never_synced)
{
    static char large[13000];
    struct kvstore_options options = options_of(2);
    options.datafiles = 2;
    memset(large, 'x', sizeof large - 1);
    fill(options);
    ck_assert_int_eq(kvstore_sync(store), KV_OK);
    for (int round = 0; round < 20; round++) {
        asked = (struct asked_transaction){0};
        for (int i = 0; i < 6; i++)
            asked_then(&asked, KVSTORE_STEP_PUT,
                       &"large 0\0large 1\0large 2\0large 3\0large 4\0"
                        "large 5\0"[(size_t)i * 8],
                       large);
        ask_for_too_many_keys();
        assert_over_quota("large");
        struct kvstore_ticket tickets[4];
        for (int i = 0; i < 4; i++)
            tickets[i] = must_put_for_ticket(store, numbered("key", i), numbered("round", round));
        for (int i = 0; i < 4; i++)
            ck_assert_int_eq(kvstore_wait_durable(store, tickets[i]), KV_OK);
    }
    struct store_state state = take_state(store);
    assert_entries_after_kill(&state, "killed");
    free_state(&state);
}
END_TEST

START_TEST(max_bytes_that_the_last_write_exceeds)
{
    static char large[13000];
    struct kvstore_options options = {
        .create = true, .datafiles = (uint32_t)_i, .max_bytes = KVSTORE_MIN_BOUND_BYTES};
    memset(large, 'x', sizeof large - 1);
    fill(options);
    ck_assert_int_eq(kvstore_set_quotas(store, quotas, QUOTAS, NULL), KV_OK);
    must_put(store, "some", large);
    struct store_state before = take_state(store);
    ask_for_all_kinds();
    asked_then(&asked, KVSTORE_STEP_PUT, "more", large);
    asked_then(&asked, KVSTORE_STEP_PUT, "still more", large);
    asked_then(&asked, KVSTORE_STEP_PUT, "even more", large);
    asked_then(&asked, KVSTORE_STEP_PUT, "too much", large);
    ck_assert_int_eq(asked_do(&asked, store), KV_FULL);
    assert_state(&before, "full");
    assert_entries_after_kill(&before, "killed");
    free_state(&before);
    asked.asked.then_count--;
    ck_assert_int_eq(asked_do(&asked, store), KV_OK);
}
END_TEST

/* With eviction there is room as long as there is something to evict, also for several writes. */
START_TEST(a_transaction_evicts)
{
    static char large[6000];
    static char keys[200][16];
    bool ttl = _i == 1;
    struct kvstore_options options = {.create = true,
                                      .datafiles = 2,
                                      .max_bytes = 128u << 10,
                                      .evict = ttl ? KVSTORE_EVICT_TTL : KVSTORE_EVICT_S3FIFO};
    memset(large, 'x', sizeof large - 1);
    store = must_open(dir, &options);
    for (int round = 0; round < 60; round++) {
        asked = (struct asked_transaction){0};
        for (int i = 0; i < 3; i++) {
            char *key = keys[round * 3 + i];
            strcpy(key, numbered("key", round * 3 + i));
            asked_then(&asked, KVSTORE_STEP_PUT, key, large)->expiry_ms =
                clock_realtime_ms() + 10000000;
        }
        enum kv_status status = asked_do(&asked, store);
        ck_assert_msg(status == KV_OK, "round %d: %s", round, kv_status_name(status));
    }
    struct kvstore_bound_statistics bound;
    kvstore_bound_statistics(store, &bound);
    ck_assert_uint_gt(bound.evictions, 100);
    ck_assert_uint_le(bound.live_bytes, bound.max_bytes);
}
END_TEST

/* Damaged records ----------------------------------------------------------------------------- */

/* Flips a byte of the value of "key N" in data.0000. */
static void damage(const char *value)
{
    struct image image;
    image_take(&image, dir);
    struct image_file *file = image_find(&image, "data.0000");
    const uint8_t *at = memmem(file->bytes, file->size, value, strlen(value));
    ck_assert_ptr_nonnull(at);
    store_file_flip(dir, at - file->bytes);
    image_free(&image);
}

START_TEST(damaged_records_are_still_told_of)
{
    struct kvstore_options options = options_of(0);
    options.max_bytes = 0;
    log_set_level(LOG_LEVEL_ERROR - 1);
    fill(options);
    must_put(store, "put", "to be damaged 1");
    must_put(store, "deleted", "to be damaged 2");
    must_close(store);
    store_checkpoint_remove(dir);
    store = must_open(dir, &options);
    damage("to be damaged 1");
    damage("to be damaged 2");
    ck_assert_int_eq(kvstore_get(store, KEY("put"), (char[64]){0}, 64, NULL), KV_CORRUPT);
    ck_assert_int_eq(kvstore_get(store, KEY("deleted"), (char[64]){0}, 64, NULL), KV_CORRUPT);
    struct store_state before = take_state(store);
    ck_assert_uint_eq(before.total.damaged_records, 2);
    ask_for_all_kinds();
    asked_then(&asked, KVSTORE_STEP_PUT, "put", "what is put");
    asked_then(&asked, KVSTORE_STEP_DELETE, "deleted", NULL);
    ask_for_too_many_keys();
    assert_over_quota("damaged");
    assert_state(&before, "damaged, refused");
    free_state(&before);
    asked.asked.then_count--;
    ck_assert_int_eq(asked_do(&asked, store), KV_OK);
    struct kvstore_file_statistics statistics;
    kvstore_file_statistics(store, 0, &statistics);
    ck_assert_uint_eq(statistics.damaged_records, 0);
    ck_assert_ptr_null(get_text(store, "deleted"));
    ck_assert_str_eq(get_text(store, "put"), "what is put");
    damage("what is put");
    const enum kvstore_step_kind needing[] = {KVSTORE_STEP_ADD, KVSTORE_STEP_APPEND,
                                              KVSTORE_STEP_TOUCH, KVSTORE_STEP_GET};
    for (size_t i = 0; i < sizeof needing / sizeof *needing; i++) {
        asked = (struct asked_transaction){0};
        asked_then(&asked, KVSTORE_STEP_PUT, "beside", "x");
        asked_then(&asked, needing[i], "put", "y");
        ck_assert_int_eq(asked_do(&asked, store), KV_CORRUPT);
        ck_assert_uint_eq(asked.told.at, 1);
        ck_assert_ptr_null(get_text(store, "beside"));
    }
}
END_TEST

/* Faults -------------------------------------------------------------------------------------- */

/* The plan counts from when the transaction begins. */
static bool fail_once(struct kvstore_options options, const struct fault_plan *plan, bool admitted)
{
    char context[128];
    snprintf(context, sizeof context, "%s %lu: %s, %s, %u files", fault_call_name(plan->call),
             plan->nth, strerror(plan->error), plan->length == 0 ? "from there on" : "once",
             options.datafiles);
    fill(options);
    ask_for_all_kinds();
    if (admitted) {
        asked.asked.then_count = 12;
        ck_assert_int_eq(asked_do(&asked, store), KV_OK);
        ask_for_all_kinds();
    }
    struct store_state before = take_state(store);
    fault_install(plan);
    enum kv_status status = asked_do(&asked, store);
    bool fired = fault_has_fired();
    fault_clear();
    if (status == KV_OK) {
        struct store_state after = take_state(store);
        ck_assert_msg(strcmp(before.entries, after.entries) != 0, "%s: nothing was done", context);
        assert_entries_after_kill(&after, context);
        free_state(&after);
    } else {
        ck_assert_msg(fired, "%s: %s", context, kv_status_name(status));
        assert_state(&before, context);
        assert_entries_after_kill(&before, context);
        status = asked_do(&asked, store);
        ck_assert_msg(status == KV_OK || status == KV_READ_ONLY, "%s, again: %s", context,
                      kv_status_name(status));
    }
    free_state(&before);
    struct store_state after = take_state(store);
    (void)kvstore_close(store, NULL);
    options.create = false;
    store = must_open(dir, &options);
    assert_entries(&after, store, context);
    free_state(&after);
    must_close(store);
    store = NULL;
    store_dir_remove(dir);
    store_dir_make(dir);
    return fired;
}

static const struct failure {
    enum fault_call call;
    int error;
    unsigned long length;
    enum kvstore_io io;
} failures[] = {
    {FAULT_WRITE, ENOSPC, 1, KVSTORE_IO_PREAD},   {FAULT_WRITE, EIO, 0, KVSTORE_IO_PREAD},
    {FAULT_WRITE, EIO, 1, KVSTORE_IO_MMAP},       {FAULT_READ, EIO, 1, KVSTORE_IO_PREAD},
    {FAULT_ALLOCATE, ENOSPC, 0, KVSTORE_IO_MMAP},
};
#define FAILURES ((int)(sizeof failures / sizeof *failures))

START_TEST(each_call_fails)
{
    const struct failure *failure = &failures[_i];
    log_set_level(LOG_LEVEL_ERROR - 1);
    for (uint32_t datafiles = 1; datafiles <= 3; datafiles += 2) {
        struct kvstore_options options = {.create = true,
                                          .datafiles = datafiles,
                                          .io = failure->io,
                                          .durability = KVSTORE_SYNC_NONE,
                                          .sweep_interval_ms = 1000000,
                                          .compact_dead_percent = 100};
        bool fired = true;
        unsigned long step = failure->call == FAULT_READ ? 37 : 13;
        for (unsigned long nth = 1; fired; nth += nth < 5 ? 1 : step) {
            struct fault_plan plan = {.call = failure->call,
                                      .nth = nth,
                                      .length = failure->length,
                                      .error = failure->error,
                                      .written_bytes = nth % 4 == 0 ? 21 : 0};
            /* nth is odd: the header is written, too, and that is no write that can be torn. */
            fired = fail_once(options, &plan, nth % 2 == 0);
            ck_assert_uint_lt(nth, 1000);
        }
    }
}
END_TEST

/* The file grows within the transaction, and then it cannot. */
START_TEST(a_disk_that_is_full_in_the_middle)
{
    static char large[16000]; /* not placed, so that nothing is left in the log */
    static char keys[40][16];
    memset(large, 'x', sizeof large - 1);
    log_set_level(LOG_LEVEL_ERROR - 1);
    struct kvstore_options options = options_of(_i);
    options.max_bytes = 0;
    options.evict = KVSTORE_EVICT_NONE;
    options.quota_count = 0;
    for (unsigned long nth = 1; nth < 4; nth++) {
        fill(options);
        ask_for_all_kinds();
        for (int i = 0; i < 40; i++) {
            strcpy(keys[i], numbered("large", i));
            asked_then(&asked, KVSTORE_STEP_PUT, keys[i], large);
        }
        struct store_state before = take_state(store);
        fault_install(&(struct fault_plan){.call = FAULT_ALLOCATE, .nth = nth, .error = ENOSPC});
        ck_assert_int_eq(asked_do(&asked, store), KV_NO_SPACE);
        fault_clear();
        assert_state(&before, "full disk");
        assert_entries_after_kill(&before, "full disk");
        free_state(&before);
        ck_assert_int_eq(asked_do(&asked, store), KV_OK);
        struct store_state after = take_state(store);
        assert_entries_after_kill(&after, "no full disk any more");
        must_close(store);
        store = must_open(dir, &options);
        assert_entries(&after, store, "no full disk any more");
        free_state(&after);
        must_close(store);
        store = NULL;
        store_dir_remove(dir);
        store_dir_make(dir);
    }
}
END_TEST

/* Followers ----------------------------------------------------------------------------------- */

static bool count_change(void *context, const struct kvstore_change *change)
{
    ck_assert(change->key.size > 2 && change->key.data != NULL);
    ++*(unsigned *)context;
    return true;
}

/* Changes behind the positions, which are moved on. */
static unsigned count_changes(struct kvstore_position *positions)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < kvstore_datafiles(store); i++) {
        bool at_end = false;
        while (!at_end)
            ck_assert_int_eq(kvstore_changes(store, i, &positions[i], kv_slice(NULL, 0), 1000,
                                             count_change, &count, &at_end),
                             KV_OK);
    }
    return count;
}

START_TEST(who_follows_changes_sees_what_was_done)
{
    struct kvstore_options options = options_of(_i);
    struct kvstore_position positions[8];
    fill(options);
    for (uint32_t i = 0; i < kvstore_datafiles(store); i++)
        ck_assert_int_eq(kvstore_changes_now(store, i, &positions[i]), KV_OK);
    for (int round = 0; round < 3; round++) {
        ask_for_all_kinds();
        ask_for_too_many_keys();
        assert_over_quota("followed");
        ck_assert_uint_eq(count_changes(positions), 0);
        for (uint32_t i = 0; i < kvstore_datafiles(store) && round > 0; i++)
            ck_assert_int_eq(kvstore_changes_now(store, i, &positions[i]), KV_OK);
        asked.asked.then_count -= 2;
        ck_assert_int_eq(asked_do(&asked, store), KV_OK);
        unsigned writes = 0;
        for (uint32_t i = 0; i < asked.asked.then_count; i++)
            writes += asked.results[i].written.ticket.position > 0;
        ck_assert_uint_eq(count_changes(positions), writes);
    }
}
END_TEST

/* Compactions --------------------------------------------------------------------------------- */

static void *compact_all_the_time(void *argument)
{
    atomic_bool *stop = argument;
    while (!atomic_load(stop))
        for (uint32_t i = 0; i < kvstore_datafiles(store); i++)
            if (kvstore_compact(store, i, NULL) != KV_OK)
                return strdup("a compaction has failed");
    return NULL;
}

START_TEST(compactions_go_on_meanwhile)
{
    struct kvstore_options options = options_of(_i);
    atomic_bool stop = false;
    pthread_t thread;
    void *failure;
    fill(options);
    must_put_numbers(store, 1000, 4000);
    ck_assert_int_eq(pthread_create(&thread, NULL, compact_all_the_time, &stop), 0);
    for (int round = 0; round < 100 || total_statistics(store).compactions < 4; round++) {
        ck_assert_int_lt(round, 100000);
        ask_for_all_kinds();
        for (uint32_t i = 0; i < asked.asked.then_count; i++)
            if (asked.then[i].kind == KVSTORE_STEP_APPEND)
                asked.then[i].kind = KVSTORE_STEP_PUT;
        ask_for_too_many_keys();
        assert_over_quota("compaction");
        asked.asked.then_count -= 2;
        ck_assert_int_eq(asked_do(&asked, store), KV_OK);
    }
    atomic_store(&stop, true);
    pthread_join(thread, &failure);
    ck_assert_msg(!failure, "%s", (const char *)failure);
    struct kvstore_file_statistics total = total_statistics(store);
    ck_assert_uint_gt(total.compactions, 2);
    ck_assert_uint_eq(total.compaction_failures, 0);
    struct store_state state = take_state(store);
    assert_entries_after_kill(&state, "killed");
    must_close(store);
    store = must_open(dir, &options);
    assert_entries(&state, store, "closed");
    free_state(&state);
    check_numbers(store, 1000, 4000);
}
END_TEST

TEST_SUITE(kvstore_transact_undo)
{
    TCase *tests = tcase_create("transact_undo");
    store_case_add(tests);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, a_quota_that_the_last_write_exceeds, 0, VARIANTS);
    tcase_add_test(tests, what_was_taken_back_is_never_synced);
    tcase_add_loop_test(tests, max_bytes_that_the_last_write_exceeds, 1, 3);
    tcase_add_loop_test(tests, a_transaction_evicts, 1, 3);
    tcase_add_test(tests, damaged_records_are_still_told_of);
    tcase_add_loop_test(tests, each_call_fails, 0, FAILURES);
    tcase_add_loop_test(tests, a_disk_that_is_full_in_the_middle, 0, VARIANTS);
    tcase_add_loop_test(tests, who_follows_changes_sees_what_was_done, 0, VARIANTS);
    tcase_add_loop_test(tests, compactions_go_on_meanwhile, 0, VARIANTS);
    suite_add_tcase(suite, tests);
}
