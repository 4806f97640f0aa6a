#include "tools/transfer/move_deletions.h"

#include <stdlib.h>
#include <string.h>

#include "clientk/program/commands/whole_scan.h"
#include "tools/transfer/move_key.h"

#define PAGE_KEYS  256u
#define PAGE_BYTES (1u << 20)

/* Keys of the target that no scan has seen at the source. */
struct unseen_keys {
    struct migration *migration;
    size_t count;
    char *bytes;
    size_t used_bytes, room_bytes;
    size_t sizes[PAGE_KEYS];
    uint64_t versions[PAGE_KEYS]; /* their versions at the target */
    struct clientk_operation operations[PAGE_KEYS];
    struct clientk_result results[PAGE_KEYS];
};

/* Deletes a key of the target that the source does not have, or reports it. */
static void delete_or_tell(struct migration *migration, struct kv_slice key, uint64_t version)
{
    const struct moved_key *moved = moved_keys_find(&migration->keys, key);
    bool is_ours = moved && moved->state == MOVED_HERE && moved->target_version == version;
    bool is_foreign = moved && moved->state != MOVED_GONE && !is_ours;
    if (is_ours || (migration->removes && !is_foreign))
        move_key_deletion(migration, key, version);
    else if (migration->verifies && (is_foreign || !migration->overwrites))
        migration_tell_difference(migration, key, "differs: only the target has it");
}

static void send_keys(struct unseen_keys *keys)
{
    struct migration *migration = keys->migration;
    const char *at = keys->bytes;
    for (size_t i = 0; i < keys->count; at += keys->sizes[i++])
        keys->operations[i] = (struct clientk_operation){.opcode = CLIENTK_EXISTS,
                                                         .key = kv_slice(at, keys->sizes[i])};
    enum kv_status status;
    unsigned waits = 0;
    do
        status = keys->count > 0 ? clientk_execute(migration->source, keys->operations, keys->count,
                                                   keys->results)
                                 : KV_OK;
    while (migration_sits_out(migration, status, &waits));
    if (status != KV_OK)
        migration_stop(migration, status, cli_sentence(status));
    for (size_t i = 0; i < keys->count && migration_goes_on(migration); i++) {
        struct moved_key *moved = moved_keys_find(&migration->keys, keys->operations[i].key);
        status = keys->results[i].status;
        if (status == KV_OK && moved && moved->state != MOVED_GONE)
            moved->pass = migration->pass; /* the scan has missed it */
        else if (status == KV_OK)
            migration->changes++; /* the source has got it since */
        else if (status == KV_NOT_FOUND)
            delete_or_tell(migration, keys->operations[i].key, keys->versions[i]);
        else
            migration_stop(migration, status, kv_status_text(status));
    }
    keys->count = keys->used_bytes = 0;
}

static bool collect_unseen_key(void *context, const struct clientk_entry *entry)
{
    struct unseen_keys *keys = context;
    struct migration *migration = keys->migration;
    const struct moved_key *moved = moved_keys_find(&migration->keys, entry->key);
    if (moved && moved->state != MOVED_GONE && moved->pass == migration->pass)
        return migration_goes_on(migration);
    size_t needed = keys->used_bytes + entry->key.size;
    if (needed > keys->room_bytes) {
        char *bytes = realloc(keys->bytes, 2 * needed);
        if (!bytes) {
            migration_stop(migration, KV_NO_MEMORY, "no memory for the keys");
            return false;
        }
        keys->bytes = bytes;
        keys->room_bytes = 2 * needed;
    }
    memcpy(keys->bytes + keys->used_bytes, entry->key.data, entry->key.size);
    keys->used_bytes = needed;
    keys->sizes[keys->count] = entry->key.size;
    keys->versions[keys->count++] = entry->version;
    if (keys->count == PAGE_KEYS || keys->used_bytes > PAGE_BYTES)
        send_keys(keys);
    return migration_goes_on(migration);
}

void move_deletions(struct migration *migration)
{
    bool looks = migration->verifies || (migration->removes && migration->pass == 1) ||
                 moved_keys_unseen(&migration->keys, migration->pass) > 0;
    struct unseen_keys *keys = looks ? calloc(1, sizeof *keys) : NULL;
    uint64_t left_out = 0;
    if (!looks)
        return;
    if (!keys) {
        migration_stop(migration, KV_NO_MEMORY, "no memory for the keys");
        return;
    }
    keys->migration = migration;
    struct whole_scan scan = {
        .command = "migrate", .keys_only = true, .visit = collect_unseen_key, .context = keys};
    enum kv_status status = whole_scan_run(&migration->target_context, &scan, &left_out);
    if (status != KV_OK)
        migration_stop(migration, status, cli_sentence(status));
    send_keys(keys);
    migration->left_out += left_out;
    if (migration->keeps_versions && migration_goes_on(migration))
        moved_keys_forget_unseen(&migration->keys, migration->pass);
    free(keys->bytes);
    free(keys);
}
