/*
 * tar_stream: a backup as one stream: a tar archive (ustar; sizes of 8 GiB and more in the base-256
 * form that GNU tar and others read) of plain files, so that tar(1) unpacks it.
 *
 * Threads: one.
 */
#ifndef MQKV_TOOLS_BACKUP_TAR_STREAM_H
#define MQKV_TOOLS_BACKUP_TAR_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/error.h"

#define TAR_NAME_BYTES 101u

/* Writing; descriptors may be pipes. -1: errno, EINTR if a signal came. */

/* Begins a member; its `size` bytes are then written with tar_write, and ended with tar_end_member.
 */
int tar_begin_member(int fd, const char *name, uint64_t size, uint64_t time_ms);
int tar_write(int fd, const void *bytes, size_t size);
int tar_end_member(int fd, uint64_t size);
int tar_end(int fd);

/* Reading. */
struct tar_member {
    char name[TAR_NAME_BYTES];
    uint64_t size;
};

/* Reads the header of the next member, whose bytes are then read with tar_read and ended with
 * tar_skip_padding. *end: there is none, as the archive says. KV_CORRUPT: this is no archive, or it
 * ends too early; KV_IO. */
enum kv_status tar_next(int fd, struct tar_member *member, bool *end, struct kv_error *error);
enum kv_status tar_read(int fd, void *bytes, size_t size, struct kv_error *error);
enum kv_status tar_skip_padding(int fd, uint64_t size, struct kv_error *error);

/* Reads what tar_end_member and tar_end wrote, if it comes without a long silence. */
void tar_take_end(int fd, uint64_t size);

#endif
