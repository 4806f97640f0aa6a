/*
 * move_key: brings one key of the target to what the source has, whatever happened before: both are
 * read, and the target is written on condition that it has not changed since.
 */
#ifndef MQKV_TOOLS_TRANSFER_MOVE_KEY_H
#define MQKV_TOOLS_TRANSFER_MOVE_KEY_H

#include "tools/transfer/migration.h"

/* Brings one key to the target. entry: as it was scanned; it may have been written to the target
 * with an unknown outcome. */
void move_key(struct migration *migration, const struct clientk_entry *entry);

/* Deletes the key at the target if it has that version there; if others have changed it, it
 * stays. */
void move_key_deletion(struct migration *migration, struct kv_slice key, uint64_t target_version);

#endif
