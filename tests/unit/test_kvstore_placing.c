/* Large values are copied while nobody holds the file's lock: who waits for whom, told by stopping
 * the copy, and not by a clock. */
#include "kvstore/table/placing.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/memory/copy.h"
#include "kvstore/format/commit_entry.h"
#include "kvstore/format/record.h"
#include "kvstore/log/fileio.h"
#include "tests/support/one_file_store.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define KEY(text)   kv_slice_from_string(text)
#define LARGE_BYTES ((size_t)(4 * PLACE_MIN_BYTES + 1000))

/* The first write of that many bytes waits until the test lets it go on. */
#define COPIED_BYTES (2 * PLACE_MIN_BYTES)

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned left_to_stop; /* copies that will stop */
    unsigned left_to_fail; /* copies from now to the one that fails; 0: none does */
    bool is_stopped;
    bool goes_on;
} copying = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static ssize_t write_or_stop(int fd, const void *data, size_t size, off_t offset)
{
    pthread_mutex_lock(&copying.mutex);
    if (size >= COPIED_BYTES && copying.left_to_stop > 0) {
        copying.left_to_stop--;
        copying.is_stopped = true;
        copying.goes_on = false;
        pthread_cond_broadcast(&copying.changed);
        while (!copying.goes_on)
            pthread_cond_wait(&copying.changed, &copying.mutex);
        copying.is_stopped = false;
    }
    bool fails = size >= COPIED_BYTES && copying.left_to_fail > 0 && --copying.left_to_fail == 0;
    pthread_mutex_unlock(&copying.mutex);
    if (!fails)
        return fileio_system.write_at(fd, data, size, offset);
    errno = EIO;
    return -1;
}

static struct fileio table;

static void stop_copies(unsigned count)
{
    table = fileio_system;
    table.write_at = write_or_stop;
    copying.left_to_stop = count;
    copying.left_to_fail = 0;
    copying.is_stopped = false;
    fileio = &table;
}

static void await_stop(void)
{
    pthread_mutex_lock(&copying.mutex);
    while (!copying.is_stopped)
        pthread_cond_wait(&copying.changed, &copying.mutex);
    pthread_mutex_unlock(&copying.mutex);
}

static void fail_copy(unsigned number)
{
    pthread_mutex_lock(&copying.mutex);
    copying.left_to_fail = number;
    pthread_mutex_unlock(&copying.mutex);
}

static void let_go_on(void)
{
    pthread_mutex_lock(&copying.mutex);
    copying.goes_on = true;
    pthread_cond_broadcast(&copying.changed);
    pthread_mutex_unlock(&copying.mutex);
}

enum large_kind { PUT, EXCHANGE, APPEND, TOUCH, TRANSACT };

#define MEDIUM_BYTES ((size_t)PLACE_MIN_BYTES - 1) /* written with a call, and under the lock */

#define SUFFIX        "suffix"
#define FAR_FUTURE_MS UINT64_C(4102444800000)

/* A write of a large value by another thread: a put unless another kind is asked for. */
struct large_put {
    pthread_t thread;
    enum large_kind kind;
    const char *key;
    char letter;
    struct kvstore_put_options options;
    enum kv_status status;
    struct kvstore_written written;
    char old_value[LARGE_BYTES]; /* of an exchange */
    bool found;
    struct kvstore_entry old_entry;
    uint32_t value_bytes; /* of an append */
    uint32_t steps;       /* of a transaction */
};

/* If `guard` is absent, puts the value, a small one beside it, and, if asked for, a medium one;
 * else only a small one. */
static enum kv_status transact_large(struct large_put *put, struct kv_slice large)
{
    static const char medium[MEDIUM_BYTES];
    const struct kvstore_guard guard = {.kind = KVSTORE_GUARD_ABSENT, .key = KEY("guard")};
    const struct kvstore_step then[] = {
        {.kind = KVSTORE_STEP_PUT, .key = KEY(put->key), .value = large},
        {.kind = KVSTORE_STEP_PUT, .key = KEY("beside"), .value = KEY("there")},
        {.kind = KVSTORE_STEP_PUT, .key = KEY("medium"), .value = kv_slice(medium, MEDIUM_BYTES)}};
    const struct kvstore_step otherwise = {
        .kind = KVSTORE_STEP_PUT, .key = KEY("beside"), .value = KEY("guarded")};
    const struct kvstore_transaction transaction = {.guards = &guard,
                                                    .guard_count = 1,
                                                    .then = then,
                                                    .then_count = put->steps,
                                                    .otherwise = &otherwise,
                                                    .otherwise_count = 1};
    struct kvstore_step_result results[sizeof then / sizeof *then];
    struct kvstore_transacted told;
    enum kv_status status = kvstore_transact(store, &transaction, results, &told);
    put->found = told.held;
    put->written = results[0].written;
    return status;
}

static void *put_large(void *argument)
{
    struct large_put *put = argument;
    static _Thread_local char value[LARGE_BYTES];
    struct kv_slice key = KEY(put->key);
    struct kv_slice large = kv_slice(value, sizeof value);
    memset(value, put->letter, sizeof value);
    switch (put->kind) {
    case EXCHANGE:
        put->status =
            kvstore_exchange(store, key, large, &put->options, put->old_value,
                             sizeof put->old_value, &put->found, &put->old_entry, &put->written);
        break;
    case APPEND:
        put->status = kvstore_append(store, key, KEY(SUFFIX), &put->value_bytes, &put->written);
        break;
    case TOUCH:
        put->status = kvstore_touch(store, key, FAR_FUTURE_MS, &put->written);
        break;
    case TRANSACT:
        put->status = transact_large(put, large);
        break;
    default:
        put->status = kvstore_put(store, key, large, &put->options, &put->written);
        break;
    }
    return NULL;
}

