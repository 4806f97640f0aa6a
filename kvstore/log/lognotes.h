/*
 * lognotes: what the header page of a log says beside its progress, as a log that is open has it:
 * the opening, the log before, the name of its changes (fileheader.h), and its chapters
 * (file_chapters.h). Each note gets to the disk with the next sync of the file.
 *
 * Threads: none of its own; the caller holds the data file's lock for writing, or is alone with the
 * file.
 */
#ifndef MQKV_KVSTORE_LOG_LOGNOTES_H
#define MQKV_KVSTORE_LOG_LOGNOTES_H

#include "kvstore/log/logfile.h"

/* Notes the boot, and log->identity.hash_key, in the header of a file that is about to be written
 * to. After an older version, which noted neither, they are on disk before the first record is:
 * else a power failure could leave records and no note. -1 and errno. */
int lognotes_put_opening(struct logfile *log);

/* Begins a chapter, from what is known to be on disk on: a power failure may have taken the note of
 * who wrote the rest. Notes log->gone as well. -1 and errno. */
int lognotes_begin_chapter(struct logfile *log);

/* Notes what has gone. -1 and errno: log->gone is what it was. */
int lognotes_put_gone(struct logfile *log, const struct file_gone *gone);

/* Notes which log this one is to replace. -1 and errno. */
int lognotes_put_replaced(struct logfile *log, const struct file_replaced *replaced);

/* What is noted there; all 0: nothing, or it cannot be read. */
void lognotes_replaced(const struct logfile *log, struct file_replaced *replaced);

/* Notes the name of its stream of changes. -1 and errno: log->stream is what it was. */
int lognotes_put_stream(struct logfile *log, uint64_t stream);

#endif
