/* migration: on which condition an entry is written at the target. */
#include <check.h>

#include "tools/transfer/migration.h"
#include "tests/support/test_suite.h"

static const struct clientk_entry entry = {
    .key = {"k", 1}, .value = {"v", 1}, .version = 70, .expiry_ms = 5000};

START_TEST(a_new_entry_is_put_where_there_is_none)
{
    for (int keeps = 0; keeps < 2; keeps++) {
        struct migration migration = {.keeps_versions = keeps};
        struct clientk_operation put = migration_put(&migration, &entry, 0);
        ck_assert(put.write.if_absent);
        ck_assert_uint_eq(put.write.if_version, 0);
        ck_assert_uint_eq(put.write.give_version, keeps ? 70 : 0);
        ck_assert_uint_eq(put.write.expiry_ms, 5000);
    }
}
END_TEST

START_TEST(one_that_was_moved_is_replaced_only_as_it_was_moved)
{
    for (int keeps = 0; keeps < 2; keeps++) {
        struct migration migration = {.keeps_versions = keeps};
        struct clientk_operation put = migration_put(&migration, &entry, 33);
        ck_assert_uint_eq(put.write.if_version, 33);
        ck_assert(!put.write.if_present && !put.write.if_absent);
        ck_assert_uint_eq(put.write.give_version, 0);
    }
}
END_TEST

START_TEST(an_overload_is_sat_out_but_not_for_ever)
{
    struct migration migration = {0};
    unsigned waits = 0;
    ck_assert(!migration_sits_out(&migration, KV_OK, &waits));
    ck_assert(!migration_sits_out(&migration, KV_FULL, &waits));
    ck_assert_uint_eq(waits, 0);
    ck_assert(migration_sits_out(&migration, KV_OVERLOADED, &waits));
    ck_assert_uint_eq(waits, 1);
    waits = MIGRATION_WAITS;
    ck_assert(!migration_sits_out(&migration, KV_OVERLOADED, &waits));
    waits = MIGRATION_WAITS - 1;
    migration_stop(&migration, KV_NO_SERVER, "gone");
    ck_assert(!migration_sits_out(&migration, KV_OVERLOADED, &waits));
}
END_TEST

TEST_SUITE(program_migration)
{
    TCase *conditions = tcase_create("conditions");
    tcase_add_test(conditions, a_new_entry_is_put_where_there_is_none);
    tcase_add_test(conditions, one_that_was_moved_is_replaced_only_as_it_was_moved);
    tcase_add_test(conditions, an_overload_is_sat_out_but_not_for_ever);
    suite_add_tcase(suite, conditions);
}
