/*
 * identity: the kernel's proof of who is at the other end of a queue. The uid is that of the
 * queue's creator. The pid is that of the process that holds a POSIX record lock on the queue: the
 * kernel reports it, and nobody can forge it. The lock goes when the process ends, however it ends,
 * or when it closes *any* descriptor of the queue (so: one descriptor per locked queue).
 *
 * Where the ends live in different PID namespaces, the kernel may show no pid. Then the lock still
 * proves that a process lives which holds it, and the uid is what it was.
 *
 * A client holds the write lock on its reply queue, or on the object of its ring (reply_ring.h),
 * where all of this works as well. A server holds the write lock on NAME.lock and the read lock on
 * each lane. A write lock needs a descriptor open for writing, a read lock one open for reading:
 * clients may only write to lanes, so none of them can pose as the server.
 */
#ifndef MQKV_WIRE_IDENTITY_H
#define MQKV_WIRE_IDENTITY_H

#include <mqueue.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Takes the write lock (F_SETLK, F_WRLCK, whole queue), which proves a client's pid on its reply
 * queue, and a server's on NAME.lock. 0; -1 and errno: EAGAIN or EACCES if another process holds it
 * (*owner, if not NULL: its pid, or 0 if it has just ended). */
int wire_lock_queue(mqd_t queue, pid_t *owner);

/* The holder of the write lock shows a number, 1 to INT64_MAX, to everybody who may open the queue:
 * the length of its lock. The lock still keeps others out. 0; -1 and errno. */
int wire_lock_show(mqd_t queue, uint64_t number);

/* The number that the holder of the write lock shows. 0: none (the lock covers the whole queue), or
 * nobody else holds the lock. */
uint64_t wire_lock_shown(mqd_t queue);

/* Takes the read lock with which the server marks a lane as its own. 0; -1 and errno. */
int wire_lock_lane(mqd_t lane);

/* The pid of the process that holds a lock of either kind on the queue now, as the kernel says. 0:
 * nobody (the process is dead, or it is this one: the kernel does not report one's own locks). -1:
 * errno; ESRCH: a process that this PID namespace does not show. */
pid_t wire_queue_owner(mqd_t queue);

/* As wire_queue_owner, but only a read lock counts: a client asks this about a lane. */
pid_t wire_lane_server(mqd_t lane);

/* The uid that created the queue, as the kernel says. (uid_t)-1: errno. */
uid_t wire_queue_uid(mqd_t queue);

/* True if the queue was unlinked (its server is gone), or if the descriptor is not open. */
bool wire_queue_unlinked(mqd_t queue);

/* A pidfd (close-on-exec; readable when the process has ended) of the process that holds the lock
 * of the queue. The owner is checked again after opening: the pid was not recycled. *pid (may be
 * NULL): its pid. -1: nobody, errno ESRCH; ENOSYS, EMFILE, ... as pidfd_open(2). */
int wire_queue_owner_pidfd(mqd_t queue, pid_t *pid);

/* As wire_queue_owner_pidfd, but only a read lock counts: of the server of a lane, for a client. */
int wire_lane_server_pidfd(mqd_t lane, pid_t *pid);

/* Whether the process of the pidfd has that pid in any of its PID namespaces, as far as can be
 * told: true where /proc/self/fdinfo cannot be read. The first call keeps that directory open,
 * so it should come before the process gives up files (any pidfd, -1 too). */
bool wire_pidfd_has_pid(int pidfd, pid_t pid);

/* True if there is no such process in this PID namespace, or if it is a zombie (which kill(2) still
 * finds). */
bool wire_process_ended(pid_t pid);

#endif