static void begin_put(struct large_put *put, const char *key, char letter)
{
    put->key = key;
    put->letter = letter;
    ck_assert_int_eq(pthread_create(&put->thread, NULL, put_large, put), 0);
}

static void end_put(struct large_put *put, enum kv_status status)
{
    pthread_join(put->thread, NULL);
    ck_assert_int_eq(put->status, status);
}

static void check_large(struct kvstore *opened, const char *key, char letter)
{
    static char value[LARGE_BYTES], wanted[LARGE_BYTES];
    struct kvstore_entry entry;
    ck_assert_int_eq(kvstore_get(opened, KEY(key), value, sizeof value, &entry), KV_OK);
    ck_assert_uint_eq(entry.value_bytes, LARGE_BYTES);
    memset(wanted, letter, sizeof wanted);
    ck_assert_int_eq(memcmp(value, wanted, sizeof value), 0);
}

static bool is_there(struct kvstore *opened, const char *key)
{
    return kvstore_get(opened, KEY(key), NULL, 0, NULL) != KV_NOT_FOUND;
}

static void put_one(const char *key, char letter)
{
    struct large_put put = {0};
    begin_put(&put, key, letter);
    end_put(&put, KV_OK);
}

static enum kv_status read_large(void)
{
    static char value[LARGE_BYTES];
    struct kvstore_entry entry;
    return kvstore_get(store, KEY("large"), value, sizeof value, &entry);
}

/* Where the extent of the next large value will begin. */
static uint64_t end_of_log(void)
{
    return store->context.files[0].current->log.tail;
}

/* All calls but the stopped one come back, on the same file. */
START_TEST(nobody_waits_for_a_copy)
{
    struct large_put put = {0}, other = {0};
    must_put(store, "key", "1");
    stop_copies(1);
    begin_put(&put, "large", 'a');
    await_stop();
    must_put(store, "key", "2");
    ck_assert_str_eq(get_text(store, "key"), "2");
    must_put(store, "more", "3");
    ck_assert_int_eq(kvstore_delete(store, KEY("more"), 0, NULL), KV_OK);
    begin_put(&other, "other", 'b'); /* another copy, which is not stopped */
    end_put(&other, KV_OK);
    check_large(store, "other", 'b');
    ck_assert_int_eq(kvstore_sync(store), KV_OK);
    ck_assert(!is_there(store, "large"));
    let_go_on();
    end_put(&put, KV_OK);
    check_large(store, "large", 'a');
    ck_assert_uint_gt(put.written.version, other.written.version);
    must_reopen(&one_file);
    check_large(store, "large", 'a');
    check_large(store, "other", 'b');
    ck_assert_str_eq(get_text(store, "key"), "2");
}
END_TEST

/* The value that came last counts, and a condition holds when the value begins to count. */
START_TEST(what_is_written_meanwhile_counts)
{
    struct large_put put = {0};
    stop_copies(1);
    begin_put(&put, "key", 'a');
    await_stop();
    must_put(store, "key", "small");
    let_go_on();
    end_put(&put, KV_OK);
    check_large(store, "key", 'a'); /* its put ended last */
    stop_copies(1);
    put.options.condition = KVSTORE_IF_ABSENT;
    begin_put(&put, "absent", 'b');
    await_stop();
    must_put(store, "absent", "small");
    let_go_on();
    end_put(&put, KV_EXISTS);
    ck_assert_str_eq(get_text(store, "absent"), "small");
}
END_TEST

/* Checks what a write of large_kind has made of `large`, in whose place was `old`. */
static void check_written(struct kvstore *opened, const struct large_put *put, struct kv_slice old)
{
    static char value[2 * LARGE_BYTES], wanted[2 * LARGE_BYTES];
    struct kvstore_entry entry;
    size_t bytes = put->kind == EXCHANGE ? LARGE_BYTES : old.size;
    copy_bytes(wanted, old.data, old.size);
    if (put->kind == EXCHANGE) {
        ck_assert(put->found == (old.size > 0));
        ck_assert(old.size == 0 || put->old_entry.value_bytes == old.size);
        ck_assert_int_eq(memcmp(put->old_value, wanted, old.size), 0);
        memset(wanted, put->letter, LARGE_BYTES);
    } else if (put->kind == APPEND) {
        bytes += strlen(SUFFIX);
        copy_bytes(wanted + old.size, SUFFIX, strlen(SUFFIX));
        ck_assert_uint_eq(put->value_bytes, bytes);
    }
    ck_assert_int_eq(kvstore_get(opened, KEY("large"), value, sizeof value, &entry), KV_OK);
    ck_assert_uint_eq(entry.value_bytes, bytes);
    ck_assert_uint_eq(entry.expiry_ms, put->kind == TOUCH ? FAR_FUTURE_MS : 0);
    ck_assert_uint_eq(entry.version, put->written.version);
    ck_assert_int_eq(memcmp(value, wanted, bytes), 0);
}

static struct kv_slice large_value(char letter)
{
    static char value[LARGE_BYTES];
    memset(value, letter, sizeof value);
    return kv_slice(value, sizeof value);
}

/* Nor for one that takes the place of a large value, or makes more of it: others read the old one
 * until then. */
START_TEST(nobody_waits_for_what_a_value_becomes)
{
    static struct large_put put;
    put = (struct large_put){.kind = EXCHANGE + _i % 3};
    struct kvstore_options options = one_file;
    options.io = _i < 3 ? KVSTORE_IO_MMAP : KVSTORE_IO_PREAD;
    must_reopen(&options);
    put_one("large", 'a');
    stop_copies(1);
    begin_put(&put, "large", 'b');
    await_stop();
    must_put(store, "key", "2");
    check_large(store, "large", 'a');
    let_go_on();
    end_put(&put, KV_OK);
    check_written(store, &put, large_value('a'));
    must_reopen(&options);
    check_written(store, &put, large_value('a'));
    ck_assert_str_eq(get_text(store, "key"), "2");
}
END_TEST

