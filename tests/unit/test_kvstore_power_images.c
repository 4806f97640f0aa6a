/* What a power failure may leave, made from outside: each page of each file is as it was when a
 * sync was over, some time later, or at the end. Of each file a beginning of its writes is found,
 * which has all that the sync promised; of a transaction all or nothing. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "common/memory/cursor.h"
#include "tests/support/other_boot.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_case.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define FILES            2u
#define KEYS             10u
#define WRITES_MOST      400u
#define VALUE_BYTES      70000u
#define IMAGE_PAGE_BYTES 4096u
#define ROUNDS           6  /* stores for each way to sync */
#define IMAGES           12 /* of each store */

struct noted_write {
    unsigned key;
    bool is_there; /* else a deletion */
    size_t value_bytes;
    uint64_t version;
    unsigned partner; /* the other write of its transaction; itself: it is alone */
};

static struct noted_write writes[WRITES_MOST];
static unsigned write_count;
static unsigned promised; /* so many writes are before the sync */
static uint64_t random_state;
static struct image synced, later, last, mixed;

static uint32_t below(uint32_t bound)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33) % bound;
}

static struct kv_slice key_of(unsigned key)
{
    static const char names[] = "abcdefghij";
    return kv_slice(&names[key], 1);
}

static struct kv_slice value_of(unsigned number, size_t bytes, uint8_t buffer[VALUE_BYTES])
{
    for (size_t at = 0; at < bytes; at += sizeof(uint32_t))
        store_u32(buffer + at, number + 1);
    return kv_slice(buffer, bytes);
}

static size_t draw_size(void)
{
    static const size_t sizes[] = {8, 3000, 17000, 20000, 20000, 66000};
    return sizes[below(sizeof sizes / sizeof *sizes)];
}

static void write_one(void)
{
    static uint8_t buffer[VALUE_BYTES];
    struct noted_write *noted = &writes[write_count];
    struct kvstore_written written;
    *noted = (struct noted_write){below(KEYS), below(8) != 0, draw_size(), 0, write_count};
    enum kv_status status =
        noted->is_there
            ? kvstore_put(store, key_of(noted->key),
                          value_of(write_count, noted->value_bytes, buffer), NULL, &written)
            : kvstore_delete(store, key_of(noted->key), 0, &written);
    if (status == KV_NOT_FOUND)
        return;
    ck_assert_int_eq(status, KV_OK);
    noted->version = written.version;
    write_count++;
}

/* Two puts as one. */
static void transact(void)
{
    static uint8_t buffers[2][VALUE_BYTES];
    struct kvstore_step steps[2];
    struct kvstore_step_result results[2];
    unsigned first = below(KEYS), second = (first + 1 + below(KEYS - 1)) % KEYS;
    for (unsigned i = 0; i < 2; i++) {
        struct noted_write *noted = &writes[write_count + i];
        *noted = (struct noted_write){i == 0 ? first : second, true, draw_size(), 0,
                                      write_count + 1 - i};
        steps[i] = (struct kvstore_step){
            .kind = KVSTORE_STEP_PUT,
            .key = key_of(noted->key),
            .value = value_of(write_count + i, noted->value_bytes, buffers[i])};
    }
    const struct kvstore_transaction transaction = {.then = steps, .then_count = 2};
    struct kvstore_transacted told;
    ck_assert_int_eq(kvstore_transact(store, &transaction, results, &told), KV_OK);
    for (unsigned i = 0; i < 2; i++)
        writes[write_count++].version = results[i].written.version;
}

static void write_some(unsigned count)
{
    while (count-- > 0 && write_count + 2 <= WRITES_MOST)
        if (below(6) == 0)
            transact();
        else
            write_one();
}

/* A file of the mixed image has the size that it has last. */
static void mix_file(const struct image_file *to)
{
    struct image *images[] = {&synced, &later, &last};
    for (size_t at = 0; at < to->size; at += IMAGE_PAGE_BYTES) {
        const struct image_file *from = image_find(images[below(3)], to->name);
        size_t bytes = to->size - at < IMAGE_PAGE_BYTES ? to->size - at : IMAGE_PAGE_BYTES;
        size_t there = !from || from->size <= at ? 0 : from->size - at;
        memset(to->bytes + at, 0, bytes);
        if (there > 0)
            memcpy(to->bytes + at, from->bytes + at, there < bytes ? there : bytes);
    }
}

