#include "experiments/peers/engine.h"

#include <err.h>
#include <leveldb/c.h>
#include <lmdb.h>
#include <rocksdb/c.h>
#include <stdlib.h>
#include <string.h>

#include "mqkv/kvstore.h"

#define DATABASE_MAX_BYTES ((size_t)64 << 30)

static void fail_if(char *error, const char *engine)
{
    if (error)
        errx(4, "%s: %s", engine, error);
}

void engine_range_add(struct engine_range *range, struct kv_slice key, struct kv_slice value)
{
    size_t key_bytes = key.size < sizeof range->last ? key.size : sizeof range->last;
    size_t value_bytes = value.size < sizeof range->value ? value.size : sizeof range->value;
    size_t common = key_bytes < range->last_bytes ? key_bytes : range->last_bytes;
    int order = memcmp(range->last, key.data, common);

    if (range->entries > 0 && (order > 0 || (order == 0 && range->last_bytes >= key_bytes)))
        range->unordered = true;
    memcpy(range->last, key.data, key_bytes);
    range->last_bytes = key_bytes;
    if (value_bytes > 0)
        memcpy(range->value, value.data, value_bytes);
    range->entries++;
    range->bytes += key.size + value.size;
}

static bool copy_out(const char *found, size_t found_bytes, void *buffer, size_t capacity)
{
    if (!found)
        return false;
    memcpy(buffer, found, found_bytes < capacity ? found_bytes : capacity);
    return true;
}

/* mqkv ----------------------------------------------------------------------------------------- */

struct mqkv {
    struct kvstore *store;
    bool sync;
};

static void *mqkv_open(const char *dir, bool sync_every_write)
{
    struct mqkv *database = calloc(1, sizeof *database);
    struct kv_error error = {0};
    struct kvstore_options options = {
        .create = true, .durability = sync_every_write ? KVSTORE_SYNC_ALWAYS : KVSTORE_SYNC_NONE};

    if (!database || kvstore_open(dir, &options, &database->store, &error) != KV_OK)
        errx(4, "mqkv: %s", error.text);
    database->sync = sync_every_write;
    return database;
}

static void mqkv_put(void *handle, struct kv_slice key, struct kv_slice value)
{
    struct mqkv *database = handle;
    struct kvstore_written written;
    enum kv_status status = kvstore_put(database->store, key, value, NULL, &written);

    if (status == KV_OK && database->sync)
        status = kvstore_wait_durable(database->store, written.ticket);
    if (status != KV_OK)
        errx(4, "mqkv: %s", kv_status_text(status));
}

static bool mqkv_get(void *handle, struct kv_slice key, void *buffer, size_t capacity)
{
    struct mqkv *database = handle;
    return kvstore_get(database->store, key, buffer, capacity, NULL) == KV_OK;
}

static void mqkv_close(void *handle)
{
    struct mqkv *database = handle;
    kvstore_close(database->store, NULL);
    free(database);
}

/* LMDB: a transaction an operation, as its users must; readers keep their transaction and renew
 * it. */

struct lmdb {
    MDB_env *environment;
    MDB_dbi table;
};

static _Thread_local MDB_txn *lmdb_reader;

static void lmdb_check(int status)
{
    if (status != 0)
        errx(4, "lmdb: %s", mdb_strerror(status));
}

static void *lmdb_open(const char *dir, bool sync_every_write)
{
    struct lmdb *database = calloc(1, sizeof *database);
    unsigned flags = MDB_NOTLS | (sync_every_write ? 0 : MDB_WRITEMAP | MDB_NOSYNC);
    MDB_txn *transaction;

    if (!database)
        err(4, "lmdb");
    lmdb_check(mdb_env_create(&database->environment));
    lmdb_check(mdb_env_set_mapsize(database->environment, DATABASE_MAX_BYTES));
    lmdb_check(mdb_env_open(database->environment, dir, flags, 0600));
    lmdb_check(mdb_txn_begin(database->environment, NULL, 0, &transaction));
    lmdb_check(mdb_dbi_open(transaction, NULL, 0, &database->table));
    lmdb_check(mdb_txn_commit(transaction));
    return database;
}

static MDB_val lmdb_value(struct kv_slice slice)
{
    return (MDB_val){slice.size, (void *)(uintptr_t)slice.data};
}

static void lmdb_put(void *handle, struct kv_slice key, struct kv_slice value)
{
    struct lmdb *database = handle;
    MDB_val name = lmdb_value(key), content = lmdb_value(value);
    MDB_txn *transaction;

    lmdb_check(mdb_txn_begin(database->environment, NULL, 0, &transaction));
    lmdb_check(mdb_put(transaction, database->table, &name, &content, 0));
    lmdb_check(mdb_txn_commit(transaction));
}

