/* Extents whose content was replaced get another one: when, what is never written over, and what a
 * crash, a power failure, a compaction and a follower find then. */
#include "kvstore/table/free_extents.h"

#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "kvstore/api/store.h"
#include "kvstore/format/record.h"
#include "kvstore/log/fileio.h"
#include "kvstore/table/placing.h"
#include "tests/support/one_file_store.h"
#include "tests/support/other_boot.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define KEY(text)    kv_slice_from_string(text)
#define SPARED_BYTES ((size_t)(4 * PLACE_MIN_BYTES + 1000))

/* A value pointer and what stands around it. */
#define SMALL_BYTES UINT64_C(1000)

static void put_spared(struct kvstore *opened, const char *key, char letter)
{
    static char value[SPARED_BYTES];
    memset(value, letter, sizeof value);
    ck_assert_int_eq(kvstore_put(opened, KEY(key), kv_slice(value, sizeof value), NULL, NULL),
                     KV_OK);
}

static void check_spared(struct kvstore *opened, const char *key, char letter)
{
    static char value[SPARED_BYTES], wanted[SPARED_BYTES];
    struct kvstore_entry entry;
    ck_assert_int_eq(kvstore_get(opened, KEY(key), value, sizeof value, &entry), KV_OK);
    ck_assert_uint_eq(entry.value_bytes, SPARED_BYTES);
    memset(wanted, letter, sizeof wanted);
    ck_assert_int_eq(memcmp(value, wanted, sizeof value), 0);
}

static uint64_t tail_of_log(void)
{
    return store->context.files[0].current->log.tail;
}

/* Returns how many new extents the put takes. */
static unsigned extents_of_put(const char *key, char letter)
{
    uint64_t before = tail_of_log();
    put_spared(store, key, letter);
    return (unsigned)((tail_of_log() - before) / SPARED_BYTES);
}

static struct kvstore_options with_sync(enum kvstore_durability durability)
{
    struct kvstore_options options = one_file;
    options.durability = durability;
    options.sync_interval_ms = 3600000;
    return options;
}

static void reopen_unsynced(void)
{
    const struct kvstore_options options = with_sync(KVSTORE_SYNC_NONE);
    must_reopen(&options);
}

static void check_copy(char large, char other)
{
    struct kvstore *copy = open_copy();
    check_spared(copy, "large", large);
    check_spared(copy, "other", other);
    ck_assert_str_eq(get_text(copy, "small"), "there");
    must_close(copy);
}

/* Two keys take turns in three extents, read in each way; a kill and a close leave what counts. */
START_TEST(an_extent_is_used_again)
{
    struct kvstore_options options = with_sync(KVSTORE_SYNC_NONE);
    options.io = (enum kvstore_io)_i;
    must_reopen(&options);
    must_put(store, "small", "there");
    put_spared(store, "large", 'a');
    put_spared(store, "other", 'A');
    ck_assert_uint_eq(extents_of_put("large", 'b'), 1);
    for (char i = 1; i < 20; i++) {
        ck_assert_uint_eq(extents_of_put("other", (char)('A' + i)), 0);
        ck_assert_uint_eq(extents_of_put("large", (char)('b' + i)), 0);
        check_spared(store, "other", (char)('A' + i));
        check_spared(store, "large", (char)('b' + i));
        check_copy((char)('b' + i), (char)('A' + i));
    }
    must_reopen(&options); /* from the checkpoint */
    check_spared(store, "large", 'b' + 19);
    must_close(store);
    store = NULL;
    store_checkpoint_remove(dir);
    must_reopen(&options); /* from the log */
    check_spared(store, "large", 'b' + 19);
    check_spared(store, "other", 'A' + 19);
    ck_assert_uint_eq(extents_of_put("large", 'z'), 1); /* what was there at the open stays */
    ck_assert_uint_eq(extents_of_put("large", 'y'), 1);
    ck_assert_uint_eq(extents_of_put("large", 'x'), 0);
}
END_TEST

static void delete_large(void)
{
    ck_assert_int_eq(kvstore_delete(store, KEY("large"), 0, NULL), KV_OK);
}

