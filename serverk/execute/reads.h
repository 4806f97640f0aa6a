/*
 * reads: GET and EXISTS. A value is copied once: from the engine to its place in the reply.
 */
#ifndef MQKV_SERVERK_EXECUTE_READS_H
#define MQKV_SERVERK_EXECUTE_READS_H

struct execution;

void execute_get(struct execution *execution);
void execute_exists(struct execution *execution);

#endif
