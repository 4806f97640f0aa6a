/*
 * boot: which boot of the machine a data file was last opened for writing in, as its header notes
 * it. Pages of a file get to the disk in any order, so that a power failure may leave a gap in the
 * part of a log that was not synced, with whole records behind it. Nothing else may: a killed
 * process leaves all that it wrote. So a gap in a file of this very boot is damage, or the file is
 * a copy that was made while a daemon wrote to it.
 *
 * Threads: any.
 */
#ifndef MQKV_KVSTORE_LOG_BOOT_H
#define MQKV_KVSTORE_LOG_BOOT_H

#include <stdbool.h>
#include <stdint.h>

enum boot {
    BOOT_NOT_NOTED,  /* an older version wrote it */
    BOOT_UNTOLD,     /* the system does not tell today's */
    BOOT_WAS_UNTOLD, /* the system that it was written on did not tell */
    BOOT_THIS,
    BOOT_EARLIER /* another one, or a note that was cut in the middle */
};

/* What the header page says; `salt` is that of its file. */
enum boot boot_noted(const uint8_t *page, uint64_t salt);

/* Neither BOOT_THIS nor BOOT_EARLIER. */
static inline bool boot_is_unknown(enum boot boot)
{
    return boot == BOOT_NOT_NOTED || boot == BOOT_UNTOLD || boot == BOOT_WAS_UNTOLD;
}

/* Why it is not known whether the machine has been started again since, and what to do if anything
 * can be done: a part of a sentence. */
const char *boot_why_unknown(enum boot boot);

/* Notes today's boot in the header page. */
void boot_note(uint8_t *page, uint64_t salt);

#endif
