/* A server that is slow at the wrong moment, or says what serverk says only when it must. */
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "mqkv/clientk.h"
#include "common/time/clock.h"
#include "tests/support/client_calls.h"
#include "tests/support/sham_server.h"
#include "tests/support/test_names.h"
#include "tests/support/test_suite.h"

#define TEXT(text)  kv_slice_from_string(text)
#define VALUE_BYTES 8000u

/* Shared by the test and its sham servers. */
struct sham_shared {
    atomic_uint scribbles; /* how often the server wrote where its late answer belongs */
    atomic_uint intact, damaged;
    atomic_bool silent;      /* an operation came that is not answered at once */
    atomic_bool other_calls; /* so somebody else calls now */
};

static struct sham_shared *shared;
static char queue[64];

static void map_shared(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    test_queue_name(queue, sizeof queue);
}

static void unmap_shared(void)
{
    munmap(shared, sizeof *shared);
}

/* An answer that comes when nobody waits for it ------------------------------------------------ */

static uint8_t *late_window; /* in the server: of the answer that it is late with */

static void answer_get(const struct sham_session *session, const struct wire_header *request,
                       const struct wire_operation *operation)
{
    struct wire_result result = {.status = KV_OK,
                                 .flags = WIRE_RESULT_IN_SEGMENT | WIRE_RESULT_HAS_VERSION,
                                 .version = 1,
                                 .value = kv_slice(NULL, VALUE_BYTES),
                                 .value_offset = request->window_offset};
    if (request->window_bytes < VALUE_BYTES) {
        result.status = KV_BUFFER_TOO_SMALL;
        result.flags = WIRE_RESULT_NO_VALUE;
    } else if (kv_slice_equal(operation->key, TEXT("late"))) {
        late_window = wire_segment_at(session->segment, request->window_offset, VALUE_BYTES);
        return;
    }
    sham_answer(session, request, KV_OK, &result);
}

static void answer_put(const struct sham_session *session, const struct wire_header *request,
                       const struct wire_operation *operation)
{
    char *expected = patterned_bytes(VALUE_BYTES, 1);
    bool intact = kv_slice_equal(operation->value, kv_slice(expected, VALUE_BYTES));
    free(expected);
    atomic_fetch_add(intact ? &shared->intact : &shared->damaged, 1);
    struct wire_result result = {.status = KV_OK, .flags = WIRE_RESULT_HAS_VERSION, .version = 1};
    sham_answer(session, request, KV_OK, &result);
}

static void write_late(const struct sham_session *session, const struct wire_header *request,
                       const struct wire_operation *operation)
{
    if (request && operation->opcode == WIRE_OP_GET)
        answer_get(session, request, operation);
    else if (request)
        answer_put(session, request, operation);
    if (!late_window)
        return;
    memset(late_window, 0xee, VALUE_BYTES);
    atomic_fetch_add(&shared->scribbles, 1);
}

static void await_scribbles(unsigned more)
{
    unsigned before = atomic_load(&shared->scribbles);
    while (atomic_load(&shared->scribbles) - before < more)
        clock_sleep_ms(1);
}

static void note_status(void *context, void *tag, const struct clientk_result *result)
{
    (void)context;
    *(enum kv_status *)tag = result->status;
}

static void submit(struct clientk_pipeline *pipeline, enum clientk_opcode opcode, const char *key,
                   enum kv_status *status)
{
    char *bytes = patterned_bytes(VALUE_BYTES, 1);
    struct clientk_operation operation = {.opcode = opcode, .key = TEXT(key)};
    if (opcode == CLIENTK_PUT)
        operation.value = kv_slice(bytes, VALUE_BYTES);
    assert_status(clientk_pipeline_submit(pipeline, &operation, status), KV_OK);
    free(bytes);
}

/* The values of later operations must not lie where the late answer may still be written. */
START_TEST(late_answer_does_not_damage_a_value_on_its_way)
{
    pid_t server = sham_server_start(queue, write_late);
    struct clientk_options options = {.queue = queue, .timeout_ms = 3000};
    struct clientk *client = must_connect_with(&options);
    enum kv_status statuses[3];
    struct clientk_pipeline *pipeline = NULL;
    assert_status(clientk_pipeline_open(client, 1, 0, note_status, NULL, &pipeline, NULL), KV_OK);
    submit(pipeline, CLIENTK_GET, "first", &statuses[0]);
    assert_status(clientk_pipeline_flush(pipeline), KV_OK);
    submit(pipeline, CLIENTK_GET, "late", &statuses[1]);
    assert_status(clientk_pipeline_flush(pipeline), KV_TIMEOUT);
    submit(pipeline, CLIENTK_PUT, "next", &statuses[2]);
    await_scribbles(2);
    assert_status(clientk_pipeline_flush(pipeline), KV_OK);
    clientk_pipeline_close(pipeline);
    clientk_close(client);
    sham_server_stop(server, queue);
    ck_assert_int_eq(statuses[0], KV_OK);
    ck_assert_int_eq(statuses[1], KV_TIMEOUT);
    ck_assert_int_eq(statuses[2], KV_OK);
    ck_assert_uint_eq(atomic_load(&shared->damaged), 0);
    ck_assert_uint_eq(atomic_load(&shared->intact), 1);
}
END_TEST

