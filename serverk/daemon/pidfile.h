/*
 * pidfile: --pidfile. The file holds the pid of the daemon, and is locked for as long as the daemon
 * lives (fcntl(2), F_SETLK): another daemon takes over the file of a dead one, but never one that
 * is in use.
 */
#ifndef MQKV_SERVERK_DAEMON_PIDFILE_H
#define MQKV_SERVERK_DAEMON_PIDFILE_H

#include "mqkv/error.h"

struct pidfile;

/* Creates the file, or rewrites a stale one of this user, with the pid of this process. The path is
 * used again when the file is removed. KV_BUSY: it belongs to a live process, which the sentence
 * names; KV_DENIED: no permission, or the file is a symbolic link, another user's, or has a second
 * name (such a file is never written to); KV_IO: not a regular file, or it cannot be written;
 * KV_NOT_FOUND, KV_NO_MEMORY. */
enum kv_status pidfile_create(const char *path, struct pidfile **pidfile, struct kv_error *error);

/* Removes it, unless another file has taken its name. NULL is harmless. */
void pidfile_remove(struct pidfile *pidfile);

#endif
