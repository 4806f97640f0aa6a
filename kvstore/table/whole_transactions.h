/*
 * whole_transactions: after a crash, which transactions of several data files are whole: all of
 * their parts are in the logs. A part that is missing, which a power failure or kill -9 has
 * prevented, ends the logs of the other parts before theirs, and so takes all that came later
 * there: what is left of the store is as it was at a moment, and nothing behind that was promised
 * to be on disk (links.h). Each part names the file of the next (record.h).
 *
 * Threads: none of its own; no other thread knows the files yet.
 */
#ifndef MQKV_KVSTORE_TABLE_WHOLE_TRANSACTIONS_H
#define MQKV_KVSTORE_TABLE_WHOLE_TRANSACTIONS_H

#include "mqkv/error.h"
#include "kvstore/core/context.h"

/* The highest number of a transaction that was noted as settled in the headers of the files, which
 * are open. */
uint64_t whole_transactions_settled(const struct store_context *context);

/* Cuts the generations of the files, which were read, before transactions that are not whole
 * (recovery_cut). A file that was taken over has its parts: its daemon was killed, which takes
 * nothing from the files, and not while it wrote there. Also sets the number of the last
 * transaction in the shared memory. Fails as recovery_cut does. */
enum kv_status whole_transactions_keep(const struct store_context *context, struct kv_error *error);

#endif
