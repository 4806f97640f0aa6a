/* Logs in which extents were used again: what kvcheck says of superseded pointers, and what it
 * saves. */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/memory/cursor.h"
#include "common/time/clock.h"
#include "kvstore/format/fileheader.h"
#include "kvstore/format/record.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_case.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define KEY(text)   kv_slice_from_string(text)
#define LARGE_BYTES ((size_t)70000)
#define KEYS        3
#define ROUNDS      6
#define PLACED_MOST 64

static const struct kvstore_options unsynced = {
    .create = true, .datafiles = 1, .compact_dead_percent = 100, .durability = KVSTORE_SYNC_NONE};

static const char *const keys[KEYS] = {"a", "b", "c"};

static struct image image;
static char out[STORE_DIR_BYTES];
static char output[65536];

/* A value pointer in data.0000 of the image, in the order of the log. */
struct placed {
    uint64_t offset, size_bytes;
    char key;
    uint64_t content_at;
    bool is_superseded;
};

static struct placed placed[PLACED_MOST];
static unsigned placed_count, superseded_count;

static void set_up(void)
{
    store_dir_make(out);
    store = must_open(dir, &unsynced);
}

static void tear_down(void)
{
    store_dir_remove(out);
    image_free(&image);
}

static void put_value(const char *key, char letter, uint64_t expiry_ms)
{
    static char value[LARGE_BYTES];
    const struct kvstore_put_options options = {.expiry_ms = expiry_ms};
    memset(value, letter, sizeof value);
    ck_assert_int_eq(kvstore_put(store, KEY(key), kv_slice(value, sizeof value), &options, NULL),
                     KV_OK);
}

static void check_value(struct kvstore *opened, const char *key, char letter)
{
    static char value[LARGE_BYTES], wanted[LARGE_BYTES];
    memset(wanted, letter, sizeof wanted);
    ck_assert_int_eq(kvstore_get(opened, KEY(key), value, sizeof value, NULL), KV_OK);
    ck_assert_mem_eq(value, wanted, sizeof value);
}

static struct image_file *log_file(void)
{
    return image_find(&image, "data.0000");
}

static uint64_t salt(void)
{
    struct file_identity identity;
    ck_assert_int_eq(fileheader_read_identity(log_file()->bytes, &identity), FILEHEADER_VALID);
    return identity.salt;
}

/* Takes an image of the store as it is, and finds its value pointers. */
static void take_log(void)
{
    struct record record;
    image_free(&image);
    image_take(&image, dir);
    placed_count = superseded_count = 0;
    for (uint64_t at = FILE_HEADER_BYTES, size;; at += size) {
        enum record_verdict verdict =
            record_walk(log_file()->bytes, log_file()->size, salt(), at, &record, &size);
        if (verdict == RECORD_END)
            break;
        ck_assert(verdict == RECORD_VALID || verdict == RECORD_SUPERSEDED);
        if (record.content_at == 0)
            continue;
        ck_assert_uint_lt(placed_count, PLACED_MOST);
        placed[placed_count++] = (struct placed){at, size, *(const char *)record.key.data,
                                                 record.content_at, verdict == RECORD_SUPERSEDED};
        superseded_count += verdict == RECORD_SUPERSEDED;
    }
}

/* The last value pointer of the key, or the last but some. */
static const struct placed *last_placed(char key, unsigned before)
{
    for (unsigned i = placed_count; i-- > 0;)
        if (placed[i].key == key && before-- == 0)
            return &placed[i];
    ck_abort_msg("no such record of %c", key);
}

/* Overwrites large values again and again, with others between them; one is deleted. */
static void make_superseded(void)
{
    put_value("d", 'd', 0);
    must_put(store, "small", "1");
    for (int round = 0; round < ROUNDS; round++)
        for (unsigned i = 0; i < KEYS; i++)
            put_value(keys[i], (char)('A' + round), 0);
    must_put(store, "small", "2");
    ck_assert_int_eq(kvstore_delete(store, KEY("d"), 0, NULL), KV_OK);
    take_log();
    ck_assert_uint_ge(superseded_count, KEYS);
}

static void check_all(struct kvstore *opened)
{
    for (unsigned i = 0; i < KEYS; i++)
        check_value(opened, keys[i], 'A' + ROUNDS - 1);
    ck_assert_pstr_eq(get_text(opened, "small"), "2");
    ck_assert_int_eq(get_entry(opened, "d", NULL), KV_NOT_FOUND);
}

