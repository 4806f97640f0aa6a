/*
 * held_store: the data files of a running store as they are at one moment, held for this client by
 * the server (BACKUP in docs/PROTOCOL.md). They are read in place if this process may open them,
 * else through the server.
 *
 * Threads: one.
 */
#ifndef MQKV_TOOLS_BACKUP_HELD_STORE_H
#define MQKV_TOOLS_BACKUP_HELD_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/backup/backup_manifest.h"
#include "mqkv/clientk.h"

struct held_store {
    struct clientk *client;          /* borrowed */
    struct backup_manifest manifest; /* has no header checks */
    char *dir;                       /* the directory of the data files, as the server names it */
    bool by_message;                 /* the files are never read in place */
    size_t piece_bytes;              /* bytes that one answer has */
    uint64_t touched_ns;
    struct clientk_value answer;
};

/* One data file; fd: a descriptor of it, -1: it must be read through the server. */
struct held_file {
    struct held_store *store;
    uint32_t number;
    uint64_t bytes;
    int fd;
    uint8_t header[BACKUP_HEADER_BYTES]; /* the header page that a copy must have */
};

/* Has the server hold its files. KV_OK: the caller ends it by held_store_end. Else a sentence:
 * KV_DENIED, KV_UNSUPPORTED (an older server), KV_OVERLOADED, ... */
enum kv_status held_store_begin(struct held_store *store, struct clientk *client, bool by_message,
                                struct kv_error *error);

/* Opens one of the files, and closes it. */
enum kv_status held_file_open(struct held_file *file, struct held_store *store, uint32_t number,
                              struct kv_error *error);
void held_file_close(struct held_file *file);

/* Reads `size` bytes, which the file has, at an offset behind its header. */
enum kv_status held_file_read(struct held_file *file, uint64_t offset, void *buffer, size_t size,
                              struct kv_error *error);

/* Keeps the hold. A caller that reads without held_file_read calls this at least every few
 * seconds. */
enum kv_status held_store_keep(struct held_store *store, struct kv_error *error);

/* Ends the hold after everything has been read. KV_OK: it has lasted, so what was read is right. */
enum kv_status held_store_finish(struct held_store *store, struct kv_error *error);

/* Ends a hold that may still last, and frees the store. */
void held_store_end(struct held_store *store);

#endif
