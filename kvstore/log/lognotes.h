/*
 * lognotes: the notes in the header page of an open log, beside its progress: the opening, the log
 * before, the name of its changes (fileheader.h), and its chapters (file_chapters.h). A note gets
 * to the disk with the next sync of the file.
 *
 * The calls return 0, or -1 and errno: the note could not be written.
 *
 * Threads: none of its own; the caller holds the data file's lock for writing, or is alone with the
 * file.
 */
#ifndef MQKV_KVSTORE_LOG_LOGNOTES_H
#define MQKV_KVSTORE_LOG_LOGNOTES_H

#include "kvstore/log/logfile.h"

/* Notes the boot, and log->identity.hash_key, in the header of `log`, which is about to be written
 * to. After an older version, which noted neither, the notes are on disk before the first record
 * is: else a power failure could leave records without notes. */
int lognotes_put_opening(struct logfile *log);

/* Begins a chapter at the offset up to which the log is known to be on disk: a power failure may
 * have taken the note of who wrote the rest. Notes log->gone as well. */
int lognotes_begin_chapter(struct logfile *log);

/* Notes what has gone from the log. On failure log->gone is what it was. */
int lognotes_put_gone(struct logfile *log, const struct file_gone *gone);

/* Notes which log `log` is to replace. */
int lognotes_put_replaced(struct logfile *log, const struct file_replaced *replaced);

/* Reads that note into *replaced; all 0: there is none, or the header cannot be read. */
void lognotes_replaced(const struct logfile *log, struct file_replaced *replaced);

/* Writes to the header that the log is of the newest format. It is when that is on disk, which the
 * caller sees to, and notes in log->identity. */
int lognotes_put_newest_format(const struct logfile *log);

/* Notes `stream` as the name of the log's changes. On failure log->stream is what it was. */
int lognotes_put_stream(struct logfile *log, uint64_t stream);

#endif
