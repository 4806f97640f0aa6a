/*
 * holes: which parts of a file the file system keeps data of. What it keeps none of reads as zeros,
 * and a file of 32 GiB may consist of that.
 *
 * Threads: any; the descriptor's own offset is moved.
 */
#ifndef MQKV_KVSTORE_LOG_HOLES_H
#define MQKV_KVSTORE_LOG_HOLES_H

#include <stdbool.h>
#include <stdint.h>

struct stretch_of_data {
    uint64_t from, to;
};

/* The next stretch that may hold data in [offset, end) of the file; false: there is only a hole, or
 * nothing, up to the end. All of it where the file system does not tell. */
bool holes_next_data(int fd, uint64_t offset, uint64_t end, struct stretch_of_data *data);

#endif
