/*
 * source_open: opens a data file for kvcheck, whatever state it is in. If the header is damaged,
 * the salt is found again: from the header's other bytes, or from the checkpoint of the index; it
 * is the right one if a record is valid with it.
 */
#ifndef MQKV_KVSTORE_KVCHECK_SOURCE_OPEN_H
#define MQKV_KVSTORE_KVCHECK_SOURCE_OPEN_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/kvcheck/source.h"
#include "mqkv/error.h"

/* Opens data file `number`. KV_NOT_FOUND: it is not there; KV_MISMATCH: of another format version;
 * KV_IO, KV_DENIED ...: it cannot be read. Damage is no failure. Should the disk fail to deliver a
 * page later on, the process ends with exit status 4 and a message. */
enum kv_status source_open(struct source *source, int dir_fd, uint32_t number,
                           struct kv_error *error);

/* Does the same for a store that a daemon uses: its files have all that the daemon has written, and
 * go on changing; the commit log is not looked at. */
enum kv_status source_open_live(struct source *source, int dir_fd, uint32_t number,
                                struct kv_error *error);

/* Maps what the file of such a store has grown by since it was opened. Slices of the mapping before
 * are then of no use. False: it has not grown, or cannot be mapped. */
bool source_grow(struct source *source);

void source_close(struct source *source);

#endif
