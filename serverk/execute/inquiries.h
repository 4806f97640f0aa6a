/*
 * inquiries: SCAN, STATS, PING and ADMIN: operations whose result is a text or page made for them.
 */
#ifndef MQKV_SERVERK_EXECUTE_INQUIRIES_H
#define MQKV_SERVERK_EXECUTE_INQUIRIES_H

#include "mqkv/slice.h"

struct execution;

/* Copies bytes that are at hand into the reply as the result's value. They may lie in the segment,
 * and the window over them: then the reply has them as they were. */
void add_answer(struct execution *execution, struct kv_slice bytes);

void execute_scan(struct execution *execution);
void execute_stats(struct execution *execution);
void execute_ping(struct execution *execution);
void execute_admin(struct execution *execution);

#endif