/* A size without a value ----------------------------------------------------------------------- */

static void tell_sizes_only(const struct sham_session *session, const struct wire_header *request,
                            const struct wire_operation *operation)
{
    (void)operation;
    struct wire_result result = {.status = KV_OK,
                                 .flags = WIRE_RESULT_NO_VALUE | WIRE_RESULT_HAS_VERSION,
                                 .version = 1,
                                 .value = kv_slice(NULL, (size_t)1 << 30)};
    if (request)
        sham_answer(session, request, KV_OK, &result);
}

static bool visit_nothing(void *context, const struct clientk_entry *entry)
{
    (void)context, (void)entry;
    return true;
}

/* Who asked for a value must not be told of bytes that are not there. */
START_TEST(success_without_the_value_is_none)
{
    pid_t server = sham_server_start(queue, tell_sizes_only);
    struct clientk_options options = {.queue = queue};
    struct clientk *client = must_connect_with(&options);
    struct clientk_value value = {.size = 0};
    assert_status(clientk_get(client, TEXT("k"), &value), KV_IO);
    ck_assert_uint_eq(value.size, 0);
    assert_status(clientk_scan(client, TEXT(""), false, NULL, 0, visit_nothing, NULL), KV_IO);
    assert_status(clientk_exists(client, TEXT("k"), &value), KV_OK);
    ck_assert_uint_eq(value.size, (size_t)1 << 30);
    clientk_close(client);
    sham_server_stop(server, queue);
}
END_TEST

/* An answer that makes no sense ---------------------------------------------------------------- */

#define PATIENT_TICKS 50 /* for a call to begin */

/* GET "odd" is answered with no result at all, once there is another caller. */
static void answer_oddly(const struct sham_session *session, const struct wire_header *request,
                         const struct wire_operation *operation)
{
    static struct wire_header odd;
    static int ticks;
    if (request && kv_slice_equal(operation->key, TEXT("odd"))) {
        odd = *request;
        atomic_store(&shared->silent, true);
    } else if (request) {
        struct wire_result result = {.status = KV_NOT_FOUND};
        sham_answer(session, request, KV_OK, &result);
    } else if (atomic_load(&shared->other_calls) && ++ticks == PATIENT_TICKS) {
        sham_answer(session, &odd, KV_OK, NULL);
    }
}

static void *get_odd(void *client)
{
    struct clientk_value value = {.size = 0};
    assert_status(clientk_get(client, TEXT("odd"), &value), KV_IO);
    return NULL;
}

/* Who came while the message was on its way was not in it. */
START_TEST(failed_message_fails_nobody_who_came_later)
{
    pid_t server = sham_server_start(queue, answer_oddly);
    struct clientk_options options = {
        .queue = queue, .timeout_ms = 60000, .combine_above = 1, .combine_groups = 1};
    struct clientk *client = must_connect_with(&options);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, get_odd, client), 0);
    while (!atomic_load(&shared->silent))
        clock_sleep_ms(1);
    atomic_store(&shared->other_calls, true);
    struct clientk_value value = {.size = 0};
    assert_status(clientk_get(client, TEXT("even"), &value), KV_NOT_FOUND);
    pthread_join(thread, NULL);
    clientk_close(client);
    sham_server_stop(server, queue);
}
END_TEST

/* Answers that would keep a call busy for ever ------------------------------------------------- */

#define HASTY_MS 1000u
/* Only a call that does not look at its time takes so long. */
#define STUCK_MS 10000u

/* Each session is welcomed, and forgotten; a scan stays where it is. */
static void answer_nothing(const struct sham_session *session, const struct wire_header *request,
                           const struct wire_operation *operation)
{
    struct wire_result same_place = {
        .status = KV_OK, .flags = WIRE_RESULT_HAS_NUMBER, .number = 1 << 10};
    if (request && operation->opcode == WIRE_OP_SCAN)
        sham_answer(session, request, KV_OK, &same_place);
    else if (request)
        sham_answer(session, request, KV_NO_SESSION, NULL);
}

/* Its time may be over while the message waits, or while a session is sought. */
static void assert_time_is_over(enum kv_status status)
{
    if (status != KV_TIMEOUT)
        assert_status(status, KV_DEADLINE);
}

