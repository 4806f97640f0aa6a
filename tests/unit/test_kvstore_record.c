#include "kvstore/format/record.h"

#include <check.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/numbers/random.h"
#include "tests/support/test_suite.h"

#define SALT       UINT64_C(0x1122334455667788)
#define OFFSET     UINT64_C(4096)
#define ROOM_BYTES 8192

static uint8_t room[ROOM_BYTES];
static uint8_t source[ROOM_BYTES];

/* A record of random content and small random sizes, now and then without value or with expiry, or
 * of a transaction. */
static struct record random_record(struct random_state *random)
{
    for (size_t i = 0; i < sizeof source; i++)
        source[i] = (uint8_t)random_next(random);
    struct record record = {
        .kind = random_below(random, 4) == 0 ? RECORD_DELETE : RECORD_PUT,
        .version = 1 + random_below(random, RECORD_VERSION_LIMIT - 1),
        .expiry_ms = random_below(random, 2) ? 1 + random_below(random, UINT64_MAX - 1) : 0,
        .key = kv_slice(source, 1 + random_below(random, 40)),
    };
    if (record.kind == RECORD_PUT)
        record.value = kv_slice(source + 100, random_below(random, 300));
    unsigned place = random_below(random, 4);
    record.goes_on = place == 1;
    record.transaction = place == 2 ? 1 + random_below(random, UINT64_MAX - 1) : 0;
    record.next_file = place == 2 ? (uint32_t)random_next(random) : 0;
    record.parts = place == 2 ? (uint32_t)random_next(random) : 0;
    return record;
}

static uint64_t write_record(const struct record *record)
{
    memset(room, 0xEE, sizeof room);
    return record_write(room, record, kv_slice(NULL, 0), SALT, OFFSET);
}

static enum record_verdict verdict_of(const uint8_t *at, uint64_t available)
{
    struct record read;
    uint64_t size_bytes;
    return record_read(at, available, SALT, OFFSET, &read, &size_bytes);
}

static void assert_same(const struct record *expected, const struct record *read)
{
    ck_assert_int_eq(read->kind, expected->kind);
    ck_assert_uint_eq(read->version, expected->version);
    ck_assert_uint_eq(read->expiry_ms, expected->expiry_ms);
    ck_assert(kv_slice_equal(read->key, expected->key));
    ck_assert(kv_slice_equal(read->value, expected->value));
    ck_assert_int_eq(read->goes_on, expected->goes_on);
    ck_assert_uint_eq(read->transaction, expected->transaction);
    if (expected->transaction != 0) {
        ck_assert_uint_eq(read->next_file, expected->next_file);
        ck_assert_uint_eq(read->parts, expected->parts);
    }
}

START_TEST(what_is_written_is_read)
{
    struct random_state random;
    random_seed(&random, (uint64_t)_i + 1);
    for (int round = 0; round < 500; round++) {
        struct record record = random_record(&random);
        uint64_t written_bytes = write_record(&record);
        ck_assert_uint_eq(written_bytes, record_bytes_in_log(&record, record.value.size));
        if (record.transaction == 0)
            ck_assert_uint_eq(written_bytes, record_size(record.key.size, record.value.size,
                                                         record.expiry_ms != 0));
        ck_assert_uint_eq(written_bytes % RECORD_ALIGNMENT, 0);
        ck_assert_uint_eq(room[written_bytes], 0xEE);

        struct record read;
        uint64_t size_bytes;
        ck_assert_int_eq(record_read(room, sizeof room, SALT, OFFSET, &read, &size_bytes),
                         RECORD_VALID);
        ck_assert_uint_eq(size_bytes, written_bytes);
        assert_same(&record, &read);
        ck_assert_int_eq(record_parse(room, written_bytes, &read, &size_bytes), RECORD_VALID);
        assert_same(&record, &read);
    }
}
END_TEST

struct put_log {
    uint8_t bytes[ROOM_BYTES];
    uint64_t puts;
    uint64_t fail_at; /* the put that fails, from 1; 0: none */
};

