/*
 * move_page: entries of the source on their way to the target, many in a message. Those that the
 * target may have are read there; the others, and those that differ, are written. What does not go
 * as expected is left to move_key.
 */
#ifndef MQKV_TOOLS_TRANSFER_MOVE_PAGE_H
#define MQKV_TOOLS_TRANSFER_MOVE_PAGE_H

#include "tools/transfer/migration.h"

#define MOVE_PAGE_BYTES (1u << 20)

/* An entry, with its key and value in the page's memory. */
struct moving_entry {
    size_t at; /* where its key is in the page's memory, followed by its value */
    struct clientk_entry entry;
    bool looks;        /* the target is read before it is written */
    bool is_done_with; /* nothing is left to do */
    bool is_odd;       /* it is left to move_key */
    uint64_t expected; /* the version that the target must have; 0: must be absent */
};

struct move_page {
    struct migration *migration;
    size_t count;
    char *bytes;
    size_t used_bytes, room_bytes;
    struct moving_entry entries[MOVE_PAGE_ENTRIES];
    struct clientk_operation operations[MOVE_PAGE_ENTRIES];
    struct clientk_result results[MOVE_PAGE_ENTRIES];
};

/* Makes a page. NULL: out of memory. */
struct move_page *move_page_create(struct migration *migration);
void move_page_free(struct move_page *page);

/* Takes an entry that the source has, unless it is known to be at the target; sends the page when
 * it is full. */
void move_page_take(struct move_page *page, const struct clientk_entry *entry);

/* Sends the entries that were taken. */
void move_page_send(struct move_page *page);

#endif
