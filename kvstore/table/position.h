/*
 * position: a place in the changes of a data file (kvstore_position): a log, by the name of its
 * stream, and a record in it, by its offset and version. A log only grows, so that a position stays
 * what it is, but for what a power failure takes off its end. Then the record is not there, or
 * another, of another version: that is how a position is found to be void.
 *
 * The stream gets its name, a random number, when the first position in it is given out, and loses
 * it when something changes of which the log has no record: then all positions so far are void.
 *
 * Behind a log of which nothing was appended since it was opened the last record is not known. Such
 * a position is an end: version is POSITION_END, and place that of the record that will follow. If
 * a power failure could still take what is before it, the highest version so far stands there too:
 * the record that follows has one that is little higher, unless records were lost.
 *
 * Threads: none of its own; callers hold the data file's lock where the log is the current one.
 */
#ifndef MQKV_KVSTORE_TABLE_POSITION_H
#define MQKV_KVSTORE_TABLE_POSITION_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/table/generation.h"
#include "mqkv/kvstore.h"

#define POSITION_END RECORD_VERSION_LIMIT

/* Makes the stream of the log one in which positions may be given out. 0, or -1 with errno. Holds:
 * the data file's lock for writing. */
int position_open_stream(struct logfile *log);

/* All positions in it are void from now on. The same results and locks. */
int position_void_stream(struct logfile *log);

/* Is the position one in this log? */
bool position_is_of(const struct kvstore_position *position, const struct logfile *log);

/* Behind all that the generation has. durable: what it had when it was opened is on disk. */
struct kvstore_position position_of_tail(const struct generation *generation, bool durable);

/* Behind what is before the offset, and is on disk. */
struct kvstore_position position_of_end(const struct logfile *log, uint64_t offset);

/* Finds the position in the log: reading goes on at *offset. `end` is that of the log, max_version
 * the highest given in it so far (0: not known). Errors: KV_MISSED: the position is none, or no
 * more; KV_IO and others from errno: the record there cannot be read, so nobody knows which. */
enum kv_status position_find(const struct kvstore_position *position, const struct logfile *log,
                             uint64_t end, uint64_t max_version, uint64_t *offset);

#endif