/* A value that is a little smaller fits, one that is much smaller does not. */
START_TEST(an_extent_is_for_its_size)
{
    static const char value[2 * SPARED_BYTES + 8];
    const size_t sizes[] = {2 * SPARED_BYTES + 8, 2 * SPARED_BYTES / 5 * 4 - 200,
                            2 * SPARED_BYTES / 5 * 4 + 200};
    reopen_unsynced();
    ck_assert_int_eq(
        kvstore_put(store, KEY("large"), kv_slice(value, 2 * SPARED_BYTES), NULL, NULL), KV_OK);
    delete_large();
    for (int i = 0; i < 3; i++) {
        uint64_t before = tail_of_log();
        ck_assert_int_eq(
            kvstore_put(store, KEY(numbered("key", i)), kv_slice(value, sizes[i]), NULL, NULL),
            KV_OK);
        ck_assert_int_eq(tail_of_log() - before > SMALL_BYTES, i < 2);
    }
}
END_TEST

/* However often the disk is synced: what no sync has promised is written over at once, and what one
 * has when what replaced it is on disk. */
START_TEST(what_was_promised_stays)
{
    const struct kvstore_options options = with_sync((enum kvstore_durability)_i);
    must_reopen(&options);
    put_spared(store, "large", 'a');
    ck_assert_int_eq(kvstore_sync(store), KV_OK);
    ck_assert_uint_eq(extents_of_put("large", 'b'), 1);
    ck_assert_uint_eq(extents_of_put("large", 'c'), 1); /* a waits */
    ck_assert_uint_eq(extents_of_put("large", 'd'), 0); /* b was not promised */
    ck_assert_int_eq(kvstore_sync(store), KV_OK);
    ck_assert_uint_eq(extents_of_put("large", 'e'), 0);
    ck_assert_uint_eq(extents_of_put("other", 'A'), 0); /* what has replaced a is on disk */
    ck_assert_uint_eq(extents_of_put("large", 'f'), 1); /* d waits, and e was there until now */
    check_spared(store, "large", 'f');
    check_spared(store, "other", 'A');
}
END_TEST

static void read_held(struct kvstore_hold *hold, uint8_t *bytes, size_t size)
{
    for (size_t at = 0, got; at < size; at += got) {
        ck_assert_int_eq(kvstore_hold_read(hold, 0, at, bytes + at, size - at, &got), KV_OK);
        ck_assert_uint_gt(got, 0);
    }
}

/* A backup copies the log up to where it ended when the backup began, and the next one copies on
 * from there. */
START_TEST(a_held_log_stays)
{
    static uint8_t first[4 * SPARED_BYTES], second[4 * SPARED_BYTES];
    struct kvstore_hold *hold;
    struct kvstore_held_file file;
    reopen_unsynced();
    put_spared(store, "large", 'a');
    put_spared(store, "large", 'b');
    ck_assert_int_eq(kvstore_hold_begin(store, &hold, NULL), KV_OK);
    kvstore_hold_file(hold, 0, &file);
    ck_assert_uint_lt(file.bytes, sizeof first);
    read_held(hold, first, file.bytes);
    ck_assert_uint_eq(extents_of_put("large", 'c'), 1);
    ck_assert_uint_eq(extents_of_put("large", 'd'), 1);
    ck_assert_uint_eq(extents_of_put("large", 'e'), 0);
    read_held(hold, second, file.bytes);
    ck_assert_int_eq(memcmp(first + 4096, second + 4096, file.bytes - 4096), 0);
    kvstore_hold_end(hold);
    ck_assert_uint_eq(extents_of_put("large", 'f'), 0);
    ck_assert_int_eq(kvstore_hold_begin(store, &hold, NULL), KV_OK);
    read_held(hold, second, file.bytes);
    ck_assert_int_eq(memcmp(first + 4096, second + 4096, file.bytes - 4096), 0);
    kvstore_hold_end(hold);
}
END_TEST

static bool take_note(void *context, const struct kvstore_change *change)
{
    unsigned *count = context;
    (void)change;
    ++*count;
    return true;
}

static uint64_t spare_bytes(void)
{
    struct kvstore_file_statistics told = total_statistics(store);
    ck_assert_uint_le(told.spare_bytes, told.dead_bytes);
    return told.spare_bytes;
}

