/*
 * Ranges without messages: compared with those of the engine, in this process, while nothing
 * changes; and, while it writes, deletes and compacts, with what is there all the time.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clientk/base/handles.h"
#include "clientk/direct/direct_range.h"
#include "common/numbers/random.h"
#include "common/time/clock.h"
#include "kvstore/api/store.h"
#include "kvstore/format/record.h"
#include "kvstore/shared/key_point.h"
#include "tests/support/client_calls.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/store_variants.h"
#include "tests/support/test_suite.h"

#define RANGE_LONG_BYTES 60000u /* of the beginning that some keys share */
#define RANGE_RUN_MS     1500u
#define STAYING_KEYS     300u
#define HASHED_KEYS      200000u
#define PAIRS            400u

static struct {
    char dir[STORE_DIR_BYTES];
    struct kvstore *store;
    struct kvstore_options options;
    struct client_settings settings;
    struct direct direct;
    struct direct_reader reader;
    struct random_state random;
    atomic_bool stop;
} ordered;

static bool order_is_built(void *unused)
{
    struct kvstore_order_facts facts;
    (void)unused;
    kvstore_order_facts(ordered.store, &facts);
    return facts.whole;
}

static void join_reader(struct direct_reader *reader)
{
    *reader = (struct direct_reader){.era = 0};
    handles_lock();
    direct_readers_join(&ordered.direct.readers, reader);
    handles_unlock();
}

static void leave_reader(struct direct_reader *reader)
{
    handles_lock();
    direct_readers_leave(&ordered.direct.readers, reader);
    handles_unlock();
}

static void set_options(uint32_t datafiles, bool is_ordered)
{
    ordered.options = (struct kvstore_options){.create = true,
                                               .datafiles = datafiles,
                                               .durability = KVSTORE_SYNC_NONE,
                                               .sweep_interval_ms = 5,
                                               .ordered = is_ordered,
                                               .direct = KVSTORE_DIRECT_OWNER};
    store_dir_make(ordered.dir);
}

static void open_ordered(enum clientk_direct mode)
{
    struct kvstore_direct_facts facts;
    ordered.store = must_open(ordered.dir, &ordered.options);
    kvstore_direct_facts(ordered.store, &facts);
    ordered.settings = (struct client_settings){.direct = mode};
    direct_init(&ordered.direct, &ordered.settings);
    struct wire_welcome welcome = {.direct = WIRE_DIRECT_OFFERED,
                                   .instance = 1,
                                   .store_device = facts.device,
                                   .store_inode = facts.inode,
                                   .store_number = facts.number};
    int pidfd = eventfd(0, EFD_CLOEXEC); /* of a daemon that never ends */
    direct_welcome(&ordered.direct, &welcome, geteuid(), (struct direct_server){.fd = pidfd});
    close(pidfd);
    atomic_store(&ordered.stop, false);
    random_seed(&ordered.random, 1);
    join_reader(&ordered.reader);
    if (ordered.options.ordered)
        ck_assert(wait_until(order_is_built, NULL));
}

static void begin_ordered(uint32_t datafiles, enum clientk_direct mode, bool is_ordered)
{
    set_options(datafiles, is_ordered);
    open_ordered(mode);
}

static void end_ordered(void)
{
    leave_reader(&ordered.reader);
    direct_free(&ordered.direct);
    must_close(ordered.store);
    store_dir_remove(ordered.dir);
}

/* Comparing ------------------------------------------------------------------------------------ */

/* Keys with their sizes before them. */
struct listed_keys {
    uint8_t *bytes;
    size_t used, room;
    unsigned count;
};

static void list_key(struct listed_keys *list, struct kv_slice key)
{
    uint16_t size = (uint16_t)key.size;
    if (list->used + sizeof size + size > list->room) {
        list->room = 2 * (list->used + sizeof size + size);
        list->bytes = realloc(list->bytes, list->room);
    }
    memcpy(list->bytes + list->used, &size, sizeof size);
    memcpy(list->bytes + list->used + sizeof size, key.data, size);
    list->used += sizeof size + size;
    list->count++;
}

static bool list_scanned(void *list, const struct kvstore_scanned *entry)
{
    list_key(list, entry->key);
    return true;
}

struct listing_visit {
    struct listed_keys *list;
    uint8_t last[KVSTORE_MAX_KEY_BYTES];
    size_t last_bytes;
    bool with_values;
};

static bool list_entry(void *context, const struct clientk_entry *entry)
{
    struct listing_visit *visit = context;
    list_key(visit->list, entry->key);
    memcpy(visit->last, entry->key.data, entry->key.size);
    visit->last_bytes = entry->key.size;
    ck_assert_uint_eq(entry->value.size, visit->with_values ? 5 : 0);
    return true;
}

