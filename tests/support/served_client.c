#include "tests/support/served_client.h"

#include <stdlib.h>

#include "tests/support/client_calls.h"

struct live_server server;
struct clientk *client;

static void start_server(void)
{
    live_server_start(&server, NULL, NULL);
}

static void remove_server(void)
{
    live_server_remove(&server);
}

static void open_client(void)
{
    client = must_connect(server.queue);
}

static void open_client_without_segment(void)
{
    setenv("MQKV_NO_SEGMENT", "1", 1);
    open_client();
}

static void close_client(void)
{
    clientk_close(client);
    unsetenv("MQKV_NO_SEGMENT");
}

static void add_daemon(TCase *tcase, void (*start)(void))
{
    tcase_set_timeout(tcase, 120);
    tcase_add_unchecked_fixture(tcase, start, remove_server);
}

void served_case_add(TCase *tcase)
{
    add_daemon(tcase, start_server);
}

void served_case_add_client(TCase *tcase)
{
    served_case_add_client_of(tcase, start_server);
}

void served_case_add_client_without_segment(TCase *tcase)
{
    add_daemon(tcase, start_server);
    tcase_add_checked_fixture(tcase, open_client_without_segment, close_client);
}

void served_case_add_client_of(TCase *tcase, void (*start)(void))
{
    add_daemon(tcase, start);
    tcase_add_checked_fixture(tcase, open_client, close_client);
}

void served_case_add_daemon_and_client(TCase *tcase)
{
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, start_server, remove_server);
    tcase_add_checked_fixture(tcase, open_client, close_client);
}
