/*
 * hollow_fate: what has become of the content of a hollow record (record.h) that no later record of
 * its key follows, as far as a file is read.
 */
#ifndef MQKV_KVSTORE_KVCHECK_HOLLOW_FATE_H
#define MQKV_KVSTORE_KVCHECK_HOLLOW_FATE_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/kvcheck/source.h"

enum hollow_fate {
    HOLLOW_LOST,       /* it was there, and is damaged */
    HOLLOW_TAKEN,      /* a power failure took what had replaced it (fileheader_read_overwrites) */
    HOLLOW_OVERWRITTEN /* a daemon has overwritten it since; what replaced it is behind the end */
};

/* Returns the fate of the content of the record at `offset`, which may be one of a transaction.
 * While a daemon writes to the file, one that seems to be lost is to be looked at once more, after
 * running_store_settle. */
enum hollow_fate hollow_fate(const struct source *source, uint64_t offset, bool is_of_transaction);

#endif
