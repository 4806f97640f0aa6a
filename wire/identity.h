/*
 * identity: the kernel's proof of who is at the other end of a queue. The uid is that of the user
 * who created the queue. The pid is that of the process that holds a POSIX record lock on the
 * queue: the kernel reports it, and nobody can forge it. The process loses the lock when it ends,
 * however it ends, and also when it closes *any* descriptor of the queue: so it has one descriptor
 * of each queue that it locks.
 *
 * If the two ends live in different PID namespaces, the kernel may show no pid. The lock still
 * proves that the process that holds it lives, and the uid can be seen as ever.
 *
 * A client holds the write lock on its reply queue, or on the object of its ring (reply_ring.h). A
 * server holds the write lock on NAME.lock and the read lock on each lane. A write lock needs a
 * descriptor that is open for writing, a read lock one that is open for reading: clients may only
 * write to lanes, so no client can pose as the server.
 */
#ifndef MQKV_WIRE_IDENTITY_H
#define MQKV_WIRE_IDENTITY_H

#include <mqueue.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Takes the write lock of the whole queue (F_SETLK, F_WRLCK): on its reply queue it proves a
 * client's pid, on NAME.lock a server's. 0; -1 with errno: EAGAIN or EACCES if another process
 * holds a lock. *owner (may be NULL): the pid of that process, 0 if it has just ended. */
int wire_lock_queue(mqd_t queue, pid_t *owner);

/* Shows `number`, 1 to INT64_MAX, to everybody who may open the queue, as the length of the write
 * lock, which the caller holds and keeps. 0; -1 with errno. */
int wire_lock_show(mqd_t queue, uint64_t number);

/* Returns the number that another process, which holds the write lock, shows. 0: no other process
 * holds the lock, or it shows none (the lock covers the whole queue). */
uint64_t wire_lock_shown(mqd_t queue);

/* Takes the read lock with which the server marks a lane as its own. 0; -1 with errno. */
int wire_lock_lane(mqd_t lane);

/* Returns the pid of the process that holds a lock of either kind on the queue now. 0: no process
 * holds one, or this process does (the kernel does not report one's own locks). -1 with errno;
 * ESRCH: a process that this PID namespace does not show. */
pid_t wire_queue_owner(mqd_t queue);

/* Like wire_queue_owner, but only a read lock counts: a client asks this about a lane. */
pid_t wire_lane_server(mqd_t lane);

/* Returns the uid of the user who created the queue. (uid_t)-1 with errno. */
uid_t wire_queue_uid(mqd_t queue);

/* Returns true if the queue was unlinked (its server is gone), or if the descriptor is not open. */
bool wire_queue_unlinked(mqd_t queue);

/* Returns a pidfd (close-on-exec; readable once the process has ended) of the process that holds a
 * lock on the queue, and its pid in *pid (may be NULL). The lock is looked at again after the pidfd
 * was opened, so the pid cannot have been given to another process. -1 with errno: ESRCH: no
 * process holds a lock; ENOSYS, EMFILE, ...: as pidfd_open(2) says. */
int wire_queue_owner_pidfd(mqd_t queue, pid_t *pid);

/* Like wire_queue_owner_pidfd, but only a read lock counts: a client finds the server of a lane. */
int wire_lane_server_pidfd(mqd_t lane, pid_t *pid);

/* Returns true if the process of `pidfd` has the pid `pid` in one of its PID namespaces, or if
 * /proc/self/fdinfo cannot be read. The first call keeps that directory open, so a process that is
 * about to give up its access to files calls this before (any pidfd will do, also -1). */
bool wire_pidfd_has_pid(int pidfd, pid_t pid);

/* Returns true if there is no process `pid` in this PID namespace, or if it is a zombie (which
 * kill(2) still finds). */
bool wire_process_ended(pid_t pid);

#endif