/* Lists the range page by page. A page that has to go by message is tried again: returns how often
 * that was so. */
static unsigned list_direct(struct direct_reader *reader, struct direct_range range,
                            struct listed_keys *list)
{
    unsigned asked = 0;
    static _Thread_local struct listing_visit visit;
    struct clientk_result result = {.number = 1};
    visit.list = list;
    visit.with_values = !range.keys_only;
    while (result.number == 1) {
        if (!direct_range_page(&ordered.direct, reader, &range, &result)) {
            asked++;
            result.number = 1;
            continue;
        }
        ck_assert_int_eq(result.status, KV_OK);
        ck_assert_int_eq(clientk_read_page(&result.value, list_entry, &visit), KV_OK);
        struct kv_slice last = kv_slice(visit.last, visit.last_bytes);
        if (range.reverse) {
            range.to = last;
        } else {
            range.from = last;
            range.behind_from = true;
        }
    }
    clientk_value_free(&result.value);
    return asked;
}

static void list_of_engine(const struct direct_range *from, struct listed_keys *list)
{
    struct kvstore_range range = {.from = from->from,
                                  .to = from->to,
                                  .prefix = from->prefix,
                                  .behind_from = from->behind_from,
                                  .reverse = from->reverse};
    struct kvstore_range_result result;
    ck_assert_int_eq(kvstore_range(ordered.store, &range, list_scanned, list, &result), KV_OK);
    ck_assert(!result.more);
}

static void compare_ranges(struct direct_range range)
{
    struct listed_keys direct = {.used = 0}, engine = {.used = 0};
    ck_assert_uint_eq(list_direct(&ordered.reader, range, &direct), 0);
    list_of_engine(&range, &engine);
    ck_assert_uint_eq(direct.count, engine.count);
    ck_assert_uint_eq(direct.used, engine.used);
    if (direct.used > 0)
        ck_assert_mem_eq(direct.bytes, engine.bytes, direct.used);
    free(direct.bytes);
    free(engine.bytes);
}

/* Few different bytes, so that keys begin alike, and are the beginning of others. */
static struct kv_slice draw_key(uint8_t *room, bool may_be_empty)
{
    static const uint8_t letters[] = {0, 1, 'a', 254, 255};
    size_t size = 0;
    if (random_below(&ordered.random, 40) == 0) {
        memset(room, 'l', RANGE_LONG_BYTES);
        size = RANGE_LONG_BYTES;
    }
    for (unsigned more = (unsigned)random_below(&ordered.random, 6); more > 0; more--)
        room[size++] = letters[random_below(&ordered.random, sizeof letters)];
    if (size == 0 && !may_be_empty)
        room[size++] = 'a';
    return kv_slice(room, size);
}

static void change_keys(unsigned times)
{
    static uint8_t room[RANGE_LONG_BYTES + 8];
    struct kvstore_put_options expiring = {.expiry_ms = clock_realtime_ms() + 2};
    while (times-- > 0) {
        struct kv_slice key = draw_key(room, false), value = kv_slice_from_string("value");
        unsigned percent = (unsigned)random_below(&ordered.random, 100);
        enum kv_status status = percent < 60 ? kvstore_put(ordered.store, key, value, NULL, NULL)
                                : percent < 65
                                    ? kvstore_put(ordered.store, key, value, &expiring, NULL)
                                    : kvstore_delete(ordered.store, key, 0, NULL);
        ck_assert(status == KV_OK || status == KV_NOT_FOUND);
    }
}

static void compare_drawn_range(void)
{
    static uint8_t rooms[3][RANGE_LONG_BYTES + 8];
    static const uint32_t limits[] = {1, 3, 40, 0};
    struct direct_range range = {.reverse = random_below(&ordered.random, 2) == 0,
                                 .behind_from = random_below(&ordered.random, 2) == 0,
                                 .keys_only = random_below(&ordered.random, 2) == 0,
                                 .limit = limits[random_below(&ordered.random, 4)]};
    if (random_below(&ordered.random, 2) == 0)
        range.from = draw_key(rooms[0], true);
    if (random_below(&ordered.random, 2) == 0)
        range.to = draw_key(rooms[1], true);
    if (random_below(&ordered.random, 2) == 0) {
        range.prefix = draw_key(rooms[2], true);
        range.prefix.size = random_below(&ordered.random, range.prefix.size + 1);
    }
    compare_ranges(range);
}

