/*
 * inquiries: SCAN, STATS and PING: operations whose result is a text or page made for them.
 */
#ifndef MQKV_SERVERK_EXECUTE_INQUIRIES_H
#define MQKV_SERVERK_EXECUTE_INQUIRIES_H

struct execution;

void run_scan(struct execution *execution);
void run_stats(struct execution *execution);
void run_ping(struct execution *execution);

#endif