/* Of a value that was changed meanwhile, or has gone, is made what can be made then. */
START_TEST(what_a_value_became_meanwhile_counts)
{
    static struct large_put put;
    bool is_deleted = _i >= 3;
    put = (struct large_put){.kind = EXCHANGE + _i % 3};
    put_one("large", 'a');
    stop_copies(1);
    begin_put(&put, "large", 'b');
    await_stop();
    if (is_deleted)
        ck_assert_int_eq(kvstore_delete(store, KEY("large"), 0, NULL), KV_OK);
    else
        must_put(store, "large", "small");
    let_go_on();
    if (is_deleted && put.kind == TOUCH) {
        end_put(&put, KV_NOT_FOUND);
        ck_assert(!is_there(store, "large"));
        return;
    }
    end_put(&put, KV_OK);
    check_written(store, &put, KEY(is_deleted ? "" : "small"));
}
END_TEST

/* Damage is told, by what needs the value, and changes nothing. */
START_TEST(nothing_is_made_of_a_damaged_value)
{
    static struct large_put put;
    struct kvstore_options options = one_file;
    put = (struct large_put){.kind = EXCHANGE + _i % 3};
    options.io = _i < 3 ? KVSTORE_IO_MMAP : KVSTORE_IO_PREAD;
    off_t damage_at = (off_t)end_of_log() + 1000;
    put_one("large", 'a');
    must_reopen(&options);
    store_file_flip(dir, damage_at);
    begin_put(&put, "large", 'b');
    end_put(&put, KV_CORRUPT);
    ck_assert_int_eq(read_large(), KV_CORRUPT);
    put.kind = PUT;
    begin_put(&put, "large", 'c');
    end_put(&put, KV_OK);
    check_large(store, "large", 'c');
}
END_TEST

/* An exchange that gives no old value changes nothing, and takes no place. */
START_TEST(an_exchange_without_room_changes_nothing)
{
    struct kvstore_entry entry;
    char small[1];
    bool found;
    put_one("large", 'a');
    uint64_t end = end_of_log();
    ck_assert_int_eq(kvstore_exchange(store, KEY("large"), KEY("small"), NULL, small, sizeof small,
                                      &found, &entry, NULL),
                     KV_BUFFER_TOO_SMALL);
    ck_assert_uint_eq(entry.value_bytes, LARGE_BYTES);
    ck_assert_uint_eq(end_of_log(), end);
    check_large(store, "large", 'a');
}
END_TEST

/* Nor for the values of a transaction of one or several writes. They count together. */
START_TEST(nobody_waits_for_a_value_of_a_transaction)
{
    static struct large_put put;
    put = (struct large_put){.kind = TRANSACT, .steps = (uint32_t)_i + 1};
    put_one("large", 'a');
    must_put(store, "beside", "before");
    stop_copies(1);
    begin_put(&put, "large", 'b');
    await_stop();
    must_put(store, "key", "2");
    check_large(store, "large", 'a');
    ck_assert_str_eq(get_text(store, "beside"), "before");
    struct kvstore *copy = open_copy();
    check_large(copy, "large", 'a');
    must_close(copy);
    let_go_on();
    end_put(&put, KV_OK);
    ck_assert(put.found);
    for (int round = 0; round < 3; round++) {
        check_large(store, "large", 'b');
        ck_assert_str_eq(get_text(store, "beside"), _i == 0 ? "before" : "there");
        ck_assert_str_eq(get_text(store, "key"), "2");
        ck_assert(is_there(store, "medium") == (_i == 2));
        if (round == 0) {
            copy = open_copy(); /* by its log */
            check_large(copy, "large", 'b');
            ck_assert_str_eq(get_text(copy, "beside"), _i == 0 ? "before" : "there");
            must_close(copy);
            must_compact();
        } else {
            must_reopen(&one_file);
        }
    }
}
END_TEST

/* What a guard says when the transaction is done counts, and not when its values were copied. */
START_TEST(a_guard_changes_while_a_value_is_copied)
{
    static struct large_put put;
    put = (struct large_put){.kind = TRANSACT, .steps = 2};
    put_one("large", 'a');
    stop_copies(1);
    begin_put(&put, "large", 'b');
    await_stop();
    must_put(store, "guard", "1");
    let_go_on();
    end_put(&put, KV_OK);
    ck_assert(!put.found);
    check_large(store, "large", 'a');
    ck_assert_str_eq(get_text(store, "beside"), "guarded");
    struct kvstore *copy = open_copy();
    check_large(copy, "large", 'a');
    must_close(copy);
    must_compact();
    check_large(store, "large", 'a');
}
END_TEST

static ssize_t fail_medium(int fd, const void *data, size_t size, off_t offset)
{
    if (size < MEDIUM_BYTES || size >= COPIED_BYTES)
        return fileio_system.write_at(fd, data, size, offset);
    errno = EIO;
    return -1;
}

/* A later write of the transaction fails: the large value before it is taken back, and what was
 * there is there, as if nothing had been. Then it is done anew. */
START_TEST(a_large_value_is_taken_back)
{
    static struct large_put put;
    struct kvstore_file_statistics before, after;
    put = (struct large_put){.kind = TRANSACT, .steps = 3};
    if (_i == 1)
        put_one("large", 'a');
    must_put(store, "beside", "before");
    table = fileio_system;
    table.write_at = fail_medium;
    fileio = &table;
    kvstore_file_statistics(store, 0, &before);
    begin_put(&put, "large", 'b');
    end_put(&put, KV_IO);
    kvstore_file_statistics(store, 0, &after);
    ck_assert_uint_eq(after.live_bytes, before.live_bytes);
    ck_assert_uint_eq(after.keys, before.keys);
    fileio = &fileio_system;
    for (int round = 0; round < 2; round++) {
        if (_i == 1)
            check_large(store, "large", 'a');
        ck_assert(is_there(store, "large") == (_i == 1));
        ck_assert_str_eq(get_text(store, "beside"), "before");
        struct kvstore *copy = open_copy();
        ck_assert(is_there(copy, "large") == (_i == 1));
        must_close(copy);
        must_reopen(&one_file);
    }
    begin_put(&put, "large", 'c');
    end_put(&put, KV_OK);
    check_large(store, "large", 'c');
    must_reopen(&one_file);
    check_large(store, "large", 'c');
    ck_assert_str_eq(get_text(store, "beside"), "there");
}
END_TEST