static bool lmdb_get(void *handle, struct kv_slice key, void *buffer, size_t capacity)
{
    struct lmdb *database = handle;
    MDB_val name = lmdb_value(key), content = {0, NULL};

    if (lmdb_reader)
        lmdb_check(mdb_txn_renew(lmdb_reader));
    else
        lmdb_check(mdb_txn_begin(database->environment, NULL, MDB_RDONLY, &lmdb_reader));
    int status = mdb_get(lmdb_reader, database->table, &name, &content);
    if (status != MDB_NOTFOUND)
        lmdb_check(status);
    bool found = copy_out(content.mv_data, content.mv_size, buffer, capacity);
    mdb_txn_reset(lmdb_reader);
    return found;
}

static void lmdb_range(void *handle, struct kv_slice from, size_t limit, struct engine_range *range)
{
    struct lmdb *database = handle;
    MDB_val name = lmdb_value(from), content = {0, NULL};
    MDB_cursor *cursor;

    if (lmdb_reader)
        lmdb_check(mdb_txn_renew(lmdb_reader));
    else
        lmdb_check(mdb_txn_begin(database->environment, NULL, MDB_RDONLY, &lmdb_reader));
    lmdb_check(mdb_cursor_open(lmdb_reader, database->table, &cursor));
    int status = mdb_cursor_get(cursor, &name, &content, MDB_SET_RANGE);
    while (status == 0 && limit-- > 0) {
        engine_range_add(range, kv_slice(name.mv_data, name.mv_size),
                         kv_slice(content.mv_data, content.mv_size));
        if (limit > 0)
            status = mdb_cursor_get(cursor, &name, &content, MDB_NEXT);
    }
    if (status != MDB_NOTFOUND)
        lmdb_check(status);
    mdb_cursor_close(cursor);
    mdb_txn_reset(lmdb_reader);
}

static void lmdb_close(void *handle)
{
    struct lmdb *database = handle;
    mdb_env_close(database->environment);
    free(database);
}

/* RocksDB and LevelDB: their C interfaces differ in the prefix only. Caches are made large enough
 * that no engine reads the disk in the comparison. */

#define LSM_CACHE_BYTES ((size_t)1 << 30)

struct rocks {
    rocksdb_t *database;
    rocksdb_options_t *options;
    rocksdb_readoptions_t *read;
    rocksdb_writeoptions_t *write;
};

static void *rocks_open(const char *dir, bool sync_every_write)
{
    struct rocks *rocks = calloc(1, sizeof *rocks);
    char *error = NULL;

    if (!rocks)
        err(4, "rocksdb");
    rocks->options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(rocks->options, 1);
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    rocksdb_block_based_options_set_block_cache(table, rocksdb_cache_create_lru(LSM_CACHE_BYTES));
    rocksdb_block_based_options_set_filter_policy(table, rocksdb_filterpolicy_create_bloom(10));
    rocksdb_options_set_block_based_table_factory(rocks->options, table);
    rocksdb_options_set_compression(rocks->options, rocksdb_no_compression);
    rocks->read = rocksdb_readoptions_create();
    rocks->write = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(rocks->write, sync_every_write);
    rocks->database = rocksdb_open(rocks->options, dir, &error);
    fail_if(error, "rocksdb");
    return rocks;
}

static void rocks_put(void *handle, struct kv_slice key, struct kv_slice value)
{
    struct rocks *rocks = handle;
    char *error = NULL;
    rocksdb_put(rocks->database, rocks->write, key.data, key.size, value.data, value.size, &error);
    fail_if(error, "rocksdb");
}

static bool rocks_get(void *handle, struct kv_slice key, void *buffer, size_t capacity)
{
    struct rocks *rocks = handle;
    char *error = NULL;
    rocksdb_pinnableslice_t *pinned =
        rocksdb_get_pinned(rocks->database, rocks->read, key.data, key.size, &error);
    fail_if(error, "rocksdb");
    size_t size = 0;
    const char *value = pinned ? rocksdb_pinnableslice_value(pinned, &size) : NULL;
    bool found = copy_out(value, size, buffer, capacity);
    rocksdb_pinnableslice_destroy(pinned);
    return found;
}

static void rocks_range(void *handle, struct kv_slice from, size_t limit,
                        struct engine_range *range)
{
    struct rocks *rocks = handle;
    rocksdb_iterator_t *at = rocksdb_create_iterator(rocks->database, rocks->read);
    char *error = NULL;