/* What kvcheck makes anew in `out` has just what the store has. */
static void check_out(void)
{
    struct kvstore *made = must_open(out, NULL);
    check_all(made);
    ck_assert_uint_eq(total_statistics(made).keys, KEYS + 1);
    must_close(made);
}

static unsigned count_in_output(const char *text)
{
    unsigned count = 0;
    for (const char *at = output; (at = strstr(at, text)) != NULL; at++)
        count++;
    return count;
}

/* Runs kvcheck on the image, with this result; nothing is damage unless it is 1. */
static void check_image(const char *option, const char *target, int status)
{
    image_put(&image, dir);
    int found = run_kvcheck(option ? option : dir, option ? (target ? target : dir) : NULL,
                            target ? dir : NULL, output, sizeof output);
    ck_assert_msg(found == status, "%s: %d: %s", option ? option : "", found, output);
}

static void salvage_image(int status)
{
    store_dir_remove(out);
    check_image("--salvage", out, status);
}

static void close_store(void)
{
    must_close(store);
    store = NULL;
}

/* As a kill leaves it; as a clean close does. */
START_TEST(a_superseded_pointer_that_another_follows_is_nothing)
{
    char to[STORE_DIR_BYTES + 8];
    bool is_closed = _i == 1;
    make_superseded();
    close_store();
    if (is_closed)
        take_log();
    check_image(NULL, NULL, 0);
    ck_assert_uint_eq(count_in_output("damage"), 1); /* the title of a column */
    ck_assert_uint_eq(count_in_output("note"), 0);
    ck_assert_msg(strstr(output, is_closed ? " ok " : " none ") != NULL, "%s", output);
    salvage_image(0);
    ck_assert_uint_eq(count_in_output("lost: "), 0);
    check_out();
    store_dir_remove(out);
    snprintf(to, sizeof to, "--to=%s", out);
    int status = run_kvcheck("--upgrade", to, dir, output, sizeof output);
    ck_assert_msg(status == (is_closed ? 0 : 4) || status == 0, "%d: %s", status, output);
    check_out();
    store = must_open(dir, &unsynced);
    check_all(store);
}
END_TEST

/* Each value that the log still has is printed once, and the newest as live. */
START_TEST(a_dump_passes_superseded_pointers_over)
{
    static char values[ROUNDS * KEYS * (LARGE_BYTES + 100)];
    make_superseded();
    close_store();
    image_put(&image, dir);
    ck_assert_int_eq(run_kvcheck("--dump", dir, NULL, values, sizeof values), 0);
    unsigned live = 0, dead = 0;
    for (const char *line = values; *line; line = strchr(line, '\n') + 1) {
        live += strncmp(strchr(strchr(line, ' ') + 1, ' '), " live put ", 10) == 0;
        dead += strncmp(strchr(strchr(line, ' ') + 1, ' '), " dead ", 6) == 0;
    }
    ck_assert_uint_eq(live, KEYS + 1);
    /* The other values that are not superseded, the small one and the deletion. */
    ck_assert_uint_eq(dead, placed_count - superseded_count - KEYS + 2);
}
END_TEST

static void flip(uint64_t offset)
{
    log_file()->bytes[offset] ^= 0x20;
}

static bool is_in_extent_used_again(const struct placed *record)
{
    for (unsigned i = 0; i < placed_count; i++)
        if (placed[i].is_superseded && placed[i].content_at == record->content_at)
            return true;
    return false;
}

#define ROTS 4

/* A bit of the value that a key has, of its header, of the value pointer, in an extent that was
 * used again. */
