#include "tests/support/follower.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/one_file_store.h"
#include "tests/support/store_calls.h"

#define KEY(text) kv_slice_from_string(text)

const struct kvstore_options keeping_changes = {.create = true,
                                                .datafiles = 1,
                                                .compact_dead_percent = 100,
                                                .sweep_interval_ms = 1,
                                                .keep_changes_ms = 3600000};

static unsigned number_of(struct kv_slice key)
{
    char text[32] = "";
    ck_assert_uint_lt(key.size, sizeof text);
    memcpy(text, key.data, key.size);
    unsigned number;
    ck_assert_int_eq(sscanf(text, "key %u", &number), 1);
    ck_assert_uint_lt(number, FOLLOWER_KEYS);
    return number;
}

bool follower_take(void *context, const struct kvstore_change *change)
{
    struct follower *follower = context;
    if (follower->room > 0 && --follower->room == 0)
        return false;
    unsigned key = number_of(change->key);
    ck_assert_uint_gt(change->version, follower->newest[key]);
    follower->newest[key] = change->version;
    follower->versions[key] = change->kind == KVSTORE_CHANGE_PUT ? change->version : 0;
    follower->deletes += change->kind == KVSTORE_CHANGE_DELETE;
    follower->expiries += change->kind == KVSTORE_CHANGE_EXPIRE;
    follower->count++;
    return true;
}

static bool copy(void *context, const struct kvstore_scanned *entry)
{
    struct follower *follower = context;
    follower->versions[number_of(entry->key)] = entry->version;
    follower->newest[number_of(entry->key)] = entry->version;
    return true;
}

void follower_start(struct follower *follower, struct kvstore *opened)
{
    uint64_t cursor = 0;
    *follower = (struct follower){0};
    ck_assert_int_eq(kvstore_changes_now(opened, 0, &follower->position), KV_OK);
    do
        ck_assert_int_eq(kvstore_scan(opened, &cursor, KEY(""), 100, copy, follower, NULL), KV_OK);
    while (cursor != 0);
}

enum kv_status follower_catch_up(struct follower *follower, struct kvstore *opened)
{
    bool at_end = false;
    enum kv_status status = KV_OK;
    while (status == KV_OK && !at_end)
        status = kvstore_changes(opened, 0, &follower->position, KEY(""), 100, follower_take,
                                 follower, &at_end);
    return status;
}

void follower_check(const struct follower *follower, struct kvstore *opened)
{
    for (unsigned i = 0; i < FOLLOWER_KEYS; i++) {
        struct kvstore_entry entry = {0};
        enum kv_status status = get_entry(opened, numbered("key", (int)i), &entry);
        ck_assert(status == KV_OK || status == KV_NOT_FOUND);
        if (status == KV_OK || follower->expiries == 0)
            ck_assert_uint_eq(follower->versions[i], entry.version);
    }
}

void follower_must_catch_up(struct follower *follower)
{
    ck_assert_int_eq(follower_catch_up(follower, store), KV_OK);
    follower_check(follower, store);
}
