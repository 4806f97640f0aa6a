/*
 * kept_pages: what the kernel keeps of a file in memory though it was to forget it (fileio's
 * forget), since somebody else maps it. After a failed sync such a page counts as written, and a
 * later sync says nothing of it, also where the disk never got it.
 *
 * Threads: any, of a file that nobody writes to meanwhile.
 */
#ifndef MQKV_KVSTORE_LOG_KEPT_PAGES_H
#define MQKV_KVSTORE_LOG_KEPT_PAGES_H

#include <stdint.h>

/* Writes those pages of [from, end) that are in memory once more, as they are, and syncs the file
 * if there were any: then the disk has what a read finds. All pages where it is not known; none
 * where there is no disk (tmpfs). `end` is not beyond that of the file. -1 and errno: one cannot be
 * read or written, or the sync failed. */
int kept_pages_write(int fd, uint64_t from, uint64_t end);

#endif
