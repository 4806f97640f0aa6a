/*
 * move_key: brings one key of the target to what the source has, whatever happened before: both are
 * read, and the target is written on condition that it has not changed since.
 */
#ifndef MQKV_CLIENTK_PROGRAM_TRANSFER_MOVE_KEY_H
#define MQKV_CLIENTK_PROGRAM_TRANSFER_MOVE_KEY_H

#include "clientk/program/transfer/migration.h"

/* Entry: as it was scanned, and perhaps written to the target with an outcome that is not known. */
void move_key(struct migration *migration, const struct clientk_entry *entry);

/* Deletes the key at the target, where it has that version; if others have changed it there, it
 * stays. */
void move_key_deletion(struct migration *migration, struct kv_slice key, uint64_t target_version);

#endif
