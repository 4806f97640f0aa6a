#include "tests/support/known_store.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/report/log.h"
#include "kvstore/format/fileheader.h"
#include "kvstore/format/record.h"
#include "tests/support/no_sync.h"

void known_begin(char dir[STORE_DIR_BYTES], struct image *image, struct content *content)
{
    log_set_level(LOG_LEVEL_ERROR);
    no_sync_install();
    store_dir_make(dir);
    image->count = 0;
    content->count = 0;
}

void known_end(const char *dir, struct image *image)
{
    no_sync_clear();
    image_free(image);
    store_dir_remove(dir);
}

struct known_entry *content_entry(struct content *content, struct kv_slice key)
{
    for (size_t i = 0; i < content->count; i++)
        if (kv_slice_equal(kv_slice_from_string(content->entries[i].key), key))
            return &content->entries[i];
    ck_assert_uint_lt(content->count, KNOWN_MAX_KEYS);
    struct known_entry *entry = &content->entries[content->count++];
    *entry = (struct known_entry){.key = ""};
    memcpy(entry->key, key.data, key.size);
    return entry;
}

void known_put(struct kvstore *store, struct content *content, const char *key, const char *value)
{
    struct kvstore_written written;
    ck_assert_int_eq(
        kvstore_put(store, kv_slice_from_string(key), kv_slice_from_string(value), NULL, &written),
        KV_OK);
    struct known_entry *entry = content_entry(content, kv_slice_from_string(key));
    snprintf(entry->value, sizeof entry->value, "%s", value);
    entry->present = true;
    entry->version = written.version;
}

void known_delete(struct kvstore *store, struct content *content, const char *key)
{
    struct kvstore_written written;
    ck_assert_int_eq(kvstore_delete(store, kv_slice_from_string(key), 0, &written), KV_OK);
    struct known_entry *entry = content_entry(content, kv_slice_from_string(key));
    entry->present = false;
    entry->version = written.version;
}

void known_fill(struct kvstore *store, struct content *content)
{
    char key[KNOWN_KEY_BYTES];
    char value[KNOWN_VALUE_BYTES];
    for (int i = 0; i < 12; i++) {
        snprintf(key, sizeof key, "key-%d", i);
        snprintf(value, sizeof value, "%.*s", i * 11,
                 "the quick brown fox jumps over the lazy dog "
                 "and the lazy dog does not mind it at all, "
                 "being lazy and a dog, and asleep besides");
        known_put(store, content, key, value);
    }
    known_put(store, content, "key-3", "second value of key 3");
    known_put(store, content, "key-8", "second value of key 8");
    known_delete(store, content, "key-5");
    known_delete(store, content, "key-6");
    known_put(store, content, "key-6", "back again");
    struct kvstore_written touched;
    struct kv_slice key_2 = kv_slice_from_string("key-2");
    ck_assert_int_eq(kvstore_touch(store, key_2, UINT64_C(1) << 50, &touched), KV_OK);
    content_entry(content, key_2)->version = touched.version;
}

void known_store_make(const char *dir, bool with_checkpoint, struct image *image,
                      struct content *content)
{
    struct kvstore_options options = {.create = true, .datafiles = 2, .compact_dead_percent = 100};
    struct kvstore *store;
    ck_assert_int_eq(kvstore_open(dir, &options, &store, NULL), KV_OK);
    known_fill(store, content);
    ck_assert_int_eq(kvstore_close(store, NULL), KV_OK);
    image_take(image, dir);
    if (with_checkpoint)
        return;
    size_t kept = 0;
    for (size_t i = 0; i < image->count; i++) {
        if (strstr(image->files[i].name, ".index"))
            free(image->files[i].bytes);
        else
            image->files[kept++] = image->files[i];
    }
    image->count = kept;
}

enum kv_status known_store_open(const char *dir, struct kvstore **store, struct kv_error *error)
{
    struct kvstore_options options = {.create = true, .datafiles = 0, .compact_dead_percent = 100};
    *error = (struct kv_error){0};
    return kvstore_open(dir, &options, store, error);
}

void content_without(const struct image *image, const struct image_file *damaged,
                     uint64_t damaged_from, uint64_t damaged_to, struct content *left)
{
    left->count = 0;
    for (size_t i = 0; i < image->count; i++) {
        const struct image_file *file = &image->files[i];
        struct file_identity identity;
        if (fileheader_read_identity(file->bytes, &identity) != FILEHEADER_VALID)
            continue; /* a checkpoint */
        struct record record;
        uint64_t size_bytes;
        for (uint64_t at = FILE_HEADER_BYTES;
             record_read(file->bytes + at, file->size - at, identity.salt, at, &record,
                         &size_bytes) == RECORD_VALID;
             at += size_bytes) {
            if (file == damaged && at < damaged_to && at + size_bytes > damaged_from)
                continue;
            struct known_entry *entry = content_entry(left, record.key);
            ck_assert_uint_lt(record.value.size, sizeof entry->value);
            memset(entry->value, 0, sizeof entry->value);
            memcpy(entry->value, record.value.data, record.value.size);
            entry->present = record.kind == RECORD_PUT;
            entry->version = record.version;
        }
    }
}

unsigned assert_right_or_corrupt(struct kvstore *store, const struct content *expected,
                                 const char *context)
{
    unsigned corrupt = 0;
    for (size_t i = 0; i < expected->count; i++) {
        const struct known_entry *entry = &expected->entries[i];
        char value[KNOWN_VALUE_BYTES];
        struct kvstore_entry facts;
        enum kv_status status =
            kvstore_get(store, kv_slice_from_string(entry->key), value, sizeof value, &facts);
        if (status == KV_CORRUPT) {
            corrupt++;
            continue;
        }
        ck_assert_msg(status == (entry->present ? KV_OK : KV_NOT_FOUND), "%s: get %s: %s", context,
                      entry->key, kv_status_name(status));
        if (status == KV_OK)
            ck_assert_msg(kv_slice_equal(kv_slice(value, facts.value_bytes),
                                         kv_slice_from_string(entry->value)),
                          "%s: wrong value of %s", context, entry->key);
    }
    return corrupt;
}

struct scan_check {
    const struct content *expected;
    const char *context;
};

static bool check_scanned(void *opaque, const struct kvstore_scanned *scanned)
{
    const struct scan_check *check = opaque;
    for (size_t i = 0; i < check->expected->count; i++) {
        const struct known_entry *entry = &check->expected->entries[i];
        if (!kv_slice_equal(scanned->key, kv_slice_from_string(entry->key)))
            continue;
        ck_assert_msg(entry->present, "%s: %s is back", check->context, entry->key);
        ck_assert_msg(kv_slice_equal(scanned->value, kv_slice_from_string(entry->value)),
                      "%s: scan gives a wrong value of %s", check->context, entry->key);
        return true;
    }
    ck_abort_msg("%s: scan gives a key that never was", check->context);
}

void assert_scan_is_right(struct kvstore *store, const struct content *expected,
                          const char *context)
{
    struct scan_check check = {expected, context};
    uint64_t cursor = 0;
    enum kv_status status;
    unsigned calls = 0;
    do {
        status = kvstore_scan(store, &cursor, kv_slice(NULL, 0), 100, check_scanned, &check, NULL);
        ck_assert_msg(status == KV_OK || status == KV_CORRUPT, "%s: scan: %s", context,
                      kv_status_name(status));
        ck_assert_uint_lt(++calls, 10000);
    } while (status == KV_OK && cursor != 0);
}
