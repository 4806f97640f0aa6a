#include "tests/support/one_client_worker.h"

struct worker_fixture fixture;
struct fixture_client only_client;

static void set_up(void)
{
    fixture_open(&fixture, KVSTORE_SYNC_NONE, MAX_VALUE_BYTES);
    fixture_connect(&fixture, &only_client, (struct wire_geometry){4, 1024});
}

static void tear_down(void)
{
    fixture_disconnect(&fixture, &only_client);
    ck_assert_uint_eq(fixture.budget.used_bytes, 0);
    fixture_close(&fixture);
}

void one_client_case_add(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, set_up, tear_down);
}

struct wire_result call(struct wire_operation asked)
{
    return fixture_call(&fixture, &only_client, asked);
}
