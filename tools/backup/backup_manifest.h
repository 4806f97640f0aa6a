/*
 * backup_manifest: the file "backup" beside the data files of a backup, and the last member of a
 * backup in a stream: it says what the backup has. Text; docs/FORMAT.md describes its lines.
 */
#ifndef MQKV_TOOLS_BACKUP_BACKUP_MANIFEST_H
#define MQKV_TOOLS_BACKUP_BACKUP_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/error.h"

#define BACKUP_MANIFEST_NAME "backup"

/* The manifest of a store with the most data files is smaller. */
#define BACKUP_MANIFEST_MAX_BYTES (1u << 20)

#define BACKUP_HEADER_BYTES   4096u /* the header page of a data file */
#define BACKUP_IDENTITY_BYTES 48u   /* those of its first bytes that never change */

struct backup_file {
    uint64_t generation; /* another one for each file that a compaction has made */
    uint64_t bytes; /* counted from the start of the file; what follows is no part of the backup */
    uint64_t
        header_check; /* check of the header page as the backup wrote it (backup_header_check) */
};

/* Start from {0}. */
struct backup_manifest {
    bool under_way; /* data files are being replaced by newer ones */
    uint64_t time_ms;
    uint64_t store_seed;
    uint32_t count;
    struct backup_file *files; /* owned by the manifest */
};

uint64_t backup_header_check(const void *page);

/* Makes room for `count` files, which are zeros. False: out of memory. */
bool backup_manifest_init(struct backup_manifest *manifest, uint32_t count);
void backup_manifest_free(struct backup_manifest *manifest);

/* Returns the text, which the caller frees; NULL: out of memory. */
char *backup_manifest_print(const struct backup_manifest *manifest, size_t *size);

/* Reads a manifest from its text. KV_OK, KV_NO_MEMORY, or KV_CORRUPT: the text is not one that
 * backup_manifest_print wrote; *error (which may be NULL) says what is wrong. */
enum kv_status backup_manifest_parse(struct backup_manifest *manifest, const char *text,
                                     size_t size, struct kv_error *error);

#endif