/* What a kill leaves in the middle of a copy: all but that value. Then the value, too. */
START_TEST(a_kill_leaves_an_extent)
{
    struct large_put put = {0};
    stop_copies(1);
    must_put(store, "before", "1");
    begin_put(&put, "large", 'a');
    await_stop();
    must_put(store, "behind", "2");
    struct kvstore *copy = open_copy();
    ck_assert_str_eq(get_text(copy, "before"), "1");
    ck_assert_str_eq(get_text(copy, "behind"), "2");
    ck_assert(!is_there(copy, "large"));
    must_close(copy);
    let_go_on();
    end_put(&put, KV_OK);
    copy = open_copy();
    check_large(copy, "large", 'a');
    ck_assert_str_eq(get_text(copy, "behind"), "2");
    must_close(copy);
}
END_TEST

static _Atomic bool is_compacted;

static void *compact(void *argument)
{
    (void)argument;
    must_compact();
    atomic_store(&is_compacted, true);
    return NULL;
}

/* Waits until a compaction has replaced the log; nobody waits for it, which waits for a copy. */
static void await_new_log(void)
{
    for (struct kvstore_file_statistics facts = {0}; facts.compactions == 0; usleep(1000)) {
        must_put(store, "key", "small");
        kvstore_file_statistics(store, 0, &facts);
    }
}

static struct kvstore_hold *_Atomic held;

static void *hold(void *argument)
{
    struct kvstore_hold *begun;
    (void)argument;
    ck_assert_int_eq(kvstore_hold_begin(store, &begun, NULL), KV_OK);
    atomic_store(&held, begun);
    return NULL;
}

/* Waits until a hold waits for the values that are on their way. */
static void await_holder(void)
{
    for (bool waits = false; !waits; usleep(1000)) {
        ck_assert_ptr_null(atomic_load(&held));
        lockset_read_lock(store->context.locks, 0);
        waits = store->context.files[0].placings_barred == 1;
        lockset_read_unlock(store->context.locks, 0);
    }
}

/* The log is replaced while the value is on its way to it: the value is in the new one, and the old
 * one stays open until then. The copy to the new log fails, or not: then there is another. */
START_TEST(a_compaction_takes_the_value_with_it)
{
    static struct large_put put;
    pthread_t compaction;
    put = (struct large_put){.kind = _i < 2 ? PUT : TRANSACT, .steps = 2};
    put_round(100, 0);
    stop_copies(1);
    begin_put(&put, "large", 'a');
    await_stop();
    atomic_store(&is_compacted, false);
    ck_assert_int_eq(pthread_create(&compaction, NULL, compact, NULL), 0);
    await_new_log();
    usleep(100000); /* in which it would end, if it did not wait */
    ck_assert(!atomic_load(&is_compacted));
    if (_i % 2 == 1)
        fail_copy(2);
    let_go_on();
    end_put(&put, KV_OK);
    pthread_join(compaction, NULL);
    check_large(store, "large", 'a');
    must_compact();
    check_large(store, "large", 'a');
    struct kvstore *copy = open_copy();
    check_large(copy, "large", 'a');
    check_round(copy, 100, 0);
    must_close(copy);
}
END_TEST

/* The first sync of the next log waits until the test lets it go on. */
static int sync_or_stop(int fd)
{
    pthread_mutex_lock(&copying.mutex);
    if (copying.left_to_stop > 0 && store->context.files[0].next) {
        copying.left_to_stop--;
        copying.is_stopped = true;
        pthread_cond_broadcast(&copying.changed);
        while (!copying.goes_on)
            pthread_cond_wait(&copying.changed, &copying.mutex);
        copying.is_stopped = false;
    }
    pthread_mutex_unlock(&copying.mutex);
    return fileio_system.sync_data(fd);
}

/* A value that begins to count while the next log is complete, and not yet in use, is in both: of a
 * put, and of transactions of one write and of two. */
START_TEST(a_value_counts_in_the_next_log_as_well)
{
    static struct large_put put;
    pthread_t compaction;
    put = (struct large_put){.kind = _i == 0 ? PUT : TRANSACT, .steps = (uint32_t)_i};
    put_round(100, 0);
    put_one("large", 'a');
    table = fileio_system;
    table.sync_data = sync_or_stop;
    copying.left_to_stop = 1;
    copying.left_to_fail = 0;
    copying.is_stopped = copying.goes_on = false;
    fileio = &table;
    atomic_store(&is_compacted, false);
    ck_assert_int_eq(pthread_create(&compaction, NULL, compact, NULL), 0);
    await_stop();
    begin_put(&put, "large", 'b');
    end_put(&put, KV_OK);
    ck_assert(!atomic_load(&is_compacted));
    let_go_on();
    pthread_join(compaction, NULL);
    check_large(store, "large", 'b');
    struct kvstore *copy = open_copy();
    check_large(copy, "large", 'b');
    ck_assert(is_there(copy, "beside") == (_i == 2));
    check_round(copy, 100, 0);
    must_close(copy);
    must_compact();
    check_large(store, "large", 'b');
}
END_TEST

/* A backup waits for values on their way: what it copies is never written to again. Those that come
 * meanwhile do not make it wait longer. */
