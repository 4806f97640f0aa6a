/*
 * entrance: the queue to which a client sends its first message: lane 0, NAME, if the kernel lets
 * this user send there; else NAME.read, which is for users who may only read.
 */
#ifndef MQKV_WIRE_ENTRANCE_H
#define MQKV_WIRE_ENTRANCE_H

#include <mqueue.h>
#include <stdbool.h>
#include <sys/types.h>

#include "mqkv/error.h"
#include "wire/limits.h"

/* Opens the entrance of the server of NAME `base` for sending, without blocking: *queue, with the
 * kernel's *geometry. *reads_only: whether it is NAME.read. server_uid: the uid that must own the
 * queue, or NULL: not known; this function only checks the owner of NAME.read, and with NULL that
 * NAME.read and NAME have one owner. KV_NO_SERVER, KV_DENIED and others: as wire_queue_open says of
 * NAME. */
enum kv_status wire_entrance_open(const char *base, const uid_t *server_uid, mqd_t *queue,
                                  struct wire_geometry *geometry, bool *reads_only,
                                  struct kv_error *error);

#endif
