/*
 * watch: the operation WATCH (docs/PROTOCOL.md): a page of the changes of one data file behind the
 * positions that the client names. The server remembers nothing of a client that watches: what it
 * has missed is found by its positions.
 *
 * Where there is nothing yet, the request waits with the watchers (watchers.h), and is executed
 * again there.
 */
#ifndef MQKV_SERVERK_EXECUTE_WATCH_H
#define MQKV_SERVERK_EXECUTE_WATCH_H

struct execution;

void execute_watch(struct execution *execution);

#endif