START_TEST(a_hold_waits_for_the_value)
{
    struct large_put put = {0}, other = {0};
    struct kvstore_held_file file;
    pthread_t holder;
    stop_copies(1);
    begin_put(&put, "large", 'a');
    await_stop();
    atomic_store(&held, NULL);
    ck_assert_int_eq(pthread_create(&holder, NULL, hold, NULL), 0);
    await_holder();
    must_put(store, "key", "small");
    begin_put(&other, "other", 'b');
    end_put(&other, KV_OK);
    ck_assert_ptr_null(atomic_load(&held));
    let_go_on();
    end_put(&put, KV_OK);
    pthread_join(holder, NULL);
    kvstore_hold_file(held, 0, &file);
    ck_assert_uint_gt(file.bytes, 2 * LARGE_BYTES);
    kvstore_hold_end(held);
    check_large(store, "large", 'a');
    check_large(store, "other", 'b');
}
END_TEST

static ssize_t fail_copies(int fd, const void *data, size_t size, off_t offset)
{
    if (size < COPIED_BYTES)
        return fileio_system.write_at(fd, data, size, offset);
    errno = EIO;
    return -1;
}

/* A copy that fails leaves nothing but the place. */
START_TEST(a_copy_may_fail)
{
    struct large_put put = {0};
    table = fileio_system;
    table.write_at = fail_copies;
    fileio = &table;
    must_put(store, "key", "1");
    begin_put(&put, "key", 'a');
    end_put(&put, KV_IO);
    ck_assert_str_eq(get_text(store, "key"), "1");
    fileio = &fileio_system;
    begin_put(&put, "key", 'b');
    end_put(&put, KV_OK);
    must_reopen(&one_file);
    check_large(store, "key", 'b');
}
END_TEST

static bool is_compacted_once(void *context)
{
    struct kvstore_file_statistics facts;
    (void)context;
    kvstore_file_statistics(store, 0, &facts);
    return facts.compactions > 0;
}

static bool timer_is_armed(void)
{
    lockset_read_lock(store->context.locks, 0);
    bool is_armed = store->context.files[0].sync_timer_armed;
    lockset_read_unlock(store->context.locks, 0);
    return is_armed;
}

/* The place that a refused value leaves is synced, and compacted, without another write. */
START_TEST(a_refused_value_has_its_place_seen_to)
{
    struct large_put put = {0};
    struct kvstore_options options = one_file;
    options.compact_dead_percent = 50;
    options.compact_min_bytes = 1;
    table = fileio_system;
    table.write_at = fail_copies;
    fileio = &table; /* before the compactor uses it */
    must_reopen(&options);
    must_put(store, "key", "1");
    ck_assert_int_eq(kvstore_sync(store), KV_OK);
    ck_assert(!timer_is_armed());
    begin_put(&put, "large", 'a');
    end_put(&put, KV_IO);
    ck_assert(timer_is_armed() || is_compacted_once(NULL));
    ck_assert(wait_until(is_compacted_once, NULL));
}
END_TEST

/* Syncing -------------------------------------------------------------------------------------- */

static uint64_t noted_end(void)
{
    return store->context.files[0].current->log.progress.synced_offset;
}

/* What the header says is on disk does not go beyond a value that is being copied. */
START_TEST(a_sync_notes_no_more_than_is_there)
{
    struct large_put put = {0};
    must_put(store, "before", "1");
    uint64_t extent_at = end_of_log();
    stop_copies(1);
    begin_put(&put, "large", 'a');
    await_stop();
    must_put(store, "behind", "2");
    ck_assert_int_eq(kvstore_sync(store), KV_OK);
    ck_assert_uint_eq(noted_end(), extent_at);
    let_go_on();
    end_put(&put, KV_OK);
    must_reopen(&one_file); /* while a sync is to come, the note may lag behind */
    ck_assert_uint_eq(noted_end(), end_of_log());
}
END_TEST

#define DATAFILES   2u
#define KEYS        16 /* each file has some */
#define SYNC_ROUNDS 1000

static const struct kvstore_options two_files = {.create = true,
                                                 .datafiles = DATAFILES,
                                                 .durability = KVSTORE_SYNC_ALWAYS,
                                                 .sync_interval_ms = 3600000,
                                                 .compact_dead_percent = 100};

/* Syncs since forget_syncs: of each data file by itself, and of the commit log. */
static atomic_uint file_syncs[DATAFILES], log_syncs;

static int note_sync(int fd)
{
    char link[32], name[PATH_MAX];
    unsigned number;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, name, sizeof name - 1);
    ck_assert_int_gt(size, 0);
    name[size] = '\0';
    int result = fileio_system.sync_data(fd);
    const char *last = strrchr(name, '/') + 1;
    if (sscanf(last, "data.%u", &number) == 1 && number < DATAFILES)
        atomic_fetch_add(&file_syncs[number], 1);
    else if (strcmp(last, COMMIT_LOG_NAME) == 0)
        atomic_fetch_add(&log_syncs, 1);
    return result;
}

static void forget_syncs(void)
{
    for (unsigned i = 0; i < DATAFILES; i++)
        atomic_store(&file_syncs[i], 0);
    atomic_store(&log_syncs, 0);
}

/* Puts small values, and waits until they are durable, with that of *large, if it is not NULL. */
static void commit_round(int round, const struct kvstore_ticket *large)
{
    struct kvstore_ticket tickets[KEYS + 1];
    int count = 0;
    for (; count < KEYS; count++)
        tickets[count] =
            must_put_for_ticket(store, numbered("key", count), numbered("round", round));
    if (large)
        tickets[count++] = *large;
    for (int i = 0; i < count; i++)
        kvstore_request_sync(store, tickets[i]);
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(kvstore_wait_durable(store, tickets[i]), KV_OK);
}

/* The place of a large value was synced before the value was there: that value becomes durable by a
 * sync of its file, while others do by one of the commit log. */
