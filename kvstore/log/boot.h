/*
 * boot: in which boot of the machine a data file was last opened for writing, as its header notes.
 * Pages of a file get to the disk in any order, so that a power failure may leave a gap in the part
 * of a log that was not synced, with whole records behind the gap. So does a sync that fails: the
 * kernel forgets pages that never got to the disk. Nothing else leaves a gap: a killed process
 * leaves all that it wrote. So a gap in a file of this very boot, of which no sync has failed, is
 * damage, or the file is a copy that was made while a daemon wrote to the original.
 *
 * Threads: any.
 */
#ifndef MQKV_KVSTORE_LOG_BOOT_H
#define MQKV_KVSTORE_LOG_BOOT_H

#include <stdbool.h>
#include <stdint.h>

enum boot {
    BOOT_NOT_NOTED,  /* an older version wrote the file */
    BOOT_UNTOLD,     /* the system does not tell today's boot */
    BOOT_WAS_UNTOLD, /* the system on which the file was written did not tell the boot */
    BOOT_THIS,
    BOOT_EARLIER /* another boot, a sync that failed, or a note that was cut in the middle */
};

/* The boot that the header page `page` notes, of a file with the salt `salt`. */
enum boot boot_noted(const uint8_t *page, uint64_t salt);

/* Returns true if it is unknown that the machine has been started again since the file was
 * written. */
static inline bool boot_is_unknown(enum boot boot)
{
    return boot == BOOT_NOT_NOTED || boot == BOOT_UNTOLD || boot == BOOT_WAS_UNTOLD;
}

/* Why `boot` is unknown, and what to do if anything can be done: a part of a sentence. */
const char *boot_why_unknown(enum boot boot);

/* Notes today's boot in the header page `page` of a file with the salt `salt`. */
void boot_note(uint8_t *page, uint64_t salt);

/* Notes there that a sync of the file has failed: it counts as one of an earlier boot from then on,
 * until boot_note. */
void boot_note_failed_sync(uint8_t *page, uint64_t salt);

#endif
