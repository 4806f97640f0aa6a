/*
 * one_client_worker: for each test of a case a worker (worker_fixture.h) with one client, of a
 * store that syncs nothing. What was taken of the budget for large messages must be back at the
 * end.
 */
#ifndef MQKV_TESTS_SUPPORT_ONE_CLIENT_WORKER_H
#define MQKV_TESTS_SUPPORT_ONE_CLIENT_WORKER_H

#include <check.h>

#include "tests/support/worker_fixture.h"

#define MAX_VALUE_BYTES 100000u

/* Of the test. */
extern struct worker_fixture fixture;
extern struct fixture_client only_client;

void one_client_case_add(TCase *tcase);

/* The same with a store that keeps its keys in order, too. */
void ordered_client_case_add(TCase *tcase);

/* The same with a worker that submits its operations (late_engine.h). */
void late_client_case_add(TCase *tcase);

/* fixture_call with these. */
struct wire_result call(struct wire_operation asked);

#endif