START_TEST(a_large_value_is_not_committed_without_its_bytes)
{
    store = must_open(dir, &two_files);
    commit_round(0, NULL);
    for (int round = 1; round < SYNC_ROUNDS; round++) {
        struct large_put put = {0};
        stop_copies(1);
        table.sync_data = note_sync;
        begin_put(&put, "large", 'a');
        await_stop();
        commit_round(round, NULL);
        let_go_on();
        end_put(&put, KV_OK);
        forget_syncs();
        commit_round(round, &put.written.ticket);
        ck_assert_uint_gt(atomic_load(&file_syncs[put.written.ticket.file]), 0);
        if (atomic_load(&log_syncs) > 0)
            return;
    }
    ck_abort_msg("nothing was committed with the commit log");
}
END_TEST

static void check_round_of_parts(char letter)
{
    for (int i = 0; i < KEYS; i++)
        check_large(store, numbered("part", i), letter);
}

/* A transaction with large values in several files is there after a start that reads the logs, as
 * is one that takes their place; and compactions keep it. */
START_TEST(large_values_of_a_transaction_in_several_files)
{
    struct kvstore_step steps[KEYS];
    struct kvstore_step_result results[KEYS];
    struct kvstore_transacted told;
    char keys[KEYS][32], output[8192];
    const struct kvstore_transaction transaction = {.then = steps, .then_count = KEYS};
    store = must_open(dir, &two_files);
    for (int round = 0; round < 2; round++) {
        char letter = (char)('a' + round);
        for (int i = 0; i < KEYS; i++) {
            snprintf(keys[i], sizeof keys[i], "%s", numbered("part", i));
            steps[i] = (struct kvstore_step){
                .kind = KVSTORE_STEP_PUT, .key = KEY(keys[i]), .value = large_value(letter)};
        }
        ck_assert_int_eq(kvstore_transact(store, &transaction, results, &told), KV_OK);
        for (int i = 0; i < KEYS; i++) {
            kvstore_request_sync(store, results[i].written.ticket);
            ck_assert_int_eq(kvstore_wait_durable(store, results[i].written.ticket), KV_OK);
        }
        check_round_of_parts(letter);
        must_close(store);
        store = NULL;
        ck_assert_int_eq(run_kvcheck(dir, NULL, NULL, output, sizeof output), 0);
        store_checkpoint_remove(dir);
        store = must_open(dir, &two_files);
        check_round_of_parts(letter);
    }
    for (uint32_t file = 0; file < DATAFILES; file++)
        ck_assert_int_eq(kvstore_compact(store, file, NULL), KV_OK);
    check_round_of_parts('b');
}
END_TEST

/* Bytes written under the lock ----------------------------------------------------------------- */

#define HUGE_BYTES      ((size_t)64 << 20)
/* A record that is not placed, and the pages that come in with it. */
#define HELD_MOST_BYTES (UINT64_C(512) << 10)

static _Atomic uint64_t held_bytes, apart_bytes;

/* Whether the calling thread itself keeps the lock: others keep it for moments only. */
static void count_bytes(size_t size)
{
    bool is_free = lockset_try_write_lock_all(store->context.locks, 1000);
    if (is_free)
        lockset_write_unlock_all(store->context.locks);
    atomic_fetch_add(is_free ? &apart_bytes : &held_bytes, size);
}

static ssize_t write_and_count(int fd, const void *data, size_t size, off_t offset)
{
    if (size >= COPIED_BYTES)
        count_bytes(size);
    return fileio_system.write_at(fd, data, size, offset);
}

static int zero_and_count(int fd, size_t size, off_t offset)
{
    count_bytes(size);
    return fileio_system.zero(fd, size, offset);
}

static void put_huge(char letter)
{
    static char value[HUGE_BYTES];
    memset(value, letter, sizeof value);
    ck_assert_int_eq(kvstore_put(store, KEY("huge"), kv_slice(value, sizeof value), NULL, NULL),
                     KV_OK);
}

enum huge_round {
    HUGE_PUT,
    HUGE_COPY,
    HUGE_EXCHANGE,
    HUGE_APPEND,
    HUGE_TOUCH,
    HUGE_TRANSACT,
    HUGE_ROUNDS
};

static enum kv_status write_huge(enum huge_round round)
{
    static char old_value[HUGE_BYTES];
    bool found;
    switch (round) {
    case HUGE_PUT:
        put_huge('a');
        return KV_OK;
    case HUGE_COPY:
        return kvstore_compact(store, 0, NULL);
    case HUGE_EXCHANGE: /* what is copied is the old value; then a huge one again */
        return kvstore_exchange(store, KEY("huge"), kv_slice(old_value, HUGE_BYTES - 1), NULL,
                                old_value, sizeof old_value, &found, NULL, NULL);
    case HUGE_APPEND:
        return kvstore_append(store, KEY("huge"), KEY("1"), NULL, NULL);
    case HUGE_TRANSACT:
        return transact_large(&(struct large_put){.key = "huge", .steps = 2},
                              kv_slice(old_value, HUGE_BYTES));
    default:
        return kvstore_touch(store, KEY("huge"), FAR_FUTURE_MS, NULL);
    }
}

/* However large a value is, who puts it writes next to nothing of it while others wait; nor does
 * who makes another one of it, or a compaction that copies it. */
START_TEST(who_waits_waits_for_few_bytes)
{
    const struct kvstore_options options = {.create = true,
                                            .datafiles = 1,
                                            .io = KVSTORE_IO_PREAD, /* all is written with calls */
                                            .max_value_bytes = HUGE_BYTES,
                                            .compact_dead_percent = 100};
    store = must_open(dir, &options);
    must_put(store, "key", "1");
    table = fileio_system;
    table.write_at = write_and_count;
    table.zero = zero_and_count;
    fileio = &table;
    for (int round = 0; round < HUGE_ROUNDS; round++) {
        atomic_store(&held_bytes, 0);
        atomic_store(&apart_bytes, 0);
        ck_assert_int_eq(write_huge(round), KV_OK);
        ck_assert_uint_ge(atomic_load(&apart_bytes), HUGE_BYTES - COPIED_BYTES);
        ck_assert_uint_le(atomic_load(&held_bytes), HELD_MOST_BYTES);
    }
}
END_TEST

