/*
 * threads: which thread uses which combiner of a handle. As long as there are at most combine_above
 * threads, each has one for itself; when there are more, all of them share combine_groups. They go
 * back to combiners of their own when half of combine_above is left, so that a pool of threads that
 * breathes does not reconnect all the time.
 *
 * A thread is attached to a handle by its first call, and detached when it ends or the handle is
 * closed.
 */
#ifndef MQKV_CLIENTK_API_THREADS_H
#define MQKV_CLIENTK_API_THREADS_H

#include <stdbool.h>

#include "clientk/combining/combiner.h"
#include "wire/wait.h"

struct clientk;
struct attachment;

/* Prepares this module and base/handles; harmless when repeated. */
void threads_setup(void);

/* The calling thread's; made at its first call. NULL: no memory. */
struct attachment *thread_attachment(struct clientk *client);

/* The combiner that the thread is to use now. */
struct combiner *thread_combiner(struct attachment *attachment);

/* The thread could not get a session of its own: it uses the first combiner from now on. False: it
 * did that already. */
bool thread_share_first_combiner(struct attachment *attachment);

struct wire_waiter *thread_waiter(struct attachment *attachment);

/* Its number among the threads that share a combiner with it: 0, 1, ... in the order of their first
 * calls, with gaps where threads have ended. */
unsigned thread_number(const struct attachment *attachment);

/* Detaches all threads from a handle that is about to be freed. */
void threads_detach_all(struct clientk *client);

#endif