/* What was replaced or deleted is told until it gets another content, or never will. */
START_TEST(spare_bytes_are_told)
{
    struct kvstore_hold *hold;
    reopen_unsynced();
    put_spared(store, "large", 'a');
    ck_assert_uint_eq(spare_bytes(), 0);
    put_spared(store, "large", 'b');
    uint64_t one_bytes = spare_bytes();
    ck_assert_uint_gt(one_bytes, SPARED_BYTES);
    ck_assert_uint_lt(one_bytes, SPARED_BYTES + 100);
    ck_assert_uint_eq(extents_of_put("large", 'c'), 0); /* one is taken, and one becomes free */
    ck_assert_uint_eq(spare_bytes(), one_bytes);
    ck_assert_uint_eq(extents_of_put("other", 'A'), 0);
    ck_assert_uint_eq(spare_bytes(), 0);
    delete_large();
    ck_assert_uint_eq(spare_bytes(), one_bytes);
    ck_assert_int_eq(kvstore_hold_begin(store, &hold, NULL), KV_OK);
    ck_assert_uint_eq(spare_bytes(), 0);
    kvstore_hold_end(hold);
    put_spared(store, "other", 'B'); /* A is before what was held */
    ck_assert_uint_eq(spare_bytes(), 0);
    put_spared(store, "other", 'C');
    ck_assert_uint_eq(spare_bytes(), one_bytes);
    must_compact();
    ck_assert_uint_eq(spare_bytes(), 0);
}
END_TEST

/* Who follows sees each value; who comes back after that sees that some are gone. */
START_TEST(who_follows_misses_nothing)
{
    struct kvstore_position position;
    unsigned count = 0;
    bool at_end;
    reopen_unsynced();
    put_spared(store, "large", 'a');
    put_spared(store, "large", 'b');
    ck_assert_uint_eq(extents_of_put("large", 'c'), 0);
    ck_assert_int_eq(kvstore_changes_now(store, 0, &position), KV_OK);
    for (int i = 'd'; i < 'h'; i++)
        ck_assert_uint_eq(extents_of_put("large", (char)i), 1);
    ck_assert_int_eq(kvstore_changes(store, 0, &position, KEY(""), 10, take_note, &count, &at_end),
                     KV_OK);
    ck_assert_uint_eq(count, 4);
}
END_TEST

/* What a transaction replaces, too. */
START_TEST(what_a_transaction_replaces_is_used_again)
{
    const struct kvstore_step then[] = {
        {.kind = KVSTORE_STEP_DELETE, .key = KEY("large")},
        {.kind = KVSTORE_STEP_PUT, .key = KEY("small"), .value = KEY("there")}};
    const struct kvstore_transaction transaction = {.then = then, .then_count = 2};
    struct kvstore_step_result results[2];
    struct kvstore_transacted told;
    bool is_promised = _i == 1;
    reopen_unsynced();
    put_spared(store, "large", 'a');
    if (is_promised)
        ck_assert_int_eq(kvstore_sync(store), KV_OK);
    ck_assert_int_eq(kvstore_transact(store, &transaction, results, &told), KV_OK);
    ck_assert_uint_eq(extents_of_put("large", 'b'), is_promised);
    ck_assert_int_eq(kvstore_sync(store), KV_OK);
    ck_assert_uint_eq(extents_of_put("other", 'A'), !is_promised);
}
END_TEST

/* A compaction passes superseded pointers, and what it has copied gets another content, too. */
START_TEST(a_compaction_passes_superseded_pointers)
{
    reopen_unsynced();
    must_put(store, "small", "there");
    put_spared(store, "other", 'A');
    for (int i = 'a'; i < 'g'; i++)
        put_spared(store, "large", (char)i);
    must_compact();
    check_spared(store, "large", 'f');
    check_copy('f', 'A');
    ck_assert_uint_lt(tail_of_log(), 3 * SPARED_BYTES);
    ck_assert_uint_eq(extents_of_put("large", 'g'), 1);
    ck_assert_int_eq(kvstore_sync(store), KV_OK); /* what a compaction has synced was promised */
    ck_assert_uint_eq(extents_of_put("other", 'B'), 0);
    check_copy('g', 'B');
}
END_TEST

