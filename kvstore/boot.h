/*
 * boot: which boot of the machine a data file was last opened for writing in, as its header notes
 * it. Pages of a file get to the disk in any order, so that a power cut may leave a gap in the part
 * of a log that was not synced, with whole records behind it. Nothing else may: a killed process
 * leaves all that it wrote. So a gap in a file of this very boot is damage, or the file is a copy
 * that was made while a daemon wrote to it.
 *
 * Threads: any.
 */
#ifndef MQKV_KVSTORE_BOOT_H
#define MQKV_KVSTORE_BOOT_H

#include <stdint.h>

enum boot {
    BOOT_UNKNOWN, /* nobody noted it (an older version), or the system does not tell today's */
    BOOT_THIS,
    BOOT_EARLIER /* another one, or a note that was cut in the middle */
};

/* What the header page says; `salt` is that of its file. */
enum boot boot_noted(const uint8_t *page, uint64_t salt);

/* Notes today's boot in the header page. */
void boot_note(uint8_t *page, uint64_t salt);

#endif