START_TEST(a_call_ends_in_time_whatever_it_is_answered)
{
    pid_t server = sham_server_start(queue, answer_nothing);
    struct clientk_options options = {.queue = queue, .timeout_ms = HASTY_MS};
    struct clientk *client = must_connect_with(&options);
    struct clientk_value value = {.size = 0};
    uint64_t began_ms = clock_monotonic_coarse_ms();
    assert_time_is_over(clientk_get(client, TEXT("k"), &value));
    assert_time_is_over(clientk_put(client, TEXT("k"), TEXT("v"), NULL, NULL));
    assert_status(clientk_scan(client, TEXT(""), false, NULL, 0, visit_nothing, NULL), KV_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(clientk_last_error(), "gone on"));
    ck_assert_uint_lt(clock_monotonic_coarse_ms() - began_ms, STUCK_MS);
    clientk_close(client);
    sham_server_stop(server, queue);
}
END_TEST

/* Sentences of failures ------------------------------------------------------------------------ */

/* A message is refused with a sentence; a request for changes has a failure as its result. */
static void fail_each(const struct sham_session *session, const struct wire_header *request,
                      const struct wire_operation *operation)
{
    /* An older server: it knows no transactions. */
    bool is_newer = request && (operation->flags & WIRE_TELL_TRANSACTIONS);
    struct wire_result result = {.status = is_newer ? KV_UNSUPPORTED : KV_QUOTA};
    if (request && operation->opcode == WIRE_OP_WATCH)
        sham_answer(session, request, KV_OK, &result);
    else if (request)
        sham_refuse(session, request, KV_OVERLOADED, "the mirror is behind");
}

START_TEST(a_failure_is_told_with_its_own_sentence)
{
    pid_t server = sham_server_start(queue, fail_each);
    struct clientk_options options = {.queue = queue};
    struct clientk *client = must_connect_with(&options);
    struct clientk_pipeline *pipeline = NULL;
    enum kv_status of_operation = KV_OK;
    assert_status(clientk_pipeline_open(client, 1, 0, note_status, NULL, &pipeline, NULL), KV_OK);
    submit(pipeline, CLIENTK_GET, "k", &of_operation);
    assert_status(clientk_pipeline_flush(pipeline), KV_OVERLOADED);
    ck_assert_int_eq(of_operation, KV_OVERLOADED);
    ck_assert_str_eq(clientk_last_error(), "server refused: the mirror is behind");
    clientk_pipeline_close(pipeline);
    struct clientk_watch *watch = NULL;
    struct kv_error error = {.status = KV_OK};
    assert_status(clientk_watch_open(client, NULL, &watch, &error), KV_QUOTA);
    ck_assert_str_eq(error.text, kv_status_text(KV_QUOTA));
    clientk_close(client);
    sham_server_stop(server, queue);
}
END_TEST

/* A scan of "damaged" meets a record that is, and goes on behind it; one of "lost" cannot go on. */
static void scan_badly(const struct sham_session *session, const struct wire_header *request,
                       const struct wire_operation *operation)
{
    struct wire_result end = {.status = KV_OK, .flags = WIRE_RESULT_HAS_NUMBER};
    struct wire_result cut = {.status = KV_CORRUPT,
                              .flags = WIRE_RESULT_HAS_NUMBER | WIRE_RESULT_HAS_VERSION,
                              .number = 1 << 10,
                              .version = 123};
    struct wire_result lost = {.status = KV_CORRUPT};
    if (!request)
        return;
    if (kv_slice_equal(operation->key, TEXT("lost")))
        sham_answer(session, request, KV_OK, &lost);
    else
        sham_answer(session, request, KV_OK, operation->cursor == 0 ? &cut : &end);
}

START_TEST(what_a_deletion_left_out_is_told_from_what_it_did_not_do)
{
    pid_t server = sham_server_start(queue, scan_badly);
    struct clientk_options options = {.queue = queue};
    struct clientk *client = must_connect_with(&options);
    uint64_t cursor = 0, deleted = 1;
    assert_status(clientk_delete_prefix(client, TEXT("damaged"), &cursor, &deleted), KV_CORRUPT);
    ck_assert_uint_eq(cursor, 0);
    ck_assert_uint_eq(deleted, 0);
    ck_assert_ptr_nonnull(strstr(clientk_last_error(), "left out: 1"));
    ck_assert_ptr_nonnull(strstr(clientk_last_error(), "data.0000: the record at offset 123"));
    assert_status(clientk_delete_prefix(client, TEXT("lost"), &cursor, &deleted), KV_CORRUPT);
    ck_assert_ptr_null(strstr(clientk_last_error(), "left out"));
    clientk_close(client);
    sham_server_stop(server, queue);
}
END_TEST

/* Others who have the reply queue open --------------------------------------------------------- */

