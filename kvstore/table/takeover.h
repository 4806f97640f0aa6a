/*
 * takeover: what a generation holds is found, instead of by recovery, in the words and the index
 * that a process which was killed has left in shared memory (shared_store.h). Whatever is in doubt
 * is not taken over: then the log tells, as after any other death.
 *
 * Bytes of the log that the dead process wrote are in the kernel's memory, synced or not, and stay
 * there as long as the machine runs: all of it counts. The next sync makes them durable. But if a
 * sync failed, or was under way when the process died, so that nobody knows whether it failed, the
 * kernel may have dropped some (sync.h): in the first case nothing is taken over, in the second the
 * part that was not synced is first read again from the disk.
 */
#ifndef MQKV_KVSTORE_TABLE_TAKEOVER_H
#define MQKV_KVSTORE_TABLE_TAKEOVER_H

#include <stdbool.h>

#include "kvstore/index/arena.h"
#include "kvstore/table/generation.h"
#include "mqkv/error.h"

/* A generation whose log was just opened, with the words that were left: is it theirs, and whole?
 * Then its index is claimed in the arena, and its tail is known. False: nothing has changed. */
bool takeover_claim(struct generation *generation, struct shared_generation *left,
                    struct arena *arena);

/* Makes the log of such a generation writable from its tail on, with nothing left behind it. */
enum kv_status takeover_settle(struct generation *generation, struct kv_error *error);

#endif
