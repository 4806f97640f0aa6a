/*
 * entrance: the queue through which a client comes to a server. It is lane 0, NAME, if the kernel
 * lets this user send there; else, for those who may only read, NAME.read.
 */
#ifndef MQKV_WIRE_ENTRANCE_H
#define MQKV_WIRE_ENTRANCE_H

#include <mqueue.h>
#include <stdbool.h>
#include <sys/types.h>

#include "mqkv/error.h"
#include "wire/limits.h"

/* Opens it for sending, without blocking. server_uid: whose it must be, NULL if that is not known;
 * only NAME.read is refused for it here, and only where its owner is not known to be that of NAME.
 * *reads_only: it is NAME.read. KV_NO_SERVER, KV_DENIED and so on as wire_queue_open of NAME. */
enum kv_status wire_entrance_open(const char *base, const uid_t *server_uid, mqd_t *queue,
                                  struct wire_geometry *geometry, bool *reads_only,
                                  struct kv_error *error);

#endif