/* The first request finds the queue filled by somebody else, and has no answer. */
static void answer_behind_garbage(const struct sham_session *session,
                                  const struct wire_header *request,
                                  const struct wire_operation *operation)
{
    if (!request)
        return;
    if (kv_slice_equal(operation->key, TEXT("filled")) && !atomic_exchange(&shared->silent, true)) {
        while (mq_send(session->reply_queue, "garbage", 7, 0) == 0)
            ;
        return;
    }
    if (kv_slice_equal(operation->key, TEXT("one")))
        mq_send(session->reply_queue, "garbage", 7, 0);
    struct wire_result result = {.status = KV_NOT_FOUND};
    sham_answer(session, request, KV_OK, &result);
}

START_TEST(a_filled_reply_queue_is_replaced_at_once)
{
    pid_t server = sham_server_start(queue, answer_behind_garbage);
    struct clientk_options options = {.queue = queue, .timeout_ms = 60000};
    struct clientk *client = must_connect_with(&options);
    struct clientk_value value = {.size = 0};
    struct clientk_info info;
    uint64_t began_ms = clock_monotonic_coarse_ms();
    assert_status(clientk_get(client, TEXT("filled"), &value), KV_NOT_FOUND);
    ck_assert_uint_lt(clock_monotonic_coarse_ms() - began_ms, options.timeout_ms / 2);
    clientk_info(client, &info);
    ck_assert_uint_eq(info.reconnects, 1);
    assert_status(clientk_get(client, TEXT("one"), &value), KV_NOT_FOUND);
    clientk_info(client, &info);
    ck_assert_uint_eq(info.reconnects, 1); /* its answer came all the same */
    assert_status(clientk_get(client, TEXT("none"), &value), KV_NOT_FOUND);
    clientk_info(client, &info);
    ck_assert_uint_eq(info.reconnects, 2);
    clientk_close(client);
    sham_server_stop(server, queue);
}
END_TEST

/* The session is forgotten; who asks first hears of it once there is another caller. */
static void forget_session(const struct sham_session *session, const struct wire_header *request,
                           const struct wire_operation *operation)
{
    static struct wire_header first;
    static int ticks;
    (void)operation;
    if (request) {
        first = *request;
        atomic_store(&shared->silent, true);
    } else if (atomic_load(&shared->other_calls) && ++ticks == PATIENT_TICKS) {
        sham_answer(session, &first, KV_NO_SESSION, NULL);
    }
}

/* Gives up after its own time, not with those that came before. */
static void *get_in_vain(void *client)
{
    struct clientk_value value = {.size = 0};
    uint64_t began_ms = clock_monotonic_coarse_ms();
    assert_status(clientk_get(client, TEXT("k"), &value), KV_DEADLINE);
    ck_assert_uint_ge(clock_monotonic_coarse_ms() - began_ms, HASTY_MS * 3 / 4);
    return NULL;
}

/* The session is not known any more, and none is to be had, for which two calls wait together. */
START_TEST(who_gets_no_session_waits_for_one)
{
    sham_welcomes = 1;
    pid_t server = sham_server_start(queue, forget_session);
    sham_welcomes = UINT_MAX;
    struct clientk_options options = {
        .queue = queue, .timeout_ms = HASTY_MS, .combine_above = 1, .combine_groups = 1};
    struct clientk *client = must_connect_with(&options), *none = NULL;
    pthread_t threads[2];
    ck_assert_int_eq(pthread_create(&threads[0], NULL, get_in_vain, client), 0);
    while (!atomic_load(&shared->silent))
        clock_sleep_ms(1);
    clock_sleep_ms(HASTY_MS / 2);
    ck_assert_int_eq(pthread_create(&threads[1], NULL, get_in_vain, client), 0);
    atomic_store(&shared->other_calls, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(clientk_open(&options, &none, NULL), KV_TIMEOUT);
    clientk_close(client);
    sham_server_stop(server, queue);
}
END_TEST

TEST_SUITE(clientk_sham)
{
    TCase *tcase = tcase_create("sham");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, map_shared, unmap_shared);
    tcase_add_test(tcase, late_answer_does_not_damage_a_value_on_its_way);
    tcase_add_test(tcase, success_without_the_value_is_none);
    tcase_add_test(tcase, failed_message_fails_nobody_who_came_later);
    tcase_add_test(tcase, a_call_ends_in_time_whatever_it_is_answered);
    tcase_add_test(tcase, a_failure_is_told_with_its_own_sentence);
    tcase_add_test(tcase, what_a_deletion_left_out_is_told_from_what_it_did_not_do);
    tcase_add_test(tcase, a_filled_reply_queue_is_replaced_at_once);
    tcase_add_test(tcase, who_gets_no_session_waits_for_one);
    suite_add_tcase(suite, tcase);
}