START_TEST(direct_ranges_are_those_of_the_engine)
{
    begin_ordered(_i < 2 ? 1 : 3, _i % 2 == 0 ? CLIENTK_DIRECT_MAP : CLIENTK_DIRECT_PREAD, true);
    for (unsigned round = 0; round < 4; round++) {
        change_keys(300);
        clock_sleep_ms(3); /* what expires has expired */
        compare_ranges((struct direct_range){.reverse = false});
        compare_ranges((struct direct_range){.reverse = true, .limit = 50});
        for (unsigned i = 0; i < 20; i++)
            compare_drawn_range();
        if (round % 3 == 1)
            ck_assert_int_eq(kvstore_compact(ordered.store, 0, NULL), KV_OK);
    }
    end_ordered();
}
END_TEST

static int compare_hashes(const void *a, const void *b)
{
    const uint64_t *one = a, *other = b;
    return (*one > *other) - (*one < *other);
}

/* Keys that have one hash in the index, and so in the tree. */
START_TEST(keys_of_one_hash_are_told_apart)
{
    static uint64_t hashes[HASHED_KEYS];
    char key[16];
    unsigned pairs = 0;
    begin_ordered(1, CLIENTK_DIRECT_MAP, true);
    for (uint64_t i = 0; i < HASHED_KEYS; i++) {
        snprintf(key, sizeof key, "%08x", (unsigned)(i * UINT64_C(2654435761)));
        hashes[i] = (uint64_t)keyhash_index(
                        keyhash(&ordered.store->context.hash_key, kv_slice_from_string(key)))
                        << 32 |
                    i;
    }
    qsort(hashes, HASHED_KEYS, sizeof hashes[0], compare_hashes);
    for (unsigned i = 1; i < HASHED_KEYS; i++) {
        bool same = hashes[i] >> 32 == hashes[i - 1] >> 32;
        pairs += same;
        for (unsigned k = i - 1; same && k <= i; k++) {
            snprintf(key, sizeof key, "%08x",
                     (unsigned)((hashes[k] & UINT32_MAX) * UINT64_C(2654435761)));
            must_put(ordered.store, key, "value");
        }
    }
    for (unsigned limit = 0; limit < 4; limit++) {
        compare_ranges((struct direct_range){.limit = limit});
        compare_ranges((struct direct_range){.limit = limit, .reverse = true});
    }
    ck_assert_uint_gt(pairs, 0);
    end_ordered();
}
END_TEST

START_TEST(without_an_order_ranges_go_by_message)
{
    struct clientk_result result = {.number = 0};
    struct direct_range range = {.limit = 1};
    begin_ordered(2, CLIENTK_DIRECT_MAP, false);
    must_put(ordered.store, "a", "value");
    ck_assert(!direct_range_page(&ordered.direct, &ordered.reader, &range, &result));
    clientk_value_free(&result.value);
    end_ordered();
}
END_TEST

START_TEST(a_damaged_record_is_asked_for_by_message)
{
    struct clientk_result result = {.number = 0};
    struct direct_range range = {.keys_only = _i == 1};
    begin_ordered(1, CLIENTK_DIRECT_MAP, true);
    must_put(ordered.store, "a", "value");
    ck_assert(direct_range_page(&ordered.direct, &ordered.reader, &range, &result));
    store_file_flip(ordered.dir, 4096 + RECORD_HEADER_BYTES + (_i == 1 ? 0 : 1)); /* key, value */
    ck_assert(!direct_range_page(&ordered.direct, &ordered.reader, &range, &result));
    clientk_value_free(&result.value);
    end_ordered();
}
END_TEST

/* The index is taken over; the order that was left is forgotten before its memory is used again. */
START_TEST(an_order_is_built_anew_after_a_kill)
{
    int told[2];
    char byte;
    ck_assert_int_eq(pipe(told), 0);
    set_options(2, true);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        open_ordered(CLIENTK_DIRECT_MAP);
        change_keys(600);
        if (write(told[1], "x", 1) != 1)
            _exit(1);
        pause();
        _exit(0);
    }
    ck_assert_int_eq(read(told[0], &byte, 1), 1);
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    open_ordered(CLIENTK_DIRECT_MAP);
    compare_ranges((struct direct_range){.reverse = false});
    change_keys(600);
    clock_sleep_ms(3);
    compare_ranges((struct direct_range){.reverse = true, .limit = 7});
    end_ordered();
}
END_TEST

/* While others write --------------------------------------------------------------------------- */

static struct kv_slice staying_key(char room[32], unsigned number)
{
    snprintf(room, 32, "key %05u stays", number * 7);
    return kv_slice_from_string(room);
}