static int note_put(void *context, const uint8_t *bytes, uint64_t size, uint64_t at)
{
    struct put_log *log = context;
    if (++log->puts == log->fail_at)
        return -7;
    ck_assert_uint_le(at + size, sizeof log->bytes);
    memcpy(log->bytes + at, bytes, size);
    return 0;
}

static int write_pieces(const struct record *record, struct kv_slice value_tail,
                        uint64_t room_bytes, struct put_log *log)
{
    static uint8_t piece[ROOM_BYTES];
    return record_write_pieces(record, value_tail, SALT, OFFSET, piece, room_bytes, note_put, log);
}

/* Also with a value in two pieces, and where one piece ends in the key, the padding, ... */
START_TEST(pieces_of_any_size_make_the_same_record)
{
    struct random_state random;
    static struct put_log log;
    random_seed(&random, (uint64_t)_i + 1);
    for (int round = 0; round < 300; round++) {
        struct record record = random_record(&random);
        uint64_t size = write_record(&record);
        uint64_t split = random_below(&random, record.value.size + 1);
        const uint8_t *value = record.value.data;
        struct kv_slice tail = kv_slice(value + split, record.value.size - split);
        record.value = kv_slice(value, split);
        uint64_t room_bytes = RECORD_MAX_HEADER_BYTES + random_below(&random, size);
        log = (struct put_log){0};
        ck_assert_int_eq(write_pieces(&record, tail, room_bytes, &log), 0);
        ck_assert_mem_eq(log.bytes, room, size);
        uint64_t pieces = 0;
        for (uint64_t done = 0; done < size; pieces++) {
            uint64_t to_multiple = room_bytes - (OFFSET + done) % room_bytes;
            done += to_multiple < RECORD_MAX_HEADER_BYTES ? room_bytes : to_multiple;
        }
        ck_assert_uint_eq(log.puts, size <= room_bytes ? 1 : pieces + 1); /* the checksum last */
    }
}
END_TEST

START_TEST(a_record_with_a_piece_missing_is_none)
{
    struct random_state random;
    static struct put_log log;
    random_seed(&random, 1);
    struct record record = random_record(&random);
    record.kind = RECORD_PUT;
    record.value = kv_slice(source + 100, 3000);
    for (uint64_t fail_at = 1; fail_at <= 32; fail_at++) {
        log = (struct put_log){.fail_at = fail_at};
        ck_assert_int_eq(write_pieces(&record, kv_slice(NULL, 0), 100, &log), -7);
        ck_assert_uint_eq(log.puts, fail_at);
        ck_assert_int_ne(verdict_of(log.bytes, sizeof log.bytes), RECORD_VALID);
    }
}
END_TEST

START_TEST(value_in_two_pieces_is_one_value)
{
    struct record record = {.kind = RECORD_PUT, .version = 7, .key = kv_slice("key", 3)};
    record.value = kv_slice("head", 4);
    uint64_t size_bytes = record_write(room, &record, kv_slice("tail", 4), SALT, OFFSET);
    ck_assert_uint_eq(size_bytes, record_size(3, 8, false));

    struct record read;
    ck_assert_int_eq(record_read(room, size_bytes, SALT, OFFSET, &read, &size_bytes), RECORD_VALID);
    ck_assert(kv_slice_equal(read.value, kv_slice("headtail", 8)));
}
END_TEST

START_TEST(largest_key_and_empty_value)
{
    static uint8_t key[65535];
    static uint8_t big[70000];
    memset(key, 'k', sizeof key);
    struct record record = {.kind = RECORD_PUT, .version = 1, .key = kv_slice(key, sizeof key)};
    uint64_t size_bytes = record_write(big, &record, kv_slice(NULL, 0), SALT, OFFSET);

    struct record read;
    ck_assert_int_eq(record_read(big, size_bytes, SALT, OFFSET, &read, &size_bytes), RECORD_VALID);
    assert_same(&record, &read);
}
END_TEST

