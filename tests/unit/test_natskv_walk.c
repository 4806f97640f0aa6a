/* nats_walk: what walks find of a stream in which keys are written again meanwhile. The link and
 * the looks are the test's own: it answers the requests in an order of its own. */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define nats_walk_begin tested_walk_begin
#define nats_walk_free  tested_walk_free
#define nats_link_send  keep_call
#define nats_look_again look_away
#define nats_look_tell  tell_stream
#include "bridges/cluster/natskv/nats_walk.c"
#include "tests/support/test_suite.h"

#define KEYS  200u
#define CALLS 64u

/* The stream: the sequence of each key. */
static uint64_t sequences[KEYS], last_sequence, told_sequence;
static uint32_t keys;

static struct link_call *calls[CALLS];
static uint32_t call_count;

static struct nats_engine engine;
static struct nats_walk walk;
static unsigned seen[KEYS], walks;
static uint32_t value_bytes; /* of each message */
static unsigned answers;
static bool is_done;

bool keep_call(struct nats_link *link, struct link_call *call)
{
    (void)link;
    ck_assert_uint_lt(call_count, CALLS);
    calls[call_count++] = call;
    return true;
}

void look_away(struct nats_engine *unused, uint32_t shard)
{
    (void)unused;
    (void)shard;
}

void tell_stream(const struct nats_engine *unused, uint32_t shard, struct nats_holdings *holdings)
{
    (void)unused;
    (void)shard;
    *holdings = (struct nats_holdings){.messages = keys,
                                       .bytes = keys * UINT64_C(100),
                                       .first_sequence = 1,
                                       .last_sequence = told_sequence};
}

/* Before the library makes messages. */
static void set_up(void)
{
    ck_assert_int_eq(nats_Open(-1), NATS_OK);
}

static void tear_down(void)
{
    nats_CloseAndWait(0);
}

static void take_walk(struct nats_walk *done)
{
    ck_assert_int_eq(done->status, KV_OK);
    for (struct walked_message *message = done->messages; message; message = message->next) {
        ck_assert_uint_lt(message->entry.sequence, done->is_end ? UINT64_MAX : done->sequence);
        seen[strtoul(message->subject, NULL, 10)]++;
    }
    tested_walk_free(done);
    walks++;
    is_done = true;
}

static void begin_stream(uint32_t count)
{
    keys = count;
    last_sequence = told_sequence = count;
    for (uint32_t key = 0; key < count; key++)
        sequences[key] = key + 1;
    memset(seen, 0, sizeof seen);
    walks = answers = value_bytes = 0;
    strcpy(engine.bucket.name, "b");
    walk = (struct nats_walk){
        .sequence = 1, .deadline_ms = UINT64_MAX, .enough_ms = UINT64_MAX, .done = take_walk};
}

static void begin_walk(uint32_t count)
{
    is_done = false;
    walk.count = count;
    tested_walk_begin(&engine, &walk);
}

static void write_again(uint32_t key)
{
    sequences[key] = ++last_sequence;
}

/* The leader answers a request: the first message from a sequence on. */
static void answer(uint32_t number)
{
    struct link_call *call = calls[number];
    natsMsg *request, *reply;
    uint64_t from = 0;
    uint32_t found = keys;
    static char data[400004];
    memset(data, 'A', sizeof data - 1);
    size_t json_bytes = sizeof data + 96;
    char *json = malloc(json_bytes);
    calls[number] = calls[--call_count];
    ck_assert(call->make(call, "reply", &request));
    ck_assert(nats_json_number(
        kv_slice(natsMsg_GetData(request), (size_t)natsMsg_GetDataLength(request)), "seq", &from));
    natsMsg_Destroy(request);
    for (uint32_t key = 0; key < keys; key++)
        if (sequences[key] >= from && (found == keys || sequences[key] < sequences[found]))
            found = key;
    if (found == keys)
        strcpy(json, "{\"error\":{\"code\":404,\"err_code\":10037}}");
    else
        snprintf(json, json_bytes,
                 "{\"message\":{\"subject\":\"%" PRIu32 "\",\"seq\":%" PRIu64
                 ",\"data\":\"%.*s\"}}",
                 found, sequences[found], (int)(value_bytes / 3 * 4), data);
    answers++;
    ck_assert_int_eq(natsMsg_Create(&reply, "reply", NULL, json, (int)strlen(json)), NATS_OK);
    free(json);
    call->answer(call, LINK_ANSWERED, reply, false);
    natsMsg_Destroy(reply);
}