START_TEST(rot_in_what_counts_is_found)
{
    char told[64];
    const char *key = _i / ROTS == 0 ? "b" : "c";
    make_superseded();
    close_store();
    const struct placed *last = last_placed(*key, 0), *before = last_placed(*key, 1);
    ck_assert(is_in_extent_used_again(last));
    const uint64_t places[ROTS] = {last->content_at + 1000, last->content_at + RECORD_VERSION_AT,
                                   last->content_at + 18, last->offset + 4};
    flip(places[_i % ROTS]);
    check_image(NULL, NULL, 1);
    snprintf(told, sizeof told, "data.0000: offset %" PRIu64 ": ", last->offset);
    ck_assert_msg(strstr(output, told) != NULL, "%s: %s", told, output);
    salvage_image(1);
    struct kvstore *saved = must_open(out, NULL);
    for (unsigned i = 0; i < KEYS; i++)
        if (keys[i][0] != *key)
            check_value(saved, keys[i], 'A' + ROUNDS - 1);
    ck_assert_int_eq(get_entry(saved, "d", NULL), KV_NOT_FOUND);
    if (_i % ROTS == 3) /* what it names is sound, and there once */
        check_value(saved, key, 'A' + ROUNDS - 1);
    else if (before->is_superseded)
        ck_assert_int_eq(get_entry(saved, key, NULL), KV_NOT_FOUND);
    else /* the value before is still there */
        check_value(saved, key, 'A' + ROUNDS - 2);
    must_close(saved);
}
END_TEST

/* In an extent that waits for another content, and in one that has got it half-way. */
START_TEST(rot_in_what_counts_no_more_is_no_finding)
{
    make_superseded();
    close_store();
    const struct placed *dead = last_placed('c', 1);
    ck_assert(!dead->is_superseded);
    if (_i == 0)
        flip(dead->content_at + 1000);
    else
        store_u64(log_file()->bytes + dead->content_at + RECORD_VERSION_AT, RECORD_NO_VERSION_YET);
    check_image(NULL, NULL, 0);
    salvage_image(0);
    check_out();
}
END_TEST

/* Leaves `a` with a superseded pointer as its newest: its extent has a value of `b` that nothing
 * names, as what replaced both never got to the disk. */
static void make_bare(void)
{
    must_put(store, "a", "old");
    put_value("a", 'A', 0);
    put_value("b", 'B', 0);
    put_value("a", 'C', 0);
    put_value("b", 'D', 0);
    take_log();
    const struct placed *bare = last_placed('a', 1), *next = last_placed('a', 0);
    ck_assert(bare->is_superseded);
    ck_assert_uint_eq(bare->content_at, last_placed('b', 0)->content_at);
    memset(log_file()->bytes + next->offset, 0, log_file()->size - next->offset);
    close_store();
}

static void note_earlier_boot(void)
{
    log_file()->bytes[fileheader_note_offset(FILE_NOTE_BOOT)] ^= 1; /* it was cut itself */
}

/* In the same boot it is damage; else the log ends before it. */
START_TEST(what_no_power_failure_took_is_lost)
{
    make_bare();
    if (_i == 1)
        note_earlier_boot();
    check_image(NULL, NULL, 1);
    ck_assert_msg(strstr(output, _i == 0 ? "the machine has not been started again"
                                         : "a power failure leaves that") != NULL,
                  "%s", output);
    salvage_image(1);
    struct kvstore *saved = must_open(out, NULL);
    check_value(saved, "b", 'B');
    ck_assert_pstr_eq(get_text(saved, "a"), "old"); /* the newest that is intact */
    must_close(saved);
}
END_TEST

/* The store of the image as the engine opens it; status. */
static enum kv_status open_image(void)
{
    struct kvstore *opened = NULL;
    image_put(&image, dir);
    enum kv_status status = kvstore_open(dir, &unsynced, &opened, NULL);
    kvstore_close(opened, NULL);
    return status;
}

static void zero(uint64_t from, uint64_t to)
{
    memset(log_file()->bytes + from, 0, to - from);
}

/* `a` has a superseded pointer behind which only another one of it follows. */
static void put_by_turns(void)
{
    put_value("a", 'A', 0);
    put_value("b", 'B', 0);
    put_value("a", 'C', 0);
    put_value("b", 'D', 0); /* in the extent of A */
}

/* A value in an extent that was used again, whose value pointer is in a torn tail, though a
 * superseded one comes behind, of which the content is there as little. */
