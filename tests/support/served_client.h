/*
 * served_client: a daemon for all tests of a case, and for each of them a client of it.
 */
#ifndef MQKV_TESTS_SUPPORT_SERVED_CLIENT_H
#define MQKV_TESTS_SUPPORT_SERVED_CLIENT_H

#include <check.h>

#include "mqkv/clientk.h"
#include "tests/support/live_server.h"

/* Of the case, and of the test. */
extern struct live_server server;
extern struct clientk *client;

/* The case gets the daemon, with no options, and two minutes a test. */
void served_case_add(TCase *tcase);

/* The client, too. */
void served_case_add_client(TCase *tcase);

/* The client may use no segment: large values go in fragments. */
void served_case_add_client_without_segment(TCase *tcase);

/* Each test gets a daemon of its own, as whose parent it may signal it. */
void served_case_add_daemon_and_client(TCase *tcase);

/* The daemon is what start makes of `server`. */
void served_case_add_client_of(TCase *tcase, void (*start)(void));

#endif