static void assert_all_seen(void)
{
    for (uint32_t key = 0; key < keys; key++)
        ck_assert_msg(seen[key] > 0, "key %" PRIu32 " of %" PRIu32, key, keys);
}

/* The walkers of the end are done at once, while the first one still reads. */
START_TEST(what_moves_behind_an_end_that_was_told_is_found)
{
    begin_stream(40);
    begin_walk(1000);
    while (call_count > 1)
        answer(1);
    write_again(25);
    while (!is_done)
        answer(0);
    ck_assert(!walk.is_end);
    while (!walk.is_end) {
        begin_walk(1000);
        while (call_count > 0)
            answer(0);
    }
    ck_assert_uint_le(walks, 3);
    assert_all_seen();
}
END_TEST

START_TEST(a_stream_that_is_left_alone_is_read_in_few_walks)
{
    static const uint32_t counts[] = {0, 1, 31, 32, 33, 40, 64, 200};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        begin_stream(counts[i]);
        for (walk.is_end = false; !walk.is_end;) {
            begin_walk(1000);
            while (call_count > 0)
                answer(call_count - 1);
        }
        ck_assert_uint_le(walks, 2);
        for (uint32_t key = 0; key < keys; key++)
            ck_assert_uint_eq(seen[key], 1);
    }
}
END_TEST

/* A scan of 60 MB moved gigabytes: of what all walkers had read the first one's message was
 * taken. */
START_TEST(no_large_value_is_read_in_vain)
{
    begin_stream(40);
    value_bytes = 300000;
    for (walk.is_end = false; !walk.is_end;) {
        begin_walk(1000);
        while (call_count > 0)
            answer(call_count - 1);
    }
    for (uint32_t key = 0; key < keys; key++)
        ck_assert_uint_eq(seen[key], 1);
    ck_assert_uint_le(answers, keys + walks * FIRST_WALKERS);
    ck_assert_uint_le(walks, 12);
}
END_TEST

/* In any order of answers and writes; a failure tells its round, which is the seed. */
START_TEST(each_key_is_found_whatever_is_written_meanwhile)
{
    srandom((unsigned)_i);
    begin_stream(1 + (uint32_t)random() % KEYS);
    unsigned writes = 4 * keys, rarely = 1 + (unsigned)random() % 30;
    for (walk.is_end = false; !walk.is_end;) {
        begin_walk(1 + (uint32_t)random() % 300);
        while (call_count > 0) {
            answer(random() % 4 ? call_count - 1 : (uint32_t)random() % call_count);
            if (random() % rarely == 0 && writes > 0) {
                write_again((uint32_t)random() % keys);
                writes--;
            }
        }
        ck_assert(is_done);
        told_sequence += (uint64_t)random() % (last_sequence - told_sequence + 1);
    }
    assert_all_seen();
}
END_TEST

TEST_SUITE(natskv_walk)
{
    TCase *cases = tcase_create("walk");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, what_moves_behind_an_end_that_was_told_is_found);
    tcase_add_test(cases, a_stream_that_is_left_alone_is_read_in_few_walks);
    tcase_add_test(cases, no_large_value_is_read_in_vain);
    tcase_add_loop_test(cases, each_key_is_found_whatever_is_written_meanwhile, 0, 200);
    suite_add_tcase(suite, cases);
}
