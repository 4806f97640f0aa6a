/*
 * scan_page: the value of a SCAN's result: entries one behind the other (wire/operation.h), as many
 * as fit and as the operation asks for.
 */
#ifndef MQKV_SERVERK_EXECUTE_SCAN_PAGE_H
#define MQKV_SERVERK_EXECUTE_SCAN_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/memory/cursor.h"
#include "mqkv/kvstore.h"
#include "serverk/execute/allowance.h"
#include "serverk/session/access.h"
#include "wire/operation.h"

struct scan_page {
    struct write_cursor cursor; /* behind the entries */
    uint32_t entries;
    bool keys_only;
    struct access_user *reader; /* others' keys are left out; NULL: none are */
    size_t refused_bytes; /* of what found no room: an entry, or with ATOMIC a file; 0: nothing */
    uint64_t next;        /* the cursor to go on with; 0: all was visited */
    uint64_t bad_offset;  /* of the record in its data file that ended the page: KV_CORRUPT, KV_IO;
                             the entries before it are there, and next is past it. 0: none did */
};

/* An empty page of `capacity` bytes at `at`. */
void scan_page_begin(struct scan_page *page, const struct wire_operation *operation,
                     struct access_user *reader, uint8_t *at, size_t capacity);

/* A kvstore_visit of the page: adds the entry; refuses what has no room. */
bool scan_page_add(void *page, const struct kvstore_scanned *scanned);

/* The same, but takes all: what has no room is added to page->refused_bytes, to find out how much
 * is missing. */
bool scan_page_add_or_measure(void *page, const struct kvstore_scanned *scanned);

/* The most entries of a page, at least 1. */
uint32_t scan_page_limit(const struct wire_operation *operation);

/* Fills `capacity` bytes at `at` from operation->cursor on, with single entries, or with ATOMIC
 * with whole data files, each as it was at one moment. KV_BUFFER_TOO_SMALL: not even the first
 * fits, it needs page->refused_bytes. Else as kvstore_scan and kvstore_scan_file; a file that the
 * latter refuses ends the page before it. Every some thousand entries, and after each whole file,
 * the allowance is looked at: the page ends, perhaps empty, when it is used up. */
enum kv_status scan_page_fill(struct scan_page *page, struct kvstore *store,
                              const struct wire_operation *operation, struct access_user *reader,
                              struct allowance *allowance, uint8_t *at, size_t capacity);

#endif