    for (rocksdb_iter_seek(at, from.data, from.size); limit > 0 && rocksdb_iter_valid(at);
         limit--) {
        size_t key_bytes, value_bytes;
        const char *key = rocksdb_iter_key(at, &key_bytes);
        const char *value = rocksdb_iter_value(at, &value_bytes);
        engine_range_add(range, kv_slice(key, key_bytes), kv_slice(value, value_bytes));
        if (limit > 1)
            rocksdb_iter_next(at);
    }
    rocksdb_iter_get_error(at, &error);
    fail_if(error, "rocksdb");
    rocksdb_iter_destroy(at);
}

static void rocks_close(void *handle)
{
    struct rocks *rocks = handle;
    rocksdb_close(rocks->database);
    rocksdb_options_destroy(rocks->options);
    rocksdb_readoptions_destroy(rocks->read);
    rocksdb_writeoptions_destroy(rocks->write);
    free(rocks);
}

struct level {
    leveldb_t *database;
    leveldb_options_t *options;
    leveldb_readoptions_t *read;
    leveldb_writeoptions_t *write;
};

static void *level_open(const char *dir, bool sync_every_write)
{
    struct level *level = calloc(1, sizeof *level);
    char *error = NULL;

    if (!level)
        err(4, "leveldb");
    level->options = leveldb_options_create();
    leveldb_options_set_create_if_missing(level->options, 1);
    leveldb_options_set_cache(level->options, leveldb_cache_create_lru(LSM_CACHE_BYTES));
    leveldb_options_set_filter_policy(level->options, leveldb_filterpolicy_create_bloom(10));
    leveldb_options_set_compression(level->options, leveldb_no_compression);
    level->read = leveldb_readoptions_create();
    level->write = leveldb_writeoptions_create();
    leveldb_writeoptions_set_sync(level->write, sync_every_write);
    level->database = leveldb_open(level->options, dir, &error);
    fail_if(error, "leveldb");
    return level;
}

static void level_put(void *handle, struct kv_slice key, struct kv_slice value)
{
    struct level *level = handle;
    char *error = NULL;
    leveldb_put(level->database, level->write, key.data, key.size, value.data, value.size, &error);
    fail_if(error, "leveldb");
}

static bool level_get(void *handle, struct kv_slice key, void *buffer, size_t capacity)
{
    struct level *level = handle;
    char *error = NULL;
    size_t size = 0;
    char *value = leveldb_get(level->database, level->read, key.data, key.size, &size, &error);
    fail_if(error, "leveldb");
    bool found = copy_out(value, size, buffer, capacity);
    leveldb_free(value);
    return found;
}

static void level_range(void *handle, struct kv_slice from, size_t limit,
                        struct engine_range *range)
{
    struct level *level = handle;
    leveldb_iterator_t *at = leveldb_create_iterator(level->database, level->read);
    char *error = NULL;

    for (leveldb_iter_seek(at, from.data, from.size); limit > 0 && leveldb_iter_valid(at);
         limit--) {
        size_t key_bytes, value_bytes;
        const char *key = leveldb_iter_key(at, &key_bytes);
        const char *value = leveldb_iter_value(at, &value_bytes);
        engine_range_add(range, kv_slice(key, key_bytes), kv_slice(value, value_bytes));
        if (limit > 1)
            leveldb_iter_next(at);
    }
    leveldb_iter_get_error(at, &error);
    fail_if(error, "leveldb");
    leveldb_iter_destroy(at);
}

static void level_close(void *handle)
{
    struct level *level = handle;
    leveldb_close(level->database);
    leveldb_options_destroy(level->options);
    leveldb_readoptions_destroy(level->read);
    leveldb_writeoptions_destroy(level->write);
    free(level);
}

const struct engine engines[] = {
    {"mqkv", mqkv_open, mqkv_put, mqkv_get, mqkv_close, NULL},
    {"lmdb", lmdb_open, lmdb_put, lmdb_get, lmdb_close, lmdb_range},
    {"rocksdb", rocks_open, rocks_put, rocks_get, rocks_close, rocks_range},
    {"leveldb", level_open, level_put, level_get, level_close, level_range},
    {NULL, NULL, NULL, NULL, NULL, NULL},
};

const struct engine *engine_find(const char *name)
{
    for (const struct engine *engine = engines; engine->name; engine++)
        if (strcmp(engine->name, name) == 0)
            return engine;
    return NULL;
}
