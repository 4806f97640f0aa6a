#include "tools/transfer/move_key.h"

/* A key that is written all the time is moved in the next pass. */
#define MAX_TRIES 8u

/* The values of one key in both stores; absent: data NULL. */
struct both_sides {
    struct clientk_value source, target;
    bool at_source, at_target;
};

/* Notes a refusal that another try would not change. A page writes first what it can, so its
 * refusals come in a row even if the target has room for others. */
static void note_refused_key(struct migration *migration, const struct clientk_entry *entry,
                             enum kv_status status)
{
    bool ends = status_lacks_room(status) ? ++migration->refused_in_a_row > MOVE_PAGE_ENTRIES
                                          : status_ends_transfer(status);
    if (ends)
        migration_stop(migration, status, cli_sentence(status));
    else
        migration_refuse(migration, entry, status, cli_sentence(status));
}

/* Reads the key from one store. False: it cannot be read; what that means is noted. */
static bool read_one(struct migration *migration, struct clientk *client,
                     const struct clientk_entry *entry, struct clientk_value *value, bool *there)
{
    enum kv_status status;
    unsigned waits = 0;
    do
        status = clientk_get(client, entry->key, value);
    while (migration_sits_out(migration, status, &waits));
    *there = status == KV_OK;
    if (status == KV_OK || status == KV_NOT_FOUND)
        return true;
    note_refused_key(migration, entry, status);
    return false;
}

static bool is_same(const struct clientk_value *value, const struct clientk_entry *entry)
{
    return value->expiry_ms == entry->expiry_ms &&
           kv_slice_equal(kv_slice(value->data, value->size), entry->value);
}

/* Returns true if the target's value may be replaced: this migration wrote it, or it was there
 * before and replacing was asked for. A value that is missing may have expired; but if the source
 * has not changed, others have deleted it. */
static bool may_replace(const struct migration *migration, const struct both_sides *sides,
                        const struct moved_key *moved)
{
    if (moved && moved->state == MOVED_FOREIGN)
        return false;
    if (!moved || moved->state != MOVED_HERE)
        return !sides->at_target || migration->overwrites;
    return sides->at_target ? sides->target.version == moved->target_version
                            : sides->source.version != moved->source_version;
}

static void leave_alone(struct migration *migration, const struct clientk_entry *entry,
                        const struct both_sides *sides)
{
    migration_note_moved(migration, entry, 0);
    struct moved_key *moved = moved_keys_find(&migration->keys, entry->key);
    if (moved)
        moved->state = MOVED_FOREIGN;
    if (migration->verifies)
        migration_tell_difference(migration, entry->key,
                                  sides->at_target
                                      ? "differs: others have written it at the target"
                                      : "differs: others have deleted it at the target");
}

/* Writes the entry to the target. True: the key is done; else the caller reads both stores
 * again. */
static bool write_one(struct migration *migration, const struct clientk_entry *entry,
                      uint64_t expected)
{
    uint64_t version = 0;
    unsigned waits = 0;
    struct clientk_operation put = migration_put(migration, entry, expected);
    enum kv_status status;
    do
        status = clientk_put(migration->target, put.key, put.value, &put.write, &version);
    while (migration_sits_out(migration, status, &waits));
    switch (status) {
    case KV_OK:
        migration_note_written(migration, entry, version);
        return true;
    case KV_EXISTS:
    case KV_NOT_FOUND:
    case KV_VERSION_MISMATCH:
        return false;
    default:
        note_refused_key(migration, entry, status);
        return true;
    }
}

/* Tries to make the target's value that of the source. True: the key is done. */
static bool try_to_move_key(struct migration *migration, const struct clientk_entry *scanned,
                            struct both_sides *sides)
{
    if (!read_one(migration, migration->target, scanned, &sides->target, &sides->at_target) ||
        !read_one(migration, migration->source, scanned, &sides->source, &sides->at_source))
        return true;
    if (sides->at_target && is_same(&sides->target, scanned)) /* perhaps an earlier write arrived */
        migration_note_moved(migration, scanned, sides->target.version);
    struct moved_key *moved = moved_keys_find(&migration->keys, scanned->key);
    if (!sides->at_source) {
        if (moved && moved->state == MOVED_HERE && sides->at_target &&
            sides->target.version == moved->target_version)
            move_key_deletion(migration, scanned->key, moved->target_version);
        else if (moved && !sides->at_target)
            moved->state = MOVED_GONE;
        return true;
    }
    const struct clientk_entry now = {
        .key = scanned->key,
        .value = kv_slice(sides->source.data, sides->source.size),
        .version = sides->source.version,
        .expiry_ms = sides->source.expiry_ms,
    };
    if (sides->at_target && is_same(&sides->target, &now)) {
        migration_note_moved(migration, &now, sides->target.version);
        return true;
    }
    if (may_replace(migration, sides, moved))
        return write_one(migration, &now, sides->at_target ? sides->target.version : 0);
    leave_alone(migration, &now, sides);
    return true;
}

void move_key(struct migration *migration, const struct clientk_entry *entry)
{
    struct both_sides sides = {0};
    for (unsigned tries = 0; tries < MAX_TRIES && migration_goes_on(migration); tries++)
        if (try_to_move_key(migration, entry, &sides))
            break;
    clientk_value_free(&sides.source);
    clientk_value_free(&sides.target);
}

void move_key_deletion(struct migration *migration, struct kv_slice key, uint64_t target_version)
{
    const struct clientk_write_options options = {.if_version = target_version};
    enum kv_status status;
    unsigned waits = 0;
    do
        status = clientk_delete(migration->target, key, &options, NULL);
    while (migration_sits_out(migration, status, &waits));
    struct moved_key *moved = moved_keys_find(&migration->keys, key);
    if (status == KV_OK) {
        migration->deleted++;
        migration->changes++;
    }
    if (moved && (status == KV_OK || status == KV_NOT_FOUND))
        moved->state = MOVED_GONE;
    else if (status != KV_OK && status != KV_NOT_FOUND && status != KV_VERSION_MISMATCH)
        migration_stop(migration, status, cli_sentence(status));
}