/* The writes of each file that are found: up to one, in the order of versions. */
struct found_cut {
    unsigned end[FILES];
};

/* The last write of the key before `end`; write_count: none. */
static unsigned last_before(unsigned key, unsigned end)
{
    while (end-- > 0)
        if (writes[end].key == key)
            return end;
    return write_count;
}

static bool is_found(struct kvstore *copy, unsigned key, unsigned number)
{
    static uint8_t value[VALUE_BYTES], wanted[VALUE_BYTES];
    struct kvstore_entry entry;
    enum kv_status status = kvstore_get(copy, key_of(key), value, sizeof value, &entry);
    if (number == write_count || !writes[number].is_there)
        return status == KV_NOT_FOUND;
    const struct noted_write *noted = &writes[number];
    if (status != KV_OK || entry.version != noted->version ||
        entry.value_bytes != noted->value_bytes)
        return false;
    value_of(number, noted->value_bytes, wanted);
    ck_assert_mem_eq(value, wanted, noted->value_bytes);
    return true;
}

static bool explains_file(struct kvstore *copy, uint32_t file, unsigned end)
{
    for (unsigned key = 0; key < KEYS; key++)
        if (kvstore_file_of(copy, key_of(key)) == file &&
            !is_found(copy, key, last_before(key, end)))
            return false;
    return true;
}

static bool has_whole_transactions(struct kvstore *copy, const struct found_cut *cut)
{
    for (unsigned i = 0; i < write_count; i++) {
        unsigned other = writes[i].partner;
        bool is_in = i < cut->end[kvstore_file_of(copy, key_of(writes[i].key))];
        bool other_is_in = other < cut->end[kvstore_file_of(copy, key_of(writes[other].key))];
        if (is_in != other_is_in)
            return false;
    }
    return true;
}

static bool is_explained(struct kvstore *copy)
{
    static bool explains[FILES][WRITES_MOST + 1];
    for (uint32_t file = 0; file < FILES; file++)
        for (unsigned end = promised; end <= write_count; end++)
            explains[file][end] = explains_file(copy, file, end);
    struct found_cut cut;
    for (cut.end[0] = promised; cut.end[0] <= write_count; cut.end[0]++)
        for (cut.end[1] = promised; cut.end[1] <= write_count; cut.end[1]++)
            if (explains[0][cut.end[0]] && explains[1][cut.end[1]] &&
                has_whole_transactions(copy, &cut))
                return true;
    return false;
}

static void check_images(const struct kvstore_options *options, uint64_t seed)
{
    for (unsigned i = 0; i < IMAGES; i++) {
        for (size_t file = 0; file < mixed.count; file++)
            mix_file(&mixed.files[file]);
        image_put(&mixed, dir);
        other_boot_install();
        store = must_open(dir, options);
        other_boot_clear();
        ck_assert_msg(is_explained(store), "seed %llu, image %u", (unsigned long long)seed, i);
        must_close(store);
        store = NULL;
    }
}

START_TEST(a_power_failure_leaves_a_beginning_of_each_file)
{
    const struct kvstore_options options = {.create = true,
                                            .datafiles = FILES,
                                            .compact_dead_percent = 100,
                                            .durability = (enum kvstore_durability)(_i / ROUNDS),
                                            .sync_interval_ms = 3600000};
    uint64_t seed = random_state = (uint64_t)_i;
    store = must_open(dir, &options);
    write_count = 0;
    write_some(20 + below(60));
    ck_assert_int_eq(kvstore_sync(store), KV_OK);
    promised = write_count;
    image_take(&synced, dir);
    write_some(1 + below(80));
    image_take(&later, dir);
    write_some(1 + below(80));
    image_take(&last, dir);
    image_take(&mixed, dir);
    must_close(store);
    store = NULL;
    check_images(&options, seed);
}
END_TEST

static void free_images(void)
{
    image_free(&synced);
    image_free(&later);
    image_free(&last);
    image_free(&mixed);
}

TEST_SUITE(kvstore_power_images)
{
    TCase *tests = tcase_create("power images");
    tcase_set_timeout(tests, 300);
    store_case_add(tests);
    tcase_add_checked_fixture(tests, NULL, free_images);
    tcase_add_loop_test(tests, a_power_failure_leaves_a_beginning_of_each_file, 0,
                        (KVSTORE_SYNC_ALWAYS + 1) * ROUNDS);
    suite_add_tcase(suite, tests);
}
