/*
 * walk: the records of a data file from start to end, and the gaps between them. After a place that
 * holds no valid record it looks for the next one in steps of RECORD_ALIGNMENT. Since the checksum
 * covers the record's offset and the file's salt, what it finds is a record of this file in its
 * place, and not, say, a copy of one in somebody's value.
 */
#ifndef MQKV_KVSTORE_KVCHECK_WALK_H
#define MQKV_KVSTORE_KVCHECK_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/format/record.h"
#include "kvstore/kvcheck/offset_list.h"
#include "kvstore/kvcheck/source.h"

enum walk_kind {
    WALK_RECORD,
    WALK_SUPERSEDED, /* a value pointer, intact, whose content is not in its extent (record.h) */
    WALK_DAMAGE,     /* a gap before the synced offset: something that was on disk is gone */
    WALK_HOLE,       /* a gap at or after it, with intact records behind */
    WALK_TORN /* such a gap with none behind: torn_tail of writes that nobody was promised; also
                    what stands behind the end of the log (source.whole_end) */
};

struct walk_step {
    enum walk_kind kind;
    uint64_t offset;
    uint64_t size_bytes;
    bool all_zero;        /* of a gap: it has only zeros */
    struct record record; /* of a record; of one that names the content of an extent, the content,
                             unless it is superseded */
};

struct walk {
    const struct source *source;
    const struct offset_list
        *lost; /* superseded pointers that count as none; NULL: there are none */
    uint64_t offset;
    uint64_t credit_bytes;
    uint64_t skipped;    /* candidates in gaps that would have cost too much to verify */
    uint64_t used_bytes; /* of records that were given, and of contents named by them */
    bool gap_is_made;    /* the gap has records that no power failure, nor a kill, leaves */
};

void walk_start(struct walk *walk, const struct source *source, const struct offset_list *lost);

/* Takes a step. False: the end of the log. A gap never crosses the synced offset, except behind
 * source.whole_end. */
bool walk_next(struct walk *walk, struct walk_step *step);

/* Gives the content of an extent that lies at `offset` as a record that counts by itself. False: no
 * sound one is there. */
bool walk_read_content(const struct source *source, uint64_t offset, struct walk_step *step);

#endif
