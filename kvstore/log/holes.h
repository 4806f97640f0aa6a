/*
 * holes: the parts of a file for which the file system keeps data. The other parts, holes, read as
 * zeros, and a file of 32 GiB may consist of holes.
 *
 * Threads: any; the calls move the descriptor's own offset.
 */
#ifndef MQKV_KVSTORE_LOG_HOLES_H
#define MQKV_KVSTORE_LOG_HOLES_H

#include <stdbool.h>
#include <stdint.h>

struct stretch_of_data {
    uint64_t from, to;
};

/* Finds the next stretch in [offset, end) of the file of `fd` that may hold data, which is all of
 * the range where the file system does not tell. False: there is only a hole, or nothing, up to
 * `end`. */
bool holes_next_data(int fd, uint64_t offset, uint64_t end, struct stretch_of_data *data);

#endif
