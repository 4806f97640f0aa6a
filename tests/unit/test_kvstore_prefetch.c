#include <check.h>
#include <stdio.h>

#include "mqkv/kvstore.h"
#include "tests/support/store_variants.h"
#include "tests/support/store_calls.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

#define KEYS     100
#define KEY_ROOM 16

static char dir[STORE_DIR_BYTES];

static void set_up(void)
{
    store_dir_make(dir);
}

static void tear_down(void)
{
    store_dir_remove(dir);
}

/* Every second key is there, one is empty (no key at all), the last is longer than a key may be. */
static size_t name_keys(struct kv_slice *keys, char (*texts)[KEY_ROOM])
{
    static const char long_key[KVSTORE_MAX_KEY_BYTES + 1];
    for (int i = 0; i < KEYS; i++) {
        snprintf(texts[i], KEY_ROOM, "key %d", i);
        keys[i] = kv_slice_from_string(texts[i]);
    }
    keys[1] = kv_slice(NULL, 0);
    keys[KEYS - 1] = kv_slice(long_key, sizeof long_key);
    return KEYS;
}

/* It changes nothing, and holds no lock afterwards, whatever the strategy, with a cache or without:
 * writes go through. */
START_TEST(it_is_only_a_hint)
{
    struct kvstore_options options = {.create = true,
                                      .datafiles = 3,
                                      .locking = (enum kvstore_locking)(_i / 2),
                                      .cache_bytes = _i % 2 * KVSTORE_MIN_CACHE_BYTES};
    struct kvstore *store = must_open(dir, &options);
    struct kv_slice keys[KEYS];
    char texts[KEYS][KEY_ROOM];
    size_t count = name_keys(keys, texts);
    kvstore_prefetch(store, keys, count); /* of an empty store */
    for (int i = 0; i < KEYS; i += 2)
        must_put(store, texts[i], texts[i]);
    kvstore_prefetch(store, keys, 0);
    kvstore_prefetch(store, keys, 1);
    kvstore_prefetch(store, keys, count);
    for (int i = 0; i < KEYS; i++) {
        const char *value = get_text(store, texts[i]);
        if (i % 2 == 0)
            ck_assert_str_eq(value, texts[i]);
        else
            ck_assert_ptr_null(value);
        kvstore_prefetch(store, keys, count); /* what was read is in the cache */
        must_put(store, texts[i], "new");
    }
    must_close(store);
}
END_TEST

TEST_SUITE(kvstore_prefetch)
{
    TCase *tests = tcase_create("prefetch");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, it_is_only_a_hint, 0, 2 * locking_count());
    suite_add_tcase(suite, tests);
}
