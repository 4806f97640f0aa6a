/*
 * mirror_changes: reads the changes of all data files, page by page, on their way to a copy. A page
 * has whole transactions: those of several data files are put together from their parts, in the
 * order of their numbers, which is that of each file; a file whose next change is such a part waits
 * for the others.
 *
 * Threads: one for each page.
 */
#ifndef MQKV_MIRROR_MIRROR_CHANGES_H
#define MQKV_MIRROR_MIRROR_CHANGES_H

#include "bridges/cluster/mirror/copy_page.h"
#include "bridges/cluster/mirror/mirror_state.h"

/* What comes next in a data file, where the page ends. */
enum front_kind {
    FRONT_MORE,  /* changes for which the page has no room, or perhaps none */
    FRONT_END,   /* nothing */
    FRONT_PART,  /* a part of a transaction of several data files */
    FRONT_TAKEN, /* what is behind such a part, which was taken: it was not looked at */
    FRONT_BROKEN /* what cannot be read now */
};

struct file_front {
    enum front_kind kind;
    uint64_t transaction; /* this and the others: of a part */
    uint32_t changes;
    uint32_t next_file;
};

struct mirror_changes {
    struct kvstore *store;
    uint32_t files;
    uint32_t first_file; /* another one for each page: one that fills it holds up no other */
    struct copy_page *page;
    struct mirror_place *places; /* of each file, behind what the page has */
    uint64_t *taken;             /* the changes of each file that the page has */
    uint64_t *again_ms;          /* for each file that could not be read: when to try again; or 0 */
    struct file_front *fronts;
    bool spoiled; /* the page may have zeros, or a part of a transaction: it counts not */
};

/* Begins for all files of the store. False: out of memory. */
bool mirror_changes_begin(struct mirror_changes *changes, struct kvstore *store,
                          struct copy_page *page);
void mirror_changes_free(struct mirror_changes *changes);

/* Finds the place behind all that was written so far. Errors: those of kvstore_changes_now. */
enum kv_status mirror_changes_now(struct kvstore *store, uint32_t file, struct mirror_place *place);

/* Fills the page, which is empty, with changes of all files from the places `from` on; the store's
 * listener is called for the next change. A file that cannot be read is left alone for a while, and
 * logged once. *more: there are more changes, or may be. KV_OK; KV_MISSED: the changes of some file
 * cannot be followed from its place on; a damaged record has that effect, too; the page is empty
 * then. */
enum kv_status mirror_changes_fill(struct mirror_changes *changes, const struct mirror_place *from,
                                   bool *more);

/* Fills the page, which is empty, with what it had once: so many changes of each file. False: that
 * cannot be done, and the page is empty. */
bool mirror_changes_fill_again(struct mirror_changes *changes, const struct mirror_place *from,
                               const uint64_t *taken);

#endif