START_TEST(every_flipped_bit_is_detected)
{
    struct random_state random;
    random_seed(&random, 100 + (uint64_t)_i);
    struct record record = random_record(&random);
    uint64_t size_bytes = write_record(&record);
    for (uint64_t bit = 0; bit < size_bytes * 8; bit++) {
        room[bit / 8] ^= (uint8_t)(1u << bit % 8);
        ck_assert_msg(verdict_of(room, sizeof room) == RECORD_INVALID, "bit %lu of %lu bytes",
                      (unsigned long)bit, (unsigned long)size_bytes);
        room[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    ck_assert_int_eq(verdict_of(room, size_bytes), RECORD_VALID);
}
END_TEST

/* Each length is given to record_read in memory of just that size, so that the address sanitizer
 * sees a read past it. */
START_TEST(every_truncation_is_detected)
{
    struct random_state random;
    random_seed(&random, 200 + (uint64_t)_i);
    struct record record = random_record(&random);
    uint64_t size_bytes = write_record(&record);
    for (uint64_t available = 0; available < size_bytes; available++) {
        uint8_t *exact = malloc(available ? available : 1);
        memcpy(exact, room, available);
        ck_assert_int_ne(verdict_of(exact, available), RECORD_VALID);
        struct record unread;
        uint64_t unread_bytes;
        ck_assert_int_ne(record_parse(exact, available, &unread, &unread_bytes), RECORD_VALID);
        free(exact);
    }
}
END_TEST

START_TEST(torn_write_is_detected)
{
    struct random_state random;
    random_seed(&random, 300 + (uint64_t)_i);
    struct record record = random_record(&random);
    uint64_t size_bytes = write_record(&record);
    uint64_t content_end = size_bytes;
    while (room[content_end - 1] == 0)
        content_end--;
    for (uint64_t kept = 0; kept < content_end; kept++) {
        uint8_t torn[ROOM_BYTES] = {0};
        memcpy(torn, room, kept);
        ck_assert_int_ne(verdict_of(torn, sizeof torn), RECORD_VALID);
    }
}
END_TEST

START_TEST(valid_only_at_its_offset_and_with_its_salt)
{
    struct record record = {.kind = RECORD_PUT, .version = 1, .key = kv_slice("key", 3)};
    uint64_t size_bytes = write_record(&record);
    struct record read;
    ck_assert_int_eq(record_read(room, size_bytes, SALT, OFFSET + 8, &read, &size_bytes),
                     RECORD_INVALID);
    ck_assert_int_eq(record_read(room, size_bytes, SALT + 1, OFFSET, &read, &size_bytes),
                     RECORD_INVALID);
}
END_TEST

START_TEST(zeros_are_the_end)
{
    memset(room, 0, sizeof room);
    for (uint64_t available = 0; available <= 64; available++)
        ck_assert_int_eq(verdict_of(room, available), RECORD_END);
    room[RECORD_HEADER_BYTES - 1] = 1;
    ck_assert_int_eq(verdict_of(room, 64), RECORD_INVALID);
    ck_assert_int_eq(verdict_of(room, RECORD_HEADER_BYTES - 1), RECORD_END);
}
END_TEST

/* The checksum may hold and the record still be none that record_write makes. */
START_TEST(unwritable_records_are_invalid)
{
    struct record sound = {
        .kind = RECORD_PUT, .version = 1, .key = kv_slice("k", 1), .value = kv_slice("v", 1)};
    struct record cases[] = {sound, sound, sound, sound, sound};
    cases[0].kind = 3;
    cases[1].version = 0;
    cases[2].key.size = 0;
    cases[3].kind = RECORD_DELETE;
    cases[4].version = RECORD_VERSION_LIMIT;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t size_bytes = write_record(&cases[i]);
        ck_assert_int_eq(verdict_of(room, size_bytes), RECORD_INVALID);
    }
}
END_TEST

#define FLAGS_AT 19u
#define PART_AT  20u

static enum record_verdict verdict_of_parsing(uint64_t available)
{
    struct record read;
    uint64_t size_bytes;
    return record_parse(room, available, &read, &size_bytes);
}

/* No matter what the checksum says: these are no parts that record_write makes. */
START_TEST(what_is_no_part_is_invalid)
{
    struct record part = {.kind = RECORD_PUT,
                          .version = 1,
                          .key = kv_slice("k", 1),
                          .value = kv_slice("v", 1),
                          .transaction = 1,
                          .next_file = UINT32_MAX};
    uint64_t size_bytes = write_record(&part);
    ck_assert_uint_eq(size_bytes, 40); /* 20 + 16 + 2, and padding */
    ck_assert_int_eq(verdict_of_parsing(size_bytes), RECORD_VALID);
    for (unsigned flag = 0x08; flag <= 0x80; flag <<= 1) {
        room[FLAGS_AT] |= (uint8_t)flag;
        ck_assert_int_eq(verdict_of_parsing(sizeof room), RECORD_INVALID);
        room[FLAGS_AT] &= (uint8_t)~flag;
    }
    room[FLAGS_AT] |= 0x02; /* goes on, and ends */
    ck_assert_int_eq(verdict_of_parsing(sizeof room), RECORD_INVALID);
    room[FLAGS_AT] &= (uint8_t)~0x02;
    ck_assert_int_eq(verdict_of_parsing(sizeof room), RECORD_VALID);
    room[PART_AT] = 0; /* no number */
    ck_assert_int_eq(verdict_of_parsing(sizeof room), RECORD_INVALID);
    part.expiry_ms = 1;
    size_bytes = write_record(&part);
    ck_assert_uint_eq(size_bytes, 48);
    room[PART_AT] = 0; /* the expiry now */
    ck_assert_int_eq(verdict_of_parsing(sizeof room), RECORD_INVALID);
}
END_TEST

START_TEST(a_record_that_is_detached_stands_alone)
{
    struct record read, record = {.kind = RECORD_DELETE,
                                  .version = 9,
                                  .key = kv_slice("key", 3),
                                  .transaction = UINT64_MAX,
                                  .next_file = 3};
    uint64_t size_bytes;
    record_detach(&record);
    ck_assert_uint_eq(write_record(&record), record_size(3, 0, false));
    ck_assert_int_eq(record_read(room, sizeof room, SALT, OFFSET, &read, &size_bytes),
                     RECORD_VALID);
    ck_assert(!read.goes_on && read.transaction == 0);
}
END_TEST

START_TEST(random_bytes_are_never_valid_and_never_read_past_the_end)
{
    struct random_state random;
    random_seed(&random, 400 + (uint64_t)_i);
    for (int round = 0; round < 20000; round++) {
        size_t size = random_below(&random, 80);
        uint8_t *bytes = malloc(size ? size : 1);
        for (size_t i = 0; i < size; i++)
            bytes[i] = (uint8_t)random_next(&random);
        if (size > RECORD_HEADER_BYTES) { /* make most of them get as far as the checksum */
            memset(bytes + 5, 0, 3);
            bytes[17] = 0;
            bytes[18] = RECORD_PUT;
            bytes[19] &= 7;
        }
        ck_assert_int_ne(verdict_of(bytes, size), RECORD_VALID);
        struct record record;
        uint64_t size_bytes;
        if (record_parse(bytes, size, &record, &size_bytes) == RECORD_VALID)
            ck_assert_uint_le(size_bytes, size);
        free(bytes);
    }
}
END_TEST

/* Extents -------------------------------------------------------------------------------------- */

#define EXAMPLE_SALT   UINT64_C(0xcdb570057c3e66f9)
#define CONTENT_AT     UINT64_C(0x1018)
#define PLACED_AT      UINT64_C(0x11030)
#define EXAMPLE_END    UINT64_C(0x11050)
#define SUPERSEDED_END UINT64_C(0x11090) /* with another content in the extent */

static uint8_t example[SUPERSEDED_END];

static int put_in_example(void *context, const uint8_t *bytes, uint64_t size, uint64_t at)
{
    (void)context;
    memcpy(example + CONTENT_AT + at, bytes, size);
    return 0;
}

/* Writes a content to the extent, which gets its version only if is_numbered, and the value pointer
 * of that version to placed_at. */
static void fill_example(const char *key, char letter, bool is_numbered, uint64_t version,
                         uint64_t placed_at)
{
    static char value[65536];
    static uint8_t piece[4096];
    memset(value, letter, sizeof value);
    struct record content = {.kind = RECORD_PUT,
                             .version = RECORD_NO_VERSION_YET,
                             .key = kv_slice_from_string(key),
                             .value = kv_slice(value, sizeof value),
                             .in_extent = true};
    ck_assert_uint_eq(CONTENT_AT + record_bytes_in_log(&content, sizeof value), PLACED_AT);
    ck_assert_int_eq(record_write_pieces(&content, kv_slice(NULL, 0), EXAMPLE_SALT, CONTENT_AT,
                                         piece, sizeof piece, put_in_example, NULL),
                     0);
    content.version = version;
    if (is_numbered)
        record_number(&content, EXAMPLE_SALT, CONTENT_AT, example + CONTENT_AT,
                      example + CONTENT_AT + RECORD_VERSION_AT);
    struct record placed;
    uint8_t place[8];
    record_place(&content, CONTENT_AT, place, &placed);
    ck_assert_uint_eq(
        record_write(example + placed_at, &placed, kv_slice(NULL, 0), EXAMPLE_SALT, placed_at),
        EXAMPLE_END - PLACED_AT);
}

/* The example of docs/FORMAT.md, up to where the content gets its version, or all of it. */
static void make_example(bool is_numbered)
{
    memset(example, 0, sizeof example);
    record_write_extent(example + CONTENT_AT - RECORD_EXTENT_HEAD_BYTES, 1, PLACED_AT - CONTENT_AT,
                        EXAMPLE_SALT, CONTENT_AT - RECORD_EXTENT_HEAD_BYTES);
    fill_example("city", 'v', is_numbered, 2, PLACED_AT);
}

static enum record_verdict walk_example(uint64_t offset, struct record *record, uint64_t *size)
{
    return record_walk(example, sizeof example, EXAMPLE_SALT, offset, record, size);
}

START_TEST(an_extent_is_as_documented)
{
    static const uint8_t head[] = {0x9c, 0x65, 0x50, 0x77, 0x1c, 0x00, 0x01, 0x00, 0x01, 0x00,
                                   0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00,
                                   0x00, 0x00, 0x00, 0x00, 0x1d, 0x65, 0xdb, 0x9c, 0x00, 0x00,
                                   0x01, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                                   0x04, 0x00, 0x01, 0x08, 0x63, 0x69, 0x74, 0x79};
    static const uint8_t placed[] = {0x8b, 0x4e, 0x7b, 0x0c, 0x08, 0x00, 0x00, 0x00,
                                     0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                                     0x04, 0x00, 0x05, 0x00, 0x63, 0x69, 0x74, 0x79,
                                     0x18, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
    struct record record;
    uint64_t size;
    make_example(true);
    ck_assert_mem_eq(example + 0x1000, head, sizeof head);
    ck_assert_mem_eq(example + PLACED_AT, placed, sizeof placed);
    ck_assert_int_eq(walk_example(0x1000, &record, &size), RECORD_VALID);
    ck_assert_int_eq(record.kind, RECORD_EXTENT);
    ck_assert_uint_eq(0x1000 + size, PLACED_AT);
    ck_assert_int_eq(walk_example(PLACED_AT, &record, &size), RECORD_VALID);
    ck_assert_uint_eq(size, EXAMPLE_END - PLACED_AT);
    ck_assert_int_eq(record.kind, RECORD_PUT);
    ck_assert_uint_eq(record.version, 2);
    ck_assert_uint_eq(record.value.size, 65536);
    ck_assert_uint_eq(record_entry_offset(&record, PLACED_AT), CONTENT_AT);
    ck_assert_uint_eq(record_entry_bytes(&record, size), PLACED_AT - CONTENT_AT);
    ck_assert_int_eq(record_read(example + CONTENT_AT, EXAMPLE_END - CONTENT_AT, EXAMPLE_SALT,
                                 CONTENT_AT, &record, &size),
                     RECORD_VALID);
    ck_assert_uint_eq(size, PLACED_AT - CONTENT_AT);
}
END_TEST

/* The value pointer is superseded when its extent has another content, as docs/FORMAT.md has it,
 * and while that is being written: then it is given as it stands. */
START_TEST(a_superseded_pointer_is_as_documented)
{
    static const uint8_t content[] = {0x6f, 0x7e, 0xbe, 0xb3, 0x00, 0x00, 0x01, 0x00,
                                      0x04, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                                      0x04, 0x00, 0x01, 0x08, 0x74, 0x6f, 0x77, 0x6e};
    static const uint8_t behind[] = {
        0xf2, 0x86, 0x73, 0xc0, 0x06, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x04, 0x00, 0x01, 0x00, 0x63, 0x69, 0x74, 0x79, 0x47, 0x65,
        0x6e, 0x65, 0x76, 0x61, 0x00, 0x00, 0x06, 0xde, 0xe2, 0x51, 0x08, 0x00, 0x00,
        0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00, 0x05, 0x00,
        0x74, 0x6f, 0x77, 0x6e, 0x18, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
    const struct record put = {.kind = RECORD_PUT,
                               .version = 3,
                               .key = kv_slice_from_string("city"),
                               .value = kv_slice_from_string("Geneva")};
    struct record record;
    uint64_t size;
    make_example(true);
    record_write(example + EXAMPLE_END, &put, kv_slice(NULL, 0), EXAMPLE_SALT, EXAMPLE_END);
    for (int is_numbered = 0; is_numbered <= 1; is_numbered++) {
        fill_example("town", 'w', is_numbered, 4, SUPERSEDED_END - 32);
        ck_assert_int_eq(walk_example(PLACED_AT, &record, &size), RECORD_SUPERSEDED);
        ck_assert_uint_eq(size, EXAMPLE_END - PLACED_AT);
        ck_assert_int_eq(record.kind, RECORD_POINTER);
        ck_assert_uint_eq(record.version, 2);
        ck_assert(kv_slice_equal(record.key, kv_slice_from_string("city")));
        ck_assert_uint_eq(record.content_at, CONTENT_AT);
        ck_assert_int_eq(walk_example(SUPERSEDED_END - 32, &record, &size),
                         is_numbered ? RECORD_VALID : RECORD_SUPERSEDED);
    }
    ck_assert_uint_eq(record.version, 4);
    ck_assert_mem_eq(example + CONTENT_AT, content, sizeof content);
    ck_assert_mem_eq(example + EXAMPLE_END, behind, sizeof behind);
}
END_TEST

/* Many value pointers may have named an extent in its time: those that are superseded cost no look
 * at all of its content, each time. And of one that is not the key lasts as long as the record,
 * whatever becomes of the extent. */
START_TEST(an_extent_is_read_for_the_record_that_counts)
{
    size_t mapped_bytes = (sizeof example + 0xffff) & ~(size_t)0xffff;
    struct record record;
    uint64_t size;
    make_example(true);
    fill_example("town", 'w', true, 4, SUPERSEDED_END - 32);
    uint8_t *file =
        mmap(NULL, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(file, MAP_FAILED);
    memcpy(file, example, sizeof example);
    ck_assert_int_eq(
        record_walk(file, sizeof example, EXAMPLE_SALT, SUPERSEDED_END - 32, &record, &size),
        RECORD_VALID);
    memset(file + CONTENT_AT, 0, PLACED_AT - CONTENT_AT);
    ck_assert(kv_slice_equal(record.key, kv_slice_from_string("town")));
    memcpy(file, example, sizeof example);
    ck_assert_int_eq(mprotect(file + 0x2000, 0xf000, PROT_NONE), 0);
    ck_assert_int_eq(record_walk(file, sizeof example, EXAMPLE_SALT, PLACED_AT, &record, &size),
                     RECORD_SUPERSEDED);
    munmap(file, mapped_bytes);
}
END_TEST

/* Without its version the content is nothing. */
START_TEST(content_without_its_version_is_no_record)
{
    struct record record;
    uint64_t size;
    make_example(false);
    ck_assert_int_eq(walk_example(0x1000, &record, &size), RECORD_VALID);
    ck_assert_int_eq(walk_example(PLACED_AT, &record, &size), RECORD_SUPERSEDED);
    ck_assert_int_eq(record_read(example + CONTENT_AT, EXAMPLE_END - CONTENT_AT, EXAMPLE_SALT,
                                 CONTENT_AT, &record, &size),
                     RECORD_INVALID);
}
END_TEST

/* Any other byte in the value pointer, or in its content, is seen; in an extent, in its head. */
START_TEST(any_byte_in_an_extent_counts)
{
    struct record record;
    uint64_t size;
    make_example(true);
    for (uint64_t at = 0x1000; at<EXAMPLE_END; at += at> 0x1080 && at < 0x11000 ? 4093 : 1) {
        example[at] ^= 0x10;
        bool in_head = at < CONTENT_AT;
        ck_assert_msg((walk_example(0x1000, &record, &size) == RECORD_VALID) != in_head,
                      "offset %" PRIx64, at);
        ck_assert_msg((walk_example(PLACED_AT, &record, &size) == RECORD_VALID) == in_head,
                      "offset %" PRIx64, at);
        example[at] ^= 0x10;
    }
}
END_TEST

/* A value pointer that names what is no content of an extent: the header page, itself, a record
 * behind it, its own inside. A place where one could be makes it superseded. */
START_TEST(what_is_named_must_be_there)
{
    struct record record;
    uint64_t size;
    static const uint64_t named[] = {0,           8,          0x1000,        0x1010,
                                     0x1019,      0x1020,     PLACED_AT - 8, PLACED_AT,
                                     EXAMPLE_END, UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        struct record content = {.kind = RECORD_PUT,
                                 .version = 2,
                                 .key = kv_slice_from_string("city"),
                                 .in_extent = true};
        struct record placed;
        uint8_t place[8];
        make_example(true);
        record_place(&content, named[i], place, &placed);
        record_write(example + PLACED_AT, &placed, kv_slice(NULL, 0), EXAMPLE_SALT, PLACED_AT);
        bool is_possible = named[i] % RECORD_ALIGNMENT == 0 && named[i] >= 0x1000 &&
                           named[i] <= PLACED_AT - RECORD_HEADER_BYTES;
        ck_assert_int_eq(walk_example(PLACED_AT, &record, &size),
                         is_possible ? RECORD_SUPERSEDED : RECORD_INVALID);
    }
}
END_TEST

TEST_SUITE(kvstore_record)
{
    TCase *tests = tcase_create("record");
    tcase_add_loop_test(tests, what_is_written_is_read, 0, 4);
    tcase_add_loop_test(tests, pieces_of_any_size_make_the_same_record, 0, 4);
    tcase_add_test(tests, a_record_with_a_piece_missing_is_none);
    tcase_add_test(tests, value_in_two_pieces_is_one_value);
    tcase_add_test(tests, largest_key_and_empty_value);
    tcase_add_loop_test(tests, every_flipped_bit_is_detected, 0, 20);
    tcase_add_loop_test(tests, every_truncation_is_detected, 0, 20);
    tcase_add_loop_test(tests, torn_write_is_detected, 0, 20);
    tcase_add_test(tests, valid_only_at_its_offset_and_with_its_salt);
    tcase_add_test(tests, zeros_are_the_end);
    tcase_add_test(tests, unwritable_records_are_invalid);
    tcase_add_test(tests, what_is_no_part_is_invalid);
    tcase_add_test(tests, a_record_that_is_detached_stands_alone);
    tcase_add_loop_test(tests, random_bytes_are_never_valid_and_never_read_past_the_end, 0, 4);
    tcase_add_test(tests, an_extent_is_as_documented);
    tcase_add_test(tests, a_superseded_pointer_is_as_documented);
    tcase_add_test(tests, an_extent_is_read_for_the_record_that_counts);
    tcase_add_test(tests, content_without_its_version_is_no_record);
    tcase_add_test(tests, any_byte_in_an_extent_counts);
    tcase_add_test(tests, what_is_named_must_be_there);
    suite_add_tcase(suite, tests);
}
