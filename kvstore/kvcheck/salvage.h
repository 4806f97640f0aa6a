/*
 * salvage: kvcheck --salvage OUT: the newest intact record of every key, with its version and
 * expiry, in a new store.
 *
 * A file that is another copy of a data file which is there, too (somebody restored it under the
 * wrong name), is left out: what is older in it must not replace what is newer. A version that is
 * too high to go on from becomes 1.
 *
 * The same code makes a store anew that is sound: of another number of data files, or of an older
 * format.
 *
 * A key whose newest record was damaged comes back with an older value, if that is still in the
 * log, or, if what was damaged was its deletion, at all: the log has no way to tell.
 */
#ifndef MQKV_KVSTORE_KVCHECK_SALVAGE_H
#define MQKV_KVSTORE_KVCHECK_SALVAGE_H

#include "mqkv/error.h"
#include "kvstore/kvcheck/layout.h"
#include "kvstore/kvcheck/findings.h"

/* Makes the store in `out`, a directory that does not exist yet, or is empty. Says on
 * findings->stream what was lost and what was saved. On failure the data files made so far are
 * removed. */
enum kv_status salvage_store(int dir_fd, const struct layout *layout, const char *out,
                             struct findings *findings, struct kv_error *error);

/* Makes a store of that number of data files (0: as many as there are), in the format of this
 * program, from all keys of one that is sound, with versions and expiry. KV_CORRUPT: it is damaged;
 * then, as on any failure, nothing is left in `out`. */
enum kv_status rewrite_store(int dir_fd, const struct layout *layout, const char *out,
                             uint32_t datafiles, struct findings *findings, struct kv_error *error);

#endif
