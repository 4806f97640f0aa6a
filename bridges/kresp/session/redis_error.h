/*
 * redis_error: failures of the store as clients of Redis understand them.
 */
#ifndef MQKV_KRESP_SESSION_REDIS_ERROR_H
#define MQKV_KRESP_SESSION_REDIS_ERROR_H

#include "bridges/kresp/protocol/resp_reply.h"
#include "mqkv/status.h"

/* Replies with the error that stands for the status. Its first word tells clients whether to try
 * again. */
void reply_status(struct resp_reply *reply, enum kv_status status);

#endif
