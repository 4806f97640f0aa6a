/*
 * pidfile: --pidfile. The file holds the process number of the daemon, and is locked for as long as
 * the daemon lives (fcntl(2), F_SETLK), so that no other daemon takes over a file that is in use;
 * one that a dead daemon left is.
 */
#ifndef MQKV_SERVERK_DAEMON_PIDFILE_H
#define MQKV_SERVERK_DAEMON_PIDFILE_H

#include "mqkv/error.h"

struct pidfile;

/* Makes the file, or writes a stale one of this user anew, with the number of this process. The
 * path is used again when the file is removed. KV_BUSY: it is that of a process that lives, which
 * the sentence names; KV_DENIED: a symbolic link, another user's, or a file with a second name,
 * none of which is written to, or no permission; KV_IO: no regular file, or it cannot be written;
 * KV_NOT_FOUND, KV_NO_MEMORY. */
enum kv_status pidfile_create(const char *path, struct pidfile **pidfile, struct kv_error *error);

/* Removes it, unless another file has its name by now. NULL is harmless. */
void pidfile_remove(struct pidfile *pidfile);

#endif
