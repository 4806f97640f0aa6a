#include "tools/transfer/moved_keys.h"

#include <stdlib.h>
#include <xxhash.h>

#include "common/numbers/random.h"

#define FIRST_SLOT_COUNT 1024u

void moved_keys_init(struct moved_keys *keys)
{
    *keys = (struct moved_keys){.seed = random_secret()};
}

void moved_keys_free(struct moved_keys *keys)
{
    free(keys->slots);
    *keys = (struct moved_keys){0};
}

static uint64_t hash_of(const struct moved_keys *keys, struct kv_slice key)
{
    uint64_t hash = XXH3_64bits_withSeed(key.data, key.size, keys->seed);
    return hash ? hash : 1;
}

/* Returns the slot of the hash: its own, or a free one. */
static struct moved_key *slot_of_hash(const struct moved_keys *keys, uint64_t hash)
{
    size_t mask = keys->slot_count - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        struct moved_key *slot = &keys->slots[i];
        if (slot->hash == 0 || slot->hash == hash)
            return slot;
    }
}

static bool grow_moved_slots(struct moved_keys *keys)
{
    struct moved_keys grown = {.slot_count =
                                   keys->slot_count ? 2 * keys->slot_count : FIRST_SLOT_COUNT,
                               .used = keys->used,
                               .seed = keys->seed};
    grown.slots = calloc(grown.slot_count, sizeof *grown.slots);
    if (!grown.slots)
        return false;
    for (size_t i = 0; i < keys->slot_count; i++)
        if (keys->slots[i].hash != 0)
            *slot_of_hash(&grown, keys->slots[i].hash) = keys->slots[i];
    free(keys->slots);
    *keys = grown;
    return true;
}

struct moved_key *moved_keys_find(const struct moved_keys *keys, struct kv_slice key)
{
    if (keys->slot_count == 0)
        return NULL;
    struct moved_key *slot = slot_of_hash(keys, hash_of(keys, key));
    return slot->hash != 0 ? slot : NULL;
}

struct moved_key *moved_keys_add(struct moved_keys *keys, struct kv_slice key)
{
    if (keys->used * 4 >= keys->slot_count * 3 && !grow_moved_slots(keys))
        return NULL;
    uint64_t hash = hash_of(keys, key);
    struct moved_key *slot = slot_of_hash(keys, hash);
    keys->used += slot->hash == 0;
    slot->hash = hash;
    return slot;
}

static bool is_unseen(const struct moved_key *slot, uint32_t pass)
{
    return slot->hash != 0 && slot->state != MOVED_GONE && slot->pass != pass;
}

uint64_t moved_keys_unseen(const struct moved_keys *keys, uint32_t pass)
{
    uint64_t unseen = 0;
    for (size_t i = 0; i < keys->slot_count; i++)
        unseen += is_unseen(&keys->slots[i], pass);
    return unseen;
}

void moved_keys_forget_unseen(struct moved_keys *keys, uint32_t pass)
{
    for (size_t i = 0; i < keys->slot_count; i++)
        if (is_unseen(&keys->slots[i], pass))
            keys->slots[i].state = MOVED_GONE;
}