START_TEST(what_a_torn_tail_has_named_is_not_brought_back)
{
    struct kvstore_hold *hold;
    put_by_turns();
    ck_assert_int_eq(kvstore_hold_begin(store, &hold, NULL), KV_OK);
    kvstore_hold_end(hold);
    put_value("c", 'E', 0); /* at the end: the extent of B is free no more */
    take_log();
    close_store();
    ck_assert_uint_eq(last_placed('b', 0)->content_at, last_placed('a', 1)->content_at);
    zero(last_placed('b', 0)->offset, last_placed('c', 0)->offset);
    note_earlier_boot();
    check_image(NULL, NULL, 0);
    salvage_image(0);
    struct kvstore *saved = must_open(out, NULL);
    check_value(saved, "b", 'B');
    must_close(saved);
    image_put(&image, dir);
    store = must_open(dir, &unsynced);
    check_value(store, "b", 'B');
}
END_TEST

/* Where the log ends before a superseded pointer it ends before the one that this follows, too:
 * kvcheck says what the engine says. */
START_TEST(a_superseded_pointer_behind_the_end_follows_none)
{
    put_by_turns();
    take_log();
    close_store();
    zero(last_placed('b', 0)->offset, log_file()->size);
    flip(last_placed('a', 0)->content_at + 1000);
    check_image(NULL, NULL, 1);
    ck_assert_int_eq(open_image(), KV_CORRUPT);
}
END_TEST

/* A transaction that has lost a large value is not whole, though a large value that was lost with
 * it had replaced that one. */
START_TEST(half_a_transaction_is_not_sound)
{
    static char value[LARGE_BYTES];
    const struct kvstore_step large = {.kind = KVSTORE_STEP_PUT,
                                       .key = KEY("a"),
                                       .value = {value, sizeof value}},
                              small = {.kind = KVSTORE_STEP_PUT,
                                       .key = KEY("small"),
                                       .value = KEY("of it")};
    const struct kvstore_step then[] = {_i == 0 ? large : small, _i == 0 ? small : large};
    const struct kvstore_transaction transaction = {.then = then, .then_count = 2};
    struct kvstore_step_result results[2];
    struct kvstore_transacted told;
    char to[STORE_DIR_BYTES + 8];
    ck_assert_int_eq(kvstore_transact(store, &transaction, results, &told), KV_OK);
    put_value("a", 'A', 0);
    take_log();
    close_store();
    flip(last_placed('a', 1)->content_at + 1000);
    flip(last_placed('a', 0)->content_at + 1000);
    note_earlier_boot();
    check_image(NULL, NULL, 1);
    snprintf(to, sizeof to, "--to=%s", out);
    ck_assert_int_eq(run_kvcheck("--upgrade", to, dir, output, sizeof output), 4);
}
END_TEST

/* A content that is named again and again would make a small file one of any size. */
START_TEST(a_content_counts_once)
{
    struct record content, again;
    uint8_t place[8];
    uint64_t size;
    put_value("a", 'A', 0);
    take_log();
    close_store();
    const struct placed *last = last_placed('a', 0);
    uint64_t end = last->offset + last->size_bytes;
    ck_assert_int_eq(
        record_walk(log_file()->bytes, log_file()->size, salt(), last->offset, &content, &size),
        RECORD_VALID);
    record_place(&content, last->content_at, place, &again);
    for (int i = 0; i < 3; i++, end += last->size_bytes)
        record_write(log_file()->bytes + end, &again, kv_slice(NULL, 0), salt(), end);
    check_image(NULL, NULL, 1);
    ck_assert_int_eq(open_image(), KV_CORRUPT);
    salvage_image(1);
    ck_assert_msg(strstr(output, ": 1 keys saved") != NULL, "%s", output);
}
END_TEST

TEST_SUITE(kvstore_superseded)
{
    TCase *tests = tcase_create("superseded");
    store_case_add(tests);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, a_superseded_pointer_that_another_follows_is_nothing, 0, 2);
    tcase_add_test(tests, a_dump_passes_superseded_pointers_over);
    tcase_add_loop_test(tests, rot_in_what_counts_is_found, 0, 2 * ROTS);
    tcase_add_loop_test(tests, rot_in_what_counts_no_more_is_no_finding, 0, 2);
    tcase_add_loop_test(tests, what_no_power_failure_took_is_lost, 0, 2);
    tcase_add_test(tests, what_a_torn_tail_has_named_is_not_brought_back);
    tcase_add_test(tests, a_superseded_pointer_behind_the_end_follows_none);
    tcase_add_loop_test(tests, half_a_transaction_is_not_sound, 0, 2);
    tcase_add_test(tests, a_content_counts_once);
    suite_add_tcase(suite, tests);
}