/* Damage in a content that counts is damage; in one that was replaced it is not. */
START_TEST(damage_counts_where_the_content_does)
{
    bool of_live = _i == 1;
    reopen_unsynced();
    put_spared(store, "large", 'a');
    uint64_t first = tail_of_log() - SPARED_BYTES / 2;
    put_spared(store, "large", 'b');
    uint64_t second = tail_of_log() - SPARED_BYTES / 2;
    must_close(store);
    store = NULL;
    store_checkpoint_remove(dir);
    store_file_flip(dir, (off_t)(of_live ? second : first));
    struct kv_error error = {0};
    enum kv_status status = kvstore_open(dir, &one_file, &store, &error);
    ck_assert_int_eq(status, of_live ? KV_CORRUPT : KV_OK);
    if (!of_live)
        check_spared(store, "large", 'b');
}
END_TEST

/* Fills the log's end, from `at` on, with zeros, as if it had never got to the disk. */
static void lose_end(const char *in, uint64_t at)
{
    char path[STORE_DIR_BYTES + 16];
    snprintf(path, sizeof path, "%s/data.0000", in);
    ck_assert_int_eq(truncate(path, (off_t)at), 0);
    ck_assert_int_eq(truncate(path, (off_t)(at + 4096)), 0);
}

/* A power failure that takes what replaced a value which is overwritten takes all from that value
 * on, and nothing that was promised (_i 1). Within one boot that is damage. */
START_TEST(a_power_failure_ends_the_log_there)
{
    struct image image;
    struct kv_error error = {0};
    struct kvstore *copy = NULL;
    reopen_unsynced();
    must_put(store, "small", "before");
    if (_i == 1) {
        put_spared(store, "large", 'p');
        ck_assert_int_eq(kvstore_sync(store), KV_OK);
    }
    put_spared(store, "large", 'a');
    put_spared(store, "other", 'A');
    must_put(store, "small", "there");
    uint64_t end = tail_of_log();
    delete_large();
    ck_assert_uint_eq(extents_of_put("other", 'B'), 0); /* where large was */
    image_take(&image, dir);
    image_put(&image, copy_dir);
    image_free(&image);
    lose_end(copy_dir, end);
    ck_assert_int_eq(kvstore_open(copy_dir, &one_file, &copy, &error), KV_CORRUPT);
    other_boot_install();
    ck_assert_msg(kvstore_open(copy_dir, &one_file, &copy, &error) == KV_OK, "%s", error.text);
    other_boot_clear();
    for (unsigned opens = 0; opens < 2; opens++) {
        if (_i == 1)
            check_spared(copy, "large", 'p');
        else
            ck_assert_int_eq(get_entry(copy, "large", NULL), KV_NOT_FOUND);
        ck_assert_int_eq(get_entry(copy, "other", NULL), KV_NOT_FOUND);
        ck_assert_str_eq(get_text(copy, "small"), "before");
        must_close(copy);
        store_checkpoint_remove(copy_dir);
        copy = must_open(copy_dir, &one_file);
    }
    must_close(copy);
}
END_TEST

/* Opens a copy of the files as after a power failure. Frees the image. */
static struct kvstore *open_in_other_boot(struct image *image)
{
    image_put(image, copy_dir);
    image_free(image);
    other_boot_install();
    struct kvstore *copy = must_open(copy_dir, &one_file);
    other_boot_clear();
    return copy;
}

/* Has a value of these letters never got to the disk. */
static void lose_value(struct image *image, char letter)
{
    char page[4096];
    struct image_file *log = image_find(image, "data.0000");
    memset(page, letter, sizeof page);
    uint8_t *at = memmem(log->bytes, log->size, page, sizeof page);
    ck_assert_ptr_nonnull(at);
    memset(at, 0, sizeof page);
}

/* Of a transaction whose large value was lost, together with the one that replaced it, nothing
 * counts. */
