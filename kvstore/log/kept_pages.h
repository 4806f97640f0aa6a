/*
 * kept_pages: the pages of a file that the kernel keeps in memory though it was told to forget them
 * (fileio's forget), since another process maps them. After a failed sync such a page counts as
 * written, and a later sync succeeds although the disk never got the page.
 *
 * Threads: any; no thread writes to the file meanwhile.
 */
#ifndef MQKV_KVSTORE_LOG_KEPT_PAGES_H
#define MQKV_KVSTORE_LOG_KEPT_PAGES_H

#include <stdint.h>

/* Writes those pages of [from, end) of the file of `fd` that are in memory once more, as they are,
 * and syncs the file if there were any: then the disk has what a read finds. Writes all pages where
 * the system does not tell which are in memory, and none where there is no disk (tmpfs). `end` is
 * not beyond the file's end. 0, or -1 and errno: a page cannot be read or written, or the sync
 * failed. */
int kept_pages_write(int fd, uint64_t from, uint64_t end);

#endif
