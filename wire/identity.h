/*
 * identity: the kernel's proof of who is at the other end of a queue. The uid is that of
 * the queue's creator; the pid that of the process that holds a POSIX record lock on the queue,
 * which the kernel reports and nobody can forge, and which goes when the process ends, however it
 * ends, or closes *any* descriptor of the same queue (so: one descriptor per locked queue).
 *
 * A client holds the write lock on its reply queue, or on the object of its ring (reply_ring.h),
 * for which all of this works as well; a server the write lock on NAME.lock, and the read lock on
 * each lane. A write lock needs a descriptor open for writing, a read lock one for reading: clients
 * may only write to lanes, so none can pretend to be the server there.
 */
#ifndef MQKV_WIRE_IDENTITY_H
#define MQKV_WIRE_IDENTITY_H

#include <mqueue.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What to do about an owner whose pid is not shown. */
#define WIRE_PID_NAMESPACE_ADVICE                                                              \
    "they run in different PID namespaces, where neither can prove its pid to the other. Run " \
    "both in one PID namespace, as in one IPC namespace (containers: --pid=host or "           \
    "--pid=container:NAME beside --ipc)"

/* Takes the write lock (F_SETLK, F_WRLCK, whole queue) with which a client proves its pid on its
 * reply queue, and a server itself on NAME.lock. 0; -1 and errno EAGAIN/EACCES if another process
 * has it (*owner gets its pid if wanted, 0 if it is gone already). */
int wire_lock_queue(mqd_t queue, pid_t *owner);

/* A number, 1 to INT64_MAX, that the holder of the write lock shows to whoever may open the queue:
 * the length of its lock. The lock keeps others out as before. 0; -1 and errno. */
int wire_lock_show(mqd_t queue, uint64_t number);

/* The number that the holder of the write lock shows. 0: none (the lock covers the whole queue), or
 * nobody else holds the lock. */
uint64_t wire_lock_shown(mqd_t queue);

/* Takes the read lock with which the server marks a lane as its own. 0; -1 and errno. */
int wire_lock_lane(mqd_t lane);

/* The pid that the kernel says holds a lock on the queue now, of either kind; 0: nobody (the
 * process is dead, or it is this process itself: one's own locks are not reported). -1: errno;
 * ESRCH: somebody whose pid this pid namespace does not show. */
pid_t wire_queue_owner(mqd_t queue);

/* As wire_queue_owner, but only a read lock counts: what a client asks about a lane. */
pid_t wire_lane_server(mqd_t lane);

/* The uid that created the queue, as the kernel knows it. (uid_t)-1: errno. */
uid_t wire_queue_uid(mqd_t queue);

/* True if the queue was unlinked (its server is gone, or the descriptor is none). */
bool wire_queue_unlinked(mqd_t queue);

/* A pidfd (close-on-exec; readable when the process has ended) of the process that holds the lock
 * of the queue, checked again after opening so that it is no recycled pid; *pid (may be NULL) its
 * pid. -1: nobody, errno ESRCH; ENOSYS, EMFILE, ... as pidfd_open(2). */
int wire_queue_owner_pidfd(mqd_t queue, pid_t *pid);

/* True if there is no such process in this pid namespace, or it has ended and its parent has not
 * been told yet (kill(2) finds such a one). */
bool wire_process_ended(pid_t pid);

#endif