START_TEST(half_a_transaction_is_none)
{
    static char value[SPARED_BYTES];
    memset(value, 't', sizeof value);
    const struct kvstore_step large = {.kind = KVSTORE_STEP_PUT,
                                       .key = KEY("large"),
                                       .value = {value, sizeof value}},
                              small = {.kind = KVSTORE_STEP_PUT,
                                       .key = KEY("small"),
                                       .value = KEY("of it")};
    const struct kvstore_step then[] = {_i == 0 ? large : small, _i == 0 ? small : large};
    const struct kvstore_transaction transaction = {.then = then, .then_count = 2};
    struct kvstore_step_result results[2];
    struct kvstore_transacted told;
    struct image image;
    reopen_unsynced();
    put_spared(store, "other", 'A');
    put_spared(store, "other", 'B');
    put_spared(store, "other", 'C'); /* in the extent of A */
    must_put(store, "large", "before");
    must_put(store, "small", "before");
    ck_assert_int_eq(kvstore_transact(store, &transaction, results, &told), KV_OK);
    put_spared(store, "large", 'q');
    image_take(&image, dir);
    lose_value(&image, 't');
    lose_value(&image, 'q');
    struct kvstore *copy = open_in_other_boot(&image);
    ck_assert_str_eq(get_text(copy, "large"), "before");
    ck_assert_str_eq(get_text(copy, "small"), "before");
    must_close(copy);
}
END_TEST

/* Where the log ends before a transaction that has lost a value, another record of it may have
 * stood for a value that was lost as well. */
START_TEST(a_lost_transaction_replaces_nothing)
{
    static char value[SPARED_BYTES];
    memset(value, 't', sizeof value);
    const struct kvstore_step then[] = {
        {.kind = KVSTORE_STEP_PUT, .key = KEY("large"), .value = KEY("of it")},
        {.kind = KVSTORE_STEP_PUT, .key = KEY("other"), .value = {value, sizeof value}}};
    const struct kvstore_transaction transaction = {.then = then, .then_count = 2};
    struct kvstore_step_result results[2];
    struct image image;
    reopen_unsynced();
    must_put(store, "large", "before");
    put_spared(store, "large", 'q');
    ck_assert_int_eq(kvstore_transact(store, &transaction, results, NULL), KV_OK);
    image_take(&image, dir);
    lose_value(&image, 't');
    lose_value(&image, 'q');
    struct kvstore *copy = open_in_other_boot(&image);
    ck_assert_str_eq(get_text(copy, "large"), "before");
    ck_assert_int_eq(get_entry(copy, "other", NULL), KV_NOT_FOUND);
    must_close(copy);
}
END_TEST

/* The writes of large pieces wait until the test lets them go on. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool stops, is_stopped;
    bool was_passed; /* only the first write waits */
} gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static ssize_t write_at_gate(int fd, const void *data, size_t size, off_t offset)
{
    pthread_mutex_lock(&gate.mutex);
    if (gate.stops && !gate.was_passed && size >= PLACE_MIN_BYTES / 2) {
        gate.was_passed = gate.is_stopped = true;
        pthread_cond_broadcast(&gate.changed);
        while (gate.stops)
            pthread_cond_wait(&gate.changed, &gate.mutex);
    }
    pthread_mutex_unlock(&gate.mutex);
    return fileio_system.write_at(fd, data, size, offset);
}

static struct fileio gated;

static void close_gate(void)
{
    gated = fileio_system;
    gated.write_at = write_at_gate;
    gate.stops = true;
    gate.is_stopped = gate.was_passed = false;
    fileio = &gated;
}

static void await_gate(void)
{
    pthread_mutex_lock(&gate.mutex);
    while (!gate.is_stopped)
        pthread_cond_wait(&gate.changed, &gate.mutex);
    pthread_mutex_unlock(&gate.mutex);
}

static void open_gate(void)
{
    pthread_mutex_lock(&gate.mutex);
    gate.stops = false;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.mutex);
}

static void *put_other(void *argument)
{
    (void)argument;
    put_spared(store, "other", 'B');
    return NULL;
}

