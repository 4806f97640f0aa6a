/* store_pieces: hash, checksum and records, index, log, and the whole engine. */
#include <err.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "kvstore/index/index.h"
#include "kvstore/format/keyhash.h"
#include "mqkv/kvstore.h"
#include "kvstore/log/logfile.h"
#include "kvstore/log/logtail.h"
#include "tests/bench/pieces.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"

#define SALT       UINT64_C(0x1122334455667788)
#define LOG_OFFSET UINT64_C(4096)

static const struct hash_key hash_key = {{SALT, ~SALT}};
static char value[65536];
static uint8_t record_bytes[256];
static uint64_t keys_there;

static struct kv_slice key_slice(uint64_t number)
{
    return kv_slice(piece_key(number), PIECE_KEY_BYTES);
}

/* One of those that are there, in another order than they came in: the log is not read in a
 * line. */
static struct kv_slice key_there(uint64_t i)
{
    return key_slice(i * 7919 % keys_there);
}

static struct record record_of(uint64_t i)
{
    return (struct record){.kind = RECORD_PUT,
                           .version = i + 1,
                           .key = key_slice(i),
                           .value = kv_slice(value, PIECE_VALUE_BYTES)};
}

static void hash_keys(uint64_t calls)
{
    for (uint64_t i = 0; i < calls; i++)
        piece_sink += keyhash(&hash_key, key_slice(i));
}

static void checksum_4k(uint64_t calls)
{
    for (uint64_t i = 0; i < calls; i++)
        piece_sink += XXH3_64bits_withSeed(value, 4096, SALT + i);
}

static void write_records(uint64_t calls)
{
    for (uint64_t i = 0; i < calls; i++) {
        struct record record = record_of(i);
        piece_sink += record_write(record_bytes, &record, kv_slice(NULL, 0), SALT, LOG_OFFSET);
    }
}

static void prepare_record(uint64_t keys)
{
    keys_there = keys;
    write_records(1);
}

static void read_records(uint64_t calls)
{
    for (uint64_t i = 0; i < calls; i++) {
        struct record record;
        uint64_t size_bytes;
        if (record_read(record_bytes, sizeof record_bytes, SALT, LOG_OFFSET, &record,
                        &size_bytes) != RECORD_VALID)
            errx(4, "a record was not valid");
        piece_sink += size_bytes;
    }
}

/* Index ---------------------------------------------------------------------------------------- */

static struct arena *arena;
static struct index *table;

static void insert_keys(uint64_t calls)
{
    for (uint64_t i = 0; i < calls; i++) {
        uint32_t hash = keyhash_index(keyhash(&hash_key, key_slice(keys_there + i)));
        if (!index_reserve(table, hash))
            errx(4, "the index is full");
        index_insert(table, hash, LOG_OFFSET + i * 8);
    }
}

static void make_index(uint64_t keys)
{
    static struct shared_generation words;
    arena = arena_create(-1, SHARED_STORE_HEADER_BYTES);
    table = arena ? index_create(arena, &words) : NULL;
    if (!table)
        errx(4, "out of memory");
    keys_there = 0;
    insert_keys(keys);
    keys_there = keys;
}

static void look_up_keys(uint64_t calls)
{
    for (uint64_t i = 0; i < calls; i++) {
        struct index_probe probe;
        uint64_t offset = 0;
        index_probe_start(&probe, table, keyhash_index(keyhash(&hash_key, key_there(i))));
        index_probe_next(&probe, &offset);
        piece_sink += offset;
    }
}

static void free_index(void)
{
    index_free(table);
    arena_free(arena);
}

/* Log ------------------------------------------------------------------------------------------ */

static char dir[STORE_DIR_BYTES];
static struct logfile log_file;

static void make_log(uint64_t keys)
{
    keys_there = keys;
    store_dir_make(dir);
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct file_identity identity = {.format_version = 1, .datafiles = 1, .salt = SALT};
    struct kv_error error;
    if (dir_fd < 0 || logfile_create(&log_file, KVSTORE_IO_MMAP, dir_fd, "data-0000", &identity, 1,
                                     0, &error) != KV_OK)
        err(4, "%s", dir);
    close(dir_fd);
}

static void append_records(uint64_t calls)
{
    for (uint64_t i = 0; i < calls; i++) {
        struct record record = record_of(i);
        if (logtail_ensure_room(&log_file, sizeof record_bytes) != KV_OK)
            errx(4, "no room for the log");
        piece_sink += logtail_append(&log_file, &record, kv_slice(NULL, 0));
    }
}

static void remove_log(void)
{
    logfile_close(&log_file);
    store_dir_remove(dir);
}

/* Engine --------------------------------------------------------------------------------------- */

static struct kvstore *store;

static void put_keys(uint64_t calls)
{
    for (uint64_t i = 0; i < calls; i++)
        if (kvstore_put(store, key_there(i), kv_slice(value, PIECE_VALUE_BYTES), NULL, NULL) !=
            KV_OK)
            errx(4, "a put failed");
}

static void make_store(uint64_t keys)
{
    store_dir_make(dir);
    /* One file: Valgrind has no room for the address space of more. No compaction: no other thread
     * is to work while the caller is measured. */
    struct kvstore_options options = {.create = true, .datafiles = 1, .compact_dead_percent = 100};
    store = must_open(dir, &options);
    keys_there = keys;
    put_keys(keys);
}

static void get_keys(uint64_t calls)
{
    for (uint64_t i = 0; i < calls; i++)
        if (kvstore_get(store, key_there(i), value, sizeof value, NULL) != KV_OK)
            errx(4, "a key is not there");
}

static void remove_store(void)
{
    must_close(store);
    store_dir_remove(dir);
}

#define PUTS 1000000

const struct piece store_pieces[] = {
    {"engine", "hash a key", 0, 0, NULL, hash_keys, NULL},
    {"engine", "checksum of 4 KiB", 0, 0, NULL, checksum_4k, NULL},
    {"engine", "write a record", 0, 0, prepare_record, write_records, NULL},
    {"engine", "read and verify a record", 0, 0, prepare_record, read_records, NULL},
    {"engine", "index: insert, 100 k keys", 100000, 100000, make_index, insert_keys, free_index},
    {"engine", "index: insert, 1 M keys", 1000000, 1000000, make_index, insert_keys, free_index},
    {"engine", "index: look up, 100 k keys", 100000, 0, make_index, look_up_keys, free_index},
    {"engine", "index: look up, 1 M keys", 1000000, 0, make_index, look_up_keys, free_index},
    {"engine", "log: append", 0, PUTS, make_log, append_records, remove_log},
    {"engine", "get, 100 k keys", 100000, 0, make_store, get_keys, remove_store},
    {"engine", "get, 1 M keys", 1000000, 0, make_store, get_keys, remove_store},
    {"engine", "put, 100 k keys", 100000, PUTS, make_store, put_keys, remove_store},
    {"engine", "put, 1 M keys", 1000000, PUTS, make_store, put_keys, remove_store},
    {0},
};