static void *come_and_go(void *unused)
{
    struct random_state random;
    (void)unused;
    random_seed(&random, 5);
    for (unsigned i = 0; !atomic_load(&ordered.stop); i++) {
        char key[32];
        unsigned number = (unsigned)random_below(&random, 4000);
        snprintf(key, sizeof key, "key %05u", number);
        if (random_below(&random, 2) == 0)
            must_put(ordered.store, key, "value");
        else
            kvstore_delete(ordered.store, kv_slice_from_string(key), 0, NULL);
        if (i % 5000 == 4999) /* overwrites too */
            must_put(ordered.store, "key 00000 stays", "value");
    }
    return NULL;
}

static void *compact_often(void *unused)
{
    (void)unused;
    while (!atomic_load(&ordered.stop)) {
        for (uint32_t number = 0; number < ordered.options.datafiles; number++)
            ck_assert_int_eq(kvstore_compact(ordered.store, number, NULL), KV_OK);
        clock_sleep_ms(20);
    }
    return NULL;
}

/* Each key that stays comes once, and keys are in order. */
static unsigned check_listed(const struct listed_keys *list, bool reverse)
{
    unsigned staying = 0;
    struct kv_slice before = {.size = 0};
    for (size_t at = 0; at < list->used;) {
        uint16_t size;
        memcpy(&size, list->bytes + at, sizeof size);
        struct kv_slice key = kv_slice(list->bytes + at + sizeof size, size);
        int order = before.size > 0 ? key_compare(before, key) : 0;
        ck_assert_msg(before.size == 0 || (reverse ? order > 0 : order < 0), "out of order");
        staying += size > 9;
        before = key;
        at += sizeof size + size;
    }
    return staying;
}