/* A kill in the middle of a copy leaves what counted before. */
START_TEST(a_kill_leaves_half_a_content)
{
    pthread_t thread;
    struct kvstore_options by_calls = with_sync(KVSTORE_SYNC_NONE);
    by_calls.io = KVSTORE_IO_PREAD;
    must_reopen(&by_calls);
    must_put(store, "small", "there");
    put_spared(store, "other", 'A');
    put_spared(store, "large", 'a');
    put_spared(store, "large", 'b');
    uint64_t before = tail_of_log();
    close_gate();
    ck_assert_int_eq(pthread_create(&thread, NULL, put_other, NULL), 0);
    await_gate();
    ck_assert_uint_eq(tail_of_log(), before); /* in the extent of a */
    check_copy('b', 'A');
    open_gate();
    pthread_join(thread, NULL);
    check_copy('b', 'B');
}
END_TEST

static void *append_suffix(void *argument)
{
    ck_assert_int_eq(kvstore_append(store, KEY("large"), KEY("suffix"), NULL, NULL), KV_OK);
    return argument;
}

/* What an append reads without the lock is not written over, though it was replaced meanwhile. */
START_TEST(what_is_read_is_not_written_over)
{
    pthread_t thread;
    struct kvstore_entry entry;
    static char value[SPARED_BYTES + 16];
    reopen_unsynced();
    put_spared(store, "large", 'a');
    close_gate();
    ck_assert_int_eq(pthread_create(&thread, NULL, append_suffix, NULL), 0);
    await_gate();
    delete_large();
    ck_assert_uint_eq(extents_of_put("other", 'A'), 1);
    open_gate();
    pthread_join(thread, NULL);
    ck_assert_int_eq(kvstore_get(store, KEY("large"), value, sizeof value, &entry), KV_OK);
    ck_assert_uint_eq(entry.value_bytes, strlen("suffix"));
    ck_assert_uint_eq(extents_of_put("third", 'A'), 0);
}
END_TEST

static atomic_uint_fast64_t bytes_read;

static ssize_t read_counted(int fd, void *to, size_t size, off_t offset)
{
    atomic_fetch_add(&bytes_read, size);
    return fileio_system.read_at(fd, to, size, offset);
}

/* An extent in which many contents have been costs a start no more than its last one. */
START_TEST(superseded_records_are_not_read_with_what_they_named)
{
    static struct fileio counted;
    struct kvstore_options by_calls = one_file;
    struct image image;
    by_calls.io = KVSTORE_IO_PREAD;
    reopen_unsynced();
    put_spared(store, "large", 'L');
    put_spared(store, "other", 'O');
    for (int i = 0; i < 30; i++) /* farther away than a walk reads ahead */
        put_spared(store, numbered("key", i), 'k');
    for (unsigned i = 0; i < 200; i++)
        put_spared(store, i % 2 == 0 ? "large" : "other", (char)('a' + i % 26));
    image_take(&image, dir);
    image_put(&image, copy_dir);
    uint64_t file_bytes = image_find(&image, "data.0000")->size;
    image_free(&image);
    ck_assert_uint_lt(file_bytes, 80 * SPARED_BYTES);
    counted = fileio_system;
    counted.read_at = read_counted;
    fileio = &counted;
    atomic_store(&bytes_read, 0);
    struct kvstore *copy = must_open(copy_dir, &by_calls);
    ck_assert_uint_lt(atomic_load(&bytes_read), 400 * SPARED_BYTES);
    check_spared(copy, "other", 'a' + 199 % 26);
    must_close(copy);
}
END_TEST

static bool nothing_is_read(const void *context, uint64_t offset)
{
    (void)context;
    (void)offset;
    return false;
}

/* Extents that do not fit do not keep others from being found. */
START_TEST(extents_are_found_by_their_size)
{
    struct free_extents free_extents = {0};
    struct free_extent_terms terms = {.durable_position = 5, .is_read = nothing_is_read};
    uint64_t offset;
    for (uint64_t i = 0; i < 100; i++) {
        const struct free_extent small = {.offset = 1000 * i, .capacity_bytes = 1000};
        free_extents_add(&free_extents, &small, false);
    }
    const struct free_extent late = {.offset = 600000, .capacity_bytes = 50000, .position = 6};
    const struct free_extent large = {.offset = 500000, .capacity_bytes = 50000, .position = 7};
    free_extents_add(&free_extents, &late, true);
    free_extents_add(&free_extents, &large, false);
    ck_assert(!free_extents_take(&free_extents, 39999, &terms, &offset)); /* a fifth is too much */
    ck_assert(!free_extents_take(&free_extents, 50001, &terms, &offset));
    ck_assert(free_extents_take(&free_extents, 45000, &terms, &offset));
    ck_assert_uint_eq(offset, 500000);
    ck_assert(!free_extents_take(&free_extents, 45000, &terms, &offset));
    terms.durable_position = 6;
    ck_assert(free_extents_take(&free_extents, 45000, &terms, &offset));
    ck_assert_uint_eq(offset, 600000);
    for (uint64_t i = 100; i-- > 0;) { /* that of the last replaced content first */
        ck_assert(free_extents_take(&free_extents, 900, &terms, &offset));
        ck_assert_uint_eq(offset, 1000 * i);
    }
    ck_assert(!free_extents_take(&free_extents, 900, &terms, &offset));
    ck_assert_uint_eq(free_extents.bytes, 0);
    free_extents_forget(&free_extents);
}
END_TEST

