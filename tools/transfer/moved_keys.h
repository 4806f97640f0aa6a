/*
 * moved_keys: which keys a migration has moved, with the versions that their entries had at the
 * source and got at the target: a hash table of 32 bytes a slot. Of a key only 64 bits of a hash
 * are kept, which nobody outside can foresee.
 */
#ifndef MQKV_TOOLS_TRANSFER_MOVED_KEYS_H
#define MQKV_TOOLS_TRANSFER_MOVED_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/slice.h"

enum moved_state {
    MOVED_GONE,    /* neither side has it any more, or it was never moved */
    MOVED_HERE,    /* the target has it */
    MOVED_FOREIGN, /* others have written it at the target, where it is left alone */
    MOVED_REFUSED  /* the target does not take it */
};

struct moved_key {
    uint64_t hash;           /* 0: a free slot */
    uint64_t source_version; /* version of the entry that was moved */
    uint64_t target_version; /* version of what was written for it */
    uint32_t pass;           /* the last pass in which the source had it */
    uint32_t state;          /* enum moved_state */
};

struct moved_keys {
    struct moved_key *slots;
    size_t slot_count, used;
    uint64_t seed;
};

/* Starts an empty table. */
void moved_keys_init(struct moved_keys *keys);
void moved_keys_free(struct moved_keys *keys);

/* Returns what is known of the key; NULL: nothing. Valid until the next moved_keys_add. */
struct moved_key *moved_keys_find(const struct moved_keys *keys, struct kv_slice key);

/* Returns the key's slot; a new one has the state MOVED_GONE. NULL: out of memory. */
struct moved_key *moved_keys_add(struct moved_keys *keys, struct kv_slice key);

/* Counts the keys that the target has from this migration, but that were not seen in `pass`. */
uint64_t moved_keys_unseen(const struct moved_keys *keys, uint32_t pass);

/* Makes those keys MOVED_GONE. */
void moved_keys_forget_unseen(struct moved_keys *keys, uint32_t pass);

#endif
