/*
 * whole_io: reads and writes of all of a range of a file: they continue after a signal and after a
 * part.
 *
 * Threads: any.
 */
#ifndef MQKV_COMMON_MEMORY_WHOLE_IO_H
#define MQKV_COMMON_MEMORY_WHOLE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Reads `size` bytes at `offset` into `data`; returns how many there were before the file ended, or
 * -1 and errno. A read that ends within a unit of unit_bytes has met the end of the file (the
 * descriptor may be one of O_DIRECT, in which the next read could not begin there); 1: any
 * bytes. */
ssize_t whole_read(int fd, void *data, size_t size, off_t offset, size_t unit_bytes);

/* Writes `size` bytes at `offset`. False and errno: not all could be written. */
bool whole_write(int fd, const void *data, size_t size, off_t offset);

#endif
