#include "tests/support/one_client_worker.h"

#include "tests/support/late_engine.h"

struct worker_fixture fixture;
struct fixture_client only_client;

static void set_up(void)
{
    fixture_open(&fixture, KVSTORE_SYNC_NONE, MAX_VALUE_BYTES);
    fixture_connect(&fixture, &only_client, (struct wire_geometry){4, 1024});
}

static void set_up_ordered(void)
{
    fixture_open_ordered(&fixture, KVSTORE_SYNC_NONE, MAX_VALUE_BYTES);
    fixture_connect(&fixture, &only_client, (struct wire_geometry){4, 1024});
}

static void tear_down(void)
{
    fixture_disconnect(&fixture, &only_client);
    ck_assert_uint_eq(fixture.budget.used_bytes, 0);
    fixture_close(&fixture);
}

static struct store_engine *late;

static void set_up_late(void)
{
    struct service *service = &fixture.service;
    set_up();
    late = late_engine_open(service->store);
    service->submissions = submissions_create(late, service->sessions, service->budget,
                                              service->write_stats, service->stats_context);
    ck_assert_ptr_nonnull(service->submissions);
}

static void tear_down_late(void)
{
    submissions_drain(fixture.service.submissions);
    submissions_free(fixture.service.submissions);
    fixture.service.submissions = NULL;
    engine_close(late, NULL);
    tear_down();
}

void late_client_case_add(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, set_up_late, tear_down_late);
}

void one_client_case_add(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, set_up, tear_down);
}

void ordered_client_case_add(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, set_up_ordered, tear_down);
}

struct wire_result call(struct wire_operation asked)
{
    return fixture_call(&fixture, &only_client, asked);
}
