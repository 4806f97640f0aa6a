/* Commands that take several batches. If --buffers has nothing left for what they read, they must
 * end with an error before they write. And what one batch has planned for them is what its answer
 * is about. */
#include <check.h>
#include <stdint.h>

#include "bridges/kresp/commands/command_functions.h"
#include "bridges/kresp/session/redis_session.h"
#include "tests/support/test_suite.h"

static struct redis_session session;
static struct clientk_result result;
static struct batch_memory memory;
static struct redis_job job;

static void use_up_buffers(void)
{
    memory = (struct batch_memory){0};
    memory.results = &result;
    session = (struct redis_session){.reply.protocol = 2};
    byte_buffer_set_budget(0, false);
}

static void give_buffers_back(void)
{
    byte_buffer_set_budget(SIZE_MAX, false);
    redis_job_end(&job);
    memory.results = NULL;
    batch_memory_free(&memory);
}

/* The command has read an entry with this value; NULL: there is none. */
static void check_ends(bool (*answer)(struct redis_job *job), const struct kv_slice *arguments,
                       size_t count, char *value)
{
    result = (struct clientk_result){.status = value ? KV_OK : KV_NOT_FOUND};
    result.value.data = value;
    result.value.size = value ? strlen(value) : 0;
    job.session = &session;
    job.memory = &memory;
    job.arguments = arguments;
    job.count = count;
    ck_assert(answer(&job));
    ck_assert_ptr_nonnull(job.error);
    ck_assert_str_eq(job.error, "ERR kresp: out of memory");
}

START_TEST(getdel_deletes_nothing)
{
    struct kv_slice arguments[] = {kv_slice("getdel", 6), kv_slice("k", 1)};
    char value[] = "value";
    job = (struct redis_job){0};
    check_ends(answer_getdel, arguments, 2, value);
}
END_TEST

START_TEST(incrbyfloat_puts_nothing)
{
    struct kv_slice arguments[] = {kv_slice("incrbyfloat", 11), kv_slice("k", 1),
                                   kv_slice("1.5", 3)};
    job = (struct redis_job){0};
    check_ends(answer_incrbyfloat, arguments, 3, NULL);
}
END_TEST

START_TEST(msetnx_puts_nothing_that_it_could_not_take_back)
{
    struct kv_slice arguments[] = {kv_slice("msetnx", 6), kv_slice("k", 1), kv_slice("v", 1)};
    job = (struct redis_job){0};
    check_ends(answer_msetnx, arguments, 3, NULL);
}
END_TEST

static struct clientk_result results[4];

static void begin_batch(void)
{
    memory = (struct batch_memory){.results = results};
    memset(results, 0, sizeof results);
    session = (struct redis_session){.reply.protocol = 2};
    job = (struct redis_job){.session = &session, .memory = &memory};
}

static void end_batch(void)
{
    redis_job_end(&job);
    byte_buffer_free(&session.reply.bytes);
    memory.results = NULL;
    batch_memory_free(&memory);
}

/* The next session of the batch reads small values, and so has another limit. */
START_TEST(mget_answers_for_the_keys_that_it_has_asked_for)
{
    struct kv_slice arguments[] = {kv_slice("mget", 4), kv_slice("a", 1), kv_slice("b", 1)};
    job.arguments = arguments;
    job.count = 3;
    batch_memory_limit_session(&memory, BATCH_SESSION_BYTES);
    plan_mget(&job);
    ck_assert_uint_eq(job.operations, 1);
    batch_memory_limit_session(&memory, 1);
    results[0].status = KV_NOT_FOUND;
    ck_assert(!answer_mget(&job));
    ck_assert_uint_eq(job.steps->next, 2);
    ck_assert_uint_eq(byte_buffer_size(&session.reply.bytes), strlen("*2\r\n$-1\r\n"));
}
END_TEST

START_TEST(mset_is_done_when_all_that_it_has_put_is)
{
    struct kv_slice arguments[] = {kv_slice("mset", 4), kv_slice("a", 1), kv_slice("1", 1),
                                   kv_slice("b", 1), kv_slice("2", 1)};
    job.arguments = arguments;
    job.count = 5;
    batch_memory_limit_session(&memory, 1);
    plan_mset(&job);
    ck_assert_uint_eq(job.operations, 2);
    batch_memory_limit_session(&memory, BATCH_SESSION_BYTES);
    ck_assert(answer_mset(&job));
    ck_assert_uint_eq(byte_buffer_size(&session.reply.bytes), strlen("+OK\r\n"));
}
END_TEST

TEST_SUITE(kresp_steps)
{
    TCase *chunks = tcase_create("chunks");
    tcase_add_checked_fixture(chunks, begin_batch, end_batch);
    tcase_add_test(chunks, mget_answers_for_the_keys_that_it_has_asked_for);
    tcase_add_test(chunks, mset_is_done_when_all_that_it_has_put_is);
    suite_add_tcase(suite, chunks);

    TCase *full = tcase_create("no buffers left");
    tcase_add_checked_fixture(full, use_up_buffers, give_buffers_back);
    tcase_add_test(full, getdel_deletes_nothing);
    tcase_add_test(full, incrbyfloat_puts_nothing);
    tcase_add_test(full, msetnx_puts_nothing_that_it_could_not_take_back);
    suite_add_tcase(suite, full);
}