START_TEST(ranges_beside_writers_miss_nothing)
{
    pthread_t threads[3];
    uint64_t pages = 0, asked = 0;
    begin_ordered(_i == 0 ? 1 : 3, _i == 2 ? CLIENTK_DIRECT_PREAD : CLIENTK_DIRECT_MAP, true);
    for (unsigned i = 0; i < STAYING_KEYS; i++) {
        char key[32];
        staying_key(key, i);
        must_put(ordered.store, key, "value");
    }
    pthread_create(&threads[0], NULL, come_and_go, NULL);
    pthread_create(&threads[1], NULL, come_and_go, NULL);
    pthread_create(&threads[2], NULL, compact_often, NULL);
    uint64_t until_ms = clock_monotonic_coarse_ms() + RANGE_RUN_MS;
    while (clock_monotonic_coarse_ms() < until_ms) {
        struct listed_keys list = {.used = 0};
        struct direct_range range = {.reverse = random_below(&ordered.random, 2) == 0,
                                     .keys_only = random_below(&ordered.random, 2) == 0,
                                     .limit = 1 + (uint32_t)random_below(&ordered.random, 60),
                                     .prefix = kv_slice_from_string("key ")};
        asked += list_direct(&ordered.reader, range, &list);
        pages += list.count / range.limit;
        ck_assert_uint_eq(check_listed(&list, range.reverse), STAYING_KEYS);
        free(list.bytes);
    }
    atomic_store(&ordered.stop, true);
    for (unsigned i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    /* How many depends on what the machine has for the writers. */
    ck_assert_msg(pages > 0, "no page was read in place, %lu were asked for", (unsigned long)asked);
    end_ordered();
}
END_TEST

/* Overwrites both keys of pairs, each time with another value. */
static void *overwrite_pairs(void *unused)
{
    (void)unused;
    for (unsigned i = 0; !atomic_load(&ordered.stop); i++) {
        char keys[2][32], value[32];
        struct kvstore_step steps[2];
        struct kvstore_step_result results[2];
        snprintf(value, sizeof value, "%u", i);
        for (unsigned side = 0; side < 2; side++) {
            snprintf(keys[side], sizeof keys[side], "pair %03u %u", i % PAIRS, side);
            steps[side] = (struct kvstore_step){.kind = KVSTORE_STEP_PUT,
                                                .key = kv_slice_from_string(keys[side]),
                                                .value = kv_slice_from_string(value)};
        }
        struct kvstore_transaction both = {.then = steps, .then_count = 2};
        ck_assert_int_eq(kvstore_transact(ordered.store, &both, results, NULL), KV_OK);
    }
    return NULL;
}

/* The entries of a page. */
struct pairs_seen {
    unsigned entries; /* of the range so far */
    char key[32], value[32];
};

static bool see_half(void *context, const struct clientk_entry *entry)
{
    struct pairs_seen *seen = context;
    char key[32] = "", value[32] = "", expected[32];
    memcpy(key, entry->key.data, entry->key.size);
    memcpy(value, entry->value.data, entry->value.size);
    snprintf(expected, sizeof expected, "pair %03u %u", seen->entries / 2, seen->entries % 2);
    ck_assert_str_eq(key, expected);
    if (seen->entries % 2 == 1 && seen->key[0] != '\0')
        ck_assert_str_eq(value, seen->value);
    memcpy(seen->key, key, sizeof key);
    memcpy(seen->value, value, sizeof value);
    seen->entries++;
    return true;
}

START_TEST(a_page_beside_transactions_ends_where_it_is_sure)
{
    pthread_t thread;
    struct clientk_result result = {.number = 0};
    unsigned asked = 0, given = 0;
    begin_ordered(3, CLIENTK_DIRECT_MAP, true);
    for (unsigned i = 0; i < 2 * PAIRS; i++) {
        char key[32];
        snprintf(key, sizeof key, "pair %03u %u", i / 2, i % 2);
        must_put(ordered.store, key, "-");
    }
    pthread_create(&thread, NULL, overwrite_pairs, NULL);
    for (uint64_t until_ms = clock_monotonic_coarse_ms() + RANGE_RUN_MS;
         clock_monotonic_coarse_ms() < until_ms;) {
        struct direct_range range = {.limit = 0};
        struct pairs_seen seen = {.entries = 0};
        for (bool more = true; more;) {
            if (!direct_range_page(&ordered.direct, &ordered.reader, &range, &result)) {
                asked++;
                continue;
            }
            given++;
            more = result.number == 1;
            seen.key[0] = '\0'; /* another page is of another time */
            clientk_read_page(&result.value, see_half, &seen);
            range.from = kv_slice_from_string(seen.key);
            range.behind_from = true;
        }
        ck_assert_uint_eq(seen.entries, 2 * PAIRS);
    }
    atomic_store(&ordered.stop, true);
    pthread_join(thread, NULL);
    clientk_value_free(&result.value);
    end_ordered();
    ck_assert_msg(given > 0, "no page was read, %u were asked for", asked);
}
END_TEST

#define FEW_PAIRS 40 /* a page beside which LOOKS_TO_LOSE is little, and 8 KiB are much */

/* A page of few bytes is not cut, so that all of it shows the transactions as of one moment. */
START_TEST(a_small_page_beside_transactions_is_whole)
{
    pthread_t thread;
    struct clientk_result result = {.number = 0};
    unsigned given = 0;
    begin_ordered(3, CLIENTK_DIRECT_MAP, true);
    for (unsigned i = 0; i < 2 * FEW_PAIRS; i++) {
        char key[32];
        snprintf(key, sizeof key, "pair %03u %u", i / 2, i % 2);
        must_put(ordered.store, key, "-");
    }
    pthread_create(&thread, NULL, overwrite_pairs, NULL);
    for (uint64_t until_ms = clock_monotonic_coarse_ms() + RANGE_RUN_MS;
         clock_monotonic_coarse_ms() < until_ms;) {
        char end[] = "pair 040";
        const struct direct_range range = {.to = kv_slice_from_string(end)};
        struct pairs_seen seen = {.entries = 0};
        if (!direct_range_page(&ordered.direct, &ordered.reader, &range, &result))
            continue;
        given++;
        clientk_read_page(&result.value, see_half, &seen);
        ck_assert_int_eq(result.number, 0);
        ck_assert_uint_eq(seen.entries, 2 * FEW_PAIRS);
    }
    atomic_store(&ordered.stop, true);
    pthread_join(thread, NULL);
    clientk_value_free(&result.value);
    end_ordered();
    ck_assert_uint_gt(given, 0);
}
END_TEST

TEST_SUITE(clientk_direct_range)
{
    TCase *tcase = tcase_create("direct_range");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, direct_ranges_are_those_of_the_engine, 0, 4);
    tcase_add_test(tcase, a_page_beside_transactions_ends_where_it_is_sure);
    tcase_add_test(tcase, a_small_page_beside_transactions_is_whole);
    tcase_add_test(tcase, keys_of_one_hash_are_told_apart);
    tcase_add_test(tcase, without_an_order_ranges_go_by_message);
    tcase_add_loop_test(tcase, a_damaged_record_is_asked_for_by_message, 0, 2);
    tcase_add_test(tcase, an_order_is_built_anew_after_a_kill);
    tcase_add_loop_test(tcase, ranges_beside_writers_miss_nothing, 0, 3);
    suite_add_tcase(suite, tcase);
}