/* Damage --------------------------------------------------------------------------------------- */

static bool look_at_change(void *context, const struct kvstore_change *change)
{
    (void)context, (void)change;
    return true;
}

/* A walk over the log that passes an extent says nothing of what is in it: damaged, it is not read
 * as if it had been verified. */
START_TEST(who_passes_an_extent_has_not_verified_its_content)
{
    struct kvstore_position position;
    bool at_end;
    ck_assert_int_eq(kvstore_changes_now(store, 0, &position), KV_OK);
    off_t damage_at = (off_t)end_of_log() + 1000;
    put_one("large", 'a');
    must_reopen(&one_file); /* from the checkpoint, without reading the log */
    store_file_flip(dir, damage_at);
    ck_assert_int_eq(
        kvstore_changes(store, 0, &position, KEY(""), 10, look_at_change, NULL, &at_end),
        KV_CORRUPT);
    ck_assert_int_eq(read_large(), KV_CORRUPT);
}
END_TEST

/* Where a bit is flipped, counted from the extent: in its head; in the header of the content and in
 * the value, which is then lost; and in the value pointer. */
enum damage { HEAD, CONTENT_HEADER, VALUE, PLACED, DAMAGES };
static const off_t damage_places[] = {4, RECORD_EXTENT_HEAD_BYTES + 5, 1000,
                                      RECORD_EXTENT_HEAD_BYTES + RECORD_HEADER_BYTES +
                                          sizeof "large" + LARGE_BYTES + 22};

/* A compaction takes damaged content with it, and misses nothing where the head of an extent is
 * damaged; what is damaged may be replaced. */
START_TEST(a_compaction_carries_damaged_content)
{
    struct kvstore_options options = one_file;
    enum damage damage = _i % DAMAGES;
    bool is_lost = damage == CONTENT_HEADER || damage == VALUE;
    options.io = _i < DAMAGES ? KVSTORE_IO_MMAP : KVSTORE_IO_PREAD;
    must_put(store, "before", "1");
    off_t extent_at = (off_t)end_of_log();
    put_one("large", 'a');
    must_put(store, "behind", "2");
    must_reopen(&options);
    store_file_flip(dir, extent_at + damage_places[damage]);
    must_compact();
    ck_assert_int_eq(read_large(), is_lost ? KV_CORRUPT : KV_OK);
    ck_assert_str_eq(get_text(store, "before"), "1");
    ck_assert_str_eq(get_text(store, "behind"), "2");
    put_one("large", 'b');
    must_compact();
    check_large(store, "large", 'b');
    ck_assert_int_eq(kvstore_delete(store, KEY("large"), 0, NULL), KV_OK);
    must_compact();
    struct kvstore *copy = open_copy();
    ck_assert(!is_there(copy, "large"));
    ck_assert_str_eq(get_text(copy, "behind"), "2");
    must_close(copy);
}
END_TEST

/* More keys than a segment of the index has, and one large value that no record names any more. A
 * compaction takes it, and it is the key's until that is deleted: the next one leaves it out. */
START_TEST(a_compaction_finds_what_a_damaged_record_named)
{
    put_round(3000, 0);
    off_t extent_at = (off_t)end_of_log();
    put_one("large", 'a');
    put_round(3000, 1);
    must_reopen(&one_file);
    store_file_flip(dir, extent_at + damage_places[PLACED]);
    must_compact();
    check_large(store, "large", 'a');
    ck_assert_int_eq(kvstore_delete(store, KEY("large"), 0, NULL), KV_OK);
    must_compact();
    struct kvstore *copy = open_copy();
    check_round(copy, 3000, 1);
    ck_assert(!is_there(copy, "large"));
    must_close(copy);
}
END_TEST

/* Puts values around `large`, whose extent begins at the offset that is returned. */
static off_t put_around(void)
{
    must_put(store, "before", "1");
    off_t extent_at = (off_t)end_of_log();
    put_one("large", 'a');
    must_put(store, "behind", "2");
    return extent_at;
}

/* What is saved of a store in which a bit was flipped: a large value, unless it has that bit
 * itself; once; and no older one in the place of what was put or deleted later. */
START_TEST(a_salvage_takes_content_that_is_sound)
{
    char out[STORE_DIR_BYTES], output[8192];
    enum damage damage = _i % DAMAGES;
    bool is_lost = damage == CONTENT_HEADER || damage == VALUE;
    off_t extent_at = put_around();
    if (_i / DAMAGES == 1)
        put_one("large", 'b');
    else if (_i / DAMAGES == 2)
        ck_assert_int_eq(kvstore_delete(store, KEY("large"), 0, NULL), KV_OK);
    must_close(store);
    store_file_flip(dir, extent_at + damage_places[damage]);
    store_dir_make(out);
    /* A content that counts no more may be anything. */
    int status = is_lost && _i / DAMAGES > 0 ? 0 : 1;
    ck_assert_int_eq(run_kvcheck("--salvage", out, dir, output, sizeof output), status);
    const char *told = strstr(output, " keys saved");
    bool is_there_then = _i / DAMAGES == 1 || (_i / DAMAGES == 0 && !is_lost);
    ck_assert_msg(told && told[-1] == (is_there_then ? '3' : '2'), "%s", output);
    store = must_open(out, &one_file);
    ck_assert_str_eq(get_text(store, "before"), "1");
    ck_assert_str_eq(get_text(store, "behind"), "2");
    ck_assert(is_there(store, "large") == is_there_then);
    if (is_there_then)
        check_large(store, "large", _i / DAMAGES == 1 ? 'b' : 'a');
    must_close(store);
    store_dir_remove(out);
    store = must_open(dir, &one_file); /* by the checkpoint */
}
END_TEST

