#include "tests/support/served_client.h"

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

static void close_client(void)
{
    clientk_close(client);
}

void served_case_add(TCase *tcase)
{
    tcase_set_timeout(tcase, 120);
    tcase_add_unchecked_fixture(tcase, start_server, remove_server);
}

void served_case_add_client(TCase *tcase)
{
    served_case_add(tcase);
    tcase_add_checked_fixture(tcase, open_client, close_client);
}
