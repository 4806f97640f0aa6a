/*
 * placing: a large value on its way into a data file. Its place in the log, an extent, is taken
 * under the file's lock; its bytes are copied there without the lock, so that nobody waits for
 * them; then, under the lock again, a small record makes it count. Until then nobody knows of it,
 * and if that never comes, the extent is so much dead space.
 *
 * While the compactor shares the file's next generation, a value gets an extent in both
 * generations, and counts in both at once. A generation is not freed while a value is being written
 * to it (placing_wait).
 *
 * Threads: none of its own. Each call says what the caller holds.
 */
#ifndef MQKV_KVSTORE_TABLE_PLACING_H
#define MQKV_KVSTORE_TABLE_PLACING_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/table/datafile.h"

/* Values from this size on are placed: what is smaller is copied under the lock, in the time that
 * the further steps of a placing take. */
#ifndef PLACE_MIN_BYTES
#define PLACE_MIN_BYTES (UINT64_C(16) << 10)
#endif

/* A value has an extent in the current generation, and one in the next; and when one has taken the
 * place of the other meanwhile, in one more. */
#define PLACING_MOST_EXTENTS 4u

struct placing_extent {
    struct generation *generation;
    struct extent extent;
    bool is_reused;        /* it had another content before */
    enum kv_status status; /* of copying the value there */
};

/* Whether a value may take an extent that had another content before. */
struct placing_terms {
    bool reuses;               /* nobody reads the log without its lock, or follows its changes */
    uint64_t durable_position; /* of the file (kvstore_ticket) */
};

/* From placing_begin to placing_end it is in a list of the file, and does not move. */
struct placing {
    struct placing *next;
    struct record record;        /* its key is the caller's; of its value only the size counts */
    struct kv_slice value, tail; /* what is copied, in two pieces, to the first place */
    uint32_t hash;
    uint64_t base_at; /* set by the caller: offset of the content that it reads meanwhile; or 0 */
    bool is_lost;     /* it has no place in a generation where it needs one */
    uint32_t extent_count;
    uint32_t filled; /* of the extents, from the first one on */
    struct placing_extent extents[PLACING_MOST_EXTENTS];
};

/* Returns true if values may be placed in `file`: its format knows extents, and nobody waits for
 * all placings to end. Holds: the file's lock. */
bool placing_is_possible(const struct datafile *file);

/* Takes a place for `record`, a put, on `terms`; `lookup` is of its key. Its value is copied,
 * unless the caller has placing_fill copy other pieces of the same size. On failure *placing is not
 * in the list. Errors as of datafile_append. Holds: the file's lock for writing. */
enum kv_status placing_begin(struct datafile *file, const struct lookup *lookup,
                             const struct record *record, const struct placing_terms *terms,
                             struct placing *placing);

/* Copies the value to where it has a place and was not yet copied to. KV_IO, KV_NO_MEMORY,
 * KV_NO_SPACE of its first place; placing_follow knows of the others. The caller holds no lock. */
enum kv_status placing_fill(struct placing *placing);

/* Takes a place in each generation of `file` that the value has none in. True: placing_fill is to
 * be called again. Holds: the file's lock for writing. */
bool placing_follow(struct datafile *file, struct placing *placing);

/* Makes the value count, with a version as datafile_append gives it, once. placing_follow has just
 * returned false, and the value is not lost; `lookup` is of its key. *written and errors as of
 * datafile_append. Holds: the file's lock for writing. */
enum kv_status placing_publish(struct datafile *file, struct lookup *lookup,
                               struct placing *placing, struct kvstore_written *written);

/* Returns the value's place in the current generation of `file`, where it counts. */
const struct extent *placing_extent(const struct datafile *file, const struct placing *placing);

/* Does what placing_publish leaves undone while changes of a transaction are being made, as
 * datafile_confirm after datafile_append. The record that makes the value count has size_bytes.
 * Holds: the file's lock for writing. */
void placing_confirm(struct datafile *file, struct placing *placing, const struct lookup *replaced,
                     uint64_t size_bytes);

/* Ends the placing, published or not. Holds: the file's lock for writing. */
void placing_end(struct datafile *file, struct placing *placing);

/* Returns the end of what a sync of `generation`, of `file`, that begins now makes durable for
 * good: its tail, or the first new extent that is being filled. (What is filled of others is not
 * referred to yet, and what was in them not any more.) Holds: the file's lock. */
uint64_t placing_settled_end(const struct datafile *file, const struct generation *generation);

/* Waits until nothing is being placed in `generation`, which is not one of the file any more. Takes
 * the file's lock for moments. */
void placing_wait(const struct store_context *context, const struct datafile *file,
                  const struct generation *generation);

#endif