/* A second record that names the same content, as a hostile file may have one, is none. */
START_TEST(content_counts_once)
{
    char path[PATH_MAX];
    struct kvstore_file_statistics facts;
    struct record placed, content = {.kind = RECORD_PUT, .key = KEY("large"), .in_extent = true};
    uint8_t place[sizeof(uint64_t)], bytes[64];
    uint64_t content_at = end_of_log() + RECORD_EXTENT_HEAD_BYTES;
    put_one("large", 'a');
    content.version = store->context.files[0].current->words->max_version;
    record_place(&content, content_at, place, &placed);
    uint64_t at = end_of_log();
    uint64_t size = record_write(bytes, &placed, kv_slice(NULL, 0),
                                 store->context.files[0].current->log.identity.salt, at);
    must_close(store);
    snprintf(path, sizeof path, "%s/data.0000", dir);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ck_assert_int_eq(pwrite(fd, bytes, size, (off_t)at), (ssize_t)size);
    close(fd);
    store_checkpoint_remove(dir);
    store = must_open(dir, &one_file);
    kvstore_file_statistics(store, 0, &facts);
    ck_assert_uint_gt(facts.recovered_bytes_cut, 0);
    check_large(store, "large", 'a');
}
END_TEST

/* Following ------------------------------------------------------------------------------------ */

struct followed {
    char keys[64];
    size_t large_bytes;
};

static bool note_change(void *context, const struct kvstore_change *change)
{
    struct followed *followed = context;
    size_t used = strlen(followed->keys);
    snprintf(followed->keys + used, sizeof followed->keys - used, "%.*s ", (int)change->key.size,
             (const char *)change->key.data);
    followed->large_bytes += change->value.size > 1000 ? change->value.size : 0;
    return true;
}

/* Who follows changes goes on behind a copy that is not whole, and gets the value in its turn. */
START_TEST(who_follows_gets_the_value_when_it_counts)
{
    struct large_put put = {0};
    struct kvstore_position position;
    struct followed followed = {0};
    bool at_end = false;
    ck_assert_int_eq(kvstore_changes_now(store, 0, &position), KV_OK);
    stop_copies(1);
    begin_put(&put, "large", 'a');
    await_stop();
    must_put(store, "behind", "2");
    ck_assert_int_eq(
        kvstore_changes(store, 0, &position, KEY(""), 10, note_change, &followed, &at_end), KV_OK);
    ck_assert(at_end);
    ck_assert_str_eq(followed.keys, "behind ");
    let_go_on();
    end_put(&put, KV_OK);
    must_put(store, "last", "3");
    ck_assert_int_eq(
        kvstore_changes(store, 0, &position, KEY(""), 10, note_change, &followed, &at_end), KV_OK);
    ck_assert(at_end);
    ck_assert_str_eq(followed.keys, "behind large last ");
    ck_assert_uint_eq(followed.large_bytes, LARGE_BYTES);
}
END_TEST

static void restore_fileio(void)
{
    fileio = &fileio_system;
}

TEST_SUITE(kvstore_placing)
{
    TCase *tests = tcase_create("placing");
    tcase_set_timeout(tests, 600);
    one_file_case_add(tests);
    tcase_add_checked_fixture(tests, NULL, restore_fileio);
    tcase_add_test(tests, nobody_waits_for_a_copy);
    tcase_add_test(tests, what_is_written_meanwhile_counts);
    tcase_add_loop_test(tests, nobody_waits_for_what_a_value_becomes, 0, 6);
    tcase_add_loop_test(tests, what_a_value_became_meanwhile_counts, 0, 6);
    tcase_add_loop_test(tests, nothing_is_made_of_a_damaged_value, 0, 6);
    tcase_add_test(tests, an_exchange_without_room_changes_nothing);
    tcase_add_loop_test(tests, nobody_waits_for_a_value_of_a_transaction, 0, 3);
    tcase_add_test(tests, a_guard_changes_while_a_value_is_copied);
    tcase_add_loop_test(tests, a_large_value_is_taken_back, 0, 2);
    tcase_add_test(tests, a_kill_leaves_an_extent);
    tcase_add_loop_test(tests, a_compaction_takes_the_value_with_it, 0, 4);
    tcase_add_loop_test(tests, a_value_counts_in_the_next_log_as_well, 0, 3);
    tcase_add_test(tests, a_hold_waits_for_the_value);
    tcase_add_test(tests, a_copy_may_fail);
    tcase_add_test(tests, a_refused_value_has_its_place_seen_to);
    tcase_add_test(tests, a_sync_notes_no_more_than_is_there);
    tcase_add_test(tests, who_passes_an_extent_has_not_verified_its_content);
    tcase_add_loop_test(tests, a_compaction_carries_damaged_content, 0, 2 * DAMAGES);
    tcase_add_test(tests, a_compaction_finds_what_a_damaged_record_named);
    tcase_add_loop_test(tests, a_salvage_takes_content_that_is_sound, 0, 3 * DAMAGES);
    tcase_add_test(tests, content_counts_once);
    tcase_add_test(tests, who_follows_gets_the_value_when_it_counts);
    suite_add_tcase(suite, tests);
    TCase *files = tcase_create("placing in several files");
    tcase_set_timeout(files, 600);
    store_case_add(files);
    tcase_add_checked_fixture(files, NULL, restore_fileio);
    tcase_add_test(files, a_large_value_is_not_committed_without_its_bytes);
    tcase_add_test(files, large_values_of_a_transaction_in_several_files);
    tcase_add_test(files, who_waits_waits_for_few_bytes);
    suite_add_tcase(suite, files);
}
