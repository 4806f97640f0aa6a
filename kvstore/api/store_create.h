/*
 * store_create: makes the data files of a new store, and tells whether a directory holds a store.
 */
#ifndef MQKV_KVSTORE_API_STORE_CREATE_H
#define MQKV_KVSTORE_API_STORE_CREATE_H

#include <stdint.h>

#include "mqkv/error.h"
#include "kvstore/format/fileheader.h"

/* Reads the header of data.0000 in `dir`, whose descriptor is dir_fd. That file is made last, and
 * so is there if and only if the store is complete. KV_NOT_FOUND: there is no store; KV_MISMATCH,
 * KV_CORRUPT, KV_IO ..., with a sentence in `error`. */
enum kv_status store_identify(int dir_fd, const char *dir, struct file_identity *identity,
                              struct kv_error *error);

/* In a directory without data.0000: KV_OK if a store may be made there; KV_CORRUPT if there was a
 * store, whose other data files have records in them or were closed, or a copy of one was begun
 * there and not finished; KV_IO: the disk does not tell. With a sentence in `error`. */
enum kv_status store_check_vacant(int dir_fd, const char *dir, struct kv_error *error);

/* Makes an empty store of `datafiles` files, durably, in a directory that store_check_vacant found
 * vacant, and sets *identity. Remains of an earlier attempt are replaced. On failure, with a
 * sentence in `error`, no data file is left behind. */
enum kv_status store_create(int dir_fd, const char *dir, uint32_t datafiles,
                            struct file_identity *identity, struct kv_error *error);

#endif
