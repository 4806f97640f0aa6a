/*
 * leftovers: queues and segments of clients that died before the handshake was over: nobody else
 * would remove them, and dead queues keep charging their user's budget.
 */
#ifndef MQKV_SERVERK_LEFTOVERS_H
#define MQKV_SERVERK_LEFTOVERS_H

/* Unlinks the reply queues and segments under the queue name whose process is gone, as far as they
 * can be listed (/dev/mqueue mounted, /dev/shm) and this user may. Returns how many. */
unsigned leftovers_remove(const char *queue_name);

#endif
