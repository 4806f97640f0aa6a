/*
 * notify: tells a service manager how the daemon does, by the protocol of sd_notify(3): datagrams
 * to the Unix socket that $NOTIFY_SOCKET names. Without that variable nothing is told.
 *
 * Threads: the main thread only.
 */
#ifndef MQKV_SERVERK_DAEMON_NOTIFY_H
#define MQKV_SERVERK_DAEMON_NOTIFY_H

#include "mqkv/error.h"

/* Connects, and takes $NOTIFY_SOCKET and $WATCHDOG_USEC out of the environment. Before the daemon
 * gives up sockets (sandbox.h). KV_USAGE: the name is none; KV_IO and others: nobody is there. */
enum kv_status notify_open(struct kv_error *error);

/* "READY=1", "STOPPING=1\nSTATUS=...": one datagram, which is dropped where the socket is full. */
void notify_send(const char *text);

/* A timer that becomes readable as often as the manager's watchdog is to be told "WATCHDOG=1": twice
 * in its time. -1: it watches not, or another process ($WATCHDOG_PID). */
int notify_watchdog(void);

/* The timer is readable: tells the watchdog. */
void notify_tick(void);

void notify_close(void);

#endif