static struct kvstore_file_statistics facts_of_file(void)
{
    struct kvstore_file_statistics facts;
    kvstore_file_statistics(store, 0, &facts);
    return facts;
}

/* Replaces a value until so much is dead beside the extents that are in use. */
static void replace_until(uint64_t gain_bytes)
{
    struct kvstore_file_statistics facts = facts_of_file();
    while (facts.dead_bytes - facts.spare_bytes < gain_bytes && facts.compactions == 0) {
        for (int i = 0; i < 100; i++)
            put_spared(store, "large", (char)('a' + i % 26));
        facts = facts_of_file();
    }
}

/* A compaction takes extents in use away: the small records between them are no reason for one each
 * second. */
START_TEST(extents_in_use_put_off_a_compaction)
{
    struct kvstore_options options = with_sync(KVSTORE_SYNC_NONE);
    options.compact_dead_percent = 50;
    options.compact_min_bytes = 256 * 1024;
    must_reopen(&options);
    replace_until(512 * 1024);
    bool was_idle = false;         /* on a machine that stands still nobody takes an extent */
    for (int i = 0; i < 25; i++) { /* the compactor looks meanwhile */
        uint64_t before_ms = clock_monotonic_coarse_ms();
        clock_sleep_ms(100);
        put_spared(store, "large", 'z');
        was_idle |= clock_monotonic_coarse_ms() - before_ms > 1000;
    }
    ck_assert(was_idle || facts_of_file().compactions == 0);
    replace_until(UINT64_MAX); /* until there is one */
}
END_TEST

static void give_back_fileio(void)
{
    fileio = &fileio_system;
}

TEST_SUITE(kvstore_free_extents)
{
    TCase *tests = tcase_create("free extents");
    tcase_set_timeout(tests, 300);
    one_file_case_add(tests);
    tcase_add_checked_fixture(tests, NULL, give_back_fileio);
    tcase_add_loop_test(tests, an_extent_is_used_again, 0, 2);
    tcase_add_test(tests, an_extent_is_for_its_size);
    tcase_add_loop_test(tests, what_was_promised_stays, KVSTORE_SYNC_NONE, KVSTORE_SYNC_ALWAYS + 1);
    tcase_add_test(tests, a_held_log_stays);
    tcase_add_test(tests, spare_bytes_are_told);
    tcase_add_test(tests, who_follows_misses_nothing);
    tcase_add_loop_test(tests, what_a_transaction_replaces_is_used_again, 0, 2);
    tcase_add_test(tests, a_compaction_passes_superseded_pointers);
    tcase_add_loop_test(tests, damage_counts_where_the_content_does, 0, 2);
    tcase_add_loop_test(tests, a_power_failure_ends_the_log_there, 0, 2);
    tcase_add_loop_test(tests, half_a_transaction_is_none, 0, 2);
    tcase_add_test(tests, a_lost_transaction_replaces_nothing);
    tcase_add_test(tests, a_kill_leaves_half_a_content);
    tcase_add_test(tests, what_is_read_is_not_written_over);
    tcase_add_test(tests, superseded_records_are_not_read_with_what_they_named);
    tcase_add_test(tests, extents_are_found_by_their_size);
    tcase_add_test(tests, extents_in_use_put_off_a_compaction);
    suite_add_tcase(suite, tests);
}
