/*
 * notify: tells a service manager the state of this daemon by the protocol of sd_notify(3):
 * datagrams to the Unix socket that $NOTIFY_SOCKET names. Without that variable nothing is sent.
 *
 * Threads: notify_send any, between notify_open and notify_close; the rest the main thread only.
 */
#ifndef MQKV_COMMON_REPORT_NOTIFY_H
#define MQKV_COMMON_REPORT_NOTIFY_H

#include <stdbool.h>

#include "mqkv/error.h"

/* Connects, and takes $NOTIFY_SOCKET and $WATCHDOG_USEC out of the environment. Called before the
 * daemon gives up sockets (sandbox.h). KV_USAGE: $NOTIFY_SOCKET is not the name of a socket; KV_IO
 * and others: nobody listens there. */
enum kv_status notify_open(struct kv_error *error);

/* Sends `text` ("READY=1", "STOPPING=1\nSTATUS=...") as one datagram, which is dropped if the
 * socket is full. */
void notify_send(const char *text);

/* A timer that becomes readable whenever the manager's watchdog expects "WATCHDOG=1": twice per
 * period. -1: there is no watchdog, or it watches another process ($WATCHDOG_PID). */
int notify_watchdog(void);

/* When the timer is readable: notifies the watchdog if the daemon works. */
void notify_tick(bool works);

void notify_close(void);

#endif
