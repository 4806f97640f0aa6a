/* nats_shard: which keys lie together; nats_turns: which transactions of a shard are under way
 * together; nats_refusal: what a server's words come to. */
#include <check.h>
#include <string.h>

#include "bridges/cluster/natskv/nats_refusal.h"
#include "bridges/cluster/natskv/nats_shard.h"
#include "bridges/cluster/natskv/nats_turns.h"
#include "tests/support/test_suite.h"

static const struct nats_bucket tagged = {.shards = 256, .by_tag = true};
static const struct nats_bucket untagged = {.shards = 256};

static uint32_t shard_in(const struct nats_bucket *bucket, const char *key)
{
    return nats_shard_of(bucket, kv_slice_from_string(key));
}

START_TEST(a_tag_is_all_that_counts)
{
    uint32_t shard = shard_in(&tagged, "user:42");
    static const char *const together[] = {"{user:42}name", "{user:42}", "mail{user:42}",
                                           "a}{user:42}{other}"};
    for (size_t i = 0; i < sizeof together / sizeof together[0]; i++)
        ck_assert_uint_eq(shard_in(&tagged, together[i]), shard);
    ck_assert_uint_eq(shard_in(&tagged, "{{user:42}"), shard_in(&tagged, "{user:42"));
}
END_TEST

START_TEST(a_key_without_a_tag_counts_as_a_whole)
{
    static const char *const whole[] = {"name", "{}name", "{name", "name}", "}name{", "{", "{}{a}"};
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        ck_assert_uint_eq(shard_in(&tagged, whole[i]), shard_in(&untagged, whole[i]));
    ck_assert_uint_ne(shard_in(&untagged, "{user:42}name"), shard_in(&tagged, "{user:42}name"));
}
END_TEST

/* Turns ---------------------------------------------------------------------------------------- */

static struct shard_turns turns;
static unsigned begun;
static struct shard_turn *begun_turns[64];

static void note_turn(struct shard_turn *turn)
{
    begun_turns[begun++] = turn;
}

static void end_turn_at_once(struct shard_turn *turn)
{
    begun++;
    nats_turns_end(&turns, turn);
}

static void set_up_turns(void)
{
    nats_turns_init(&turns);
    begun = 0;
}

static void tear_down_turns(void)
{
    nats_turns_destroy(&turns);
}

START_TEST(those_with_a_key_in_common_wait_for_each_other)
{
    static const uint64_t keys[][2] = {{1, 2}, {2, 3}, {4, 5}};
    struct shard_turn all[3];
    for (unsigned i = 0; i < 3; i++) {
        all[i] = (struct shard_turn){.keys = keys[i], .key_count = 2, .begin = note_turn};
        nats_turns_take(&turns, &all[i]);
    }
    ck_assert_uint_eq(begun, 1); /* the third waits behind the second */
    nats_turns_end(&turns, &all[0]);
    ck_assert_uint_eq(begun, 3);
    ck_assert_ptr_eq(begun_turns[1], &all[1]);
    ck_assert_ptr_eq(begun_turns[2], &all[2]);
    nats_turns_end(&turns, &all[2]);
    nats_turns_end(&turns, &all[1]);
}
END_TEST

START_TEST(only_so_many_are_under_way)
{
    static uint64_t keys[TURNS_AT_ONCE + 1];
    struct shard_turn all[TURNS_AT_ONCE + 1];
    for (unsigned i = 0; i <= TURNS_AT_ONCE; i++) {
        keys[i] = i;
        all[i] = (struct shard_turn){.keys = &keys[i], .key_count = 1, .begin = note_turn};
        nats_turns_take(&turns, &all[i]);
    }
    ck_assert_uint_eq(begun, TURNS_AT_ONCE);
    nats_turns_end(&turns, &all[3]);
    ck_assert_uint_eq(begun, TURNS_AT_ONCE + 1);
}
END_TEST

START_TEST(many_that_end_at_once_need_no_deep_stack)
{
    static const uint64_t key = 7;
    static struct shard_turn all[100000];
    struct shard_turn first = {.keys = &key, .key_count = 1, .begin = note_turn};
    nats_turns_take(&turns, &first);
    for (unsigned i = 0; i < 100000; i++) {
        all[i] = (struct shard_turn){.keys = &key, .key_count = 1, .begin = end_turn_at_once};
        nats_turns_take(&turns, &all[i]);
    }
    ck_assert_uint_eq(begun, 1);
    nats_turns_end(&turns, &first);
    ck_assert_uint_eq(begun, 100001);
}
END_TEST

/* Refusals ------------------------------------------------------------------------------------- */

START_TEST(refusals_have_their_kinds)
{
    static const struct {
        const char *failure;
        enum refusal_kind kind;
    } rows[] = {
        {"{\"code\":400,\"err_code\":10071}", REFUSAL_CHANGED},
        {"{\"code\":400,\"err_code\":10164}", REFUSAL_CHANGED},
        {"{\"code\":409,\"err_code\":10158}", REFUSAL_IN_PROCESS},
        {"{\"code\":400,\"err_code\":10201}", REFUSAL_TAKEN},
        {"{\"code\":400,\"err_code\":10176}", REFUSAL_INCOMPLETE},
        {"{\"code\":429,\"err_code\":10210}", REFUSAL_INCOMPLETE},
        {"{\"code\":503,\"err_code\":10009}", REFUSAL_FOR_NOW},
        {"{\"code\":503,\"err_code\":10077,\"description\":\"store is closed\"}", REFUSAL_FOR_NOW},
        {"{\"code\":503,\"err_code\":10077,\"description\":\"full\"}", REFUSAL_FOR_GOOD},
        {"{\"code\":503,\"err_code\":10023}", REFUSAL_FOR_GOOD},
        {"{}", REFUSAL_FOR_GOOD},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_int_eq(nats_refusal_kind(kv_slice_from_string(rows[i].failure)), rows[i].kind);
}
END_TEST

TEST_SUITE(natskv_shard)
{
    TCase *cases = tcase_create("shard");
    tcase_add_test(cases, a_tag_is_all_that_counts);
    tcase_add_test(cases, a_key_without_a_tag_counts_as_a_whole);
    tcase_add_test(cases, refusals_have_their_kinds);
    suite_add_tcase(suite, cases);
    cases = tcase_create("turns");
    tcase_add_checked_fixture(cases, set_up_turns, tear_down_turns);
    tcase_add_test(cases, those_with_a_key_in_common_wait_for_each_other);
    tcase_add_test(cases, only_so_many_are_under_way);
    tcase_add_test(cases, many_that_end_at_once_need_no_deep_stack);
    suite_add_tcase(suite, cases);
}
