/*
 * log: records in a file, each of which is there, whole, from the moment on that log_append has
 * returned: after kill -9, after the power went, and after the next append.
 *
 * You may change the members of the struct, and nothing else in this file. The system calls that
 * you need are open, openat, read, pread, write, pwrite, lseek, ftruncate, fstat, fdatasync, fsync,
 * renameat, unlinkat and close. Any of them that transfers bytes may transfer fewer, and may fail
 * with EINTR.
 */
#ifndef LAB_LOG_H
#define LAB_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_MAX_RECORD_BYTES 1024u

struct log {
    int directory; /* descriptors */
    int file;
};

/* What log_open does with each record, from the first one on. */
typedef void (*log_visit)(void *context, const void *record, size_t bytes);

/* Opens the log of that directory, which exists, and makes it if it is not there; calls visit for
 * each record that it has. What was being appended when the process died, or the power went, is
 * there whole or not at all, and what visit was told stays. Returns 0 or an errno: then nothing is
 * open. */
int log_open(struct log *log, const char *directory, log_visit visit, void *context);

/* Appends a record of 1 .. LOG_MAX_RECORD_BYTES. Returns 0: it is on disk; or an errno. */
int log_append(struct log *log, const void *record, size_t bytes);

/* Puts one record in the place of all: after it the log has that one alone, and whatever happens
 * meanwhile, it has either all of the others or that one. Returns 0: it is on disk; or an errno. */
int log_replace(struct log *log, const void *record, size_t bytes);

void log_close(struct log *log);

#endif
